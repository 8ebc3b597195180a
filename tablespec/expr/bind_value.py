"""Values bound to a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import attrs

from tablespec.errors import TypeMismatchError, UnsupportedOperatorError
from tablespec.expr.bind import bind, parsed
from tablespec.expr.literal import cast
from tablespec.expr.nodes import Column, Literal, Predicate, Scalar
from tablespec.expr.parse_value import SUPPORTED_VALUES, negative, parse_value
from tablespec.expr.qualify import qualified, resolved
from tablespec.expr.render_value import render_value
from tablespec.expr.value import Call, Case, Cast, Function, Value, type_of
from tablespec.expr.value_type import (
    as_decimal,
    assignable,
    castable,
    common_type,
    converted,
    decimal_of,
    decimal_result,
    is_number,
    natural_type,
    rounded_decimal,
)
from tablespec.model.schema import (
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    LONG,
    STRING,
    VARIANT,
    VOID,
    DataType,
    DecimalType,
    Primitive,
    Schema,
)

MAX_ROUNDING = 30
"""To how many digits before or after the point ROUND goes."""


def bind_value(
    value: Value | Scalar,
    schema: Schema,
    target: DataType | None = None,
    qualifiers: tuple[str, ...] = (),
    *,
    column: str = "",
) -> Value:
    """The value in terms of a schema: every part has a type, and that of the whole is `target` when given.

    A string is SQL text; a constant string is `Literal("text")`. `qualifiers` are the top-level structs that stand for
    tables, as for `bind_qualified`. Into the target go constants that it holds exactly, text in ISO format for dates
    and timestamps, and values of types that widen to it. Whole numbers and decimals go into narrower ones too, and are
    an error at run time where they do not fit. All else needs a CAST: it raises TypeMismatchError, naming `column`.
    """
    if isinstance(value, str):
        value = parse_value(value)
    unbound = value if isinstance(value, Column | Literal | Call | Cast | Case) else Literal(value)
    if isinstance(unbound, Literal) and target is not None:
        return _assigned(unbound, target, column)
    bound = _bound(unbound, schema, qualifiers)
    return bound if target is None else _assigned(bound, target, column)


def bind_qualified(predicate: Predicate | str, schema: Schema, qualifiers: tuple[str, ...]) -> Predicate:
    """The predicate bound to the columns of several tables; SQL text is parsed first.

    `qualifiers` are the top-level structs that stand for tables. Raises like `bind`, and AmbiguousColumnError for a
    column without a table that several tables have.
    """
    return bind(qualified(parsed(predicate), schema, qualifiers), schema)


def _bound(value: Value, schema: Schema, qualifiers: tuple[str, ...]) -> Value:
    match value:
        case Column():
            return resolved(value, schema, qualifiers)
        case Literal(constant):
            return _literal(constant)
        case Call(function, arguments):
            return _RULES[function](function, tuple(_bound(argument, schema, qualifiers) for argument in arguments))
        case Cast(inner, type_):
            return _cast(_bound(inner, schema, qualifiers), type_)
        case Case(branches, otherwise):
            predicates = [bind_qualified(predicate, schema, qualifiers) for predicate, _ in branches]
            values = [_bound(branch, schema, qualifiers) for _, branch in branches]
            type_, alike = _alike("CASE", (*values, _bound(otherwise, schema, qualifiers)))
            return Case(tuple(zip(predicates, alike)), alike[-1], type_)
        case _:
            assert_never(value)


def _literal(value: Scalar) -> Literal:
    type_ = natural_type(value)
    if type_ is None:
        raise TypeMismatchError(render_value(Literal(value)), "no type", "any column")
    return Literal(converted(value, type_), type_)


def _cast(value: Value, type_: DataType) -> Value:
    if not castable(type_of(value), type_):
        raise TypeMismatchError(render_value(_spoken_value(value)), str(type_of(value)), f"a CAST to {type_}")
    if isinstance(value, Literal):
        try:
            return Literal(cast(value.value, type_), type_)
        except ValueError:
            # What cannot be cast exactly is rounded, or fails, like the values of columns.
            return Cast(value, type_)
    return value if type_of(value) == type_ else Cast(value, type_)


def _as(value: Value, type_: DataType) -> Value:
    """The value as one of a type that its own becomes by itself."""
    if type_of(value) == type_:
        return value
    if isinstance(value, Literal):
        try:
            return Literal(converted(value.value, type_), type_)
        except ValueError:
            return Cast(value, type_)
    return Cast(value, type_)


def _assigned(value: Value, target: DataType, column: str) -> Value:
    """The value as one of the column's type."""
    if isinstance(value, Case):
        branches = tuple((predicate, _assigned(branch, target, column)) for predicate, branch in value.branches)
        return Case(branches, _assigned(value.otherwise, target, column), target)
    if isinstance(value, Literal):
        try:
            return Literal(converted(value.value, target), target)
        except ValueError:
            raise TypeMismatchError(column, str(target), f"the value {value.value!r}") from None
    if type_of(value) == target:
        return value
    if not assignable(type_of(value), target):
        written = render_value(_spoken_value(value))
        raise TypeMismatchError(column, str(target), f"{written} of type {type_of(value)} without a CAST")
    return Cast(value, target)


def _alike(name: str, values: tuple[Value, ...]) -> tuple[DataType, tuple[Value, ...]]:
    """The one type that all values take, and the values as such."""
    found: DataType = VOID
    # Constants follow the type of the others where it holds them, text most of all.
    for value in sorted(values, key=lambda one: isinstance(one, Literal) + (one.type == STRING)):
        common = found if _follows(value, found) else common_type(found, type_of(value))
        if common is None:
            raise _mismatch(value, f"{name} beside a value of type {found}")
        found = common
    return found, tuple(_as(value, found) for value in values)


def _follows(value: Value, type_: DataType) -> bool:
    if not isinstance(value, Literal) or type_ == VOID:
        return False
    try:
        converted(value.value, type_)
    except ValueError:
        return False
    return True


def _mismatch(value: Value, place: str) -> TypeMismatchError:
    name = value.spoken_name if isinstance(value, Column) else render_value(_spoken_value(value))
    return TypeMismatchError(name, str(type_of(value)), place)


def _numbers(function: Function, values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values, which must be numbers; nulls take the type of the others."""
    for value in values:
        if not is_number(type_of(value)) and type_of(value) != VOID:
            raise _mismatch(value, _spoken(function))
    known = [type_of(value) for value in values if type_of(value) != VOID]
    return tuple(_as(value, known[0] if known else INTEGER) if type_of(value) == VOID else value for value in values)


def _arithmetic(function: Function, arguments: tuple[Value, ...]) -> Value:
    left, right = _numbers(function, arguments)
    types = type_of(left), type_of(right)
    if any(isinstance(type_, DecimalType) for type_ in types) and not {FLOAT, DOUBLE}.intersection(types):
        exact = _exact(left), _exact(right)
        return Call(function, (_as(left, exact[0]), _as(right, exact[1])), decimal_result(function, *exact))
    operand = DOUBLE if function is Function.DIVIDE else common_type(*types)
    assert operand is not None
    return Call(function, (_as(left, operand), _as(right, operand)), operand)


def _exact(value: Value) -> DecimalType:
    # An integer constant has only the digits that it is written with, so that `price * 2` stays narrow.
    if isinstance(value, Literal) and isinstance(value.value, int):
        return decimal_of(value.value) or as_decimal(type_of(value))
    return as_decimal(type_of(value))


def _negate(function: Function, arguments: tuple[Value, ...]) -> Value:
    (argument,) = arguments
    # A constant with a sign is a constant, as in text: it follows the type of the values beside it.
    constant = negative(argument) if isinstance(argument, Literal) and _is_plain(argument) else None
    return _same_number(function, arguments) if constant is None else _literal(constant.value)


def _is_plain(value: Literal) -> bool:
    """Whether a constant has the type that it has by itself, and was not cast to it."""
    return natural_type(value.value) == value.type


def _same_number(function: Function, arguments: tuple[Value, ...]) -> Value:
    (value,) = _numbers(function, arguments)
    return Call(function, (value,), type_of(value))


def _round(function: Function, arguments: tuple[Value, ...]) -> Value:
    (value,) = _numbers(function, arguments[:1])
    digits = _whole_constant(function, arguments, 1) if len(arguments) > 1 else 0
    if abs(digits) > MAX_ROUNDING:
        raise _unsupported(function, arguments, f"round to {digits} digits")
    type_ = type_of(value)
    result = rounded_decimal(type_, digits) if isinstance(type_, DecimalType) else type_
    return Call(function, (value, Literal(digits, INTEGER)), result)


def _whole(function: Function, arguments: tuple[Value, ...]) -> Value:
    (value,) = _numbers(function, arguments)
    type_ = type_of(value)
    result = rounded_decimal(type_, 0) if isinstance(type_, DecimalType) else type_ if type_ in INTEGRAL else LONG
    return Call(function, (value,), result)


def _text(function: Function, arguments: tuple[Value, ...]) -> Value:
    return Call(function, _strings(function, arguments), INTEGER if function is Function.LENGTH else STRING)


def _strings(function: Function, arguments: tuple[Value, ...]) -> tuple[Value, ...]:
    for value in arguments:
        if type_of(value) not in (STRING, VOID):
            raise _mismatch(value, _spoken(function))
    return tuple(_as(value, STRING) for value in arguments)


def _replace(function: Function, arguments: tuple[Value, ...]) -> Value:
    bound = _text(function, arguments)
    if not all(isinstance(value, Literal) and value.value is not None for value in arguments[1:]):
        raise _unsupported(function, arguments, "replace of or by anything but a constant")
    return bound


def _substring(function: Function, arguments: tuple[Value, ...]) -> Value:
    text = _strings(function, arguments[:1])
    numbers = [_whole_constant(function, arguments, index) for index in range(1, len(arguments))]
    return Call(function, (*text, *(Literal(number, LONG) for number in numbers)), STRING)


def _whole_constant(function: Function, arguments: tuple[Value, ...], index: int) -> int:
    value = arguments[index]
    if not (isinstance(value, Literal) and value.type in INTEGRAL and isinstance(value.value, int)):
        raise _unsupported(function, arguments, f"{function.value} with a number that is not a whole constant")
    return value.value


def _chosen(function: Function, arguments: tuple[Value, ...]) -> Value:
    type_, values = _alike(function.value, arguments)
    if type_ == VOID:
        return values[0]
    if function is not Function.COALESCE and (not isinstance(type_, Primitive | DecimalType) or type_ == VARIANT):
        raise _mismatch(values[0], _spoken(function))
    return Call(function, values, type_)


def _nullif(function: Function, arguments: tuple[Value, ...]) -> Value:
    type_, (value, other) = type_of(arguments[0]), arguments
    if _chosen(function, arguments).type == VOID or type_ == VOID:
        return value
    # A constant is compared as a value of the other's type; anything else as it is.
    return Call(function, (value, _as(other, type_) if _follows(other, type_) or other.type == VOID else other), type_)


def _spoken_value(value: Value) -> Value:
    """The value with the tables of its columns named as the text calls them."""
    match value:
        case Column():
            return Column(value.spoken_path)
        case Call(_, arguments):
            return attrs.evolve(value, arguments=tuple(map(_spoken_value, arguments)))
        case Cast(inner, type_):
            return Cast(_spoken_value(inner), type_)
        case _:
            return value


def _spoken(function: Function) -> str:
    return f"the {'function' if function.value.isalpha() else 'operator'} {function.value}"


def _unsupported(function: Function, arguments: tuple[Value, ...], operator: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(render_value(_spoken_value(Call(function, arguments))), operator, SUPPORTED_VALUES)


_RULES: dict[Function, Callable[[Function, tuple[Value, ...]], Value]] = {
    Function.ADD: _arithmetic,
    Function.SUBTRACT: _arithmetic,
    Function.MULTIPLY: _arithmetic,
    Function.DIVIDE: _arithmetic,
    Function.REMAINDER: _arithmetic,
    Function.NEGATE: _negate,
    Function.ABS: _same_number,
    Function.ROUND: _round,
    Function.FLOOR: _whole,
    Function.CEIL: _whole,
    Function.CONCAT: _text,
    Function.UPPER: _text,
    Function.LOWER: _text,
    Function.TRIM: _text,
    Function.LENGTH: _text,
    Function.REPLACE: _replace,
    Function.SUBSTRING: _substring,
    Function.COALESCE: _chosen,
    Function.GREATEST: _chosen,
    Function.LEAST: _chosen,
    Function.NULLIF: _nullif,
}
