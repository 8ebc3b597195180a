"""Between the predicates of tables and the expressions of Spark."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import and_, or_
from typing import Any, assert_never

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tablespec import (
    And,
    Column,
    Compare,
    Field,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Or,
    Predicate,
    Primitive,
    Scalar,
    Schema,
    StructType,
    Text,
    TextTest,
    UnsupportedOperatorError,
    all_of,
)
from tablespec_spark.schema import spark_type

_FLOATING = (Primitive("float"), Primitive("double"))
_EPOCH = datetime(1970, 1, 1)
_OPS = {
    "EqualTo": Op.EQ,
    "EqualNullSafe": Op.NULL_SAFE_EQ,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
}
_TEXTS = {"StartsWith": TextTest.STARTS_WITH, "EndsWith": TextTest.ENDS_WITH, "Contains": TextTest.CONTAINS}
_INTEGRAL = frozenset({"byte", "short", "integer", "long"})


def necessary(filters: Sequence[Sequence[Any]], schema: Schema) -> Predicate:
    """What must hold of a row for all of Spark's filters to hold; what is not known here is left out.

    A filter is a list: the class of a Catalyst expression and its operands. Columns have the names that files have.
    """
    known = (_necessary(filter_, schema) for filter_ in filters)
    return all_of(tuple(predicate for predicate in known if predicate is not None))


def _necessary(node: Sequence[Any], schema: Schema) -> Predicate | None:
    match node:
        case ["And", left, right]:
            parts = [part for part in (_necessary(left, schema), _necessary(right, schema)) if part is not None]
            return all_of(tuple(parts)) if parts else None
        case ["Or", left, right]:
            either = (_necessary(left, schema), _necessary(right, schema))
            return None if either[0] is None or either[1] is None else Or((either[0], either[1]))
        case _:
            return _exact(node, schema)


def _exact(node: Sequence[Any], schema: Schema) -> Predicate | None:
    """The predicate that has the same outcome for every row, null included; None where there is none."""
    match node:
        case ["And" | "Or" as kind, left, right]:
            both = (_exact(left, schema), _exact(right, schema))
            connective = And if kind == "And" else Or
            return None if both[0] is None or both[1] is None else connective((both[0], both[1]))
        case ["Not", inner]:
            operand = _exact(inner, schema)
            return None if operand is None else Not(operand)
        case ["IsNull" | "IsNotNull" as kind, inner]:
            column = _column(inner, schema)
            return None if column is None else IsNull(column) if kind == "IsNull" else Not(IsNull(column))
        case ["In", inner, *values]:
            column, literals = _column(inner, schema), [_literal(value) for value in values]
            known = tuple(literal for literal in literals if literal is not None)
            return In(column, known) if column is not None and known and len(known) == len(literals) else None
        case [str(kind), left, right] if kind in _OPS:
            return _comparison(_OPS[kind], left, right, schema)
        case [str(kind), left, ["Literal", "string", str(value)]] if kind in _TEXTS:
            column = _column(left, schema)
            return None if column is None else Text(_TEXTS[kind], column, value)
        case ["AttributeReference" | "GetStructField", *_]:
            column = _column(node, schema)
            return None if column is None else Compare(Op.EQ, column, Literal(True))
        case _:
            return None


def _comparison(op: Op, left: Sequence[Any], right: Sequence[Any], schema: Schema) -> Predicate | None:
    column, literal = _column(left, schema), _literal(right)
    if column is None:
        op, column, literal = op.mirrored, _column(right, schema), _literal(left)
    return None if column is None or literal is None else Compare(op, column, literal)


def _column(node: Sequence[Any], schema: Schema) -> Column | None:
    found = _fields(node, schema)
    return None if found is None else Column(tuple(field.name for field in found))


def _fields(node: Sequence[Any], schema: Schema) -> tuple[Field, ...] | None:
    match node:
        case ["Coalesce", only]:
            # As ExactFilters puts it around columns.
            return _fields(only, schema)
        case ["AttributeReference", str(name)]:
            fields: tuple[Field, ...] = schema.fields
            above: tuple[Field, ...] = ()
        case ["GetStructField", inner, str(name)]:
            found = _fields(inner, schema)
            if found is None or not isinstance(found[-1].type, StructType):
                return None
            fields, above = found[-1].type.fields, found
        case _:
            return None
    named = [field for field in fields if field.stored_name == name]
    return (*above, named[0]) if named else None


def _literal(node: Sequence[Any]) -> Literal | None:
    match node:
        case ["Literal", str(), None]:
            return Literal(None)
        case ["Literal", "boolean", str(value)]:
            return Literal(value == "true")
        case ["Literal", str(kind), str(value)] if kind in _INTEGRAL:
            return Literal(int(value))
        case ["Literal", "float" | "double" as kind, str(value)]:
            number = float(value.replace("Infinity", "inf"))
            # The text of a number of 32 bits is short, and means the one of them that is nearest.
            return Literal(struct.unpack("f", struct.pack("f", number))[0] if kind == "float" else number)
        case ["Literal", "string", str(value)]:
            return Literal(value)
        case ["Literal", "date", str(value)]:
            return _within(lambda: date(1970, 1, 1) + timedelta(days=int(value)))
        case ["Literal", "timestamp", str(value)]:
            return _within(lambda: _EPOCH.replace(tzinfo=UTC) + timedelta(microseconds=int(value)))
        case ["Literal", "timestamp_ntz", str(value)]:
            return _within(lambda: _EPOCH + timedelta(microseconds=int(value)))
        case ["Literal", str(kind), str(value)] if kind.startswith("decimal"):
            return Literal(Decimal(value))
        case _:
            return None


def _within(make: Callable[[], Scalar]) -> Literal | None:
    """The value, unless Python's calendar ends before it."""
    try:
        return Literal(make())
    except OverflowError:
        return None


def condition(predicate: Predicate) -> SparkColumn:
    """A bound predicate for Spark, by the names of the columns; a full-text match raises UnsupportedOperatorError."""
    match predicate:
        case Literal(value):
            return F.lit(value).cast("boolean")
        case Compare(op, left, right):
            return _COMPARISONS[op](_compared(left), _compared(right))
        case In(column, values):
            return _compared(column).isin([_operand(value) for value in values])
        case IsNull(column):
            return column_of(column.path).isNull()
        case Text(test, column, value):
            return _text_condition(test, column_of(column.path), value)
        case And(operands):
            return _joined(and_, [condition(operand) for operand in operands])
        case Or(operands):
            return _joined(or_, [condition(operand) for operand in operands])
        case Not(operand):
            return ~condition(operand)
        case Match(_, query):
            raise UnsupportedOperatorError(query, "MATCH", "filters without MATCH in Spark")
        case _:
            assert_never(predicate)


def _joined(connective: Callable[[SparkColumn, SparkColumn], SparkColumn], parts: list[SparkColumn]) -> SparkColumn:
    """Conditions as one, halved again and again: Spark's stack ends where hundreds of them stand below each other."""
    middle = len(parts) // 2
    return connective(_joined(connective, parts[:middle]), _joined(connective, parts[middle:])) if middle else parts[0]


def column_of(path: tuple[str, ...]) -> SparkColumn:
    """A column, or a member of a struct, whatever characters its name has."""
    return F.col(".".join("`" + name.replace("`", "``") + "`" for name in path))


_COMPARISONS: Mapping[Op, Callable[[SparkColumn, SparkColumn], SparkColumn]] = {
    Op.EQ: lambda left, right: left == right,
    Op.NE: lambda left, right: left != right,
    Op.LT: lambda left, right: left < right,
    Op.LE: lambda left, right: left <= right,
    Op.GT: lambda left, right: left > right,
    Op.GE: lambda left, right: left >= right,
    Op.NULL_SAFE_EQ: lambda left, right: left.eqNullSafe(right),
}


def _compared(operand: Column | Literal) -> SparkColumn:
    """An operand of a comparison."""
    found = _operand(operand)
    # By bounds of files Spark's Parquet reader leaves out a NaN that matches, and the other zero. It does not look at sums.
    return found + F.lit(0.0) if isinstance(operand, Column) and operand.type in _FLOATING else found


def _operand(operand: Column | Literal) -> SparkColumn:
    if isinstance(operand, Column):
        return column_of(operand.path)
    match operand.value:
        case datetime() as value:
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            micros = (aware - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)
            moment = F.timestamp_micros(F.lit(micros).cast("long"))
            # A time without a zone is the same text in every zone, so it must not go by way of a moment.
            return moment if value.tzinfo else F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
        case date() as value:
            # Java's own dates, which `lit` goes by way of, follow another calendar before 1582.
            return F.date_from_unix_date(F.lit((value - _EPOCH.date()).days))
        case bytes() as value:
            return F.lit(bytearray(value))
        case value:
            literal = F.lit(value)
            return literal if operand.type is None else literal.cast(spark_type(operand.type))


def _text_condition(test: TextTest, column: SparkColumn, value: str) -> SparkColumn:
    match test:
        case TextTest.STARTS_WITH:
            return column.startswith(value)
        case TextTest.ENDS_WITH:
            return column.endswith(value)
        case TextTest.CONTAINS:
            return column.contains(value)
        case _:
            assert_never(test)
