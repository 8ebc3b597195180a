"""Whatever speaks Arrow, taken in as record batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import tablespec
from tablespec.arrow.stream import record_batches, worked_ahead
from tablespec.errors import DataFileMissingError, SourceFailedError, UnsupportedTypeError
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
BATCHES = ROWS.to_batches(max_chunksize=2)


@pytest.mark.parametrize(
    "given",
    [
        lambda: ROWS,
        lambda: ROWS.to_batches()[0],
        lambda: pa.RecordBatchReader.from_batches(ROWS.schema, BATCHES),
        lambda: pl.DataFrame(ROWS),
        lambda: duckdb.from_arrow(ROWS),
    ],
    ids=["table", "batch", "reader", "polars", "duckdb"],
)
def test_rows_of_every_source_come_as_batches(given):
    assert_same_rows(record_batches(given()), ROWS)


def test_a_reader_is_not_read_before_its_rows_are_asked_for():
    asked: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(BATCHES):
            asked.append(number)
            yield batch

    reader = record_batches(pa.RecordBatchReader.from_batches(ROWS.schema, batches()))

    assert asked == []
    next(reader)
    assert asked == [0]


@pytest.mark.parametrize("data", [[{"id": 1}], {"id": [1]}, "id", None, 5], ids=repr)
def test_what_does_not_speak_arrow_is_told_by_its_type(data):
    with pytest.raises(UnsupportedTypeError, match=type(data).__name__):
        record_batches(data)


def test_a_source_that_fails_on_the_way_is_told_by_its_name_and_without_a_traceback():
    failing = duckdb.sql("SELECT CASE WHEN i < 200000 THEN 1 ELSE error('torn') END AS i FROM range(200001) t(i)")

    with pytest.raises(SourceFailedError, match=r"duckdb\.DuckDBPyRelation.*torn$"):
        record_batches(failing).read_all()


def test_an_error_of_a_table_that_rows_come_from_stays_what_it_is(tmp_path):
    table = tablespec.create_table(str(tmp_path), ROWS.schema)
    table.append(ROWS)
    rows = table.scan()
    (tmp_path / rows.slices[0].slice.base.path).unlink()

    with pytest.raises(DataFileMissingError):
        record_batches(rows).read_all()


def test_work_done_ahead_comes_in_the_order_of_its_items():
    assert list(worked_ahead(lambda number: number * number, range(100))) == [number * number for number in range(100)]
    assert list(worked_ahead(str, [])) == []


def test_an_item_is_worked_on_while_the_one_before_is_used():
    done = threading.Event()

    def work(number: int) -> int:
        if number == 1:
            done.set()
        return number

    found = worked_ahead(work, range(2))

    assert next(found) == 0
    assert done.wait(5)
    assert list(found) == [1]


def test_no_more_than_a_few_items_are_taken_ahead():
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    found = worked_ahead(str, items())
    next(found)
    time.sleep(0.1)

    assert len(taken) < 10
    found.close()


def test_an_error_of_the_source_is_raised():
    def items() -> Iterator[int]:
        yield 0
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        list(worked_ahead(str, items()))


def test_an_error_of_the_work_is_raised_after_the_results_before_it():
    found = worked_ahead(lambda number: 6 // number, [3, 2, 0, 1])

    assert [next(found), next(found)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_the_thread_ends_with_the_one_who_stops_early():
    before = threading.active_count()

    found = worked_ahead(str, iter(range(10**9)))
    next(found)
    found.close()

    assert threading.active_count() == before
