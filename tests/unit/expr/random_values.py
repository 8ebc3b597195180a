"""Random expressions about the rows of random predicates, and what they give, computed by plain Python."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

from hypothesis import strategies as st

from tablespec.expr.nodes import Column, Literal
from tablespec.expr.value import Call, Case, Cast, Function, Value, type_of
from tablespec.model.schema import (
    BOOLEAN,
    BYTE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    LONG,
    SHORT,
    STRING,
    DataType,
    DecimalType,
)
from tests.unit.expr.random_predicates import Row, predicates, truth

_CONTEXT = Context(prec=200, rounding=ROUND_HALF_UP)
_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_NUMBERS = ("tiny", "small", "number", "big", "other", "ratio", "measure", "weight", "price", "rate", "huge")
_CONSTANTS = (0, 1, -1, 2, 7, 300, 2**40, Decimal("0.1"), Decimal("-1.50"), Decimal("1000000.000001"), 0.5, -3e10, None)
_CAST_TYPES = (BYTE, INTEGER, LONG, FLOAT, DOUBLE, DecimalType(12, 3), DecimalType(38, 20), DecimalType(3, 0))
_ARITHMETIC = (Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.REMAINDER)
_PREDICATES = predicates()
_TEXTS = ("", " ", "a", " ab ", "É", "x😀y", "-", None)


class Overflow(Exception):  # noqa: N818 - it is an outcome, not an error of the test
    """The type does not hold the value."""


@st.composite
def numbers(draw: st.DrawFn, depth: int = 3) -> Value:
    """Expressions that give numbers."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*(Column((name,)) for name in _NUMBERS), *map(Literal, _CONSTANTS)]))
    return draw(_grown_numbers(depth))


@st.composite
def texts(draw: st.DrawFn, depth: int = 3) -> Value:
    """Expressions that give text."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([Column(("name",)), Column(("city",)), *map(Literal, _TEXTS)]))
    return draw(_grown_texts(depth))


@functools.cache
def _grown_numbers(depth: int) -> st.SearchStrategy[Value]:
    inside = numbers(depth=depth - 1)
    pairs, several = st.tuples(inside, inside), st.lists(inside, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Call, st.sampled_from(_ARITHMETIC), pairs),
        st.builds(Call, st.sampled_from((Function.NEGATE, Function.ABS)), st.tuples(inside)),
        st.builds(Call, st.sampled_from((Function.FLOOR, Function.CEIL)), st.tuples(inside)),
        st.builds(Call, st.just(Function.NULLIF), pairs),
        st.builds(Call, st.sampled_from((Function.COALESCE, Function.GREATEST, Function.LEAST)), several),
        st.builds(Cast, inside, st.sampled_from(_CAST_TYPES)),
        st.builds(Call, st.just(Function.LENGTH), st.tuples(st.just(Column(("name",))))),
        _cases(inside),
    )


@functools.cache
def _grown_texts(depth: int) -> st.SearchStrategy[Value]:
    inside = texts(depth=depth - 1)
    places = st.integers(-4, 4).map(Literal)
    needles = st.sampled_from(("", "a", "b", " ", "😀")).map(Literal)
    return st.one_of(
        st.builds(Call, st.just(Function.CONCAT), st.lists(inside, min_size=1, max_size=3).map(tuple)),
        st.builds(Call, st.sampled_from((Function.UPPER, Function.LOWER, Function.TRIM)), st.tuples(inside)),
        st.builds(Call, st.just(Function.SUBSTRING), st.tuples(inside, places) | st.tuples(inside, places, places)),
        st.builds(Call, st.just(Function.REPLACE), st.tuples(inside, needles, needles)),
        st.builds(Call, st.just(Function.NULLIF), st.tuples(inside, inside)),
        st.builds(
            Call,
            st.sampled_from((Function.COALESCE, Function.GREATEST, Function.LEAST)),
            st.lists(inside, min_size=2, max_size=3).map(tuple),
        ),
        st.builds(
            Cast, st.sampled_from([Column((name,)) for name in ("big", "price", "rate", "flag")]), st.just(STRING)
        ),
        _cases(inside),
    )


def _cases(inside: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    branches = st.lists(st.tuples(_PREDICATES, inside), min_size=1, max_size=2).map(tuple)
    return st.builds(Case, branches, inside)


def outcome(value: Value, row: Row) -> object:
    """What a bound value is for the row, by the book; raises Overflow where its type does not hold it."""
    match value:
        case Column(path, type_):
            found = row[path[0]]
            return _fit(found, type_) if isinstance(found, Decimal) and type_ is not None else found
        case Literal(constant):
            return constant
        case Case(branches, otherwise):
            return outcome(next((branch for test, branch in branches if truth(test, row)), otherwise), row)
        case Cast(inner, type_):
            found = outcome(inner, row)
            return None if found is None else _cast(found, type_)
        case Call(Function.COALESCE, arguments):
            values = (outcome(argument, row) for argument in arguments)
            return next((found for found in values if found is not None), None)
        case Call(function, arguments):
            return _called(function, [outcome(argument, row) for argument in arguments], value)


def _called(function: Function, values: list[object], call: Call) -> object:
    type_ = type_of(call)
    if function in (Function.GREATEST, Function.LEAST):
        known = [value for value in values if value is not None]
        pick = max if function is Function.GREATEST else min
        return pick(known, key=_order) if known else None
    if function is Function.NULLIF:
        left, right = (_compared_as(value, call) for value in values)
        return None if left is not None and right is not None and _order(left) == _order(right) else values[0]
    if None in values:
        return None
    if function in _TEXT_FUNCTIONS:
        return _TEXT_FUNCTIONS[function](*values)
    return _fit(_NUMBER_FUNCTIONS[function](*values), type_)


def _compared_as(value: object, call: Call) -> object:
    floating = any(type_of(argument) in (FLOAT, DOUBLE) for argument in call.arguments)
    return float(value) if floating and isinstance(value, int | float | Decimal) else value


def _order(value: object) -> tuple[bool, object]:
    if isinstance(value, float) and math.isnan(value):
        return True, 0
    return False, value.encode() if isinstance(value, str) else value


def _fit(value: int | float | Decimal | None, type_: DataType) -> object:
    """The result of a calculation as a value of its type."""
    if value is None:
        return None
    if type_ in INTEGRAL:
        limit = 1 << (_BITS[type_] - 1)
        if (isinstance(value, float) and not math.isfinite(value)) or not -limit <= value < limit:
            raise Overflow
        return int(value)
    if isinstance(type_, DecimalType):
        if Decimal(value).adjusted() > type_.precision:
            raise Overflow
        found = Decimal(value).quantize(Decimal((0, (1,), -type_.scale)), context=_CONTEXT)
        if found.copy_abs() >= Decimal(10) ** (type_.precision - type_.scale):
            raise Overflow
        return found
    return _single(float(value)) if type_ == FLOAT else float(value)


def _single(value: float) -> float:
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found


def _cast(value: object, type_: DataType) -> object:
    if type_ == STRING:
        return (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value:f}"
            if isinstance(value, Decimal)
            else str(value)
        )
    assert isinstance(value, int | float | Decimal) and type_ != BOOLEAN
    if isinstance(value, float) and not isinstance(type_, DecimalType):
        found = _fit(math.trunc(value) if type_ in INTEGRAL and math.isfinite(value) else value, type_)
        if isinstance(found, float) and math.isinf(found) and not math.isinf(value):
            raise Overflow
        return found
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Overflow
        return _fit(Decimal(repr(value)), type_)
    return _fit(math.trunc(value) if type_ in INTEGRAL else value, type_)


def _divided(left: float | Decimal, right: float | Decimal) -> float | Decimal | None:
    if right == 0:
        return None
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _CONTEXT.divide(left, right)
    return left / right


def _remainder(left: float | Decimal, right: float | Decimal) -> float | Decimal | None:
    if right == 0:
        return None
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _CONTEXT.remainder(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return int(math.copysign(1, left)) * (abs(left) % abs(right))
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _exactly(decimal: Callable[..., Decimal], plain: Callable[..., float]) -> Callable[..., float | Decimal]:
    def compute(*values: float | Decimal) -> float | Decimal:
        # Python rounds decimals to 28 digits unless told otherwise.
        return (decimal if isinstance(values[0], Decimal) else plain)(*values)

    return compute


def _whole(round_: Callable[..., int]) -> Callable[..., float]:
    def compute(value: float) -> float:
        return round_(value) if math.isfinite(value) else value

    return compute


_NUMBER_FUNCTIONS: dict[Function, Callable[..., int | float | Decimal | None]] = {
    Function.ADD: _exactly(_CONTEXT.add, lambda left, right: left + right),
    Function.SUBTRACT: _exactly(_CONTEXT.subtract, lambda left, right: left - right),
    Function.MULTIPLY: _exactly(_CONTEXT.multiply, lambda left, right: left * right),
    Function.DIVIDE: _divided,
    Function.REMAINDER: _remainder,
    Function.NEGATE: _exactly(_CONTEXT.minus, lambda value: -value),
    Function.ABS: _exactly(_CONTEXT.abs, abs),
    Function.FLOOR: _whole(math.floor),
    Function.CEIL: _whole(math.ceil),
    Function.LENGTH: len,
}


def _substring(text: str, position: int, length: int | None = None) -> str:
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return "".join(character for index, character in enumerate(text) if start <= index < end)


_TEXT_FUNCTIONS: dict[Function, Callable[..., str]] = {
    Function.CONCAT: lambda *texts: "".join(texts),
    Function.UPPER: str.upper,
    Function.LOWER: str.lower,
    Function.TRIM: lambda text: text.strip(" "),
    Function.SUBSTRING: _substring,
    Function.REPLACE: lambda text, old, new: text.replace(old, new) if old else text,
}
