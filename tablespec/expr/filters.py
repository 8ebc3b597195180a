"""The filters that engines hand over one by one, as predicates."""

from __future__ import annotations

from collections.abc import Sequence

from tablespec.errors import UnsupportedOperatorError
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Not,
    Op,
    Or,
    Predicate,
    Scalar,
    Text,
    TextTest,
)

Name = str | tuple[str, ...]

_OPS = {
    "EqualTo": Op.EQ,
    "LessThan": Op.LT,
    "GreaterThan": Op.GT,
    "LessThanOrEqual": Op.LE,
    "GreaterThanOrEqual": Op.GE,
}
_TEXTS = {
    "StringStartsWith": TextTest.STARTS_WITH,
    "StringEndsWith": TextTest.ENDS_WITH,
    "StringContains": TextTest.CONTAINS,
}
FILTERS = (*_OPS, "IsNull", "IsNotNull", *_TEXTS, "In", "Not", "Or", "And")


def from_filter(kind: str, *arguments: Name | Scalar | Sequence[Scalar] | Predicate) -> Predicate:
    """The predicate of a filter, by the name that Spark gives it: `from_filter("EqualTo", "city", "sf")`.

    A column is its name, taken literally, or a tuple of names for a field of a struct; the filters inside of And, Or and Not are
    predicates. Nothing is left out: a filter that is not one of FILTERS, or has other arguments, raises UnsupportedOperatorError.
    """
    match kind, *arguments:
        case str(), str() | tuple() as name, value if kind in _OPS and isinstance(value, Scalar):
            return Compare(_OPS[kind], _column(name), Literal(value))
        case str(), str() | tuple() as name, str() as value if kind in _TEXTS:
            return Text(_TEXTS[kind], _column(name), value)
        case "IsNull", str() | tuple() as name:
            return IsNull(_column(name))
        case "IsNotNull", str() | tuple() as name:
            return Not(IsNull(_column(name)))
        case "In", str() | tuple() as name, list() | tuple() as values:
            return _in(_column(name), tuple(map(Literal, values)))
        case "Not", operand if isinstance(operand, Predicate):
            return Not(operand)
        case "And" | "Or", left, right if isinstance(left, Predicate) and isinstance(right, Predicate):
            return _connected(And if kind == "And" else Or, left, right)
    text = f"{kind}({', '.join(map(repr, arguments))})"
    raise UnsupportedOperatorError(text, f"the filter {kind}", f"the filters {', '.join(FILTERS)}")


def _column(name: Name) -> Column:
    return Column((name,) if isinstance(name, str) else name)


def _in(column: Column, values: tuple[Literal, ...]) -> Predicate:
    # No value is one of none: false, and null where the column is null.
    return In(column, values) if values else And((IsNull(column), Literal(None)))


def _connected(connective: type[And | Or], left: Predicate, right: Predicate) -> Predicate:
    """As text would be read: what stands side by side is one list."""
    operands: tuple[Predicate, ...] = ()
    for operand in (left, right):
        operands += operand.operands if isinstance(operand, connective) else (operand,)
    return connective(operands)
