"""Arithmetic on Arrow arrays: checked, exact for decimals, and null where a divisor is zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.cast import EXACT, WIDEST, roomy, rounded, zero
from tablespec.arrow.schema import arrow_type
from tablespec.expr.value import Function
from tablespec.model.schema import FLOAT, INTEGRAL, DataType, DecimalType

_KERNELS: dict[Function, Callable[[pa.Array, pa.Array], pa.Array]] = {
    Function.ADD: pc.add_checked,
    Function.SUBTRACT: pc.subtract_checked,
    Function.MULTIPLY: pc.multiply_checked,
}
_EXACT: dict[Function, Callable[[Decimal, Decimal], Decimal]] = {
    Function.ADD: EXACT.add,
    Function.SUBTRACT: EXACT.subtract,
    Function.MULTIPLY: EXACT.multiply,
    Function.DIVIDE: EXACT.divide,
    Function.REMAINDER: EXACT.remainder,
}


def calculated(function: Function, left: pa.Array, right: pa.Array, type_: DataType) -> pa.Array:
    """One of + - * / % of two arrays of the same type, or of two of decimals.

    Raises ValueError where integers or decimals overflow; floating point goes to infinity. A remainder has the sign of
    the dividend.
    """
    if function in (Function.DIVIDE, Function.REMAINDER):
        right = pc.if_else(pc.equal(right, zero(right.type)), pa.scalar(None, right.type), right)
    if isinstance(type_, DecimalType):
        return _decimal(function, left, right, type_)
    if function is Function.REMAINDER:
        return _remainder(left, right) if type_ in INTEGRAL else _by_rows(_modulo, left, right, arrow_type(type_))
    return pc.divide(left, right) if function is Function.DIVIDE else _KERNELS[function](left, right)


def rounded_number(values: pa.Array, digits: int, type_: DataType) -> pa.Array:
    """Numbers with that many digits after the point, or zeros before it; halves go away from zero."""
    if isinstance(type_, DecimalType):
        return _rounded_digits(values, digits).cast(arrow_type(type_))
    if type_ in INTEGRAL:
        if digits >= 0:
            return values
        return _rounded_digits(values.cast(pa.decimal128(20, 0)), digits).cast(arrow_type(type_))
    doubles = values.cast(pa.float64())
    if digits >= 0:
        # Larger numbers have no digits after the point, and would overflow on the way.
        small = pc.less(pc.abs(doubles), 2.0**53)
        doubles = pc.if_else(small, _rounded_digits(pc.if_else(small, doubles, 0.0), digits), doubles)
    else:
        doubles = _rounded_digits(doubles, digits)
    return doubles.cast(pa.float32()) if type_ == FLOAT else doubles


def whole_number(function: Function, values: pa.Array, type_: DataType) -> pa.Array:
    """The next integer below for FLOOR and above for CEIL."""
    if pa.types.is_integer(values.type):
        return values
    kernel = pc.floor if function is Function.FLOOR else pc.ceil
    return kernel(roomy(values)).cast(arrow_type(type_))


def _rounded_digits(values: pa.Array, digits: int) -> pa.Array:
    return pc.round(roomy(values), ndigits=digits, round_mode="half_towards_infinity")


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    # The smallest integer divided by -1 overflows; its remainder is that of 1.
    safe = pc.if_else(pc.equal(right, pa.scalar(-1, right.type)), pa.scalar(1, right.type), right)
    return pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))


def _modulo(left: float, right: float) -> float:
    return math.nan if math.isinf(left) else math.fmod(left, right)


def _decimal(function: Function, left: pa.Array, right: pa.Array, type_: DecimalType) -> pa.Array:
    digits = _digits(function, left.type, right.type, type_.scale)
    if digits is not None and digits < WIDEST:
        one, two = (array.cast(pa.decimal256(array.type.precision, array.type.scale)) for array in (left, right))
        divide = function is Function.DIVIDE
        return rounded(_divided(one, two, type_.scale) if divide else _KERNELS[function](one, two), type_)
    step = Decimal((0, (1,), -type_.scale))
    compute = _EXACT[function]
    return _by_rows(lambda one, two: compute(one, two).quantize(step, context=EXACT), left, right, arrow_type(type_))


def _digits(function: Function, left: pa.DataType, right: pa.DataType, scale: int) -> int | None:
    """The digits that Arrow needs for the result; None where it has no such function."""
    if function is Function.REMAINDER:
        return None
    if function is Function.MULTIPLY:
        return int(left.precision + right.precision + 1)
    if function is Function.DIVIDE:
        return int(left.precision - left.scale + right.scale + _quotient_scale(left, right, scale))
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return int(whole + max(left.scale, right.scale) + 1)


def _quotient_scale(left: pa.DataType, right: pa.DataType, scale: int) -> int:
    """How many digits after the point a quotient needs: Arrow cuts off the rest, and the next one tells how to round."""
    return int(max(4, scale + 1, left.scale + right.precision - right.scale + 1))


def _divided(left: pa.Array, right: pa.Array, scale: int) -> pa.Array:
    """The quotient with more digits after the point than `scale`; zeros after the dividend make Arrow give them."""
    given = left.type.scale + right.type.precision - right.type.scale + 1
    zeros = max(scale + 1 - given, 0)
    return pc.divide(left.cast(pa.decimal256(left.type.precision + zeros, left.type.scale + zeros)), right)


def _by_rows(
    compute: Callable[[float, float], float] | Callable[[Decimal, Decimal], Decimal],
    left: pa.Array,
    right: pa.Array,
    wanted: pa.DataType,
) -> pa.Array:
    """A Python function of each pair without a null, for what Arrow cannot compute."""
    pairs = zip(left.to_pylist(), right.to_pylist())
    return pa.array([None if one is None or two is None else compute(one, two) for one, two in pairs], wanted)
