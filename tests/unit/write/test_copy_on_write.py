"""Files written anew: new versions of rows go into the file of the rows beside them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tablespec
from tablespec import Strategy
from tests.handmade import contents
from tests.rows import assert_same_rows

COPY = Strategy.COPY_ON_WRITE
SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "v": pa.int64()})


@pytest.fixture(params=[[], ["city"]], ids=["one partition", "partitions"])
def table(tmp_path, request):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=request.param, key=["id"])
    made.append(pa.table({"id": [1, 2, 3, 4], "city": ["sf", "sf", "sf", "la"], "v": [0, 0, 0, 0]}, SCHEMA))
    return made


def files(table):
    return sum(len(partition.file_slices) for partition in table.file_index.list_files_at())


@pytest.mark.parametrize(
    "change",
    [
        lambda table, number: table.update({"v": "v + 1"}, f"id = {number}", strategy=COPY),
        lambda table, number: table.upsert(pa.table({"id": [number], "v": [1]}), strategy=COPY),
        lambda table, number: table.merge(
            pa.table({"id": [number]}), "t.id = s.id", tablespec.when_matched_update({"v": "t.v + 1"}), strategy=COPY
        ),
    ],
    ids=["update", "upsert", "merge"],
)
def test_a_table_has_no_more_files_however_often_rows_change(table, change):
    before = files(table)

    results = [change(table, number) for number in (1, 2, 3)]

    assert files(table) == before
    assert [(one.rows_updated, one.rows_copied, one.files_rewritten, one.files_added) for one in results] == [
        (1, results[0].rows_copied, 1, 1)
    ] * 3
    rows = table.scan(columns=[*SCHEMA.names, "_row_commit_version"])
    assert_same_rows(rows, [(1, "sf", 1, 2), (2, "sf", 1, 3), (3, "sf", 1, 4), (4, "la", 0, 1)])


def test_rows_keep_their_ids_and_only_those_that_changed_are_new(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(pa.table({"id": [1, 2, 3], "city": ["sf"] * 3, "v": [0, 0, 0]}, SCHEMA))

    table.update({"v": "7"}, "id = 2", strategy=COPY)

    rows = table.scan(columns=["id", "v", "_row_id", "_row_commit_version"])
    assert_same_rows(rows, [(1, 0, 0, 1), (2, 7, 1, 2), (3, 0, 2, 1)])
    assert_same_rows(table.incremental(1), [(2, "sf", 7)])
    assert_same_rows(
        table.changes(1, columns=["id", "v", "_change_type"]), [(2, 0, "update_preimage"), (2, 7, "update_postimage")]
    )


def test_a_row_that_moves_to_another_partition_has_a_file_there(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(pa.table({"id": [1, 2, 3], "city": ["sf", "sf", "la"], "v": [0, 0, 0]}, SCHEMA))

    table.update({"city": "'la'"}, "id = 1", strategy=COPY)

    assert_same_rows(table.scan(columns=["id", "city", "_row_id"]), [(1, "la", 1), (2, "sf", 2), (3, "la", 0)])
    assert files(table) == 3


def test_the_files_whose_rows_went_into_others_are_not_left_behind(table, tmp_path):
    table.update({"v": "1"}, "id = 1", strategy=COPY)

    stored = {path for path in contents(tmp_path) if path.endswith(".parquet") and "_delta_log" not in path}
    named = {entry.slice.base.path for at in (1, 2) for entry in table.scan(at=at).slices}
    assert stored == named


def test_rows_that_another_client_only_moved_are_no_newer_for_being_copied(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    for ids in ([1], [2, 3]):
        table.append(pa.table({"id": ids, "city": ["sf"] * len(ids), "v": [0] * len(ids)}, SCHEMA))
    DeltaTable(tmp_path).optimize.compact()
    table.append(pa.table({"id": [4], "city": ["sf"], "v": [0]}, SCHEMA))

    table.delete("id = 3", strategy=COPY)

    versions = table.scan(columns=["id", "_row_commit_version"])
    assert_same_rows(versions, [(1, 2), (2, 2), (4, 4)])
    for after in (2, 3):
        assert_same_rows(table.incremental(after, columns=["id"]), [(4,)])
