"""Arrow arrays of one column type turned into another, exactly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.convert import by_logical_name, convert
from tablespec.arrow.java_text import spark_text
from tablespec.arrow.schema import arrow_type
from tablespec.expr.literal import cast
from tablespec.expr.nodes import Scalar
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGRAL,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    StructType,
)

EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
"""Decimals of any column type are added, multiplied and divided without losing a digit that counts."""
WIDEST = 76
"""The digits of Arrow's widest decimals."""
_PLAIN_SCALE = 6


def cast_array(array: pa.Array, type_: DataType) -> pa.Array:
    """The values as another type; raises ValueError where the type does not hold one.

    Decimals are rounded with halves away from zero, fractions are cut off on the way to integers, and only floating
    point takes the nearest value. A timestamp without zone is in UTC.
    """
    wanted = arrow_type(type_)
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if isinstance(type_, ArrayType | MapType | StructType):
        return convert(array, Field(name="value", type=type_), by_logical_name)
    if type_ == STRING:
        return _to_string(array)
    if pa.types.is_string(array.type) and type_ != BINARY:
        return each_distinct(array, lambda text: cast(text, type_), wanted)
    if type_ == BOOLEAN:
        return pc.not_equal(array, zero(array.type))
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if type_ in INTEGRAL:
        return (array if pa.types.is_integer(array.type) else pc.trunc(roomy(array))).cast(wanted)
    if isinstance(type_, DecimalType):
        return _to_decimal(array, type_)
    return _to_floating(array, wanted) if type_ in (FLOAT, DOUBLE) else array.cast(wanted)


def rounded(array: pa.Array, type_: DecimalType) -> pa.Array:
    """Decimals as others, with halves rounded away from zero; raises ValueError for those with too many digits."""
    if array.type.scale > type_.scale:
        array = pc.round(roomy(array), ndigits=type_.scale, round_mode="half_towards_infinity")
    return array.cast(arrow_type(type_))


def roomy(array: pa.Array) -> pa.Array:
    """Decimals with room for the digits that rounding adds, as in 9.99; other numbers as they are."""
    return array.cast(pa.decimal256(WIDEST, array.type.scale)) if pa.types.is_decimal(array.type) else array


def zero(arrow: pa.DataType) -> pa.Scalar:
    """The zero of a number type."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(arrow) else 0, arrow)


def each_distinct(array: pa.Array, change: Callable[[Scalar], Scalar], wanted: pa.DataType) -> pa.Array:
    """A Python function of each value that is not null, called once for equal ones."""
    encoded = array.dictionary_encode()
    changed = pa.array([change(value) for value in encoded.dictionary.to_pylist()], wanted)
    return changed.take(encoded.indices)


def _to_string(array: pa.Array) -> pa.Array:
    if pa.types.is_decimal(array.type) and array.type.scale > _PLAIN_SCALE:
        # Arrow would write small ones with an exponent.
        return each_distinct(array, lambda value: format(value, "f"), pa.string())
    return spark_text(array)


def _to_decimal(array: pa.Array, type_: DecimalType) -> pa.Array:
    if pa.types.is_decimal(array.type):
        return rounded(array, type_)
    if pa.types.is_integer(array.type):
        return array.cast(pa.decimal128(20, 0)).cast(arrow_type(type_))
    step = Decimal((0, (1,), -type_.scale))
    return each_distinct(array, lambda value: Decimal(repr(value)).quantize(step, context=EXACT), arrow_type(type_))


def _to_floating(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    # Text is read as the nearest number; Arrow's own way from decimals is off by a bit at times.
    source = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
    found = source.cast(wanted, safe=False)
    if pa.types.is_floating(array.type):
        grown = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(array)))
        if pc.any(grown).as_py():
            raise ValueError("a finite number would become infinite")
    return found
