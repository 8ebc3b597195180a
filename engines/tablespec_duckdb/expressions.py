"""Types, names and predicates of tables, said in DuckDB's terms."""

from __future__ import annotations

import functools
from typing import assert_never

from duckdb import CaseExpression, ColumnExpression, ConstantExpression, Expression, FunctionExpression, Value
from duckdb.sqltypes import DuckDBPyType

from tablespec import (
    And,
    ArrayType,
    Column,
    Compare,
    DataType,
    DecimalType,
    In,
    IsNull,
    Literal,
    MapType,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Primitive,
    StructType,
    Text,
    TextTest,
)

_PRIMITIVES = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
_TEXT_TESTS = {
    TextTest.STARTS_WITH: "starts_with",
    TextTest.ENDS_WITH: "ends_with",
    TextTest.CONTAINS: "contains",
}


def type_name(data_type: DataType) -> str | None:
    """How DuckDB writes a column type; None for types that it reads otherwise than tables mean them."""
    match data_type:
        case Primitive(name):
            return _PRIMITIVES.get(name)
        case DecimalType(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case ArrayType(element):
            inner = type_name(element)
            return None if inner is None else f"{inner}[]"
        case MapType(key, value):
            names = type_name(key), type_name(value)
            return None if None in names else f"MAP({names[0]}, {names[1]})"
        case StructType(fields):
            members = [(field.name, type_name(field.type)) for field in fields]
            if not members or any(name is None for _, name in members):
                return None
            return f"STRUCT({', '.join(f'{quoted(member)} {name}' for member, name in members)})"
        case _:
            assert_never(data_type)


def quoted(name: str) -> str:
    """A name as an identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def constant(value: object, type_: str) -> Expression:
    """A value of a DuckDB type."""
    return ConstantExpression(Value(value, DuckDBPyType(type_))).cast(DuckDBPyType(type_))


def condition(predicate: Predicate) -> Expression | None:
    """A bound predicate as an expression that is true, false or null for the same rows; None where DuckDB has none."""
    match predicate:
        case Literal(value):
            return constant(value, "BOOLEAN")
        case Compare(op, left, right):
            return _comparison(op, left, right)
        case In(column, values):
            return _operand(column).isin(*(_operand(value) for value in values))
        case IsNull(column):
            return _operand(column).isnull()
        case Text(test, column, value):
            return FunctionExpression(_TEXT_TESTS[test], _operand(column), ConstantExpression(value))
        case Match():
            return None
        case And(operands) | Or(operands):
            parts = [condition(operand) for operand in operands]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            both = isinstance(predicate, And)
            return functools.reduce(lambda one, other: one & other if both else one | other, known)
        case Not(operand):
            inner = condition(operand)
            return None if inner is None else ~inner
        case _:
            assert_never(predicate)


def _comparison(op: Op, left: Operand, right: Operand) -> Expression | None:
    if left.type is None or left.type != right.type or type_name(left.type) is None:
        # Numbers of different types are compared exactly by tables, and as doubles or not at all by engines.
        return None
    one, other = _operand(left), _operand(right)
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
            nulls = one.isnull() | other.isnull()
            return CaseExpression(nulls, one.isnull() & other.isnull()).otherwise(one == other)
        case _:
            assert_never(op)


def _operand(operand: Operand) -> Expression:
    match operand:
        case Column(path):
            found: Expression = ColumnExpression(path[0])
            for member in path[1:]:
                found = FunctionExpression("struct_extract", found, ConstantExpression(member))
            return found
        case Literal(value, data_type):
            name = None if data_type is None else type_name(data_type)
            return ConstantExpression(value) if name is None else constant(value, name)
        case _:
            assert_never(operand)
