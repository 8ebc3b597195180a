"""Values of any column type as JSON, and as text for a screen."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import pyarrow as pa

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


def as_json(value: pa.Scalar) -> Json:
    """A value as JSON can hold it without loss.

    Decimals, dates and times are text, times of instants in UTC; binary is hexadecimal text; NaN and infinities are the texts
    that Java and Spark use; a map is an object whose keys are the text of its keys.
    """
    if not value.is_valid:
        return None
    match value:
        case pa.StructScalar():
            return {name: as_json(member) for name, member in value.items()}
        case pa.MapScalar():
            return {as_text(as_json(key)): as_json(item) for key, item in _entries(value)}
        case pa.ListScalar():
            return [as_json(item) for item in value.values]
        case pa.StringScalar():
            # Parquet files may hold text that is not UTF-8.
            return _bytes(value).decode("utf-8", "backslashreplace")
        case pa.BinaryScalar():
            return _bytes(value).hex()
        case pa.FloatScalar() | pa.DoubleScalar():
            return _number(value)
        case pa.BooleanScalar():
            return bool(value.as_py())
        case pa.Int8Scalar() | pa.Int16Scalar() | pa.Int32Scalar() | pa.Int64Scalar():
            return int(value.as_py())
        case pa.Decimal128Scalar():
            return format(value.as_py(), "f")
        case pa.TimestampScalar():
            return _time(value)
        case _:
            return str(value.cast(pa.string()).as_py())


def as_text(value: Json) -> str:
    """A value on one line: text as it is with odd characters escaped, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _entries(value: pa.MapScalar) -> list[tuple[pa.Scalar, pa.Scalar]]:
    entries = value.values
    return list(zip(entries.field(0), entries.field(1)))


def _bytes(value: pa.BinaryScalar) -> bytes:
    data: bytes = value.as_buffer().to_pybytes()
    return data


def _number(value: pa.Scalar) -> float | str:
    # Arrow's text is the shortest one that means this value in its own width: 0.1 also for a float of 32 bits.
    number = float(value.cast(pa.string()).as_py())
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _time(value: pa.TimestampScalar) -> str:
    # Arrow's own text, because Python's times end with the year 9999 and tables do not.
    text: str = value.cast(pa.timestamp("us", value.type.tz)).cast(pa.string()).as_py()
    head, _, fraction = text.replace(" ", "T").rstrip("Z").partition(".")
    digits = fraction.rstrip("0")
    return head + (f".{digits}" if digits else "") + ("Z" if value.type.tz else "")
