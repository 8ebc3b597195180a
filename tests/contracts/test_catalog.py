"""A catalog means the same at every store."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablespec import Catalog, sql
from tablespec.errors import NotATableError, TableExistsError, TableNotFoundError
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2, 3], "city": ["sf", "sf", "la"]})


@pytest.fixture
def catalog(storage) -> Catalog:
    return Catalog(storage.url, dict(storage.options))


def test_tables_are_created_listed_changed_and_dropped_by_name(catalog):
    catalog.create_table("sales.trips", ROWS.schema, partition_by=["city"]).append(ROWS)
    catalog.create_table("hr.people", ROWS.schema).append(ROWS)
    with pytest.raises(TableExistsError):
        catalog.create_table("sales.trips", ROWS.schema)

    sql("DELETE FROM sales.trips WHERE id = 1", catalog)

    assert (catalog.list(), catalog.databases()) == (("hr.people", "sales.trips"), ("hr", "sales"))
    assert_same_rows(catalog.load("sales.trips").scan(), [(2, "sf"), (3, "la")])

    catalog.drop("sales.trips")

    assert (catalog.list(), catalog.databases()) == (("hr.people",), ("hr",))
    assert list(catalog.storage.list("sales")) == []
    with pytest.raises(TableNotFoundError):
        catalog.load("sales.trips")
    assert_same_rows(catalog.load("hr.people").scan(), ROWS)


def test_a_folder_that_is_no_table_is_neither_listed_nor_dropped(catalog):
    catalog.storage.put("sales/notes/readme.txt", b"hello")

    with pytest.raises(NotATableError):
        catalog.drop("sales.notes")

    assert catalog.list() == ()
    assert catalog.storage.read("sales/notes/readme.txt") == b"hello"
