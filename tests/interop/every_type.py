"""Columns of every type with the values that are most easily got wrong, and tables as deltalake reads them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

SPECIAL = "a b/c%d=é'\""
_MOMENTS = [
    datetime(1, 1, 1),
    datetime(1582, 10, 4, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2020, 2, 29, 12, 0, 0, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
]


def _decimals(precision: int, scale: int) -> pa.Array:
    greatest = Decimal((0, (9,) * precision, -scale))
    return pa.array([greatest, greatest.copy_negate(), Decimal(0), None], pa.decimal128(precision, scale))


# Every type of column that is not made of others.
SCALARS: dict[str, pa.Array] = {
    "boolean": pa.array([True, False, None]),
    "byte": pa.array([-(2**7), 2**7 - 1, 0, None], pa.int8()),
    "short": pa.array([-(2**15), 2**15 - 1, 0, None], pa.int16()),
    "integer": pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32()),
    "long": pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
    "float": pa.array([0.1, -0.0, math.inf, -math.inf, math.nan, 3.4028234663852886e38, 1e-45, None], pa.float32()),
    "finite float": pa.array([0.1, -3.4028234663852886e38, 1e-45, None], pa.float32()),
    "double": pa.array([0.1, -0.0, math.inf, -math.inf, math.nan, 1.7976931348623157e308, 5e-324, None]),
    "finite double": pa.array([0.1, -1.7976931348623157e308, 5e-324, None]),
    "infinite double": pa.array([0.1, math.inf, -math.inf]),
    "string": pa.array(["", "a", "é€", "𝄞😀", SPECIAL, "x" * 5000, "a" * 32 + "\U0010ffff" * 2, "\x00\t\n", None]),
    "binary": pa.array([b"", b"\x00\xff", bytes(range(256)), None]),
    "date": pa.array([date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(9999, 12, 31), None]),
    "timestamp": pa.array(
        [None if moment is None else moment.replace(tzinfo=UTC) for moment in _MOMENTS], pa.timestamp("us", "UTC")
    ),
    "timestamp_ntz": pa.array(_MOMENTS, pa.timestamp("us")),
    **{
        f"decimal({precision},{scale})": _decimals(precision, scale)
        for precision, scale in (
            (1, 0),
            (1, 1),
            (9, 2),
            (10, 10),
            (18, 0),
            (18, 6),
            (19, 0),
            (38, 0),
            (38, 18),
            (38, 38),
        )
    },
}
_DEEP = pa.struct([("k", pa.map_(pa.string(), pa.list_(pa.struct([("price", pa.decimal128(10, 2))]))))])
# Types made of others, with nulls at every level.
NESTED: dict[str, pa.Array] = {
    "list": pa.array([[1, None], [], None, [2]]),
    "list of strings": pa.array([["", None, "𝄞"], [], None]),
    "map": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
    "map of timestamps": pa.array(
        [[(date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC))], None],
        pa.map_(pa.date32(), pa.timestamp("us", "UTC")),
    ),
    "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
    "struct of structs": pa.array([{"s": {"t": {"u": 1.5}}}, {"s": None}, None, {"s": {"t": None}}]),
    "list of lists": pa.array([[[1], [], None], None, []]),
    "deep": pa.array([[{"k": [("x", [{"price": Decimal("1.50")}, None])]}, None], [], None], pa.list_(_DEEP)),
}
# Values that name partitions as they are: the empty string and empty bytes become null, and other bytes must be text.
PARTITIONS: dict[str, pa.Array] = {
    **{name: array for name, array in SCALARS.items() if name not in ("string", "binary", "infinite double")},
    "string": pa.array(["a", "é€", "𝄞😀", SPECIAL, "x" * 200, ".", "..", "~", "+", "a:b", "%41", "100%", "\t", None]),
    "binary": pa.array([b"abc", SPECIAL.encode(), None]),
}


def column(array: pa.Array) -> pa.Table:
    """A table of numbered rows with the column `v`."""
    return pa.table({"i": pa.array(range(len(array)), pa.int64()), "v": array})


def deltalake_rows(url: Path | str, where: str = "TRUE", version: int | None = None) -> pa.Table:
    """The rows of a table as deltalake reads them, by way of SQL; its other ways know fewer features."""
    query = QueryBuilder().register("t", DeltaTable(str(url), version=version))
    return pa.table(query.execute(f"SELECT * FROM t WHERE {where}").read_all())


def _moving(bits: int) -> list[int | None]:
    """Numbers that move by small steps, with nulls, jumps, and the least and the greatest number there is."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    found: list[int | None] = []
    for number in range(5000):
        value = low + 3 * number if number < 2500 else high - 4999 + number
        found.append(None if number % 97 == 3 else 0 if number % 501 == 7 else value)
    return found


# Enough rows for whole numbers, dates and times to be stored as steps.
STEPS = pa.table(
    {
        "short": pa.array(_moving(16), pa.int16()),
        "int": pa.array(_moving(32), pa.int32()),
        "long": pa.array(_moving(64), pa.int64()),
        "day": pa.array(_moving(19), pa.date32()),
        "time": pa.array(
            [None if value is None else value * 1_000_003 for value in _moving(33)], pa.timestamp("us", "UTC")
        ),
        "text": [str(number) for number in range(5000)],
    }
)
