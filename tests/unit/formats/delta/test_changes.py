"""What the log of a Delta table tells about the changes of rows."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Table
from tablespec.errors import ChangesGoneError
from tablespec.model.change import Images
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, checkpoint_file, commit, commit_file, metadata, protocol
from tests.rows import assert_same_rows
from tests.unit.read.histories import FEED

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string()})
TOLD = ["id", "city", "_change_type", "_commit_version"]
PARTITIONED = pytest.mark.parametrize("partition_by", [[], ["city"]], ids=["", "partitioned"])
VECTORS = {"delta.enableDeletionVectors": "true"}
SHORT = {"allow_short_retention": True}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "city": ["sf"] * len(ids)}, SCHEMA)


def removed(path: str, **given: object) -> dict[str, object]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1, **given}}


# --- a log that was cleaned up ---


def test_changes_are_the_same_after_the_log_was_expired(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.update({"city": "'la'"}, "id = 1", strategy=Strategy.COPY_ON_WRITE)
    table.checkpoint()
    time.sleep(0.05)
    table.set_properties(FEED)
    table.append(rows(5))
    before = table.changes(2, columns=TOLD).to_table()

    expired = table.expire_log(timedelta(milliseconds=10), **SHORT)

    assert len(expired.paths) == 3
    assert_same_rows(
        before,
        [(1, "sf", "update_preimage", 3), (1, "la", "update_postimage", 3), (5, "sf", "insert", 5)],
    )
    assert_same_rows(tablespec.open_table(table.url).changes(2, columns=TOLD), before)


def cut(folder: Path, before: int, checkpoint: int) -> Table:
    """The table, with a checkpoint of one version and without the commits before another."""
    tablespec.open_table(str(folder)).checkpoint()
    assert checkpoint_file(folder, checkpoint).exists()
    for version in range(before):
        commit_file(folder, version).unlink()
    return tablespec.open_table(str(folder))


@pytest.mark.parametrize("strategy", list(Strategy), ids=[one.value for one in Strategy])
def test_changes_under_properties_that_no_log_tells_any_more_are_gone(tmp_path, strategy):
    table = tablespec.create_table(str(tmp_path), SCHEMA, properties=VECTORS)
    table.append(rows(1, 2))
    table.update({"city": "'la'"}, "id = 1", strategy=strategy)
    table.set_properties(FEED)
    table = cut(tmp_path, 2, 3)
    table.append(rows(5))

    with pytest.raises(ChangesGoneError, match=r"version 2 .* properties and columns .* after version 2 can be read"):
        table.changes(1).to_table()
    assert_same_rows(table.changes(2, columns=["id"]), [(5,)])


def test_change_files_under_columns_that_no_log_tells_any_more_are_gone(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, properties=FEED | VECTORS)
    table.append(rows(1, 2))
    table.update({"city": "'la'"}, "id = 1")
    table.set_properties({"owner": "me"})
    table = cut(tmp_path, 2, 3)

    with pytest.raises(ChangesGoneError, match=r"version 2 .*properties and columns"):
        table.changes(1).to_table()


def test_the_first_commit_of_a_log_tells_what_it_added_under_its_own_columns(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(rows(1).append_column("state", pa.array(["ca"])), merge_schema=True)
    table = cut(tmp_path, 1, 1)

    assert_same_rows(table.changes(0, columns=["id", "state"]), [(1, "ca")])


def test_the_first_commit_of_a_log_tells_which_rows_left_files_that_stay_under_its_own_columns(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(rows(1, 2))
    table.update({"city": "'la'"}, "id = 1", strategy=Strategy.MERGE_ON_READ)
    assert actions_of(tmp_path, 2, "metaData")
    table = cut(tmp_path, 2, 2)

    assert_same_rows(
        table.changes(1, columns=["id", "city", "_change_type"]),
        [(1, "sf", "update_preimage"), (1, "la", "update_postimage")],
    )


def test_files_that_went_when_the_columns_became_others_are_gone_where_no_log_tells_the_columns(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata({"x": "long"}), add(tmp_path, "0.parquet", pa.table({"x": [1]})))
    new = add(tmp_path, "1.parquet", pa.table({"x": ["one"]}))
    commit(tmp_path, 1, metadata({"x": "string"}), removed("0.parquet"), new)
    table = cut(tmp_path, 1, 1)

    with pytest.raises(ChangesGoneError, match=r"version 1 .* start after a later version"):
        table.changes(0).to_table()


def test_a_later_checkpoint_tells_the_partition_of_a_file_whose_remove_does_not(tmp_path):
    columns = metadata({"id": "long", "p": "string"}, partition_by=["p"])
    files = [
        add(tmp_path, f"{number}.parquet", pa.table({"id": [number]}), partitionValues={"p": "a"})
        for number in range(2)
    ]
    commit(tmp_path, 0, LEGACY, columns, *files)
    commit(tmp_path, 1, {"commitInfo": {}})
    table = cut(tmp_path, 1, 1)
    commit(tmp_path, 2, removed("0.parquet"))

    assert_same_rows(table.changes(0, columns=["id", "p", "_change_type"]), [(0, "a", "delete")])


def test_a_removed_file_whose_partition_no_log_tells_any_more_is_gone(tmp_path):
    columns = metadata({"id": "long", "p": "string"}, partition_by=["p"])
    old = add(tmp_path, "0.parquet", pa.table({"id": [1]}), partitionValues={"p": "a"})
    commit(tmp_path, 0, LEGACY, columns, old)
    commit(tmp_path, 1, removed("0.parquet"))
    commit(tmp_path, 2, add(tmp_path, "2.parquet", pa.table({"id": [2]}), partitionValues={"p": "b"}))
    table = cut(tmp_path, 1, 2)

    with pytest.raises(ChangesGoneError, match=r"version 1 .* partitions of files .* after version 1 can be read"):
        table.changes(0).to_table()
    assert_same_rows(table.changes(1, columns=["id", "p"]), [(2, "b")])


# --- which rows are images of each other ---


@pytest.mark.parametrize("strategy", list(Strategy), ids=[one.value for one in Strategy])
def test_rows_that_share_a_row_id_are_no_images_of_each_other(tmp_path, strategy):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    path = commit_file(tmp_path, 2)
    path.write_text(path.read_text().replace('"baseRowId":2', '"baseRowId":0'))
    table = tablespec.open_table(str(tmp_path))
    table.update({"city": "'la'"}, "id in (1, 3)", strategy=strategy)

    found = table.changes(2, columns=["id", "city", "_change_type"]).to_table()

    moved = [(2, "sf"), (4, "sf")] if strategy is Strategy.COPY_ON_WRITE else []
    went = [(*row, "delete") for row in [(1, "sf"), (3, "sf"), *moved]]
    came = [(*row, "insert") for row in [(1, "la"), (3, "la"), *moved]]
    assert table.file_index.list_changes_between(2)[0].images is Images.BY_ROW_ID
    assert_same_rows(found, went + came)


@pytest.mark.parametrize(
    ("properties", "info", "images"),
    [
        ({}, {}, Images.BY_VALUE),
        ({}, {"tags": {"delta.rowTracking.preserved": "false"}}, Images.BY_VALUE),
        ({}, {"tags": {"delta.rowTracking.preserved": "true"}}, Images.BY_ROW_ID),
        ({"delta.enableRowTracking": "true"}, {}, Images.BY_ROW_ID),
        ({}, {"tablespec": {"operationId": "1"}}, Images.BY_ROW_ID),
    ],
    ids=["no promise", "a denial", "a tag", "a property", "tablespec"],
)
def test_rows_are_known_by_their_ids_only_where_the_writer_promises_to_keep_them(tmp_path, properties, info, images):
    tracked = protocol(1, 7, writer_features=["rowTracking", "domainMetadata"])
    names = {f"delta.rowTracking.materializedRow{name}ColumnName": f"_row_{name}" for name in ("Id", "CommitVersion")}
    old = add(tmp_path, "0.parquet", pa.table({"id": [1, 2]}), baseRowId=0, defaultRowCommitVersion=0)
    commit(tmp_path, 0, tracked, metadata(properties={**names, **properties}), old)
    new = add(tmp_path, "1.parquet", pa.table({"id": [2, 3]}), baseRowId=2, defaultRowCommitVersion=1)
    gone = removed("0.parquet", baseRowId=0, defaultRowCommitVersion=0)
    commit(tmp_path, 1, {"commitInfo": {"operation": "WRITE", **info}}, gone, new)
    table = tablespec.open_table(str(tmp_path))

    found = table.changes(0, columns=["id", "_change_type"])

    moved = [(2, "delete"), (2, "insert")] if images is Images.BY_ROW_ID else []
    assert [one.images for one in table.file_index.list_changes_between(0)] == [images]
    assert_same_rows(found, [(1, "delete"), (3, "insert"), *moved])


# --- what is no change ---


@pytest.mark.parametrize("deleted", [False, True], ids=["", "with a vector"])
def test_a_file_that_is_removed_and_added_again_as_it_is_has_not_changed(tmp_path, deleted):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(rows(1, 2, 3))
    if deleted:
        table.delete("id = 1")
    version = table.instant().version
    (added,) = actions_of(tmp_path, version, "add")
    vector = {"deletionVector": added["deletionVector"]} if deleted else {}
    again = removed(added["path"], partitionValues={}, size=added["size"], **vector)
    commit(tmp_path, version + 1, {"commitInfo": {"operation": "WRITE"}}, {"add": added}, again)
    table = tablespec.open_table(str(tmp_path))

    assert table.instant().version == version + 1
    assert list(table.file_index.list_changes_between(version)) == []
    assert_same_rows(table.changes(version), [])
    assert table.scan().count() == 3 - deleted


@PARTITIONED
def test_a_remove_of_vectors_that_were_never_added_changes_no_rows(tmp_path, partition_by):
    # As Spark writes them when the feature deletionVectors is dropped.
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=partition_by)
    table.append(rows(1, 2, 3))
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.compact(max_deleted_fraction=0)
    (vectors,) = (tmp_path / "dv").iterdir()
    operation = {"commitInfo": {"operation": "Deletion Vector Tombstones"}}
    tombstone = {"remove": {"path": f"dv/{vectors.name}", "deletionTimestamp": 1, "dataChange": False}}
    version = table.instant().version + 1
    commit(tmp_path, version, operation, tombstone)
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.changes(version - 1), [])
    assert table.changes(0, columns=["id", "_change_type"]).count() == 4
    assert_same_rows(table.incremental(version - 1), [])
    assert_same_rows(table.scan(columns=["id"]), [(2,), (3,)])
    table.delete("id = 2", strategy=Strategy.MERGE_ON_READ)
    assert_same_rows(table.changes(version, columns=["id", "_change_type"]), [(2, "delete")])
    table.checkpoint()
    table.vacuum(timedelta(0), **SHORT)
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(columns=["id"]), [(3,)])
