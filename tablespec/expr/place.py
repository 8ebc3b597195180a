"""Where a constant stands among the values that a column type can hold.

A predicate compares a column with constants that its type may not be able to hold: `x < 300` on bytes, `x > 1.5` on
integers. Knowing the place of the constant, the comparison can be said in the column's own type without any rounding.
"""

from __future__ import annotations

import decimal
import math
import re
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal

import attrs

from tablespec.expr.nodes import Scalar
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)


@attrs.frozen
class At:
    """The type holds the constant, as this value."""

    value: Scalar


@attrs.frozen
class JustAbove:
    """The type cannot hold the constant; this is the largest value below it."""

    value: Scalar


@attrs.frozen
class BelowAll:
    """The constant is smaller than everything that the type holds."""


@attrs.frozen
class AboveAll:
    """The constant is greater than everything that the type holds."""


Place = At | JustAbove | BelowAll | AboveAll

_BITS = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?\s?(Z|[+-]\d{2}(:?\d{2}(:\d{2})?)?)?)?", re.ASCII
)
_FLOAT_MAX: float = struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0]
_EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_FLOOR, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def place(value: Scalar, type_: DataType) -> Place | None:
    """The place of a constant that is not null in a type; None when the two cannot be compared.

    Numbers are never compared with text. They meet a double column as the nearest double, a float column as the same
    double, and a decimal column as the shortest decimal that writes them; NaN is greater than all of them. Text in ISO
    format meets dates and timestamps. A time without a zone is in UTC, and a date is its midnight.
    """
    if isinstance(value, bool):
        return At(value) if type_ == BOOLEAN else None
    if isinstance(value, int | float | Decimal):
        return _number_place(value, type_)
    if isinstance(value, bytes):
        return At(value) if type_ == BINARY else None
    if isinstance(value, str) and type_ == STRING:
        return At(value) if _is_unicode(value) else None
    if type_ == DATE:
        return _date_place(value)
    if type_ in (TIMESTAMP, TIMESTAMP_NTZ):
        when = _moment(value)
        return None if when is None else At(when if type_ == TIMESTAMP else when.replace(tzinfo=None))
    return None


def _number_place(value: int | float | Decimal, type_: DataType) -> Place | None:
    if isinstance(value, Decimal) and value.is_nan():
        return None
    if type_ in _BITS:
        limit = 1 << (_BITS[type_] - 1)
        return _among_steps(value if isinstance(value, int) else _as_decimal(value), Decimal(limit - 1), -limit, 0)
    if isinstance(type_, DecimalType):
        exact = Decimal(repr(value)) if isinstance(value, float) else value
        greatest = Decimal((0, (9,) * type_.precision, -type_.scale))
        return _among_steps(exact, greatest, greatest.copy_negate(), type_.scale)
    if type_ == DOUBLE:
        return At(_nearest_double(value))
    return _float_place(_nearest_double(value)) if type_ == FLOAT else None


def _as_decimal(value: float | Decimal) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value)


def _among_steps(value: int | Decimal, greatest: Decimal, least: int | Decimal, scale: int) -> Place:
    """The place among the multiples of 10**-scale from `least` to `greatest`, as integers when `least` is one."""
    if isinstance(value, Decimal) and value.is_nan():
        return AboveAll()
    if value > greatest:
        return AboveAll()
    if value < least:
        return BelowAll()
    below = Decimal(value).quantize(Decimal((0, (1,), -scale)), context=_EXACT)
    held: int | Decimal = int(below) if isinstance(least, int) else below
    return At(held) if below == value else JustAbove(held)


def _nearest_double(value: int | float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float_place(value: float) -> Place:
    """The place of a double among the numbers of 32 bits."""
    if math.isnan(value) or math.isinf(value):
        return At(value)
    if abs(value) > _FLOAT_MAX:
        return JustAbove(_FLOAT_MAX if value > 0 else -math.inf)
    bits = struct.pack("<f", value)
    near: float = struct.unpack("<f", bits)[0]
    if near == value:
        return At(value)
    return JustAbove(near if near < value else _float_below(bits))


def _float_below(bits: bytes) -> float:
    """The number of 32 bits right before the given one."""
    (word,) = struct.unpack("<I", bits)
    negative = bool(word >> 31)
    # The magnitude of a float grows with its bits; below zero stands the smallest negative number.
    before = 0x80000001 if word == 0 else word + 1 if negative else word - 1
    found: float = struct.unpack("<f", struct.pack("<I", before))[0]
    return found


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _date_place(value: Scalar) -> Place | None:
    if isinstance(value, str) and len(value) != len("2020-01-01"):
        return None
    when = _moment(value)
    if when is None:
        return None
    return At(when.date()) if when.timetz() == time(tzinfo=UTC) else JustAbove(when.date())


def _moment(value: Scalar) -> datetime | None:
    """The moment that a date, time or ISO text names, in UTC; text with fractions of microseconds names none."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(_without_excess(value)) if _ISO.fullmatch(value) else None
        if isinstance(value, datetime):
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return datetime.combine(value, time(), UTC) if isinstance(value, date) else None
    except (ValueError, OverflowError):
        return None


def _without_excess(text: str) -> str:
    return re.sub(r"\s(?=[Z+-])", "", re.sub(r"(\.\d{6})0+", r"\1", text))
