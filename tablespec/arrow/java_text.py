"""Values as text the way Spark writes them, for columns that became strings."""

from __future__ import annotations

import math
from datetime import datetime

import pyarrow as pa


def spark_text(array: pa.Array) -> pa.Array:
    """The text of numbers, timestamps and whatever else Arrow can turn into strings."""
    if pa.types.is_floating(array.type):
        return _each(array, lambda value: _float_text(value))
    if pa.types.is_timestamp(array.type):
        return _each(array.cast(pa.timestamp("us", array.type.tz)), _timestamp_text)
    return array.cast(pa.string())


def _each(array: pa.Array, text: object) -> pa.Array:
    assert callable(text)
    encoded = array.dictionary_encode()
    return pa.array([text(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(value, "f") if "e" in repr(value) else repr(value)
        return text if "." in text else f"{text}.0"
    digits, _, exponent = format(value, "e").partition("e") if "e" not in repr(value) else repr(value).partition("e")
    if "e" not in repr(value):
        digits = _shortest(value)
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _shortest(value: float) -> str:
    """The digits of a number that `repr` writes without exponent, as d.ddd."""
    sign = "-" if value < 0 else ""
    digits = repr(abs(value)).replace(".", "").lstrip("0").rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}"


def _timestamp_text(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return text.rstrip("0").rstrip(".")
