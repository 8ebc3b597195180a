"""The changes of rows between two instants."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablespec
from tablespec import Table
from tablespec.errors import ChangesGoneError, ColumnNotFoundError, InstantNotFoundError, UnsupportedTableError
from tablespec.model.change import ExplicitChanges, Images, InferredChanges
from tablespec.model.instant import from_millis
from tablespec.model.schema import STRING, Field, Schema
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, add, checkpoint_file, commit, commit_file, metadata, protocol
from tests.rows import assert_same_rows
from tests.unit.read.histories import FEED, applied, history, steps, tuples
from tests.unit.read.measuring import measured

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string()})
ROWS = pa.table({"id": [1, 2, 3, 4], "city": ["sf", "sf", "la", None]}, SCHEMA)
BOTH = pytest.mark.parametrize("strategy", list(Strategy), ids=[one.value for one in Strategy])
FEEDS = pytest.mark.parametrize("properties", [{}, FEED], ids=["no change feed", "change feed"])
TYPED = ["id", "city", "_change_type"]


@pytest.fixture
def table(tmp_path) -> Table:
    """A table of four rows in version 1."""
    table = tablespec.create_table(str(tmp_path / "table"), SCHEMA)
    table.append(ROWS)
    return table


def with_rows(folder: Path, properties: dict[str, str], partition_by: list[str] | None = None) -> Table:
    table = tablespec.create_table(str(folder), SCHEMA, partition_by=partition_by or [], properties=properties)
    table.append(ROWS)
    return table


# --- what commits show ---


def test_an_append_shows_what_it_inserted(table):
    assert_same_rows(
        table.changes(0, columns=TYPED),
        [(1, "sf", "insert"), (2, "sf", "insert"), (3, "la", "insert"), (4, None, "insert")],
    )


@FEEDS
def test_a_delete_by_deletion_vectors_shows_the_rows_that_went(tmp_path, properties):
    table = with_rows(tmp_path, properties)
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.delete("id = 3", strategy=Strategy.MERGE_ON_READ)

    assert_same_rows(table.changes(1, 2, columns=TYPED), [(1, "sf", "delete")])
    assert_same_rows(table.changes(2, 3, columns=TYPED), [(3, "la", "delete")])


def test_a_delete_that_writes_files_anew_shows_the_rows_that_went_and_not_those_that_stay(table):
    table.delete("city = 'sf'", strategy=Strategy.COPY_ON_WRITE)

    assert_same_rows(table.changes(1, columns=TYPED), [(1, "sf", "delete"), (2, "sf", "delete")])


@FEEDS
def test_a_file_that_goes_as_a_whole_shows_the_rows_that_were_left_in_it(tmp_path, properties):
    table = with_rows(tmp_path, properties)
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.delete(None, allow_full_table=True)

    assert_same_rows(table.changes(2, columns=TYPED), [(2, "sf", "delete"), (3, "la", "delete"), (4, None, "delete")])


@BOTH
@FEEDS
def test_an_update_shows_both_images_of_a_row(tmp_path, strategy, properties):
    table = with_rows(tmp_path, properties)
    table.update({"city": "'ny'"}, "id >= 3", strategy=strategy)

    assert_same_rows(
        table.changes(1, columns=TYPED),
        [
            (3, "la", "update_preimage"),
            (3, "ny", "update_postimage"),
            (4, None, "update_preimage"),
            (4, "ny", "update_postimage"),
        ],
    )


@BOTH
@FEEDS
def test_a_row_that_moves_to_another_partition_is_updated(tmp_path, strategy, properties):
    table = with_rows(tmp_path, properties, partition_by=["city"])
    table.update({"city": "'la'"}, "id = 2", strategy=strategy)

    assert_same_rows(table.changes(1, columns=TYPED), [(2, "sf", "update_preimage"), (2, "la", "update_postimage")])


@FEEDS
def test_rows_that_are_only_moved_do_not_change(tmp_path, properties):
    table = with_rows(tmp_path, properties)
    table.append(ROWS)
    table.compact()
    table.cluster(["city"])

    assert latest_operations(table, 2) == ["OPTIMIZE", "OPTIMIZE"]
    assert_same_rows(table.changes(2), [])


def test_rows_that_a_restore_brings_back_are_inserted(table):
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(1)

    assert_same_rows(table.changes(2, columns=TYPED), [(1, "sf", "insert")])


def test_an_update_that_a_restore_takes_back_is_an_update(table):
    table.update({"city": "'ny'"}, "id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(1)

    assert_same_rows(table.changes(2, columns=TYPED), [(1, "ny", "update_preimage"), (1, "sf", "update_postimage")])


def test_rows_that_are_copied_after_a_restore_brought_them_back_have_not_changed(table):
    table.delete("id <= 4")
    table.restore(1)
    table.update({"city": "'ny'"}, "id = 1", strategy=Strategy.COPY_ON_WRITE)

    assert_same_rows(table.changes(3, columns=TYPED), [(1, "sf", "update_preimage"), (1, "ny", "update_postimage")])


def latest_operations(table: Table, after: int) -> list[str]:
    return [entry.operation for entry in reversed(table.history()) if entry.instant.version > after]


# --- when ---


def test_changes_come_in_the_order_of_commits_with_their_versions_and_times(table):
    table.delete("id = 1")
    table.append(ROWS.slice(0, 1))

    found = table.changes(0, columns=["_commit_version", "_commit_timestamp"]).to_table()

    times = {instant.version: from_millis(instant.timestamp) for instant in table.timeline}
    assert found["_commit_version"].to_pylist() == [1, 1, 1, 1, 2, 3]
    assert found["_commit_timestamp"].to_pylist() == [times[version] for version in (1, 1, 1, 1, 2, 3)]
    assert found.schema.field("_commit_timestamp").type == pa.timestamp("us", tz="UTC")


def test_in_commit_timestamps_are_the_times_of_changes_where_they_are_declared(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, profile=tablespec.Profile.STRICT)
    table.append(ROWS)

    found = set(table.changes(0, columns=["_commit_timestamp"]).to_table()["_commit_timestamp"].to_pylist())

    assert found == {table.timeline.at(1).time}


def test_the_first_instant_is_left_out_and_the_last_is_not(table):
    table.delete("id = 1")
    table.delete("id = 2")

    assert_same_rows(table.changes(1, 2, columns=["id"]), [(1,)])
    assert_same_rows(table.changes(2, columns=["id"]), [(2,)])
    assert_same_rows(table.changes(3, columns=["id"]), [])


def test_none_means_from_the_beginning(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "0.parquet", pa.table({"id": [1]})))
    commit(tmp_path, 1, add(tmp_path, "1.parquet", pa.table({"id": [2]})))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.changes(None, columns=["id", "_commit_version"]), [(1, 0), (2, 1)])
    assert_same_rows(table.changes(0, columns=["id", "_commit_version"]), [(2, 1)])


@pytest.mark.parametrize(
    "named",
    [
        lambda table: (table.timeline.at(1), table.timeline.at(2)),
        lambda table: ("1", "2"),
        lambda table: (table.timeline.at(1).time, table.timeline.at(2).time),
        lambda table: (table.timeline.at(1).time.isoformat(), table.timeline.at(2).time.isoformat()),
    ],
    ids=["instants", "texts of versions", "times", "texts of times"],
)
def test_the_ends_are_named_in_any_way(table, named):
    table.delete("id = 1")
    table.delete("id = 2")

    after, upto = named(table)

    assert_same_rows(table.changes(after, upto, columns=["id"]), [(1,)])


def test_a_stretch_that_ends_before_it_begins_is_refused(table):
    with pytest.raises(InstantNotFoundError, match=r"no completed instant after 1 up to 0"):
        table.changes(1, 0)
    with pytest.raises(InstantNotFoundError, match=r"no completed instant after 9 up to 1"):
        table.changes(9)
    with pytest.raises(InstantNotFoundError, match=r"no completed instant after 1 up to 0"):
        table.file_index.list_files_between(1, 0)


def test_a_version_before_the_first_means_from_the_beginning(table):
    assert table.changes(-5).count() == table.changes(None).count() == 4


@pytest.mark.parametrize("after", ["2001-01-01", date(2001, 1, 1), datetime(2001, 1, 1, 12, tzinfo=UTC)], ids=repr)
def test_a_time_before_the_first_commit_means_from_the_beginning(table, after):
    assert table.changes(after).count() == table.incremental(after).count() == 4
    assert [commit.instant.version for commit in table.file_index.list_changes_between(after)] == [1]


def test_a_time_before_a_log_that_was_cleaned_up_is_refused(table):
    table.checkpoint()
    commit_file(local(table), 0).unlink()

    with pytest.raises(InstantNotFoundError, match="no completed instant at or before 2001-01-01"):
        tablespec.open_table(table.url).changes("2001-01-01")


# --- filters and columns ---


@BOTH
@FEEDS
def test_a_filter_is_about_changes_and_leaves_images_what_they_are(tmp_path, strategy, properties):
    table = with_rows(tmp_path, properties, partition_by=["city"])
    table.update({"city": "'ny'"}, "id = 3", strategy=strategy)

    assert_same_rows(table.changes(1, where="city = 'ny'", columns=TYPED), [(3, "ny", "update_postimage")])
    assert_same_rows(table.changes(1, where="city = 'la'", columns=TYPED), [(3, "la", "update_preimage")])


def test_a_filter_may_look_at_what_happened_and_when(table):
    table.delete("id = 1")

    assert_same_rows(table.changes(0, where="_change_type = 'delete'", columns=["id"]), [(1,)])
    assert_same_rows(table.changes(0, where="_commit_version = 1 and id > 2", columns=["id"]), [(3,), (4,)])


def test_columns_come_in_the_order_asked_for(table):
    found = table.changes(0, where="city = 'la'", columns=["_change_type", "id"])

    assert found.schema.names == ("_change_type", "id")
    assert_same_rows(found, [("insert", 3)])
    assert found.count() == 1


def test_changes_without_any_column_are_as_many(table):
    table.delete("id = 1")

    assert table.changes(0, columns=[]).to_table().num_rows == 5


def test_an_unknown_column_is_named(table):
    with pytest.raises(ColumnNotFoundError, match="_change_typ"):
        table.changes(0, columns=["_change_typ"])


def test_a_table_with_a_column_of_such_a_name_is_refused(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"_change_type": pa.string()}))

    with pytest.raises(UnsupportedTableError, match="columns of its own named _change_type"):
        table.changes(0)


def test_changes_can_be_read_again_and_by_anything_that_speaks_arrow(table):
    found = table.changes(0)

    assert found.to_table() == found.to_table() == pa.table(found)
    assert found.schema.names == ("id", "city", "_change_type", "_commit_version", "_commit_timestamp")


# --- tables of others ---


def untracked(folder: Path, before: list[object], after: list[object], **properties: str) -> Table:
    """A table without row ids in which one file was written anew."""
    commit(
        folder,
        0,
        LEGACY,
        metadata({"x": "double"}, properties={key.replace("__", "."): text for key, text in properties.items()}),
        add(folder, "old.parquet", pa.table({"x": pa.array(before, pa.float64())})),
    )
    commit(
        folder,
        1,
        {"remove": {"path": "old.parquet", "dataChange": True, "deletionTimestamp": 1}},
        add(folder, "new.parquet", pa.table({"x": pa.array(after, pa.float64())})),
    )
    return tablespec.open_table(str(folder))


def test_without_row_ids_equal_rows_that_went_and_came_cancel_out_one_by_one(tmp_path):
    nan = float("nan")
    table = untracked(tmp_path, [1.0, 1.0, 1.0, nan, None, 2.0], [nan, None, None, 1.0, 3.0])

    assert_same_rows(
        table.changes(0, columns=["x", "_change_type"]),
        [(1.0, "delete"), (1.0, "delete"), (2.0, "delete"), (None, "insert"), (3.0, "insert")],
    )


def test_equal_rows_cancel_out_however_deep_their_columns_are(tmp_path):
    nested = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    kind = pa.struct([("a", pa.int64())])

    def rows(*values: object) -> pa.Table:
        return pa.table({"id": list(range(len(values))), "s": pa.array(values, kind)})

    old = add(tmp_path, "old.parquet", rows({"a": 1}, {"a": None}, None))
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "s": nested}), old)
    new = add(tmp_path, "new.parquet", rows({"a": 1}, {"a": None}, {"a": None}))
    commit(tmp_path, 1, {"remove": {"path": "old.parquet", "dataChange": True, "deletionTimestamp": 1}}, new)

    changes = tablespec.open_table(str(tmp_path)).changes(0, columns=["id", "s", "_change_type"])

    assert_same_rows(changes, [(2, None, "delete"), (2, {"a": None}, "insert")])


def test_equal_rows_cancel_out_in_years_that_python_does_not_know(tmp_path):
    times = pa.array([1 << 62, -(1 << 62), 0], pa.timestamp("us", "UTC"))
    days = pa.array([1 << 30, -(1 << 30), 0], pa.int32()).view(pa.date32())
    rows = pa.table({"id": [1, 2, 3], "s": pa.StructArray.from_arrays([times, days], ["time", "day"])})
    members = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("time", "timestamp"), ("day", "date"))
    ]
    columns = metadata({"id": "long", "s": {"type": "struct", "fields": members}})
    commit(tmp_path, 0, LEGACY, columns, add(tmp_path, "old.parquet", rows))
    new = add(tmp_path, "new.parquet", rows.slice(1))
    commit(tmp_path, 1, {"remove": {"path": "old.parquet", "dataChange": True, "deletionTimestamp": 1}}, new)

    changes = tablespec.open_table(str(tmp_path)).changes(0, columns=["id", "_change_type"])

    assert_same_rows(changes, [(1, "delete")])


def test_only_columns_asked_for_come_and_all_are_compared(tmp_path):
    columns = {"id": "long", "city": "string"}
    commit(tmp_path, 0, LEGACY, metadata(columns), add(tmp_path, "old.parquet", ROWS))
    changed = pa.table({"id": [1, 2, 3, 4], "city": ["sf", "sf", "la", "ny"]})
    removed = {"remove": {"path": "old.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(tmp_path, 1, removed, add(tmp_path, "new.parquet", changed))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.changes(0, columns=["id", "_change_type"]), [(4, "delete"), (4, "insert")])
    assert table.changes(0, columns=["_change_type"]).count() == 2


def test_with_the_change_feed_on_a_commit_without_change_files_is_taken_by_the_letter(tmp_path):
    table = untracked(tmp_path, [1.0, 2.0], [1.0], delta__enableChangeDataFeed="true")

    assert_same_rows(
        table.changes(0, columns=["x", "_change_type"]), [(1.0, "delete"), (2.0, "delete"), (1.0, "insert")]
    )


def test_a_commit_is_read_under_the_properties_of_its_time(tmp_path):
    untracked(tmp_path, [1.0, 2.0], [1.0])
    commit(tmp_path, 2, metadata({"x": "double"}, properties=FEED))
    again = {"remove": {"path": "new.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(tmp_path, 3, again, add(tmp_path, "newest.parquet", pa.table({"x": [1.0, 3.0]})))

    changes = tablespec.open_table(str(tmp_path)).changes(0, columns=["x", "_change_type", "_commit_version"])

    assert_same_rows(changes, [(2.0, "delete", 1), (1.0, "delete", 3), (1.0, "insert", 3), (3.0, "insert", 3)])


def test_files_that_came_or_went_without_a_change_of_data_show_nothing(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "0.parquet", pa.table({"id": [1]})))
    removed = {"remove": {"path": "0.parquet", "dataChange": False, "deletionTimestamp": 1}}
    commit(tmp_path, 1, removed, add(tmp_path, "1.parquet", pa.table({"id": [1]}), dataChange=False))

    assert_same_rows(tablespec.open_table(str(tmp_path)).changes(0), [])


def test_a_commit_with_change_files_is_told_by_them_alone(tmp_path):
    feed = metadata({"id": "long", "p": "string"}, partition_by=["p"], properties=FEED)
    commit(tmp_path, 0, protocol(1, 7, writer_features=["changeDataFeed"]), feed)
    told = pa.table({"id": [1, 1], "_change_type": ["update_preimage", "update_postimage"], "extra": [0, 0]})
    cdc = add(tmp_path, "_change_data/1.parquet", told, partitionValues={"p": "a"}, dataChange=False)["add"]
    added = add(tmp_path, "1.parquet", pa.table({"id": [1, 2, 3]}), partitionValues={"p": "a"})
    commit(tmp_path, 1, added, {"cdc": cdc})

    changes = tablespec.open_table(str(tmp_path)).changes(0, columns=["id", "p", "_change_type"])

    assert_same_rows(changes, [(1, "a", "update_preimage"), (1, "a", "update_postimage")])


def test_a_stray_change_type_in_a_data_file_is_passed_over(tmp_path):
    stray = pa.table({"id": [1], "_change_type": ["delete"], "__is_cdc": [True]})
    commit(tmp_path, 0, LEGACY, metadata(properties=FEED))
    commit(tmp_path, 1, add(tmp_path, "1.parquet", stray))

    assert_same_rows(tablespec.open_table(str(tmp_path)).changes(0, columns=["id", "_change_type"]), [(1, "insert")])


@pytest.mark.parametrize("after", [None, 0], ids=["added in the stretch", "added before"])
def test_a_removed_file_without_partition_values_has_those_of_its_add(tmp_path, after):
    added = add(tmp_path, "0.parquet", pa.table({"id": [1]}), partitionValues={"p": "a"})
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "p": "string"}, partition_by=["p"]), added)
    commit(tmp_path, 1, {"remove": {"path": "0.parquet", "dataChange": True, "deletionTimestamp": 1}})

    changes = tablespec.open_table(str(tmp_path)).changes(after, where="_commit_version = 1", columns=["id", "p"])

    assert_same_rows(changes, [(1, "a")])


# --- columns that change ---


def test_columns_that_older_files_lack_are_null(table):
    table.add_columns(Schema((Field(name="state", type=STRING),)))
    table.delete("id = 1")

    assert_same_rows(table.changes(1, columns=["id", "city", "state", "_change_type"]), [(1, "sf", None, "delete")])


def mapped(name: str) -> dict[str, object]:
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c1"}
    described = metadata([{"name": name, "type": "long", "nullable": True, "metadata": mapping}])
    described["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    return described


def test_a_renamed_column_has_its_last_name(tmp_path):
    commit(tmp_path, 0, protocol(2, 5), mapped("old"), add(tmp_path, "0.parquet", pa.table({"c1": [1]})))
    commit(tmp_path, 1, mapped("new"))
    commit(tmp_path, 2, {"remove": {"path": "0.parquet", "dataChange": True, "deletionTimestamp": 1}})
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.changes(None, columns=["new", "_change_type"]), [(1, "insert"), (1, "delete")])
    assert_same_rows(table.changes(None, 0, columns=["old", "_change_type"]), [(1, "insert")])


@pytest.mark.parametrize(
    ("described", "told"),
    [
        (metadata({"id": "string", "p": "string"}), "the type long for column id in version 0 and string at the end"),
        (metadata({"id": "long", "p": "string"}, partition_by=["p"]), "other partition columns in version 0"),
    ],
    ids=["type", "partitioning"],
)
def test_a_stretch_in_which_the_table_became_another_is_refused_by_name(tmp_path, described, told):
    rows = pa.table({"id": [1], "p": ["a"]})
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "p": "string"}), add(tmp_path, "0.parquet", rows))
    commit(tmp_path, 1, described, {"remove": {"path": "0.parquet", "dataChange": True, "deletionTimestamp": 1}})
    commit(tmp_path, 2, {"commitInfo": {}})
    table = tablespec.open_table(str(tmp_path))

    with pytest.raises(UnsupportedTableError, match=told):
        table.changes(0).to_table()
    assert_same_rows(table.changes(1), [])


# --- what is gone ---


def test_a_commit_that_was_cleaned_up_is_named_with_the_version_after_which_changes_are_left(table):
    for _ in range(3):
        table.append(ROWS.slice(0, 1))
    table.checkpoint()
    for version in (0, 1, 2):
        commit_file(local(table), version).unlink()

    with pytest.raises(ChangesGoneError, match=r"changes of version 1 .* gone: .*those after version 2 can be read"):
        tablespec.open_table(table.url).changes(0).to_table()
    assert_same_rows(tablespec.open_table(table.url).changes(2, columns=["id"]), [(1,), (1,)])


def test_changes_are_told_without_the_state_before_them(table):
    table.checkpoint()
    commit_file(local(table), 0).unlink()
    assert checkpoint_file(local(table), 1).exists()

    assert_same_rows(tablespec.open_table(table.url).changes(0, columns=["id"]), [(1,), (2,), (3,), (4,)])


def test_a_file_that_was_vacuumed_is_named_with_the_version_after_which_changes_are_left(table):
    table.delete("id = 1", strategy=Strategy.COPY_ON_WRITE)
    table.append(ROWS.slice(0, 1))
    first = json.loads(commit_file(local(table), 1).read_text().splitlines()[-2])["add"]["path"]
    (local(table) / first).unlink()

    with pytest.raises(ChangesGoneError, match=rf"version 1 .*{first} is not there.*those after version 2 can be read"):
        table.changes(0).to_table()
    assert_same_rows(table.changes(2, columns=["id"]), [(1,)])


def local(table: Table) -> Path:
    return Path(table.url.removeprefix("file://"))


# --- listing and tasks ---


def test_the_listing_tells_change_files_or_what_happened_to_base_files(tmp_path):
    table = with_rows(tmp_path, FEED)
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.update({"city": "'ny'"}, "id = 2")

    appended, deleted, updated = table.file_index.list_changes_between(0)

    assert isinstance(appended, InferredChanges) and isinstance(deleted, InferredChanges)
    assert isinstance(updated, ExplicitChanges)
    (came,), (revised,) = appended.slices, deleted.slices
    assert came.before is None
    assert revised.before.base.path == revised.after.base.path == came.after.base.path
    assert (revised.before.deletes, revised.after.deletes.cardinality) == (None, 1)
    assert [file.base.path.split("/")[0] for file in updated.files] == ["_change_data"]
    assert [commit.instant.version for commit in (appended, deleted, updated)] == [1, 2, 3]


def test_the_listing_is_plain_data(table):
    table.update({"city": "'ny'"}, "id = 2")

    listing = table.file_index.list_changes_between(0)

    assert pickle.loads(pickle.dumps(listing)) == listing
    assert len({*listing, *listing}) == 2
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        listing[0].slices = ()


def test_files_without_a_match_are_left_out_unless_images_may_be_in_them(tmp_path):
    table = with_rows(tmp_path, {}, partition_by=["city"])
    table.update({"city": "'ny'"}, "id = 3")

    appended, updated = table.file_index.list_changes_between(0, filters="city = 'ny' or city = 'sf'")

    assert [change.slice.partition_values for change in appended.slices] == [("sf",)]
    assert updated.images is Images.BY_ROW_ID
    assert {change.slice.partition_values for change in updated.slices} == {("la",), ("ny",)}


@FEEDS
def test_tasks_are_plain_data_and_give_all_changes_in_the_order_of_commits(tmp_path, properties):
    table = with_rows(tmp_path, properties, partition_by=["city"])
    table.update({"city": "'ny'"}, "id <= 2")
    table.delete("id = 4")
    scan = table.changes(0)

    tasks = pickle.loads(pickle.dumps(scan.tasks(target_bytes=1)))

    batches = [batch for task in tasks for batch in task.read()]
    assert len(tasks) > 3
    assert all(task.size > 0 for task in tasks)
    assert_same_rows(pa.Table.from_batches(batches), scan)
    versions = [version for batch in batches for version in batch["_commit_version"].to_pylist()]
    assert versions == sorted(versions)


# --- what it costs ---


def test_only_row_groups_with_rows_that_went_are_read(tmp_path):
    text = [f"{number * 7919 % 10007:05d}" * 40 for number in range(5000)]
    rows = pa.table({"id": list(range(5000)), "text": text})
    added = add(tmp_path, "0.parquet", rows)
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=500, compression="none")
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "text": "string"}), added)
    tablespec.open_table(str(tmp_path)).delete("id = 7", strategy=Strategy.MERGE_ON_READ)

    whole = measured(str(tmp_path), lambda table: table.scan())

    assert measured(str(tmp_path), lambda table: table.changes(0)) * 4 < whole
    assert_same_rows(tablespec.open_table(str(tmp_path)).changes(0, columns=["id"]), [(7,)])


def test_nothing_but_the_log_is_read_for_rows_that_only_moved(tmp_path, table):
    table.append(ROWS)
    table.compact()
    log = sum(file.stat().st_size for file in (local(table) / "_delta_log").iterdir())

    assert measured(table.url, lambda again: again.changes(2)) < log


# --- any history ---


@given(given=st.lists(steps(), min_size=1, max_size=6), partitioned=st.booleans(), feed=st.booleans())
def test_a_state_and_the_changes_after_it_make_every_later_state(tmp_path_factory, given, partitioned, feed):
    past = history(tmp_path_factory.mktemp("table"), given, partitioned=partitioned, feed=feed)

    for after, upto in past.windows():
        assert applied(past.rows(after), past.table.changes(after, upto)) == Counter(past.rows(upto))


@given(given=st.lists(steps(), min_size=1, max_size=6), partitioned=st.booleans())
def test_without_a_change_feed_the_changes_of_a_commit_are_those_of_its_row_ids(tmp_path_factory, given, partitioned):
    past = history(tmp_path_factory.mktemp("table"), given, partitioned=partitioned, feed=False)

    for after, step in enumerate(past.commits):
        changes = [row[:4] for row in tuples(past.table.changes(after, after + 1))]
        before, now = identified(past, after), identified(past, after + 1)
        updated = {one for one in before.keys() & now.keys() if before[one][1] != now[one][1]}
        if step != "restore":
            # Rows that only move may get the version of the restore that brought them back; those that change get that of the commit.
            moved = {one for one in updated if now[one][1] <= after}
            assert all(past.commits[now[one][1] - 1] == "restore" for one in moved)
            updated -= moved
        assert_same_rows(changes, changes_by_row_id(before, now, updated))


def identified(past, version: int) -> dict[object, tuple[tuple[object, ...], int]]:
    """The rows of a version with their commit versions, by row id."""
    rows = past.rows(version, "_row_id", "_row_commit_version")
    found = {row_id: (tuple(values), written) for *values, row_id, written in rows}
    assert len(found) == len(rows)
    return found


def changes_by_row_id(before, after, updated) -> list[tuple[object, ...]]:
    changes = [(*before[row_id][0], "delete") for row_id in before.keys() - after.keys()]
    changes += [(*after[row_id][0], "insert") for row_id in after.keys() - before.keys()]
    for row_id in updated:
        changes += [(*before[row_id][0], "update_preimage"), (*after[row_id][0], "update_postimage")]
    return changes


# --- which row a change is about ---


@BOTH
def test_changes_tell_the_row_ids_of_inserts_deletes_and_both_images_where_they_are_named(table, strategy):
    table.append(pa.table({"id": [5], "city": ["ny"]}, SCHEMA))
    table.update({"city": "'sj'"}, "id = 2", strategy=strategy)
    table.delete("id = 3", strategy=strategy)

    found = table.changes(1, columns=["_row_id", "id", "_change_type", "_row_commit_version"])

    assert_same_rows(
        found,
        [
            (4, 5, "insert", 2),
            (1, 2, "update_preimage", 1),
            (1, 2, "update_postimage", 3),
            (2, 3, "delete", 1),
        ],
    )
    assert not {"_row_id", "_row_commit_version"} & {*table.changes(1).schema.names}


def test_a_filter_on_changes_may_ask_for_hidden_columns(table):
    table.update({"city": "'sj'"}, "id <= 2")
    table.delete("id = 3")

    assert_same_rows(
        table.changes(1, where="_ROW_ID = 1", columns=TYPED),
        [(2, "sf", "update_preimage"), (2, "sj", "update_postimage")],
    )
    assert table.changes(1, where="_row_id = 2").count() == 1


def test_the_place_of_a_changed_row_is_that_in_the_file_that_told_it(table):
    file = table.scan("id = 3", columns=["_file"]).to_table()["_file"][0].as_py()
    table.delete("id = 3")

    assert_same_rows(table.changes(1, columns=["_FILE", "_position"]), [(file, 2)])


def test_changes_in_change_files_do_not_tell_which_rows_they_are_about(tmp_path):
    table = with_rows(tmp_path, FEED)
    table.update({"city": "'sj'"}, "id = 2")

    with pytest.raises(UnsupportedTableError, match=r"column _row_id of changes .* change files of version 2"):
        table.changes(1, columns=["id", "_row_id"]).to_table()
    with pytest.raises(UnsupportedTableError, match=r"column _position of changes .* change files of version 2"):
        table.changes(0, where="_position = 1").count()
    assert_same_rows(table.changes(0, 1, columns=["_row_id", "id"]), [(0, 1), (1, 2), (2, 3), (3, 4)])


def test_changes_told_by_equal_rows_do_not_tell_which_of_them_they_are_about(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata({"id": "long"}), add(tmp_path, "a.parquet", pa.table({"id": [1, 1]})))
    gone = {"remove": {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(tmp_path, 1, gone, add(tmp_path, "b.parquet", pa.table({"id": [1]})))
    table = tablespec.open_table(str(tmp_path))

    with pytest.raises(UnsupportedTableError, match=r"column _position of changes .* equal rows of version 1"):
        table.changes(0, columns=["_position"]).to_table()


def test_changes_of_files_without_row_ids_tell_where_rows_lie_and_not_which_they_are(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata({"id": "long"}), add(tmp_path, "a.parquet", pa.table({"id": [1, 2]})))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.changes(None, columns=["id", "_position"]), [(1, 0), (2, 1)])
    with pytest.raises(
        UnsupportedTableError, match=r"column _row_commit_version of changes .* files without commit versions"
    ):
        table.changes(None, columns=["_row_commit_version"]).to_table()


def test_a_column_that_no_change_has_is_refused_with_the_names_alike(table):
    with pytest.raises(ColumnNotFoundError, match="did you mean _row_id"):
        table.changes(1, columns=["_rowid"])


# --- base files only ---


def test_base_files_alone_show_rows_that_were_deleted_and_updated_ones_twice_until_they_are_compacted(table):
    table.update({"city": "'ny'"}, "id = 1", strategy=Strategy.MERGE_ON_READ)
    table.delete("id = 4", strategy=Strategy.MERGE_ON_READ)

    assert_same_rows(table.read_optimized(), [(1, "sf"), (2, "sf"), (3, "la"), (4, None), (1, "ny")])

    table.compact(max_deleted_fraction=0)
    assert_same_rows(table.read_optimized(), [(1, "ny"), (2, "sf"), (3, "la")])
