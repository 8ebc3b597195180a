import json
import random

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tablespec
from tablespec.errors import CommitConflictError, DataFileMissingError, InstantNotFoundError, UnsupportedTableError
from tablespec.formats.base import Profile
from tablespec.model.schema import DOUBLE, Field, Schema
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, commit, contents, field, metadata, protocol, versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import (
    SCHEMA,
    Interrupted,
    append,
    data_files,
    deltalake_rows,
    new_table,
    tracked_rows,
    vector_files,
)

FARE = Schema((Field(name="fare", type=DOUBLE),))


@pytest.fixture
def table(tmp_path):
    """Version 1 adds three rows, 2 adds two, 3 deletes row 12 by a vector, 4 row 2 too, 5 adds a column, 6 removes day 2."""
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "la", 1), (3, "ny", 2))
    append(table, (11, "sf", 1), (12, "la", 1))
    table.delete("id = 12")
    table.delete("id = 2")
    table.add_columns(FARE)
    table.delete("day = 2")
    return table


def mark_of(folder, version):
    (action,) = [one for one in actions_of(folder, version, "domainMetadata") if one["domain"] == "delta.rowTracking"]
    return json.loads(action["configuration"])["rowIdHighWaterMark"]


@pytest.mark.parametrize("version", range(7))
def test_every_version_comes_back_with_its_rows_ids_and_columns(table, version):
    expected, schema = tracked_rows(table, version), table.schema_at(version)

    table.restore(version)

    assert table.schema == schema
    assert_same_rows(tracked_rows(table), expected)


@pytest.mark.parametrize("version", range(7))
def test_a_restored_table_goes_back_again(table, version):
    expected = tracked_rows(table)
    table.restore(version)

    table.restore(6)

    assert_same_rows(tracked_rows(table), expected)


@pytest.mark.parametrize("version", range(1, 5))
def test_other_clients_read_the_restored_rows(table, tmp_path, version):
    expected = deltalake_rows(tmp_path, version)

    table.restore(version)

    assert_same_rows(deltalake_rows(tmp_path), expected)


def test_files_come_back_with_the_deleted_rows_of_then(table):
    vectors = vector_files(table, 3)

    table.restore(3)

    assert vector_files(table) == vectors


def test_the_result_and_the_commit_tell_the_same_numbers(table, tmp_path):
    result = table.restore(1)

    (info,) = actions_of(tmp_path, result.instant.version, "commitInfo")
    assert (result.version, result.files_removed, result.files_restored, result.files) == (1, 2, 2, 2)
    assert result.bytes == sum((tmp_path / path).stat().st_size for path in data_files(table))
    assert info["operation"] == "RESTORE"
    assert info["operationParameters"] == {"version": "1"}
    assert info["operationMetrics"] == {name: str(value) for name, value in result.metrics}


def test_nothing_is_written_when_the_table_is_as_it_was(table, tmp_path):
    before = contents(tmp_path)

    result = table.restore(6)

    assert (result.instant, result.files_removed, result.files_restored) == (None, 0, 0)
    assert contents(tmp_path) == before


def test_a_version_that_is_not_there_is_refused(table):
    with pytest.raises(InstantNotFoundError):
        table.restore(7)


def test_a_needed_file_that_is_gone_is_named_and_nothing_changes(table, tmp_path):
    (gone,) = [one.slice.base.path for one in table.scan("day = 2", at=5).slices]
    (tmp_path / gone).unlink()
    before = contents(tmp_path)

    with pytest.raises(DataFileMissingError) as caught:
        table.restore(5)
    assert caught.value.path == gone
    assert contents(tmp_path) == before


def test_a_needed_deletion_vector_that_is_gone_is_named(table, tmp_path):
    (gone,) = vector_files(table, 3)
    table.compact(max_deleted_fraction=0)
    (tmp_path / gone).unlink()

    with pytest.raises(DataFileMissingError) as caught:
        table.restore(3)
    assert caught.value.path == gone


def test_a_file_that_the_restored_state_does_not_need_may_be_gone(table, tmp_path):
    (gone,) = [one.slice.base.path for one in table.scan("day = 2", at=5).slices]
    table.restore(6)
    append_wide(table, 31)
    (tmp_path / gone).unlink()

    table.restore(6)

    assert_same_rows(table.scan(columns=["id"]), [(1,), (11,)])


# --- what stays ---


def test_row_ids_are_never_handed_out_again(table, tmp_path):
    given = {row[-2] for version in range(7) for row in tracked_rows(table, version)}

    table.restore(1)
    append(table, (41, "sf", 1))

    new = {row[-2] for row in tracked_rows(table) if row[0] == 41}
    assert new.isdisjoint(given)
    assert mark_of(tmp_path, versions_of(tmp_path)[-1]) > max(given)


def test_the_mark_of_row_ids_does_not_fall_where_other_clients_dropped_it(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1), (3, "sf", 1))
    for version in (1, 2):
        lines = [line for line in commit_lines(tmp_path, version) if "domainMetadata" not in line]
        commit(tmp_path, version, *lines)
    table = tablespec.open_table(str(tmp_path))

    version = table.restore(1).instant.version

    assert mark_of(tmp_path, version) == 2


def test_the_protocol_never_goes_back(table, tmp_path):
    before = table.info.protocol

    version = table.restore(0).instant.version

    assert "deletionVectors" in dict(before)["features"]
    assert table.info.protocol == before
    assert actions_of(tmp_path, version, "protocol") == []


def test_properties_go_back_but_for_those_that_features_need(tmp_path):
    table = new_table(tmp_path, delta__checkpointInterval="5", x="then")
    append(table, (1, "sf", 1), (2, "sf", 1))
    then = table.properties
    table.set_properties({"delta.checkpointInterval": None, "x": "now", "y": "now"})
    table.delete("id = 1")

    table.restore(1)

    assert table.properties == {**then, "delta.enableDeletionVectors": "true"}


def test_constraints_of_later_go_with_the_other_properties(table):
    table.restore(6)
    table.add_constraint("small", "id < 100")

    table.restore(6)
    append_wide(table, 1000)

    assert_same_rows(table.scan(columns=["id"]), [(1,), (11,), (1000,)])


def test_columns_that_were_mapped_since_are_found_in_old_files(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "la", 2))
    table.set_properties({"delta.columnMapping.mode": "name"})
    table.add_columns(FARE)
    ids = {one.name: one.field_id for one in table.schema}

    table.restore(1)

    assert_same_rows(table.scan(), [(1, "sf", 1), (2, "la", 2)])
    assert {one.name: one.field_id for one in table.schema} == {name: ids[name] for name in SCHEMA.names}
    append(table, (3, "ny", 1))
    assert_same_rows(deltalake_rows(tmp_path), [(1, "sf", 1), (2, "la", 2), (3, "ny", 1)])


def test_a_version_whose_columns_were_mapped_otherwise_is_refused(tmp_path):
    asks = protocol(3, 7, reader_features=["columnMapping"])
    mapping = {"delta__columnMapping__id": 1, "delta__columnMapping__physicalName": "col-1"}
    mapped = metadata([field("id", "long", **mapping)], properties={"delta.columnMapping.mode": "name"})
    commit(tmp_path, 0, asks, mapped, add(tmp_path, "a.parquet", pa.table({"col-1": [1]})))
    plain = add(tmp_path, "b.parquet", pa.table({"id": [1]}))
    commit(tmp_path, 1, metadata(), {"remove": {"path": "a.parquet", "dataChange": True}}, plain)

    with pytest.raises(UnsupportedTableError, match="column mapping name at version 0 and none now"):
        tablespec.open_table(str(tmp_path)).restore(0)


def test_partition_columns_of_then_come_back(tmp_path):
    columns = {"id": "long", "p": "string"}
    flat = add(tmp_path, "a.parquet", pa.table({"id": [1], "p": ["x"]}))
    commit(tmp_path, 0, LEGACY, metadata(columns), flat)
    parted = add(tmp_path, "p=x/b.parquet", pa.table({"id": [1]}), partitionValues={"p": "x"})
    gone = {"remove": {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(tmp_path, 1, metadata(columns, partition_by=["p"]), gone, parted)
    table = tablespec.open_table(str(tmp_path))

    table.restore(0)

    assert table.partition_columns == ()
    assert_same_rows(table.scan(), [(1, "x")])


def test_a_strict_table_is_restored_with_what_it_declares(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["day"], profile=Profile.STRICT)
    append(table, (1, "sf", 1), (2, "la", 1))
    expected, properties = tracked_rows(table), table.properties
    table.delete("id = 1")

    table.restore(1)

    assert_same_rows(tracked_rows(table), expected)
    assert table.properties == {**properties, "delta.enableDeletionVectors": "true"}


# --- what readers of changes see ---


def test_rows_that_come_back_are_new_to_incremental_reads(table):
    version = table.restore(1).instant.version

    assert_same_rows(table.incremental(version - 1), [(2, "la", 1), (3, "ny", 2)])


def test_the_change_feed_shows_what_a_restore_did(tmp_path):
    table = new_table(tmp_path, delta__enableChangeDataFeed="true")
    append(table, (1, "sf", 1), (2, "la", 2))
    table.delete("id = 2")
    append(table, (3, "ny", 1))

    version = table.restore(1).instant.version

    changed = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=version).read_all())
    rows = changed.select(["id", "_change_type"]).to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in rows) == [(2, "insert"), (3, "delete")]
    told = table.changes(version - 1).to_table().select(["id", "_change_type"]).to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in told) == [(2, "insert"), (3, "delete")]


@pytest.mark.parametrize(("before", "then"), [("false", "true"), ("true", "false"), ("true", "true")], ids=str)
def test_the_change_feed_shows_a_restore_that_turns_it_on_or_off(tmp_path, before, then):
    table = new_table(tmp_path, delta__enableChangeDataFeed=then, x="y")
    append(table, (1, "sf", 1), (2, "la", 1))
    table.set_properties({"delta.enableChangeDataFeed": before, "x": None})
    append(table, (3, "sf", 1), (4, "la", 1), (5, "ny", 1))
    table.delete("id = 4", strategy=Strategy.MERGE_ON_READ)

    version = table.restore(1).instant.version

    assert table.properties["delta.enableChangeDataFeed"] == then
    told = table.changes(version - 1).to_table().select(["id", "_change_type"]).to_pylist()
    assert sorted((row["id"], row["_change_type"]) for row in told) == [(3, "delete"), (5, "delete")]
    if then == "true":
        changed = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=version).read_all())
        rows = changed.select(["id", "_change_type"]).to_pylist()
        assert sorted((row["id"], row["_change_type"]) for row in rows) == [(3, "delete"), (5, "delete")]


def retyped(folder, *values):
    """A table with the change feed on, whose `id` another client made a long with other rows; one is deleted by a vector."""
    feed = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    features = ["changeDataFeed", "deletionVectors"]
    asked = protocol(3, 7, reader_features=["deletionVectors"], writer_features=features)
    old = add(folder, "a.parquet", pa.table({"id": pa.array([1, 2], pa.int32())}))
    commit(folder, 0, asked, metadata({"id": "integer"}, properties=feed), old)
    gone = {"remove": {"path": "a.parquet", "dataChange": True, "deletionTimestamp": 1}}
    new = add(folder, "b.parquet", pa.table({"id": pa.array(values, pa.int64())}))
    commit(folder, 1, metadata({"id": "long"}, properties=feed), gone, new)
    table = tablespec.open_table(str(folder))
    table.delete(f"id = {values[0]}")
    return table


def test_the_change_feed_shows_a_restore_to_other_types_where_the_values_fit(tmp_path):
    table = retyped(tmp_path, 11, 12, 13)

    version = table.restore(0).instant.version

    assert_same_rows(table.scan(), [(1,), (2,)])
    changed = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=version).read_all())
    rows = changed.select(["id", "_change_type"]).to_pylist()
    expected = [(1, "insert"), (2, "insert"), (12, "delete"), (13, "delete")]
    assert sorted((row["id"], row["_change_type"]) for row in rows) == expected


def test_a_restore_to_types_in_which_the_change_feed_cannot_tell_it_is_refused_with_a_way_out(tmp_path):
    table = retyped(tmp_path, 11, 12, 1 << 40)
    before = contents(tmp_path)

    with pytest.raises(UnsupportedTableError, match=r"other types \(column id\) of version 0.* to false") as caught:
        table.restore(0)

    assert "cannot tell of a restore" in str(caught.value)
    assert contents(tmp_path) == before
    table.set_properties({"delta.enableChangeDataFeed": "false"})
    table.restore(0)
    assert_same_rows(table.scan(), [(1,), (2,)])


def test_a_change_feed_that_cannot_tell_the_restore_that_would_turn_it_on_stays_off(tmp_path):
    table = retyped(tmp_path, 11, 12, 1 << 40)
    then = table.properties
    table.set_properties({"delta.enableChangeDataFeed": "false"})

    version = table.restore(0).instant.version

    assert table.properties == {**then, "delta.enableChangeDataFeed": "false"}
    assert actions_of(tmp_path, version, "cdc") == []


# --- others at work ---


@pytest.mark.parametrize(
    "other",
    [
        lambda table: append_wide(table, 31),
        lambda table: table.delete("id = 1", strategy=Strategy.MERGE_ON_READ),
        lambda table: table.set_properties({"x": "y"}),
    ],
    ids=["append", "delete", "properties"],
)
def test_whoever_changes_the_table_meanwhile_is_a_conflict(table, other):
    with pytest.raises(CommitConflictError):
        table.restore(1, runner=Interrupted(lambda: other(table)))


def test_a_random_history_can_be_restored_at_every_version(tmp_path):
    choose = random.Random(11)
    table = new_table(tmp_path)
    for number in range(12):
        match choose.randrange(4):
            case 0:
                table.delete(f"id < {number // 2}")
            case 1:
                table.compact(max_deleted_fraction=0)
            case 2:
                table.update({"city": f"'c{number}'"}, f"id = {choose.randrange(number + 1)}")
            case _:
                append(table, (number, "sf", number % 2), (number + 100, None, 1 - number % 2))
    states = {version: tracked_rows(table, version) for version in versions_of(tmp_path)}
    order = list(states)
    choose.shuffle(order)

    for version in order:
        table.restore(version)
        assert_same_rows(tracked_rows(table), states[version])
        assert_same_rows(deltalake_rows(tmp_path), [row[:3] for row in states[version]])


def append_wide(table, number):
    """Add a row to the table with the column of later."""
    wide = pa.schema([*SCHEMA, ("fare", pa.float64())])
    table.append(pa.Table.from_pylist([{"id": number, "city": "sf", "day": 1, "fare": 0.5}], wide))


def commit_lines(folder, version):
    path = folder / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in path.read_text().splitlines()]
