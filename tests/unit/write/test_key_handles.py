"""Rows named by their record keys on the row-change SPI."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablespec
from tablespec import RowOp
from tablespec.errors import ColumnNotFoundError, InvalidPageError, NoRecordKeyError
from tablespec.write.merge_sink import going, page
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "v": pa.int64()})
ROWS = [(1, "sf", 10), (2, "sf", 20), (3, "la", 30), (4, "la", 40)]


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture(params=[False, True], ids=["no index", "record index"])
def table(tmp_path, request):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"], key=["id"])
    for row in ROWS:
        made.append(rows(row))
    if request.param:
        made.create_record_index()
    return made


def test_rows_are_deleted_and_updated_by_their_keys(table):
    handle = table.begin_merge()
    ids = handle.row_ids(pa.table({"id": [4, 2]}))
    sink = handle.sink()
    sink.store_merged_rows(going(ids.slice(0, 1)))
    sink.store_merged_rows(page(rows((2, "sf", 22)).to_batches()[0], RowOp.UPDATE, ids.slice(1)))

    handle.finish(sink.finish())

    assert_same_rows(table.scan(), [(1, "sf", 10), (2, "sf", 22), (3, "la", 30)])


def test_with_a_record_index_only_the_files_that_hold_keys_are_read(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, key=["id"])
    for row in ROWS:
        table.append(rows(row))
    table.create_record_index()
    handle = table.begin_delete()
    for file in handle.files:
        if handle.page_source(file).get_next_page()["id"].to_pylist() != [3]:
            (tmp_path / file.slice.base.path).write_bytes(b"no parquet")

    ids = handle.row_ids(pa.table({"id": [3, 9]}))

    assert ids.is_valid().to_pylist() == [True, False]


def test_a_key_that_no_row_has_gives_no_row_id(table):
    table.delete("id = 3")
    keys = pa.array([9, 1, None, 3, 2])

    ids = table.begin_delete().row_ids(pa.table({"ID": keys}))

    assert ids.is_valid().to_pylist() == [False, True, False, False, True]


def test_rows_outside_of_what_the_operation_is_about_have_no_row_id(table):
    ids = table.begin_delete("v > 15 and v < 35").row_ids(pa.table({"id": [1, 2, 3, 4]}))

    assert ids.is_valid().to_pylist() == [False, True, True, False]


def test_the_row_ids_are_those_that_page_sources_give(table):
    handle = table.begin_delete()
    pages = [handle.page_source(file).get_next_page() for file in handle.files]
    given = pa.concat_tables(map(pa.table, pages), promote_options="default").combine_chunks()

    found = handle.row_ids(given.select(["id"]))

    assert found.to_pylist() == given.column("_row").to_pylist()


def test_keys_of_several_columns_and_of_other_types_find_their_rows(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"], key=["city", "id"])
    table.append(rows(*ROWS))
    keys = pa.table(
        {"id": pa.array([1.0, 1.0, 3.5], pa.float64()), "city": pa.array(["sf", "la", "la"]).cast("large_string")}
    )

    ids = table.begin_delete().row_ids(keys)

    assert ids.is_valid().to_pylist() == [True, False, False]


def test_a_key_that_several_rows_have_is_refused(table):
    table.append(rows((1, "la", 11)))

    with pytest.raises(InvalidPageError, match=r"several rows have the record key .*1"):
        table.begin_delete().row_ids(pa.table({"id": [2, 1]}))


def test_without_a_record_key_or_its_columns_no_row_is_found_by_it(table, tmp_path):
    keyless = tablespec.create_table(str(tmp_path / "keyless"), SCHEMA)

    with pytest.raises(NoRecordKeyError):
        keyless.begin_delete().row_ids(pa.table({"id": [1]}))
    with pytest.raises(ColumnNotFoundError):
        table.begin_delete().row_ids(pa.table({"v": [1]}))


def test_many_keys_are_found_over_many_files(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, key=["id"])
    for start in range(0, 5_000, 1_000):
        numbers = pa.arange(start, start + 1_000)
        table.append(pa.table({"id": numbers, "city": ["sf"] * 1_000, "v": numbers}, SCHEMA))
    handle = table.begin_delete()
    sink = handle.sink()
    sink.store_merged_rows(going(handle.row_ids(pa.table({"id": pc.multiply(pa.arange(0, 2_500), 2)}))))

    assert handle.finish(sink.finish()).rows_deleted == 2_500

    assert sorted(table.scan(columns=["id"]).to_table()["id"].to_pylist()) == list(range(1, 5_000, 2))
