"""Comparing rows whole, whatever their order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa


def assert_same_rows(actual: object, expected: object) -> None:
    """The same rows on both sides, each as often as on the other.

    A side is a list of tuples in the order of the columns, or anything that speaks Arrow. Null is None, NaN equals
    NaN, an instant equals itself in any zone; 1, 1.0 and True differ.
    """
    __tracebackhide__ = True
    found, wanted = Counter(map(_key, _rows(actual))), Counter(map(_key, _rows(expected)))
    missing, extra = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    assert not missing and not extra, "\n".join(
        [
            f"{found.total()} rows, expected {wanted.total()}",
            *(f"missing {row}" for row in missing),
            *(f"extra   {row}" for row in extra),
        ]
    )


def _rows(side: object) -> Iterable[tuple[object, ...]]:
    if hasattr(side, "__arrow_c_stream__"):
        table = pa.RecordBatchReader.from_stream(side).read_all()
        return zip(*(column.to_pylist() for column in table.columns))
    assert isinstance(side, Iterable)
    return [tuple(row) for row in side]


def _key(value: object) -> str:
    """A text that two values share when they are the same."""
    match value:
        case dict():
            return "{" + ", ".join(f"{name}: {_key(value[name])}" for name in sorted(value)) + "}"
        case tuple():
            return "(" + ", ".join(map(_key, value)) + ")"
        case list():
            return "[" + ", ".join(map(_key, value)) + "]"
        case float() if math.isnan(value):
            return "NaN"
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat()
        case bytearray():
            return repr(bytes(value))
        case _:
            return repr(value)
