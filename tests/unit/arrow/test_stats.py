"""Statistics of files, taken from their footers."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablespec.arrow.stats import file_stats, leaf_indexes, value_range
from tablespec.model.stats import ColumnStats, FileStats


def footer(table: pa.Table, rows_per_group: int = 100, **settings: object) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows_per_group, **settings)
    return pq.read_metadata(sink)


def stats_of(array: pa.Array, rows_per_group: int = 100, *, nan: bool = False, **settings: object) -> ColumnStats:
    metadata = footer(pa.table({"x": array}), rows_per_group, **settings)
    (column,) = file_stats(metadata, [("x",)], {("x",): 1} if nan else {}).columns
    return column


@pytest.mark.parametrize(
    ("array", "low", "high"),
    [
        (pa.array([3, -1, None], pa.int8()), -1, 3),
        (pa.array([2**62, -(2**63)], pa.int64()), -(2**63), 2**62),
        (pa.array([0.5, -math.inf], pa.float32()), -math.inf, 0.5),
        (pa.array(["b", "é", "𝄞", ""]), "", "𝄞"),
        (pa.array([b"\x00", b"\xff"]), b"\x00", b"\xff"),
        (pa.array([date(1, 1, 1), date(9999, 12, 31)]), date(1, 1, 1), date(9999, 12, 31)),
        (
            pa.array([datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        ),
        (pa.array([datetime(1, 1, 1)], pa.timestamp("us")), datetime(1, 1, 1), datetime(1, 1, 1)),
        (pa.array([Decimal("-1.50"), Decimal("99.99")], pa.decimal128(9, 2)), Decimal("-1.50"), Decimal("99.99")),
        (pa.array([Decimal(10) ** 37], pa.decimal128(38, 0)), Decimal(10) ** 37, Decimal(10) ** 37),
        (pa.array([True, False]), False, True),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_bounds_have_the_values_of_the_column(array, low, high):
    column = stats_of(array)

    assert (column.min, column.max, column.null_count) == (low, high, array.null_count)


def test_bounds_and_counts_are_those_of_all_row_groups():
    column = stats_of(pa.array([5, None, 9, 1, None, None, 7, 7]), rows_per_group=2)

    assert column == ColumnStats(("x",), 1, 9, 3)


def test_a_column_of_nulls_has_a_count_and_no_bounds():
    assert stats_of(pa.array([None, None], pa.int64())) == ColumnStats(("x",), None, None, 2)


def test_a_column_with_nan_has_a_count_and_no_bounds():
    assert stats_of(pa.array([1.0, math.nan, None]), nan=True) == ColumnStats(("x",), None, None, 1)


@pytest.mark.parametrize(
    "array",
    [
        pa.array([0, 2**62], pa.timestamp("us", "UTC")),
        pa.array([-(2**62), 0], pa.timestamp("us")),
        pa.array([0, 2**30], pa.date32()),
    ],
    ids=lambda array: str(array.type),
)
def test_a_bound_that_python_has_no_value_for_is_unknown(array):
    assert stats_of(array) == ColumnStats(("x",), None, None, 0)


def test_a_text_too_long_for_a_footer_leaves_the_whole_column_without_bounds():
    array = pa.array(["a", "b" * 10_000, "c"])

    assert stats_of(array, rows_per_group=1) == ColumnStats(("x",), None, None, 0)


def test_a_file_without_statistics_has_only_its_number_of_rows():
    metadata = footer(pa.table({"x": [1, 2, 3]}), write_statistics=False)

    assert file_stats(metadata, [("x",)], {}) == FileStats(3, (ColumnStats(("x",), None, None, None),))


def test_an_empty_file_has_no_bounds():
    assert file_stats(footer(pa.table({"x": pa.array([], pa.int64())})), [("x",)], {}).rows == 0


def test_leaves_of_structs_are_found_by_their_path_and_count_the_nulls_of_their_parents():
    rows = pa.table({"trip": pa.array([{"stop": {"no": 5}}, {"stop": None}, None, {"stop": {"no": None}}])})

    (column,) = file_stats(footer(rows), [("trip", "stop", "no")], {}).columns

    assert column == ColumnStats(("trip", "stop", "no"), 5, 5, 3)


def test_leaves_that_are_not_in_the_file_are_left_out():
    assert file_stats(footer(pa.table({"x": [1]})), [("y",), ("x", "y")], {}).columns == ()


def test_columns_whose_dotted_paths_are_the_same_have_no_statistics():
    rows = pa.table({"a.b": [1], "a": pa.array([{"b": 100, "c": 7}])})
    metadata = footer(rows)

    found = file_stats(metadata, [("a.b",), ("a", "b"), ("a", "c")], {})

    assert found.columns == (ColumnStats(("a", "c"), 7, 7, 0),)
    assert leaf_indexes(metadata) == {"a.c": 2}


def test_a_name_with_a_dot_does_no_harm_alone():
    assert file_stats(footer(pa.table({"a.b": [1]})), [("a.b",)], {}).columns == (ColumnStats(("a.b",), 1, 1, 0),)


def test_no_statistics_are_no_range():
    assert value_range(None) is None
