import json
import warnings
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import ProtocolUpgradeNeededError, ProtocolVersionError, TableSpecWarning
from tablespec.formats.delta.actions import ProtocolAction
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.delta.protocol import FEATURES, check_readable, check_writable, features_of, upgraded
from tablespec.model.schema import LONG, TIMESTAMP_NTZ, Field, Schema
from tablespec.table import Table
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, checkpoint_file, commit, contents, field, metadata, protocol
from tests.rows import assert_same_rows
from tests.storages import CountingStorage

NOTHING = frozenset()
ONE = pa.table({"id": [1]})
TWO = pa.table({"id": [2]})
NEVER = datetime(2100, 1, 1, tzinfo=UTC)

READS = {
    "scan": lambda table: table.scan().to_table(),
    "a filtered scan": lambda table: table.scan("id > 0").to_table(),
    "read optimized": lambda table: table.read_optimized().to_table(),
    "count": lambda table: table.scan().count(),
    "tasks": lambda table: table.scan().tasks(),
    "a version": lambda table: table.scan(at=1).to_table(),
    "a time": lambda table: table.scan(at=NEVER).to_table(),
    "schema": lambda table: table.schema,
    "schema of a version": lambda table: table.schema_at(1),
    "partition columns": lambda table: table.partition_columns,
    "properties": lambda table: table.properties,
    "record key": lambda table: table.record_key,
    "info": lambda table: table.info,
    "instant": lambda table: table.instant(),
    "timeline": lambda table: table.timeline,
    "history": lambda table: table.history(),
    "files": lambda table: table.file_index.list_files_at(None),
    "files of a version": lambda table: table.file_index.list_files_at(1),
    "files between": lambda table: table.file_index.list_files_between(0, 1),
    "changes between": lambda table: table.file_index.list_changes_between(0, 1),
    "incremental": lambda table: table.incremental(0),
    "changes": lambda table: table.changes(0),
    "a file group": lambda table: table.file_index.file_group("1.parquet"),
    "slice reader": lambda table: table.slice_reader(),
    "slice reader of a version": lambda table: table.slice_reader(1),
}
COMMITS = {
    "append": lambda table: table.append(ONE),
    "append of nothing": lambda table: table.append(ONE.slice(0, 0)),
    "append with new columns": lambda table: table.append(pa.table({"id": [1], "x": ["a"]}), merge_schema=True),
    "set properties": lambda table: table.set_properties({"owner": "me"}),
    "add columns": lambda table: table.add_columns(Schema((Field(name="x", type=LONG),))),
    "add constraint": lambda table: table.add_constraint("positive", "id > 0"),
    "upgrade protocol": lambda table: table.upgrade_protocol(["deletionVectors"]),
    "checkpoint": lambda table: table.checkpoint(),
    "delete": lambda table: table.delete("id = 1"),
    "update": lambda table: table.update({"id": "id + 1"}, "id = 1"),
    "replace where": lambda table: table.replace_where("id = 1", ONE, data_columns=True),
    "replace using": lambda table: table.replace_using(["id"], ONE),
    "merge": lambda table: table.merge(ONE, "t.id = s.id", tablespec.when_matched_delete()),
    "merge that inserts": lambda table: table.merge(TWO, "t.id = s.id", tablespec.when_not_matched_insert()),
    "append of an application": lambda table: table.append(ONE, transaction=("loader", 1)),
    "sql": lambda table: table.sql("DELETE FROM t WHERE id = 1"),
    "compact": lambda table: table.compact(min_files=1),
    "cluster": lambda table: table.cluster(["id"]),
    "vacuum": lambda table: table.vacuum(timedelta(0), allow_short_retention=True),
    "expire log": lambda table: table.expire_log(timedelta(0), allow_short_retention=True),
    "restore": lambda table: table.restore(0),
}
KEYED = pa.table({"id": [1], "p": ["a"]})
# They need a table with partitions and a record key.
COMMITS_OF_A_KEYED_TABLE = {
    "overwrite partitions": lambda table: table.overwrite_partitions(KEYED),
    "upsert": lambda table: table.upsert(KEYED),
    "upsert by rewriting": lambda table: table.upsert(KEYED, strategy=Strategy.COPY_ON_WRITE),
}
UNREADABLE = {
    "the reader version is too high": protocol(4, 7),
    "a reader feature is unknown": protocol(3, 7, reader_features=["timeTravelToTheFuture"]),
    "a reader feature is refused": protocol(3, 7, reader_features=["catalogManaged"]),
}
UNWRITABLE = {
    "the writer version is too high": protocol(1, 8),
    "a writer feature is unknown": protocol(1, 7, writer_features=["appendOnly", "inkOfTheFuture"]),
    "a writer feature is refused": protocol(1, 7, writer_features=["icebergCompatV2"]),
}


def each(cases):
    return pytest.mark.parametrize("given", list(cases.values()), ids=list(cases))


def reading(reads):
    return pytest.mark.parametrize("read", list(reads.values()), ids=list(reads))


@pytest.fixture
def folder(tmp_path):
    """A table with the row 1, at version 1."""
    commit(tmp_path, 0, LEGACY, metadata())
    commit(tmp_path, 1, add(tmp_path, "1.parquet", ONE))
    return tmp_path


def with_protocol(folder, action):
    """The table once its first commit has another protocol action, or none."""
    commit(folder, 0, *([action] if action else []), metadata())
    return str(folder)


def lists(action):
    return (
        action["minReaderVersion"],
        action["minWriterVersion"],
        set(action.get("readerFeatures", [])),
        set(action.get("writerFeatures", [])),
    )


# --- tables that ask for too much ---


@each(UNREADABLE)
@reading(READS)
def test_every_read_refuses_a_table_that_cannot_be_read(folder, given, read):
    url = with_protocol(folder, given)

    with pytest.raises(ProtocolVersionError) as caught:
        read(tablespec.open_table(url))

    assert caught.value.access == "read"


@each(UNREADABLE | UNWRITABLE)
@pytest.mark.parametrize("change", list(COMMITS.values()), ids=list(COMMITS))
def test_every_change_refuses_a_table_that_cannot_be_written_and_leaves_it_as_it_was(folder, given, change):
    url = with_protocol(folder, given)
    before = contents(folder)

    with pytest.raises(ProtocolVersionError):
        change(tablespec.open_table(url))

    assert contents(folder) == before


@each(UNREADABLE | UNWRITABLE)
@pytest.mark.parametrize("change", list(COMMITS_OF_A_KEYED_TABLE.values()), ids=list(COMMITS_OF_A_KEYED_TABLE))
def test_every_change_of_a_table_with_keys_refuses_one_that_cannot_be_written(tmp_path, given, change):
    columns = metadata({"id": "long", "p": "string"}, partition_by=["p"], properties={"tablespec.recordKey": "id"})
    commit(tmp_path, 0, given, columns)
    commit(tmp_path, 1, add(tmp_path, "1.parquet", ONE, partitionValues={"p": "a"}))
    before = contents(tmp_path)

    with pytest.raises(ProtocolVersionError):
        change(tablespec.open_table(str(tmp_path)))

    assert contents(tmp_path) == before


@each(UNWRITABLE)
@reading(READS)
def test_what_concerns_only_writers_does_not_stop_a_reader(folder, given, read):
    url = with_protocol(folder, given)

    read(tablespec.open_table(url))


@each(UNWRITABLE)
def test_a_table_that_cannot_be_written_gives_its_rows(folder, given):
    url = with_protocol(folder, given)

    assert_same_rows(tablespec.open_table(url).scan(), [(1,)])


def test_the_error_names_what_is_required_what_is_supported_and_the_way_out(folder):
    url = with_protocol(folder, protocol(4, 9, reader_features=["deletionVectors", "teleport"]))

    with pytest.raises(ProtocolVersionError) as caught:
        tablespec.open_table(url).scan()

    assert caught.value.unknown == ("teleport",)
    assert str(caught.value) == (
        f"file://{folder} cannot be read by this release of tablespec. "
        "The table requires minReaderVersion 4, minWriterVersion 9 with the features deletionVectors, teleport; "
        f"this release supports minReaderVersion 3, minWriterVersion 7 with {caught.value.supported.split(' with ')[1]}. "
        "Unknown features: teleport. Upgrade tablespec, or use a client that has these features."
    )
    assert "deletionVectors" in caught.value.supported
    assert "catalogManaged" not in caught.value.supported


def test_an_error_of_a_writer_names_the_features_that_this_release_cannot_write(folder):
    url = with_protocol(folder, protocol(1, 7, writer_features=["appendOnly", "icebergCompatV1", "teleport"]))

    with pytest.raises(ProtocolVersionError, match="cannot be written by") as caught:
        tablespec.open_table(url).append(ONE)

    assert caught.value.unknown == ("icebergCompatV1", "teleport")
    assert "icebergCompatV1" not in caught.value.supported


def test_a_version_before_the_upgrade_can_still_be_read(folder):
    commit(folder, 2, protocol(3, 7, reader_features=["teleport"]))
    table = tablespec.open_table(str(folder))

    assert_same_rows(table.scan(at=1), [(1,)])
    with pytest.raises(ProtocolVersionError):
        table.scan(at=2)


def test_an_open_table_notices_that_another_client_raised_the_protocol(folder):
    table = tablespec.open_table(str(folder))
    assert_same_rows(table.scan(), [(1,)])
    commit(folder, 2, protocol(3, 7, reader_features=["teleport"]))

    with pytest.raises(ProtocolVersionError):
        table.scan()
    with pytest.raises(ProtocolVersionError):
        table.append(ONE)


def test_the_check_can_be_switched_off_to_look_at_a_table(folder):
    url = with_protocol(folder, protocol(4, 9, reader_features=["teleport"]))

    table = tablespec.open_table(url, check_protocol=False)

    assert_same_rows(table.scan(), [(1,)])
    assert ("features", "teleport") in table.info.protocol


@pytest.mark.parametrize("change", list(COMMITS.values()), ids=list(COMMITS))
def test_a_check_that_is_switched_off_does_not_let_anyone_write(folder, change):
    url = with_protocol(folder, protocol(1, 7, writer_features=["teleport"]))
    before = contents(folder)

    with pytest.raises(ProtocolVersionError):
        change(tablespec.open_table(url, check_protocol=False))

    assert contents(folder) == before


@pytest.mark.parametrize(
    ("version", "column"),
    [
        (4, field("double", "long", delta__generationExpression="id * 2")),
        (6, field("number", "long", delta__identity__start=1, delta__identity__step=1)),
    ],
    ids=["generated column", "identity column"],
)
@pytest.mark.parametrize("named", [False, True], ids=["implied by the version", "named as a feature"])
def test_tables_whose_columns_must_be_computed_are_only_read(tmp_path, version, column, named):
    feature = "generatedColumns" if version == 4 else "identityColumns"
    action = protocol(1, 7, writer_features=[feature]) if named else protocol(1, version)
    commit(tmp_path, 0, action, metadata([field("id", "long"), column]), add(tmp_path, "1.parquet", ONE))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.scan(), [(1, None)])
    with pytest.raises(ProtocolVersionError) as caught:
        table.append(ONE)
    assert caught.value.unknown == (feature,)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_versions_that_imply_computed_columns_stop_nobody_where_there_are_none(folder, version):
    url = with_protocol(folder, protocol(2 if version > 4 else 1, version))

    tablespec.open_table(url).append(ONE)

    assert_same_rows(tablespec.open_table(url).scan(), [(1,), (1,)])


# --- tables without a protocol ---


def test_a_table_without_a_protocol_counts_as_version_one_with_one_warning(folder):
    url = with_protocol(folder, None)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = tablespec.open_table(url)
        assert_same_rows(table.scan(), [(1,)])
        assert table.scan(at=1).count() == 1
        assert len(table.timeline) == 2
        protocol_shown = dict(table.info.protocol)

    assert [warning.category for warning in caught] == [TableSpecWarning]
    assert str(caught[0].message) == (
        f"file://{folder} has no protocol action; it counts as reader 1, writer 1, and the next write will say so"
    )
    assert protocol_shown == {"minReaderVersion": "1", "minWriterVersion": "1", "features": ""}


def test_the_first_write_gives_a_table_its_protocol(folder):
    url = with_protocol(folder, None)
    with pytest.warns(TableSpecWarning, match="has no protocol action"):
        tablespec.open_table(url).append(ONE)

    tablespec.open_table(url).append(ONE)

    assert actions_of(folder, 2, "protocol") == [{"minReaderVersion": 1, "minWriterVersion": 1}]
    assert actions_of(folder, 3, "protocol") == []


def test_a_checkpoint_of_a_table_without_a_protocol_carries_version_one(folder):
    url = with_protocol(folder, None)
    with pytest.warns(TableSpecWarning):
        tablespec.open_table(url).checkpoint()

    assert dict(tablespec.open_table(url).info.protocol)["minWriterVersion"] == "1"


# --- new tables and upgrades ---


def test_a_new_table_says_its_protocol_in_its_first_commit(tmp_path):
    tablespec.create_table(str(tmp_path), ONE.schema)

    (action,) = actions_of(tmp_path, 0, "protocol")
    assert lists(action) == (1, 7, set(), {"appendOnly", "changeDataFeed", "invariants"})
    assert "readerFeatures" not in action


UPGRADES = {
    "a timestamp without zone": (
        lambda table, **how: table.append(
            pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))}), merge_schema=True, **how
        ),
        {"timestampNtz"},
    ),
    "a new column without zone": (
        lambda table, **how: table.add_columns(Schema((Field(name="at", type=TIMESTAMP_NTZ),)), **how),
        {"timestampNtz"},
    ),
    "a timestamp without zone in a list": (
        lambda table, **how: table.append(
            pa.table({"id": [1], "at": pa.array([[0]], pa.list_(pa.timestamp("us")))}), merge_schema=True, **how
        ),
        {"timestampNtz"},
    ),
    "a constraint": (lambda table, **how: table.add_constraint("positive", "id > 0", **how), {"checkConstraints"}),
    "a wider type": (
        lambda table, **how: table.append(pa.table({"small": pa.array([2**40])}), merge_schema=True, **how),
        {"typeWidening"},
    ),
    "a wider type in a list": (
        lambda table, **how: table.append(pa.table({"list": [[2**40]]}), merge_schema=True, **how),
        {"typeWidening"},
    ),
    "column mapping": (
        lambda table, **how: table.set_properties({"delta.columnMapping.mode": "name"}, **how),
        {"columnMapping"},
    ),
    "deletion vectors": (
        lambda table, **how: table.set_properties({"delta.enableDeletionVectors": "true"}, **how),
        {"deletionVectors"},
    ),
    "row tracking": (
        lambda table, **how: table.set_properties({"delta.enableRowTracking": "true"}, **how),
        {"rowTracking", "domainMetadata"},
    ),
    "in-commit timestamps": (
        lambda table, **how: table.set_properties({"delta.enableInCommitTimestamps": "true"}, **how),
        {"inCommitTimestamp"},
    ),
}
upgrading = pytest.mark.parametrize(("change", "needed"), list(UPGRADES.values()), ids=list(UPGRADES))


@pytest.fixture
def plain(tmp_path):
    columns = [("id", pa.int64()), ("small", pa.int32()), ("list", pa.list_(pa.int32()))]
    table = tablespec.create_table(str(tmp_path), pa.schema(columns))
    table.append(
        pa.table({"id": [1], "small": pa.array([1], pa.int32()), "list": pa.array([[1]], pa.list_(pa.int32()))})
    )
    return table


@upgrading
def test_an_operation_that_needs_a_feature_declares_it(plain, tmp_path, change, needed):
    change(plain)

    (action,) = actions_of(tmp_path, 2, "protocol")
    assert set(action["writerFeatures"]) == {"appendOnly", "changeDataFeed", "invariants"} | needed
    for_readers = {name for name in needed if FEATURES[name].reader}
    assert set(action.get("readerFeatures", for_readers)) == for_readers


@upgrading
def test_without_auto_upgrade_a_missing_feature_is_an_error_and_nothing_changes(plain, tmp_path, change, needed):
    before = contents(tmp_path)

    with pytest.raises(ProtocolUpgradeNeededError) as caught:
        change(plain, auto_upgrade=False)

    assert caught.value.features == tuple(sorted(needed))
    assert "auto_upgrade=True" in str(caught.value)
    assert contents(tmp_path) == before


@upgrading
def test_without_auto_upgrade_a_feature_that_is_there_already_may_be_used(plain, change, needed):
    plain.upgrade_protocol(sorted(needed))

    change(plain, auto_upgrade=False)


def test_an_upgrade_keeps_the_features_that_are_there(folder):
    url = with_protocol(folder, protocol(3, 7, reader_features=["timestampNtz"], writer_features=["appendOnly"]))

    tablespec.open_table(url).upgrade_protocol(["deletionVectors"])

    (action,) = actions_of(folder, 2, "protocol")
    assert lists(action) == (
        3,
        7,
        {"timestampNtz", "deletionVectors"},
        {"timestampNtz", "deletionVectors", "appendOnly"},
    )


@pytest.mark.parametrize(
    ("reader", "writer", "implied_for_readers", "implied"),
    [
        (1, 1, set(), set()),
        (1, 2, set(), {"appendOnly", "invariants"}),
        (1, 3, set(), {"appendOnly", "invariants", "checkConstraints"}),
        (
            1,
            4,
            set(),
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
        ),
        (
            2,
            5,
            {"columnMapping"},
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (
            2,
            6,
            {"columnMapping"},
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
                "identityColumns",
            },
        ),
    ],
)
def test_an_upgrade_of_an_old_version_names_all_that_the_version_implied(reader, writer, implied_for_readers, implied):
    old = ProtocolAction(min_reader_version=reader, min_writer_version=writer)

    new = upgraded(old, frozenset({"deletionVectors"}))

    assert (new.min_reader_version, new.min_writer_version) == (3, 7)
    assert set(new.reader_features) == implied_for_readers | {"deletionVectors"}
    assert set(new.writer_features) == implied | {"deletionVectors"}
    assert features_of(old) <= features_of(new)


def test_a_writer_feature_does_not_raise_the_reader_version():
    new = upgraded(ProtocolAction(min_reader_version=1, min_writer_version=2), frozenset({"domainMetadata"}))

    assert new.min_reader_version == 1
    assert not isinstance(new.reader_features, tuple)


def test_an_upgrade_to_what_is_there_changes_nothing():
    old = ProtocolAction(min_reader_version=2, min_writer_version=5)

    assert upgraded(old, frozenset({"columnMapping", "appendOnly"})) is old


def test_unknown_features_survive_an_upgrade_by_the_rules():
    old = ProtocolAction(min_reader_version=1, min_writer_version=7, writer_features=("teleport",))

    assert "teleport" in features_of(upgraded(old, frozenset({"deletionVectors"})))


def test_upgrading_twice_writes_the_protocol_once(folder):
    table = tablespec.open_table(str(folder))
    table.upgrade_protocol(["deletionVectors"])

    table.upgrade_protocol(["deletionVectors"])

    assert len(actions_of(folder, 2, "protocol")) == 1
    assert actions_of(folder, 3, "protocol") == []


def test_a_feature_brings_those_that_it_rests_on(folder):
    tablespec.open_table(str(folder)).upgrade_protocol(["rowTracking"])

    (action,) = actions_of(folder, 2, "protocol")
    assert set(action["writerFeatures"]) == {"appendOnly", "invariants", "rowTracking", "domainMetadata"}


@pytest.mark.parametrize("feature", ["teleport", "icebergCompatV2", "catalogManaged"])
def test_a_feature_that_this_release_cannot_write_is_never_declared(folder, feature):
    before = contents(folder)

    with pytest.raises(ProtocolVersionError) as caught:
        tablespec.open_table(str(folder)).upgrade_protocol(["deletionVectors", feature])

    assert feature in caught.value.unknown
    assert contents(folder) == before


def test_every_feature_that_can_be_written_can_be_read():
    assert [name for name, feature in FEATURES.items() if feature.writable and not feature.readable] == []


@pytest.mark.parametrize("name", sorted(name for name, feature in FEATURES.items() if feature.readable))
def test_a_table_that_names_a_readable_feature_can_be_read(name):
    listed = (name,) if FEATURES[name].reader else ()
    check_readable(
        ProtocolAction(min_reader_version=3, min_writer_version=7, reader_features=listed, writer_features=(name,)), "t"
    )


@pytest.mark.parametrize("name", sorted(name for name, feature in FEATURES.items() if feature.writable))
def test_a_table_that_names_a_writable_feature_can_be_written(name):
    listed = (name,) if FEATURES[name].reader else ()
    action = ProtocolAction(min_reader_version=3, min_writer_version=7, reader_features=listed, writer_features=(name,))
    check_writable(action, "t", NOTHING)


# --- checkpoints and cost ---


def test_a_checkpoint_carries_the_protocol(folder):
    table = tablespec.open_table(str(folder))
    table.upgrade_protocol(["deletionVectors", "rowTracking"])
    table.checkpoint()
    for version in range(3):
        (folder / "_delta_log" / f"{version:020d}.json").unlink()

    rows = pq.read_table(checkpoint_file(folder, 2), columns=["protocol"]).column("protocol").to_pylist()
    written = [row for row in rows if row is not None and row["minReaderVersion"] is not None]
    assert [lists(row) for row in written] == [
        (
            3,
            7,
            {"deletionVectors"},
            {"appendOnly", "deletionVectors", "domainMetadata", "invariants", "rowTracking"},
        )
    ]
    assert tablespec.open_table(str(folder)).info.protocol == table.info.protocol


def test_a_checkpoint_whose_protocol_asks_for_too_much_stops_a_reader(folder):
    tablespec.open_table(str(folder)).checkpoint()
    path = checkpoint_file(folder, 1)
    rows = pq.read_table(path)
    told = [
        row and {**row, "minReaderVersion": 9} if row and row["minReaderVersion"] else row
        for row in rows.column("protocol").to_pylist()
    ]
    index = rows.schema.get_field_index("protocol")
    pq.write_table(
        rows.set_column(index, rows.schema.field(index), pa.array(told, rows.schema.field(index).type)), path
    )

    with pytest.raises(ProtocolVersionError, match="minReaderVersion 9"):
        tablespec.open_table(str(folder)).scan()


@pytest.mark.parametrize("checkpointed", [False, True], ids=["log only", "with a checkpoint"])
def test_a_protocol_that_has_not_changed_costs_no_reading(folder, checkpointed):
    if checkpointed:
        tablespec.open_table(str(folder)).checkpoint()
    storage = CountingStorage.at(str(folder))
    table = Table(DeltaFormat(storage))
    table.scan().schema  # noqa: B018 - the first look at the table
    storage.calls.clear()

    assert dict(table.info.protocol)["minReaderVersion"] == "1"
    assert table.schema.names == ("id",)

    assert storage.calls == [("list", "_delta_log"), ("list", "_delta_log")]


def test_a_new_commit_is_all_that_is_read_again(folder):
    storage = CountingStorage.at(str(folder))
    table = Table(DeltaFormat(storage))
    table.scan().schema  # noqa: B018 - the first look at the table
    commit(folder, 2, add(folder, "2.parquet", pa.table({"id": [2]})))
    storage.calls.clear()

    assert table.instant().version == 2

    reads = [path for verb, path in storage.calls if verb in ("read", "open") and path != "_delta_log"]
    assert reads == ["_delta_log/00000000000000000002.json"]


def test_an_unknown_action_and_unknown_members_are_no_reason_to_refuse(folder):
    commit(folder, 2, {"teleport": {"to": "mars"}}, {"protocol": {**LEGACY["protocol"], "mood": "good"}})

    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,)])
    assert json.loads((folder / "_delta_log" / f"{2:020d}.json").read_text().splitlines()[0]) == {
        "teleport": {"to": "mars"}
    }
