"""Predicates of tables as Polars expressions, and Polars expressions as predicates of tables."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import assert_never

import polars as pl

from tablespec import (
    And,
    Column,
    Compare,
    DataType,
    DecimalType,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Primitive,
    Schema,
    Text,
    TextTest,
    UnsupportedOperatorError,
    all_of,
)

Node = Mapping[str, object] | str | list[object] | None

_OPS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtEq": Op.LE, "Gt": Op.GT, "GtEq": Op.GE}
_CONNECTIVES: dict[str, type[And | Or]] = {"And": And, "Or": Or, "LogicalAnd": And, "LogicalOr": Or}
_TEXT_TESTS = {"StartsWith": TextTest.STARTS_WITH, "EndsWith": TextTest.ENDS_WITH}
# The types of constants that Polars compares with a column as tables do. It compares 32-bit floats as such, tables do not.
_COMPARABLE: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "byte": (int,),
    "short": (int,),
    "integer": (int,),
    "long": (int,),
    "double": (int, float),
    "string": (str,),
    "binary": (bytes,),
    "date": (date,),
    "timestamp": (datetime,),
    "timestamp_ntz": (datetime,),
}


def condition(predicate: Predicate, schema: pl.Schema) -> pl.Expr | None:
    """A bound predicate as an expression that is true, false or null for the same rows; None where Polars has none."""
    match predicate:
        case Literal(value):
            return pl.lit(value, pl.Boolean)
        case Compare(op, left, right):
            return _comparison(op, left, right, schema)
        case In(column, values):
            found = [value.value for value in values]
            return _operand(column, schema).is_in(pl.Series(found, dtype=_dtype(column, schema)).implode())
        case IsNull(column):
            return _operand(column, schema).is_null()
        case Text(test, column, value):
            return _text(test, _operand(column, schema), value)
        case Match():
            return None
        case And(operands) | Or(operands):
            parts = [condition(operand, schema) for operand in operands]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            both = isinstance(predicate, And)
            return functools.reduce(lambda one, other: one & other if both else one | other, known)
        case Not(operand):
            inner = condition(operand, schema)
            return None if inner is None else ~inner
        case _:
            assert_never(predicate)


def exact_predicate(expression: pl.Expr, schema: Schema) -> Predicate:
    """The predicate that holds for the same rows; raises UnsupportedOperatorError where there is none."""
    parts = predicates_of(expression, schema)
    known = tuple(part for part in parts if part is not None)
    if len(known) < len(parts):
        supported = "comparisons of a column with a constant, is_in, is_null, starts_with, ends_with, &, | and ~"
        raise UnsupportedOperatorError(str(expression), "this expression in a change of rows", supported)
    return all_of(known)


def predicates_of(expression: pl.Expr, schema: Schema) -> tuple[Predicate | None, ...]:
    """The parts of an expression that must all hold, as predicates; None for each that has no exact counterpart."""
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except pl.exceptions.ComputeError:  # Python functions cannot be written down
        return (None,)
    return tuple(_predicate(part, schema) for part in _conjuncts(tree))


def is_pattern(name: str) -> bool:
    """Whether Polars takes the name of a column for a pattern, which other columns may match."""
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def _comparison(op: Op, left: Operand, right: Operand, schema: pl.Schema) -> pl.Expr | None:
    if not isinstance(left, Column) or left.type is None or left.type != right.type:
        # Numbers of different types are compared exactly by tables, and as doubles by Polars.
        return None
    one = _operand(left, schema)
    other = pl.lit(right.value, _dtype(left, schema)) if isinstance(right, Literal) else _operand(right, schema)
    match op:
        case Op.EQ:
            return one == other
        case Op.NE:
            return one != other
        case Op.LT:
            return one < other
        case Op.LE:
            return one <= other
        case Op.GT:
            return one > other
        case Op.GE:
            return one >= other
        case Op.NULL_SAFE_EQ:
            return one.eq_missing(other)
        case _:
            assert_never(op)


def _text(test: TextTest, column: pl.Expr, value: str) -> pl.Expr:
    match test:
        case TextTest.STARTS_WITH:
            return column.str.starts_with(value)
        case TextTest.ENDS_WITH:
            return column.str.ends_with(value)
        case TextTest.CONTAINS:
            return column.str.contains(value, literal=True)
        case _:
            assert_never(test)


def _operand(column: Operand, schema: pl.Schema) -> pl.Expr:
    assert isinstance(column, Column)
    found = pl.col(column.path[0])
    for name in column.path[1:]:
        found = found.struct.field(name)
    return found


def _dtype(column: Column, schema: pl.Schema) -> pl.DataType:
    name, *members = column.path
    found = schema[name]
    for member in members:
        assert isinstance(found, pl.Struct)
        found = pl.Schema(found.to_schema())[member]
    return found


def _conjuncts(node: Node) -> list[Node]:
    match node:
        case {"BinaryExpr": {"op": "And" | "LogicalAnd", "left": left, "right": right}}:
            return [*_conjuncts(left), *_conjuncts(right)]
        case _:
            return [node]


def _predicate(node: Node, schema: Schema) -> Predicate | None:
    match node:
        case {"BinaryExpr": {"op": str(op), "left": left, "right": right}} if op in _CONNECTIVES:
            return _connected(_CONNECTIVES[op], _predicate(left, schema), _predicate(right, schema))
        case {"BinaryExpr": {"op": str(op), "left": left, "right": right}} if op in _OPS:
            return _compared(_OPS[op], left, right, schema)
        case {"Function": {"function": {"Boolean": "Not"}, "input": [inner]}}:
            denied = _predicate(inner, schema)
            return None if denied is None else Not(denied)
        case {"Function": {"function": {"Boolean": "IsNull" | "IsNotNull" as test}, "input": [inner]}}:
            column = _column(inner, schema)
            if column is None:
                return None
            return IsNull(column) if test == "IsNull" else Not(IsNull(column))
        case {"Function": {"function": {"Boolean": {"IsIn": {"nulls_equal": False}}}, "input": [inner, values]}}:
            return _listed(inner, values, schema)
        case {"Function": {"function": {"StringExpr": str(test)}, "input": [inner, value]}} if test in _TEXT_TESTS:
            column, text = _column(inner, schema), _constant(value)
            if column is None or column.type != Primitive("string") or not isinstance(text, str):
                return None
            return Text(_TEXT_TESTS[test], column, text)
        case _:
            return None


def _connected(connective: type[And | Or], left: Predicate | None, right: Predicate | None) -> Predicate | None:
    return None if left is None or right is None else connective((left, right))


def _compared(op: Op, left: Node, right: Node, schema: Schema) -> Predicate | None:
    column, value = _column(left, schema), _constant(right)
    if column is None:
        column, value, op = _column(right, schema), _constant(left), op.mirrored
    if column is None or not _fits(column.type, value):
        return None
    return Compare(op, column, Literal(value))  # type: ignore[arg-type]  # _fits lets only scalars through


def _listed(node: Node, values: Node, schema: Schema) -> Predicate | None:
    column, found = _column(node, schema), _constant(values)
    if column is None or not isinstance(found, pl.Series):
        return None
    constants = found.to_list()
    if not constants or not all(_fits(column.type, value) for value in constants):
        return None
    return In(column, tuple(map(Literal, constants)))


def _column(node: Node, schema: Schema) -> Column | None:
    match node:
        case {"Column": str(name)} if name in schema:
            return Column((name,), schema.field(name).type)
        case _:
            return None


def _constant(node: Node) -> object:
    """The value of an expression without columns; None where it has some, or none."""
    text = json.dumps(node)
    if '"Column"' in text:
        return None
    try:
        found = pl.select(pl.Expr.deserialize(io.StringIO(text), format="json"))
    except pl.exceptions.PolarsError:
        # Numbers that are not finite are lost in JSON; everything else that is wrong the query tells.
        return None
    return found.item() if found.shape == (1, 1) else None


def _fits(data_type: DataType | None, value: object) -> bool:
    match data_type:
        case Primitive("timestamp" | "timestamp_ntz" as name):
            return isinstance(value, datetime) and (value.tzinfo is not None) is (name == "timestamp")
        case Primitive("date"):
            return type(value) is date
        case Primitive("boolean"):
            return isinstance(value, bool)
        case Primitive(name):
            return isinstance(value, _COMPARABLE.get(name, ())) and not isinstance(value, bool)
        case DecimalType():
            return isinstance(value, Decimal)
        case _:
            return False
