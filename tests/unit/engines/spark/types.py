"""Columns of every type, with a row of values at the edge and one of nulls."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

EVERY_TYPE = pa.table(
    {
        "boolean": pa.array([True, None]),
        "byte": pa.array([-128, None], pa.int8()),
        "short": pa.array([-32768, None], pa.int16()),
        "integer": pa.array([-(2**31), None], pa.int32()),
        "long": pa.array([-(2**63), None]),
        "float": pa.array([0.1, None], pa.float32()),
        "double": pa.array([-math.inf, None]),
        "string": pa.array(["é% /'\"", None]),
        "binary": pa.array([b"\x00z", None]),
        "date": pa.array([date(1, 1, 1), None]),
        "timestamp": pa.array([datetime(1582, 10, 4, 1, 2, 3, 456789, UTC), None], pa.timestamp("us", "UTC")),
        "timestamp_ntz": pa.array([datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
        "decimal": pa.array([Decimal("-99999999.99"), None], pa.decimal128(10, 2)),
    }
)
NESTED = {
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None]),
    "array": pa.array([[1, None], None], pa.list_(pa.int32())),
    "map": pa.array([[("k", 1.5)], None], pa.map_(pa.string(), pa.float64())),
}
