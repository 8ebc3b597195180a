"""Files all of whose rows match, as the log's statistics of data columns tell."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec import Strategy
from tests.rows import assert_same_rows

both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


@pytest.fixture
def table(tmp_path):
    """Four files of two rows each: v is 1 throughout, from 4 to 6, 8 or null, and 9 throughout."""
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64(), "v": pa.int64()}))
    for ids, values in [([1, 2], [1, 1]), ([3, 4], [4, 6]), ([5, 6], [8, None]), ([7, 8], [9, 9])]:
        table.append(pa.table({"id": ids, "v": pa.array(values, pa.int64())}))
    return table


def spoil(table, tmp_path, ids):
    """Make garbage of the file with these rows."""
    (one,) = table.scan(f"id = {ids[0]}").slices
    (tmp_path / one.slice.base.path).write_bytes(b"no parquet file")


@both
@pytest.mark.parametrize(
    ("predicate", "gone"),
    [
        ("v = 1", [[1, 2]]),
        ("v IN (1, 9)", [[1, 2], [7, 8]]),
        ("v >= 4 AND v <= 6", [[3, 4]]),
        ("v BETWEEN 2 AND 7", [[3, 4]]),
        ("v < 7", [[1, 2], [3, 4]]),
        ("v = 1 OR v > 8", [[1, 2], [7, 8]]),
        ("v = 1 OR v = 2 OR v > 3 AND v < 7", [[1, 2], [3, 4]]),
        ("v IS NOT NULL AND v <= 1", [[1, 2]]),
        ("NOT (v > 1)", [[1, 2]]),
    ],
)
def test_they_are_dropped_without_being_opened(table, tmp_path, strategy, predicate, gone):
    for ids in gone:
        spoil(table, tmp_path, ids)

    result = table.delete(predicate, strategy=strategy)

    assert (result.rows_deleted, result.files_removed, result.vectors_written) == (2 * len(gone), len(gone), 0)
    left = {1: 1, 2: 1, 3: 4, 4: 6, 5: 8, 6: None, 7: 9, 8: 9}
    assert_same_rows(table.scan(), [row for row in left.items() if not any(row[0] in ids for ids in gone)])


@both
@pytest.mark.parametrize("predicate", [None, "v IS NULL OR v IS NOT NULL", "NOT (v IS NULL AND v IS NOT NULL)"])
def test_a_whole_table_that_may_go_is_dropped_without_being_opened(table, tmp_path, strategy, predicate):
    for ids in ([1, 2], [3, 4], [5, 6], [7, 8]):
        spoil(table, tmp_path, ids)

    result = table.delete(predicate, allow_full_table=True, strategy=strategy)

    assert (result.rows_deleted, result.files_removed) == (8, 4)
    assert table.scan().count() == 0
