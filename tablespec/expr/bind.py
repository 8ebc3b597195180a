"""Predicates bound to a schema."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import UnionType
from typing import assert_never

from tablespec.errors import InvalidPredicateError, TypeMismatchError, UnsupportedOperatorError
from tablespec.expr.nodes import (
    FALSE,
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
    Scalar,
    Text,
)
from tablespec.expr.parse import SUPPORTED, parse
from tablespec.expr.place import AboveAll, At, BelowAll, JustAbove, place
from tablespec.expr.render import render
from tablespec.expr.rewrite import simplify
from tablespec.expr.text_query import parse_text_query
from tablespec.expr.tokenizer import check_tokenizer, tokenizer_of
from tablespec.model.schema import (
    DOUBLE,
    FLOAT,
    INTEGRAL,
    STRING,
    VARIANT,
    VOID,
    DataType,
    DecimalType,
    Primitive,
    Schema,
)

_NULL = Literal(None)


def bind(predicate: Predicate | str, schema: Schema) -> Predicate:
    """The predicate in terms of a schema, simplified; SQL text is parsed first.

    Columns get the schema's spelling and type, and constants become values of the type of their column: what the type
    cannot hold is said without it, so that `x < 300` on bytes is true unless x is null. In a bound predicate constants
    stand to the right of a column and are not null, and conditions without a column are TRUE, FALSE or NULL.

    Raises ColumnNotFoundError, and TypeMismatchError for comparisons that make no sense.
    """
    return simplify(_bound(parsed(predicate), schema))


def parsed(predicate: Predicate | str) -> Predicate:
    """The predicate, read from SQL text if it is one; anything that is no predicate is refused."""
    if isinstance(predicate, str):
        return parse(predicate)
    _require(predicate, Predicate, "a predicate is text, or made of And, Or, Compare and the like")
    return predicate


def _require(found: object, expected: type | UnionType, why: str) -> None:
    """Refuse what no predicate is made of, which type checkers would have told."""
    if not isinstance(found, expected):
        raise InvalidPredicateError(repr(found), None, why)


def _bound(predicate: Predicate, schema: Schema) -> Predicate:
    _require(predicate, Predicate, "inside of a predicate everything is made of And, Or, Compare and the like")
    match predicate:
        case Literal(value):
            if value is None or isinstance(value, bool):
                return Literal(value)
            raise UnsupportedOperatorError(render(predicate), "a value where a condition must stand", SUPPORTED)
        case Compare(op, left, right):
            _require(op, Op, "a comparison begins with an Op, such as Op.EQ")
            return _compare(op, _operand(left, schema), _operand(right, schema))
        case In(column, values):
            for one in values:
                _require(one, Literal, "a value is a Literal")
            return _in(_column(column, schema), values)
        case IsNull(column):
            return IsNull(_column(column, schema))
        case Text(test, column, value):
            found = _text_column(column, schema, test.value)
            return Text(test, found, value) if value else _unless_null(found, outcome=True)
        case Match(columns, query, tokenizer):
            return _match(tuple(_text_column(column, schema, "MATCH") for column in columns), query, tokenizer, schema)
        case And(operands):
            return And(tuple(_bound(operand, schema) for operand in operands))
        case Or(operands):
            return Or(tuple(_bound(operand, schema) for operand in operands))
        case Not(operand):
            return Not(_bound(operand, schema))
        case _:
            assert_never(predicate)


def _column(column: Column, schema: Schema) -> Column:
    _require(column, Column, "a column is a Column, such as Column(('id',)), and a value a Literal")
    _require(column.path, tuple, "the path of a column is a tuple of names, such as ('id',)")
    fields = [schema.field(*column.path[: depth + 1]) for depth in range(len(column.path))]
    return Column(tuple(field.name for field in fields), fields[-1].type, column.written)


def _operand(operand: Operand, schema: Schema) -> Operand:
    if isinstance(operand, Literal):
        return Literal(operand.value)
    column = _column(operand, schema)
    # Every value of a void column is null.
    return _NULL if column.type == VOID else column


def _text_column(column: Column, schema: Schema, test: str) -> Column:
    found = _column(column, schema)
    if found.type != STRING:
        raise TypeMismatchError(found.spoken_name, str(found.type), test)
    return found


def _match(columns: tuple[Column, ...], query: str, tokenizer: str, schema: Schema) -> Predicate:
    """Raises InvalidTextQueryError and UnknownTokenizerError here already, before anything is read."""
    parse_text_query(query, tuple(column.name for column in columns))
    return Match(columns, query, check_tokenizer(tokenizer or tokenizer_of(columns, schema)))


def _compare(op: Op, left: Operand, right: Operand) -> Predicate:
    match left, right:
        case Literal(value), Literal(other):
            return _constant(op, value, other)
        case Literal(value), Column():
            return _compare_value(op.mirrored, right, value)
        case Column(), Literal(value):
            return _compare_value(op, left, value)
        case Column(), Column():
            if not _comparable(left.type, right.type):
                raise TypeMismatchError(
                    left.spoken_name, str(left.type), f"column {right.spoken_name} of type {right.type}"
                )
            return Compare(op, left, right)
        case _:
            raise AssertionError(left, right)


def _comparable(left: DataType | None, right: DataType | None) -> bool:
    if _is_number(left) and _is_number(right):
        return True
    return left == right and isinstance(left, Primitive) and left != VARIANT


def _is_number(type_: DataType | None) -> bool:
    return isinstance(type_, DecimalType) or type_ in (*INTEGRAL, FLOAT, DOUBLE)


def _compare_value(op: Op, column: Column, value: Scalar) -> Predicate:
    if value is None:
        _require_comparable(column)
        return IsNull(column) if op is Op.NULL_SAFE_EQ else _NULL
    match _place(column, value):
        case At(held):
            return Compare(op, column, Literal(held, column.type))
        case JustAbove(below):
            return _compare_gap(op, column, Literal(below, column.type))
        case AboveAll():
            return _settled(op, column, smaller=True)
        case BelowAll():
            return _settled(op, column, smaller=False)


def _place(column: Column, value: Scalar) -> At | JustAbove | AboveAll | BelowAll:
    found = None if column.type is None else place(value, column.type)
    if found is None:
        raise TypeMismatchError(column.spoken_name, str(column.type), f"the value {value!r}")
    return found


def _require_comparable(column: Column) -> None:
    if not _comparable(column.type, column.type):
        raise TypeMismatchError(column.spoken_name, str(column.type), "a comparison; only IS NULL can be asked")


def _compare_gap(op: Op, column: Column, below: Literal) -> Predicate:
    """The comparison with a constant that lies between `below` and the next value of the type."""
    match op:
        case Op.LT | Op.LE:
            return Compare(Op.LE, column, below)
        case Op.GT | Op.GE:
            return Compare(Op.GT, column, below)
        case Op.EQ | Op.NE | Op.NULL_SAFE_EQ:
            return _settled(op, column, smaller=True)
        case _:
            assert_never(op)


def _settled(op: Op, column: Column, *, smaller: bool) -> Predicate:
    """The comparison with a constant that no value of the type equals: they are all smaller, or all greater."""
    match op:
        case Op.NULL_SAFE_EQ:
            return FALSE
        case Op.EQ:
            return _unless_null(column, outcome=False)
        case Op.NE:
            return _unless_null(column, outcome=True)
        case Op.LT | Op.LE:
            return _unless_null(column, outcome=smaller)
        case Op.GT | Op.GE:
            return _unless_null(column, outcome=not smaller)
        case _:
            assert_never(op)


def _unless_null(column: Column, *, outcome: bool) -> Predicate:
    """The given outcome where the column has a value, and null where it is null."""
    if outcome:
        return Or((Not(IsNull(column)), _NULL))
    return And((IsNull(column), _NULL))


def _in(column: Column, values: tuple[Literal, ...]) -> Predicate:
    if column.type == VOID:
        return _NULL
    _require_comparable(column)
    places = [_place(column, value.value) for value in values if value.value is not None]
    held = tuple(dict.fromkeys(Literal(found.value, column.type) for found in places if isinstance(found, At)))
    found = In(column, held) if held else _unless_null(column, outcome=False)
    if all(value.value is not None for value in values):
        return found
    return Or((found, _NULL)) if held else _NULL


def _constant(op: Op, left: Scalar, right: Scalar) -> Predicate:
    """The comparison of two constants."""
    if left is None or right is None:
        return Literal(left is right) if op is Op.NULL_SAFE_EQ else _NULL
    keys = _sort_key(left), _sort_key(right)
    if keys[0][0] != keys[1][0]:
        raise TypeMismatchError(render(Literal(left)), keys[0][0], f"the value {right!r}")
    less, equal = keys[0] < keys[1], keys[0] == keys[1]
    match op:
        case Op.EQ | Op.NULL_SAFE_EQ:
            return Literal(equal)
        case Op.NE:
            return Literal(not equal)
        case Op.LT:
            return Literal(less)
        case Op.LE:
            return Literal(less or equal)
        case Op.GT:
            return Literal(not less and not equal)
        case Op.GE:
            return Literal(not less)
        case _:
            assert_never(op)


def _sort_key(value: Scalar) -> tuple[str, bool, bool | int | float | Decimal | str | bytes | datetime]:
    """What kind of constant it is, whether it is NaN, and a value that sorts among its kind."""
    match value:
        case bool():
            return "boolean", False, value
        case int() | float() | Decimal():
            return ("number", True, 0) if math.isnan(value) else ("number", False, value)
        case str():
            return "string", False, value
        case bytes():
            return "binary", False, value
        case datetime():
            return "timestamp", False, value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return "timestamp", False, datetime.combine(value, time(), UTC)
        case _:
            raise AssertionError(value)
