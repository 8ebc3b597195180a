"""What every verb tells the change feed: our reading and deltalake's, held against the rows that changed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tablespec
from tablespec import Strategy
from tablespec.errors import CommitConflictError
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import Interrupted

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "day": pa.int64()})
COLUMNS = ["id", "city", "day", "_change_type"]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture
def table(tmp_path):
    """Day 1 has a file of four rows, day 2 one of two."""
    feed = {"delta.enableChangeDataFeed": "true"}
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["day"], key=["id"], properties=feed)
    made.append(rows((1, "sf", 1), (2, "la", 1), (3, "ny", 1), (4, None, 1), (5, "sf", 2), (6, "la", 2)))
    return made


def assert_last_commit_tells(table, folder, *expected):
    """Our reading of the changes of the last commit, and deltalake's."""
    version = table.instant().version
    assert_same_rows(table.changes(version - 1, version, columns=COLUMNS), list(expected))
    theirs = pa.table(DeltaTable(str(folder)).load_cdf(starting_version=version, ending_version=version).read_all())
    assert_same_rows(theirs.select(COLUMNS), list(expected))


def change_files(table, folder):
    return actions_of(folder, table.instant().version, "cdc")


# --- every verb by both strategies ---


@both
def test_delete(table, tmp_path, strategy):
    table.delete("id in (2, 5)", strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (2, "la", 1, "delete"), (5, "sf", 2, "delete"))


@both
def test_delete_of_whole_files_beside_parts_of_others(table, tmp_path, strategy):
    table.delete("day = 2 or id = 4", strategy=strategy)

    gone = [(4, None, 1, "delete"), (5, "sf", 2, "delete"), (6, "la", 2, "delete")]
    assert_last_commit_tells(table, tmp_path, *gone)


@both
def test_delete_of_rows_that_turn_out_to_be_all_of_a_file(table, tmp_path, strategy):
    table.delete("id >= 5", strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (5, "sf", 2, "delete"), (6, "la", 2, "delete"))


@both
def test_update(table, tmp_path, strategy):
    table.update({"city": "'x'"}, "id in (1, 6)", strategy=strategy)

    images = [(1, "sf", 1, "update_preimage"), (1, "x", 1, "update_postimage")]
    images += [(6, "la", 2, "update_preimage"), (6, "x", 2, "update_postimage")]
    assert_last_commit_tells(table, tmp_path, *images)


@both
def test_update_that_moves_a_row_to_another_partition(table, tmp_path, strategy):
    table.update({"day": "2"}, "id = 1", strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (1, "sf", 1, "update_preimage"), (1, "sf", 2, "update_postimage"))


@both
def test_merge(table, tmp_path, strategy):
    table.merge(
        rows((1, "new", 1), (2, None, 1), (9, "new", 3)),
        "t.id = s.id",
        tablespec.when_matched_delete("s.city is null"),
        tablespec.when_matched_update(),
        tablespec.when_not_matched_insert(),
        tablespec.when_not_matched_by_source_delete("t.id = 6"),
        strategy=strategy,
    )

    images = [(1, "sf", 1, "update_preimage"), (1, "new", 1, "update_postimage")]
    others = [(2, "la", 1, "delete"), (6, "la", 2, "delete"), (9, "new", 3, "insert")]
    assert_last_commit_tells(table, tmp_path, *images, *others)


@both
def test_upsert(table, tmp_path, strategy):
    table.upsert(rows((6, "x", 2), (7, "y", 2)), strategy=strategy)

    images = [(6, "la", 2, "update_preimage"), (6, "x", 2, "update_postimage")]
    assert_last_commit_tells(table, tmp_path, *images, (7, "y", 2, "insert"))


@both
def test_replace_where_on_partitions(table, tmp_path, strategy):
    table.replace_where("day = 2", rows((7, "x", 2)), strategy=strategy)

    gone = [(5, "sf", 2, "delete"), (6, "la", 2, "delete")]
    assert_last_commit_tells(table, tmp_path, *gone, (7, "x", 2, "insert"))


@both
def test_replace_where_on_data_columns(table, tmp_path, strategy):
    table.replace_where("id >= 4", rows((8, "x", 2), (9, None, 3)), data_columns=True, strategy=strategy)

    gone = [(4, None, 1, "delete"), (5, "sf", 2, "delete"), (6, "la", 2, "delete")]
    assert_last_commit_tells(table, tmp_path, *gone, (8, "x", 2, "insert"), (9, None, 3, "insert"))


@both
def test_replace_using(table, tmp_path, strategy):
    table.replace_using(["city"], rows((8, "la", 1)), strategy=strategy)

    gone = [(2, "la", 1, "delete"), (6, "la", 2, "delete")]
    assert_last_commit_tells(table, tmp_path, *gone, (8, "la", 1, "insert"))


@both
def test_overwrite_partitions(table, tmp_path, strategy):
    table.overwrite_partitions(rows((8, "la", 2)), strategy=strategy)

    gone = [(5, "sf", 2, "delete"), (6, "la", 2, "delete")]
    assert_last_commit_tells(table, tmp_path, *gone, (8, "la", 2, "insert"))


# --- files that have deleted rows already ---


@both
def test_a_file_with_deleted_rows_that_goes_tells_the_others(table, tmp_path, strategy):
    table.delete("id = 2")

    table.delete("day = 1", strategy=strategy)

    assert_last_commit_tells(
        table, tmp_path, *((id_, city, 1, "delete") for id_, city in ((1, "sf"), (3, "ny"), (4, None)))
    )


@both
def test_the_rest_of_a_file_with_deleted_rows_goes(table, tmp_path, strategy):
    table.delete("id = 5")

    table.delete("id = 6", strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (6, "la", 2, "delete"))


@both
def test_more_rows_go_from_a_file_with_deleted_rows(table, tmp_path, strategy):
    table.delete("id = 2")

    table.delete("id = 3", strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (3, "ny", 1, "delete"))


@both
def test_a_replaced_partition_with_deleted_rows_tells_what_comes_too(table, tmp_path, strategy):
    table.delete("id = 5")

    table.replace_where("day = 2", rows((7, "x", 2)), strategy=strategy)

    assert_last_commit_tells(table, tmp_path, (6, "la", 2, "delete"), (7, "x", 2, "insert"))


@pytest.mark.parametrize("then", [0, 1, 2, 3])
def test_restore_tells_what_went_and_came(table, tmp_path, then):
    states = {0: {}, 1: {1: "sf", 2: "la", 3: "ny", 4: None, 5: "sf", 6: "la"}}
    table.delete("id in (2, 5)")
    states[2] = {1: "sf", 3: "ny", 4: None, 6: "la"}
    table.delete("day = 2")
    states[3] = {1: "sf", 3: "ny", 4: None}
    table.append(rows((7, "x", 1)))
    table.delete("id = 3 or id = 7")
    now = {1: "sf", 4: None}

    table.restore(then)

    told = [(id_, city, 2 if id_ in (5, 6) else 1, "delete") for id_, city in now.items() if id_ not in states[then]]
    told += [(id_, city, 2 if id_ in (5, 6) else 1, "insert") for id_, city in states[then].items() if id_ not in now]
    assert_last_commit_tells(table, tmp_path, *told)


# --- what is not written ---


@pytest.mark.parametrize(
    "verb",
    [
        lambda table: table.delete("day = 2"),
        lambda table: table.replace_where("day = 2", rows((7, "x", 2))),
        lambda table: table.delete("id = 1", strategy=Strategy.MERGE_ON_READ),
        lambda table: table.append(rows((7, "x", 2))),
        lambda table: table.restore(0),
    ],
    ids=["drop", "replace", "vector", "append", "restore"],
)
def test_files_and_vectors_that_tell_it_all_need_no_change_files(table, tmp_path, verb):
    verb(table)

    assert change_files(table, tmp_path) == []
    assert not (tmp_path / "_change_data").exists()


def test_a_dropped_partition_is_not_read(table, tmp_path):
    for file in (tmp_path / "day=2").iterdir():
        file.write_bytes(b"")

    assert table.delete("day = 2", strategy=Strategy.COPY_ON_WRITE).rows_deleted == 2


@both
def test_without_the_feed_nothing_is_recorded(tmp_path, strategy):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["day"])
    table.append(rows((1, "sf", 1), (2, "la", 1)))

    table.delete("id = 1", strategy=strategy)
    table.delete("day = 1", strategy=strategy)

    assert not (tmp_path / "_change_data").exists()


@both
@pytest.mark.parametrize(
    "verb",
    [
        lambda table, how: table.delete("id = 1 or id = 5", **how),
        lambda table, how: table.update({"city": "'x'"}, "id = 1", **how),
        lambda table, how: table.replace_where("id = 1", rows((1, "x", 1)), data_columns=True, **how),
    ],
    ids=["delete", "update", "replace_where"],
)
def test_a_conflict_leaves_no_data_and_no_change_files(table, tmp_path, strategy, verb):
    def other():
        tablespec.open_table(str(tmp_path)).delete("id = 1")

    with pytest.raises(CommitConflictError):
        verb(table, {"strategy": strategy, "runner": Interrupted(other)})

    left = [path for path in contents(tmp_path) if path.endswith(".parquet")]
    assert len(left) == 2


# --- what other writers know and we do not write ---


@both
def test_rows_of_an_empty_text_partition_keep_it_when_others_of_their_file_change(tmp_path, strategy):
    theirs = pa.table({"id": [1, 2, 3], "p": ["", "", ""], "n": [10, 20, 30]})
    write_deltalake(str(tmp_path), theirs, partition_by=["p"], configuration={"delta.enableChangeDataFeed": "true"})
    table = tablespec.open_table(str(tmp_path))

    table.delete("id = 1", strategy=strategy)
    table.update({"p": "'moved'"}, "id = 2", strategy=strategy)

    assert_same_rows(table.scan(), [(2, "moved", 20), (3, "", 30)])
    assert_same_rows(
        table.changes(0, columns=["id", "p", "n", "_change_type"]),
        [(1, "", 10, "delete"), (2, "", 20, "update_preimage"), (2, "moved", 20, "update_postimage")],
    )
