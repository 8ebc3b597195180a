"""Whatever speaks Arrow, taken in as record batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from tablespec.arrow.stream import prefetched, record_batches
from tablespec.errors import UnsupportedTypeError
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


def test_prefetched_items_are_the_same_in_the_same_order():
    assert list(prefetched(range(100))) == list(range(100))
    assert list(prefetched([])) == []


def test_items_are_made_ahead_while_one_is_worked_on():
    made = threading.Event()

    def items() -> Iterator[int]:
        yield 0
        made.set()
        yield 1

    found = prefetched(items())

    assert next(found) == 0
    assert made.wait(5)
    assert list(found) == [1]


def test_no_more_than_a_few_items_are_made_ahead():
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    found = prefetched(items())
    next(found)
    time.sleep(0.2)

    assert len(made) < 10
    found.close()


def test_an_error_of_the_source_is_raised_after_the_items_before_it():
    def items() -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("torn")

    found = prefetched(items())

    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="torn"):
        next(found)


def test_the_thread_ends_with_the_one_who_stops_early():
    before = threading.active_count()

    found = prefetched(iter(range(10**9)))
    next(found)
    found.close()

    assert threading.active_count() == before
