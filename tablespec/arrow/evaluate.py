"""Predicates evaluated over Arrow data.

Numbers are compared as Spark does, which defines what Delta tables mean: NaN equals NaN and is greater than every other
number, and -0.0 equals 0.0. Strings are compared by their UTF-8 bytes. Columns of different number types are compared
exactly, except that one of floating point makes both doubles.
"""

from __future__ import annotations

import functools
from typing import TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.match_text import match_text
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Text,
    TextTest,
)

Datum: TypeAlias = pa.Array | pa.ChunkedArray | pa.Scalar


def evaluate(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """Whether each row matches a bound predicate: true, false or null; chunked for a table.

    Columns are found by their logical names.
    """
    outcome = _outcome(predicate, batch)
    if not isinstance(outcome, pa.Scalar):
        return outcome
    constant = pa.repeat(outcome, batch.num_rows)
    return pa.chunked_array([constant]) if isinstance(batch, pa.Table) else constant


def matching(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
    """A mask without nulls of the rows that match: those for which the predicate is true."""
    outcome = evaluate(predicate, batch)
    return pc.fill_null(outcome, False) if outcome.null_count else outcome


def aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Two operands as values of one type that keeps their order."""
    types = left.type, right.type
    if types[0] == types[1]:
        return left, right
    common = _common_type(*types)
    return _as(left, common), _as(right, common)


def _as(values: Datum, wanted: pa.DataType) -> Datum:
    if pa.types.is_floating(wanted) and pa.types.is_decimal(values.type):
        # Text is read as the nearest double; Arrow's own way from decimals is off by a bit at times.
        values = pc.cast(values, pa.string())
    # Long integers round to the nearest double, as Spark's do.
    return pc.cast(values, wanted, safe=False)


def _common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64()
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return pa.int64()
    return pa.decimal256(76, 38)


def listed(values: Datum, constants: Datum) -> Datum:
    """Whether each value is one of the constants; false for nulls."""
    return pc.is_in(one_zero(values), value_set=one_zero(constants))


def one_zero(values: Datum) -> Datum:
    """The values with -0.0 as 0.0: the two are equal, but sets and joins look values up by bits."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def text_test(test: TextTest, values: Datum, text: str) -> Datum:
    """Whether each string has the text where the test wants it."""
    match test:
        case TextTest.STARTS_WITH:
            return pc.starts_with(values, pattern=text)
        case TextTest.ENDS_WITH:
            return pc.ends_with(values, pattern=text)
        case TextTest.CONTAINS:
            return pc.match_substring(values, pattern=text)
        case _:
            assert_never(test)


def _outcome(predicate: Predicate, batch: pa.RecordBatch | pa.Table) -> Datum:
    match predicate:
        case Literal(value):
            return pa.scalar(value, pa.bool_())
        case Compare(op, left, right):
            return _compare(op, *_operands(left, right, batch))
        case In(column, values):
            return _in(_values(column, batch), values)
        case IsNull(column):
            return pc.is_null(_values(column, batch))
        case Text(test, column, value):
            return text_test(test, _values(column, batch), value)
        case Match(columns, query, tokenizer):
            return _match(columns, query, tokenizer, batch)
        case And(operands):
            return functools.reduce(pc.and_kleene, (_outcome(operand, batch) for operand in operands))
        case Or(operands):
            return functools.reduce(pc.or_kleene, (_outcome(operand, batch) for operand in operands))
        case Not(operand):
            return pc.invert(_outcome(operand, batch))
        case _:
            assert_never(predicate)


def _match(columns: tuple[Column, ...], query: str, tokenizer: str, batch: pa.RecordBatch | pa.Table) -> Datum:
    arrays = {column.name: _values(column, batch) for column in columns}
    if not isinstance(batch, pa.Table):
        return match_text(arrays, query, tokenizer)
    whole = {name: array.combine_chunks() for name, array in arrays.items()}
    return pa.chunked_array([match_text(whole, query, tokenizer)])


def _values(column: Column, batch: pa.RecordBatch | pa.Table) -> Datum:
    values = batch.column(column.path[0])
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    return pc.cast(values, values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _operands(left: Operand, right: Operand, batch: pa.RecordBatch | pa.Table) -> tuple[Datum, Datum]:
    match left, right:
        case Column(), Column():
            return aligned(_values(left, batch), _values(right, batch))
        case Column(), Literal(value):
            values = _values(left, batch)
            return values, pa.scalar(value, values.type)
        case _:
            raise AssertionError("a bound comparison has a column on its left")


_ORDERINGS = {Op.LT: pc.less, Op.LE: pc.less_equal, Op.GT: pc.greater, Op.GE: pc.greater_equal}


def _compare(op: Op, left: Datum, right: Datum) -> Datum:
    if op in _ORDERINGS and not pa.types.is_floating(left.type):
        return _ORDERINGS[op](left, right)
    match op:
        case Op.EQ:
            return equal(left, right)
        case Op.NE:
            return pc.invert(equal(left, right))
        case Op.LT:
            return _less(left, right)
        case Op.GE:
            return pc.invert(_less(left, right))
        case Op.GT:
            return _less(right, left)
        case Op.LE:
            return pc.invert(_less(right, left))
        case Op.NULL_SAFE_EQ:
            both_null = pc.and_(pc.is_null(left), pc.is_null(right))
            return pc.or_(pc.fill_null(equal(left, right), False), both_null)
        case _:
            assert_never(op)


def equal(left: Datum, right: Datum) -> Datum:
    """Whether values are equal, as SQL has it: NaN equals NaN, and null gives null."""
    same = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return same
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Datum, right: Datum) -> Datum:
    """Whether floating numbers are less than others; NaN is the greatest."""
    return pc.or_(pc.less(left, right), pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))


def _in(values: Datum, wanted: tuple[Literal, ...]) -> Datum:
    found = listed(values, pa.array([literal.value for literal in wanted], values.type))
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))
