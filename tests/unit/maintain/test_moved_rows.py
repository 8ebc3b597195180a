"""Rows that other clients moved without keeping their commit versions, once they are moved again."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tablespec
from tablespec.formats.base import Profile
from tests.handmade import LEGACY, actions_of, add, commit, commit_file, metadata
from tests.unit.maintain.tables import SCHEMA, append, data_files, new_table, tracked_rows

MOVES = {
    "not moved": lambda table: None,
    "compacted": lambda table: table.compact(),
    "clustered": lambda table: table.cluster(["id"]),
    "moved twice": lambda table: (table.compact(), table.cluster(["id"])),
}


@pytest.fixture(params=MOVES.values(), ids=MOVES)
def move(request):
    return request.param


def compacted_by_another(folder):
    """Compact by a client that keeps no commit versions, and give the version of that."""
    other = DeltaTable(str(folder))
    other.optimize.compact()
    return other.version()


def ids(scan):
    return sorted(row["id"] for row in scan.to_table().to_pylist())


def versions(table):
    return {row[0]: row[-1] for row in tracked_rows(table)}


def test_rows_that_another_client_only_moved_are_as_new_as_the_newest_of_their_files(tmp_path, move):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    compacted_by_another(tmp_path)
    append(table, (4, "sf", 1))

    move(table)

    assert ids(table.incremental(1)) == [1, 2, 4]
    assert ids(table.incremental(2)) == [4]
    assert ids(table.incremental(3)) == [4]


def test_each_partition_has_rows_as_new_as_its_own_files(tmp_path, move):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (11, "sf", 2))
    append(table, (2, "sf", 1), (12, "sf", 2))
    append(table, (13, "sf", 2))
    compacted_by_another(tmp_path)
    append(table, (4, "sf", 1), (14, "sf", 2))

    move(table)

    assert ids(table.incremental(2)) == [4, 11, 12, 13, 14]
    assert ids(table.incremental(3)) == [4, 14]


def test_rows_that_another_client_moved_again_and_again_stay_as_new_as_they_were(tmp_path, move):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    compacted_by_another(tmp_path)
    append(table, (4, "sf", 1))
    compacted_by_another(tmp_path)
    append(table, (6, "sf", 1))
    last = compacted_by_another(tmp_path)
    append(table, (8, "sf", 1))

    move(table)

    assert last == 7
    assert ids(table.incremental(5)) == [1, 2, 4, 6, 8]
    assert ids(table.incremental(6)) == [8]
    assert ids(table.incremental(7)) == [8]


def test_rows_that_another_client_moved_out_of_our_compaction_are_as_new_as_before_it(tmp_path, move):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    table.compact()
    append(table, (4, "sf", 1))
    compacted_by_another(tmp_path)
    append(table, (6, "sf", 1))

    move(table)

    assert ids(table.incremental(3)) == [1, 2, 4, 6]
    assert ids(table.incremental(4)) == [6]


def test_files_that_another_client_brought_back_have_rows_as_new_as_that(tmp_path, move):
    table = new_table(tmp_path)
    rows = pa.table({"id": [1], "city": ["sf"]})
    file = add(tmp_path, "day=1/1.parquet", rows, partitionValues={"day": "1"})
    commit(tmp_path, 1, file)
    commit(tmp_path, 2, {"remove": {"path": "day=1/1.parquet", "dataChange": True, "deletionTimestamp": 1}})
    append(table, (3, "sf", 1))
    commit(tmp_path, 4, file)

    move(table)

    assert ids(table.incremental(2)) == [1, 3]
    assert ids(table.incremental(3)) == [1]
    assert ids(table.incremental(4)) == []


def older_than_the_log(folder):
    """A table whose log begins with a checkpoint at version 3, up to which another client compacted, and row 4 after that."""
    table = new_table(folder)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    compacted_by_another(folder)
    table.checkpoint()
    append(table, (4, "sf", 1))
    for version in range(4):
        commit_file(folder, version).unlink()
    return tablespec.open_table(str(folder))


@pytest.mark.parametrize("by", ["compacted", "clustered"])
def test_rows_of_files_that_are_older_than_the_log_get_version_0(tmp_path, by):
    table = older_than_the_log(tmp_path)

    MOVES[by](table)

    assert versions(table) == {1: 0, 2: 0, 4: 4}


def test_rows_of_files_that_are_older_than_the_log_are_not_new(tmp_path, move):
    table = older_than_the_log(tmp_path)

    move(table)

    assert ids(table.incremental(3)) == [4]


def test_rows_of_files_that_are_older_than_the_log_are_not_new_where_another_client_moved_them_since(tmp_path, move):
    table = older_than_the_log(tmp_path)
    compacted_by_another(tmp_path)
    append(table, (6, "sf", 1))

    move(table)

    assert ids(table.incremental(3)) == [1, 2, 4, 6]
    assert ids(table.incremental(4)) == [6]


def test_a_file_that_comes_from_none_that_the_log_tells_of_has_rows_of_version_0(tmp_path):
    moved = add(tmp_path, "b.parquet", pa.table({"id": [1]}), dataChange=False)
    gone = {"remove": {"path": "a.parquet", "dataChange": False, "deletionTimestamp": 1}}
    commit(tmp_path, 0, LEGACY, metadata())
    commit(tmp_path, 1, gone, moved)
    commit(tmp_path, 2, add(tmp_path, "c.parquet", pa.table({"id": [2]})))
    table = tablespec.open_table(str(tmp_path))
    table.set_properties({"x": "y"})

    assert table.format.newest_rows(frozenset({"b.parquet", "c.parquet", "d.parquet"})) == {
        "b.parquet": 0,
        "c.parquet": 2,
    }


# --- rows that a restore of ours brought back ---


def moved_as_the_protocol_says(folder, table):
    """What an OPTIMIZE of another client does that moves the rows of day 1 with their ids and commit versions."""
    properties, version = table.properties, table.instant().version + 1
    rows = table.scan(columns=["id", "city", "_row_id", "_row_commit_version"]).to_table()
    hidden = (
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    )
    named = rows.rename_columns(["id", "city", *(properties[name] for name in hidden)])
    given = {"partitionValues": {"day": "1"}, "baseRowId": 1000, "defaultRowCommitVersion": version}
    new = add(folder, "day=1/moved.parquet", named, dataChange=False, **given)
    gone = [
        {"path": path, "partitionValues": {"day": "1"}, "dataChange": False, "deletionTimestamp": 1}
        for path in sorted(data_files(table))
    ]
    info = {"operation": "OPTIMIZE", "tags": {"delta.rowTracking.preserved": "true"}}
    commit(folder, version, {"commitInfo": info}, *({"remove": one} for one in gone), new)


def test_rows_that_our_restore_brought_back_stay_new_where_another_client_moves_them_with_old_versions(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "sf", 1))
    table.delete("id < 3")
    append(table, (9, "sf", 1))
    restored = table.restore(1).instant.version
    append(table, (10, "sf", 1))

    moved_as_the_protocol_says(tmp_path, table)

    assert "tablespec.returned" in actions_of(tmp_path, restored, "add")[0]["tags"]
    table = tablespec.open_table(str(tmp_path))
    assert versions(table) == {1: 1, 2: 1, 10: 5}
    assert ids(table.incremental(restored - 1)) == [1, 2, 10]


def test_rows_that_came_back_to_their_own_file_stay_new_where_another_client_moves_them(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["day"], profile=Profile.STRICT)
    append(table, (1, "sf", 1), (2, "sf", 1), (3, "sf", 1))
    table.delete("id = 1")
    append(table, (9, "sf", 1))
    table.restore(1)
    append(table, (10, "sf", 1))

    moved_as_the_protocol_says(tmp_path, table)

    assert ids(tablespec.open_table(str(tmp_path)).incremental(3)) == [1, 2, 3, 10]
