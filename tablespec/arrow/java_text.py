"""Values as text the way Spark writes them, for columns that became strings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal

import pyarrow as pa

_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0"}


def spark_text(array: pa.Array) -> pa.Array:
    """The text of numbers, timestamps and whatever else Arrow can turn into strings."""
    if pa.types.is_floating(array.type):
        # Arrow finds the fewest digits that tell a number from others of its width, and Java arranges them otherwise.
        return _each(array.cast(pa.string()), _float_text)
    if pa.types.is_timestamp(array.type):
        return _each(array.cast(pa.timestamp("us", array.type.tz)), _timestamp_text)
    return array.cast(pa.string())


def _each(array: pa.Array, text: Callable[..., str]) -> pa.Array:
    encoded = array.dictionary_encode()
    return pa.array([text(value) for value in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _float_text(arrow: str) -> str:
    if arrow in _NAMES:
        return _NAMES[arrow]
    value = Decimal(arrow)
    if Decimal("1e-3") <= abs(value) < Decimal("1e7"):
        plain = format(value, "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, _ = value.normalize().as_tuple()
    written = "".join(map(str, digits))
    return f"{'-' if sign else ''}{written[0]}.{written[1:] or '0'}E{value.adjusted()}"


def _timestamp_text(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return text.rstrip("0").rstrip(".")
