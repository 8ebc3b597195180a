"""Which of the rows with one key counts in an upsert, between data and table."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec import Strategy
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "sent": pa.int64(), "seen": pa.int64()})
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, key=["id"])
    made.append(rows((1, "old", 10, 100), (2, "old", None, None), (3, "old", 30, 300)))
    return made


@both
@pytest.mark.parametrize("named", ["argument", "property"])
def test_of_equal_values_in_the_ordering_column_that_of_the_data_counts(table, strategy, named):
    order_by = "sent" if named == "argument" else None
    if order_by is None:
        table.set_properties({"tablespec.orderingColumn": "sent"})

    result = table.upsert(
        rows((1, "new", 10, 0), (2, "new", None, 0), (3, "new", 29, 0)), order_by=order_by, strategy=strategy
    )

    assert (result.rows_updated, result.rows_inserted) == (2, 0)
    assert_same_rows(table.scan(), [(1, "new", 10, 0), (2, "new", None, 0), (3, "old", 30, 300)])


@both
def test_the_ordering_column_of_the_call_counts_and_not_that_of_the_table(table, strategy):
    table.set_properties({"tablespec.orderingColumn": "sent"})

    table.upsert(rows((1, "new", 9, 101), (3, "new", 31, 299)), order_by="seen", strategy=strategy)

    assert_same_rows(table.scan(), [(1, "new", 9, 101), (2, "old", None, None), (3, "old", 30, 300)])


def test_the_ordering_column_of_the_call_counts_among_the_rows_of_the_data_too(table):
    table.set_properties({"tablespec.orderingColumn": "sent"})

    table.upsert(rows((4, "seen last", 1, 2), (4, "sent last", 2, 1)), order_by="seen")

    assert_same_rows(table.scan("id = 4"), [(4, "seen last", 1, 2)])
