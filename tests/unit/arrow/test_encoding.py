"""Which columns get a dictionary, and which lie in files as steps."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.arrow.encoding import dictionary_columns, leaf_paths, stepping_columns

ROWS = 100_000
SHUFFLED = random.Random(7)


def test_values_that_repeat_get_a_dictionary_and_others_do_not():
    rows = pa.table(
        {
            "id": range(ROWS),
            "code": [f"code-{number}" for number in range(ROWS)],
            "color": ["red", "green"] * (ROWS // 2),
            "runs": [number // 10 for number in range(ROWS)],
            "many": [SHUFFLED.randrange(ROWS // 10) for _ in range(ROWS)],
            "nearly": [SHUFFLED.randrange(ROWS) for _ in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.string()),
        }
    )

    assert dictionary_columns(rows) == ["color", "runs", "many", "nothing"]


def test_a_few_rows_get_a_dictionary_without_being_looked_at():
    rows = pa.table({"id": pa.array(range(4097), pa.int64()), "one": pa.array([1] * 4097, pa.int64())})

    assert dictionary_columns(rows) == ["one"]
    assert dictionary_columns(rows.slice(1)) == ["id", "one"]


def test_leaves_are_spelled_as_parquet_spells_them():
    item = pa.struct({"a": pa.int64(), "b": pa.list_(pa.struct({"c": pa.string()}))})
    fields = {"x": pa.int32(), "s": item, "m": pa.map_(pa.string(), item), "l": pa.list_(pa.list_(pa.date32()))}
    schema = pa.schema(fields)
    file = io.BytesIO()
    pq.write_table(schema.empty_table(), file)

    found = [path for field in schema for path in leaf_paths(field)]

    columns = pq.ParquetFile(file).schema
    assert found == [columns.column(index).path for index in range(len(columns))]


def test_columns_within_others_get_one():
    rows = pa.table({"s": pa.array([{"a": number, "b": [number]} for number in range(5000)])})

    assert dictionary_columns(rows) == ["s.a", "s.b.list.element"]


def test_numbers_dates_and_times_that_move_by_small_steps_lie_in_steps():
    far = [SHUFFLED.randrange(-(2**63), 2**63) for _ in range(ROWS)]
    rows = pa.table(
        {
            "id": range(ROWS),
            "down": [-7 * number for number in range(ROWS)],
            "gaps": [None if number % 3 else number for number in range(ROWS)],
            "jumps": [number + (number // 1000) * 2**40 for number in range(ROWS)],
            "far": far,
            "sorted": sorted(far),
            "around": pa.array([(2**63 + number) % 2**64 - 2**63 for number in range(ROWS)], pa.int64()),
            "short": pa.array([number % 30_000 for number in range(ROWS)], pa.int16()),
            "near": pa.array([SHUFFLED.randrange(2**15) for _ in range(ROWS)], pa.int32()),
            "wide": pa.array([SHUFFLED.randrange(2**30) for _ in range(ROWS)], pa.int32()),
            "day": pa.array(range(ROWS), pa.date32()),
            "time": pa.array([10**15 + number * 10**6 for number in range(ROWS)], pa.timestamp("us")),
            "zoned": pa.array([10**15 + number * 10**6 for number in range(ROWS)], pa.timestamp("us", "UTC")),
            "share": [number / 7 for number in range(ROWS)],
            "text": [str(number) for number in range(ROWS)],
            "nothing": pa.nulls(ROWS, pa.int64()),
            "a.b": range(ROWS),
        }
    )

    found = stepping_columns(rows, ["short"])

    assert list(found) == ["id", "down", "gaps", "jumps", "around", "near", "day", "time", "zoned"]
    assert set(found.values()) == {"DELTA_BINARY_PACKED"}
    assert stepping_columns(rows.slice(0, 4096), []) == {}
