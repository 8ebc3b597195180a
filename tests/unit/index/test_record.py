"""The record index tells where records lie, and saves time and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    ColumnNotFoundError,
    IndexExistsError,
    NoRecordKeyError,
    TableSpecWarning,
    TypeMismatchError,
    UnsupportedTypeError,
)
from tests.rows import assert_same_rows
from tests.unit.index.conftest import NewTable, data

FIRST = [(1, "a", "one"), (2, "a", "two"), (3, "b", "three")]
SECOND = [(4, "b", "four"), (5, "a", "five")]


def places(table: tablespec.Table, *keys: int | None) -> list[tuple[int | None, int | None, bool]]:
    """For each key its position, and whether it has a file that is there."""
    tagged = table.record_index.tag(pa.table({"id": pa.array(keys, pa.int64())})).to_pylist()
    root = Path(table.url.removeprefix("file://"))
    return [(row["id"], row["position"], row["file"] is not None and (root / row["file"]).exists()) for row in tagged]


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "not indexed"])
def test_tagging_tells_where_each_record_lies(new_table: NewTable, indexed: bool) -> None:
    table = new_table(FIRST, SECOND, key=["id"], partition_by=["kind"])
    if indexed:
        table.create_record_index()

    tagged = table.record_index.tag(pa.table({"id": [5, 99, 3, None, 5]})).to_pylist()

    assert [(row["id"], row["partition"], row["instant"], row["position"]) for row in tagged] == [
        (5, "kind=a", 2, 0),
        (99, None, None, None),
        (3, "kind=b", 1, 0),
        (None, None, None, None),
        (5, "kind=a", 2, 0),
    ]
    assert tagged[0]["file"] == f"kind=a/{tagged[0]['file_group']}.parquet"


def test_deleted_and_moved_records_are_told_as_they_are_now(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND, key=["id"])
    table.create_record_index()

    table.delete("id = 2")
    table.update({"body": "'changed'"}, "id = 4")

    assert places(table, 1, 2, 3, 4, 5) == [(1, 0, True), (2, None, False), (3, 2, True), (4, 0, True), (5, 1, True)]
    index = table.index("record")
    assert (index.coverage().covered, index.coverage().files) == (2, 3)
    assert index.refresh().indexed == 1
    assert places(table, 2, 4) == [(2, None, False), (4, 0, True)]


def test_a_key_of_several_rows_gets_each_of_them(new_table: NewTable) -> None:
    table = new_table([*FIRST, (2, "a", "again")], [(2, "b", "once more")], key=["id"])
    before = places(table, 2, 1, 7)

    table.create_record_index()

    assert sorted(places(table, 2, 1, 7), key=str) == sorted(before, key=str)
    assert [row[:2] for row in sorted(before, key=str)] == [(1, 0), (2, 0), (2, 1), (2, 3), (7, None)]


def test_composite_keys_do_not_run_into_each_other(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.decimal128(6, 2))])
    table = tablespec.create_table(str(tmp_path / "t"), schema, key=["a", "b", "n"])
    table.append(pa.Table.from_pylist([{"a": "x", "b": "yz", "n": 1}, {"a": "xy", "b": "z", "n": 1}], schema=schema))
    table.create_record_index()

    keys = [{"a": "xy", "b": "z", "n": 1}, {"a": "x", "b": "yz", "n": 1}, {"a": "x", "b": "yz", "n": 2}]
    tagged = table.record_index.tag(pa.Table.from_pylist(keys, schema=schema)).column("position").to_pylist()

    assert tagged == [1, 0, None]


def test_filters_by_key_read_only_the_file_that_has_it(new_table: NewTable) -> None:
    table = new_table([(1, "a", "x"), (9, "a", "y")], [(2, "b", "x"), (8, "b", "y")], key=["id"])
    assert len(table.scan("id = 8").slices) == 2
    table.create_record_index()

    assert len(table.scan("id = 8").slices) == 1
    assert len(table.scan("id IN (3, 4)").slices) == 0
    assert [len(one.file_slices) for one in table.file_index.list_files_at(filters="id = 8 AND body = 'y'")] == [1]
    assert_same_rows(table.scan("id IN (8, 9)"), [(9, "a", "y"), (8, "b", "y")])
    assert_same_rows(table.scan("id = 8 AND body = 'x'"), [])


def test_deleted_rows_show_up_in_reads_of_base_files_alone(new_table: NewTable) -> None:
    table = new_table(FIRST, key=["id"])
    table.create_record_index()
    table.delete("id = 2")

    assert_same_rows(table.read_optimized("id = 2"), [(2, "a", "two")])
    assert_same_rows(table.scan("id = 2"), [])


def test_upserts_and_row_changes_go_by_the_index(new_table: NewTable) -> None:
    table = new_table([(number, "a", "old") for number in range(0, 3000, 2)], [(1, "b", "old")], key=["id"])
    table.create_record_index()

    result = table.upsert(data([(number, "c", "new") for number in range(2400)]))
    table.delete("id IN (2998, 2996)")

    assert (result.rows_updated, result.rows_inserted) == (1201, 1199)
    expected = [(number, "c", "new") for number in range(2400)]
    expected += [(number, "a", "old") for number in range(2400, 2996, 2)]
    assert_same_rows(table.scan(), expected)


def test_lost_and_short_files_of_an_index_cost_a_warning(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND, key=["id"])
    table.create_record_index()
    before = places(table, 1, 4, 7)
    (file,) = Path(table.url.removeprefix("file://")).glob("_tablespec/index/record/*.arrow")

    file.write_bytes(file.read_bytes()[:-100])

    with pytest.warns(TableSpecWarning, match="rows are read instead"):
        assert places(table, 1, 4, 7) == before
    file.unlink()
    with pytest.warns(TableSpecWarning, match="is missing"):
        assert_same_rows(table.scan("id = 4"), [(4, "b", "four")])
    with pytest.warns(TableSpecWarning, match="is missing"):
        assert table.index("record").refresh().indexed == 2
    assert places(table, 1, 4, 7) == before


def test_an_index_is_made_once_for_a_key_that_it_can_hold(new_table: NewTable, tmp_path: Path) -> None:
    table = new_table(FIRST, key=["id"])
    table.create_record_index()
    table.create_record_index()
    with pytest.raises(IndexExistsError, match="a record index of id"):
        table.create_text_index(["body"], name="record")

    without = tablespec.create_table(str(tmp_path / "without"), pa.schema([("x", pa.float64())]))
    with pytest.raises(NoRecordKeyError):
        without.create_record_index()
    by_float = tablespec.create_table(str(tmp_path / "float"), pa.schema([("x", pa.float64())]), key=["x"])
    with pytest.raises(UnsupportedTypeError):
        by_float.create_record_index()


def test_many_small_refreshes_end_in_few_segments(new_table: NewTable) -> None:
    table = new_table(FIRST, key=["id"])
    index = table.create_record_index()

    for number in range(100, 120):
        table.append(data([(number, "a", "x")]))
        index.refresh()

    folder = Path(table.url.removeprefix("file://")) / "_tablespec/index/record"
    assert index.coverage().covered == 21
    assert len(list(folder.glob("*.json"))) < 20
    assert [row[1] for row in places(table, 1, 119)] == [0, 0]


def test_keys_come_in_any_form_of_arrow_and_bad_ones_are_refused(new_table: NewTable) -> None:
    table = new_table(FIRST, key=["id"])
    batch = pa.RecordBatch.from_pydict({"id": pa.array([2], pa.int16())})

    assert table.record_index.tag(batch).column("position").to_pylist() == [1]
    assert table.record_index.tag(pa.Table.from_batches([batch]).to_reader()).column("position").to_pylist() == [1]
    with pytest.raises(ColumnNotFoundError, match="the table of keys has no column 'id'"):
        table.record_index.tag(pa.table({"ids": [1]}))
    with pytest.raises(TypeMismatchError):
        table.record_index.tag(pa.table({"id": ["x"]}))
