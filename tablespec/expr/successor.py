"""The least value of a type, and the next one after a value; days and times are counted from 1970, in days and microseconds."""

from __future__ import annotations

import decimal
import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

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

_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64, DATE: 32, TIMESTAMP: 64, TIMESTAMP_NTZ: 64}
_LEAST: dict[DataType, Scalar] = {BOOLEAN: False, FLOAT: -math.inf, DOUBLE: -math.inf, STRING: "", BINARY: b""}
_EXACT = decimal.Context(prec=80)
_SURROGATES = range(0xD800, 0xE000)


def counted(value: Scalar) -> Scalar:
    """The value, and of days and times the number since 1970."""
    if isinstance(value, datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def least(type_: DataType) -> Scalar:
    """The least value of a type."""
    if type_ in _BITS:
        return -1 << (_BITS[type_] - 1)
    if isinstance(type_, DecimalType):
        return _greatest_decimal(type_).copy_negate()
    return _LEAST[type_]


def successor(value: Scalar, type_: DataType) -> Scalar:
    """The value right after another in a type; None after the greatest."""
    match value:
        case bool():
            return None if value else True
        case int():
            return None if value == (1 << (_BITS[type_] - 1)) - 1 else value + 1
        case float():
            return _next_float(value, type_)
        case Decimal() if isinstance(type_, DecimalType):
            unit = Decimal((0, (1,), -type_.scale))
            return None if value == _greatest_decimal(type_) else _EXACT.add(value, unit)
        case str():
            return value + "\0"
        case bytes():
            return value + b"\0"
        case _:
            raise AssertionError(value, type_)


def after_prefix(prefix: str) -> str | None:
    """The least text after all that start with a prefix; None where there is none."""
    kept = prefix.rstrip(chr(0x10FFFF))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _greatest_decimal(type_: DecimalType) -> Decimal:
    return Decimal((0, (9,) * type_.precision, -type_.scale))


def _next_float(value: float, type_: DataType) -> float | None:
    """NaN, of which there is one, comes after infinity."""
    if math.isnan(value):
        return None
    if value == math.inf:
        return math.nan
    if type_ == DOUBLE:
        return math.nextafter(value, math.inf)
    if value == -math.inf:
        return _float_of(0xFF7FFFFF)
    (word,) = struct.unpack("<I", struct.pack("<f", value))
    # The magnitude of a float grows with its bits, and there are two zeros.
    return _float_of(1 if value == 0 else word - 1 if word >> 31 else word + 1)


def _float_of(word: int) -> float:
    found: float = struct.unpack("<f", struct.pack("<I", word))[0]
    return found
