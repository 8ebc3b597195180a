"""Values as SQL text."""

from __future__ import annotations

from decimal import Decimal
from typing import assert_never

from tablespec.expr.literal import sql_literal
from tablespec.expr.nodes import Column, Literal, Scalar
from tablespec.expr.render import render, render_column
from tablespec.expr.value import Call, Case, Cast, Function, Value
from tablespec.expr.value_type import decimal_of
from tablespec.model.schema import BYTE, LONG, SHORT, DataType

_OPERATORS = (
    Function.ADD,
    Function.SUBTRACT,
    Function.MULTIPLY,
    Function.DIVIDE,
    Function.REMAINDER,
    Function.CONCAT,
)
_SQL_NAMES: dict[DataType, str] = {BYTE: "TINYINT", SHORT: "SMALLINT", LONG: "BIGINT"}


def render_value(value: Value) -> str:
    """SQL text that `parse_value` reads as the same value; a bound one has to be bound again to get its types back."""
    match value:
        case Column():
            return render_column(value)
        case Literal(constant):
            return _constant(constant)
        case Call(Function.NEGATE, (argument,)):
            return f"-({render_value(argument)})"
        case Call(function, arguments) if function in _OPERATORS and len(arguments) > 1:
            return f" {function.value} ".join(_inside(argument) for argument in arguments)
        case Call(function, arguments):
            name = "concat" if function is Function.CONCAT else function.value
            return f"{name}({', '.join(render_value(argument) for argument in arguments)})"
        case Cast(inner, type_):
            return f"CAST({render_value(inner)} AS {_SQL_NAMES.get(type_, str(type_).upper())})"
        case Case(branches, otherwise):
            whens = " ".join(f"WHEN {render(predicate)} THEN {render_value(branch)}" for predicate, branch in branches)
            return f"CASE {whens} ELSE {render_value(otherwise)} END"
        case _:
            assert_never(value)


def _inside(value: Value) -> str:
    text = render_value(value)
    return f"({text})" if isinstance(value, Call) and value.function in _OPERATORS else text


def _constant(value: Scalar) -> str:
    if not isinstance(value, Decimal):
        return sql_literal(value)
    text = f"{value:f}"
    # Without a point it would be read as an integer.
    return text if "." in text else f"CAST({text} AS {str(decimal_of(value) or 'decimal').upper()})"
