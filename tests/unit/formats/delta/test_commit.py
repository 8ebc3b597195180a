import json

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import ColumnNotFoundError, InvalidSchemaError
from tablespec.formats.base import Change, NewFile, Profile
from tablespec.formats.delta.commit import commit_lines
from tablespec.formats.delta.format import DeltaFormat
from tablespec.model.form import stored_form
from tablespec.model.schema import LONG, DecimalType, Field, Schema
from tablespec.model.stats import ColumnStats, FileStats
from tablespec.storage.store import Storage
from tests.handmade import LEGACY, actions_of, add, commit, commit_file, contents, metadata

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


def kinds(folder, version):
    return [next(iter(json.loads(line))) for line in commit_file(folder, version).read_text().splitlines()]


def by_hand(name, kind, *entries):
    return Schema((Field(name=name, type=kind, metadata=entries),))


# --- the first commit ---


def test_a_new_table_has_an_id_a_schema_and_names_for_hidden_columns(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"], key=["ID"], properties={"owner": "me"})

    (made,) = actions_of(tmp_path, 0, "metaData")

    assert kinds(tmp_path, 0) == ["commitInfo", "protocol", "metaData"]
    assert made["format"] == {"provider": "parquet", "options": {}}
    assert made["partitionColumns"] == ["city"]
    assert json.loads(made["schemaString"]) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "city", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
    hidden = sorted(name for name in made["configuration"] if name.startswith("delta.rowTracking.materialized"))
    assert len(hidden) == 2
    assert {name: value for name, value in made["configuration"].items() if name not in hidden} == {
        "owner": "me",
        "tablespec.recordKey": "id",
    }


def test_the_record_key_of_a_table_is_known(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, key=["id", "city"])

    assert table.record_key == ("id", "city")


def test_two_tables_never_share_an_id(tmp_path):
    ids = [tablespec.create_table(f"{tmp_path}/{number}", SCHEMA).info.id for number in range(2)]

    assert ids[0] != ids[1]


def test_a_strict_table_declares_row_ids_and_timestamps(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, profile=Profile.STRICT)

    (protocol,) = actions_of(tmp_path, 0, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (1, 7)
    assert set(protocol["writerFeatures"]) == {
        "appendOnly",
        "changeDataFeed",
        "domainMetadata",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
    }
    assert table.properties["delta.enableRowTracking"] == "true"
    assert table.properties["delta.enableInCommitTimestamps"] == "true"


@pytest.mark.parametrize(
    ("schema", "partition_by", "why"),
    [
        (pa.schema([]), [], "a table needs at least one column"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), [], "the columns a stand more than once"),
        (SCHEMA, ["id", "city"], "at least one column that is not a partition column"),
        (SCHEMA, ["city", "city"], "a partition column is named more than once"),
        (SCHEMA, ["City"], "the partition column City is spelled city in the schema"),
        (pa.schema([("a", pa.list_(pa.int64())), ("b", pa.int64())]), ["a"], "cannot be a partition column"),
        (pa.schema([("a", pa.map_(pa.string(), pa.int64())), ("b", pa.int64())]), ["a"], "cannot be a partition"),
        (pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.int64())]), ["a"], "cannot be a partition"),
        (by_hand("a", LONG, ("comment", "no json")), [], "cannot make a table: .* cannot be read"),
        (by_hand("a", DecimalType(50, 2)), [], r"cannot make a table: .* the column type decimal\(50,2\)"),
        (by_hand("a\ud800", LONG), [], "cannot make a table: .* surrogates"),
    ],
)
def test_columns_that_cannot_make_a_table_are_refused_and_nothing_is_made(tmp_path, schema, partition_by, why):
    with pytest.raises(InvalidSchemaError, match=why):
        tablespec.create_table(f"{tmp_path}/table", schema, partition_by=partition_by)

    assert contents(tmp_path) == {}


@pytest.mark.parametrize("how", [{"partition_by": ["citty"]}, {"key": ["citty"]}], ids=["partition", "key"])
def test_a_column_that_is_not_there_is_told_with_near_names(tmp_path, how):
    with pytest.raises(ColumnNotFoundError, match="no column 'citty'; did you mean city"):
        tablespec.create_table(f"{tmp_path}/table", SCHEMA, **how)

    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "columns",
    [
        pa.schema([("s", pa.struct([("a", pa.int64()), ("A", pa.int64())]))]),
        pa.schema([("l", pa.list_(pa.struct([("a", pa.int64()), ("a", pa.string())])))]),
    ],
    ids=["struct", "struct in a list"],
)
def test_members_of_a_struct_have_different_names(tmp_path, columns):
    with pytest.raises(InvalidSchemaError, match="stand more than once"):
        tablespec.create_table(f"{tmp_path}/table", columns)


# --- an append ---


@pytest.fixture
def appended(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(pa.table({"id": [1, None, 3], "city": ["sf", "sf", None]}), transaction=("loader", 7))
    return tmp_path


def test_the_commit_info_comes_first_and_tells_what_was_done(appended):
    (info,) = actions_of(appended, 1, "commitInfo")

    assert kinds(appended, 1) == ["commitInfo", "txn", "add", "add", "domainMetadata"]
    sizes = [added["size"] for added in actions_of(appended, 1, "add")]
    assert {name: info[name] for name in ("operation", "operationParameters", "operationMetrics")} == {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "operationMetrics": {"numFiles": "2", "numOutputRows": "3", "numOutputBytes": str(sum(sizes))},
    }
    assert (info["readVersion"], info["isBlindAppend"], info["isolationLevel"]) == (0, True, "Serializable")
    assert info["inCommitTimestamp"] == info["timestamp"]
    assert info["txnId"] == info["tablespec"]["operationId"] != ""
    assert info["engineInfo"].startswith("tablespec/")


def test_an_add_tells_all_that_is_known_of_a_file(appended):
    files = {added["partitionValues"]["city"]: added for added in actions_of(appended, 1, "add")}

    filed, null = files["sf"], files[None]
    assert filed["path"].startswith("city=sf/")
    assert null["path"].startswith("city=__HIVE_DEFAULT_PARTITION__/")
    assert filed["size"] == (appended / filed["path"]).stat().st_size
    assert filed["dataChange"] is True
    assert filed["tags"] == {
        "tablespec.group": filed["path"][8:].removesuffix(".parquet"),
        "tablespec.instant": "1",
        "tablespec.form": stored_form([Field(name="id", type=LONG)]),
    }
    assert json.loads(filed["stats"]) == {
        "numRecords": 2,
        "minValues": {"id": 1},
        "maxValues": {"id": 1},
        "nullCount": {"id": 1},
    }
    assert json.loads(null["stats"]) == {
        "numRecords": 1,
        "minValues": {"id": 3},
        "maxValues": {"id": 3},
        "nullCount": {"id": 0},
    }


def test_row_ids_follow_each_other_and_the_mark_is_recorded(appended):
    first, second = actions_of(appended, 1, "add")

    rows = json.loads(first["stats"])["numRecords"]
    assert (first["baseRowId"], second["baseRowId"]) == (0, rows)
    assert (first["defaultRowCommitVersion"], second["defaultRowCommitVersion"]) == (1, 1)
    (mark,) = actions_of(appended, 1, "domainMetadata")
    assert mark == {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":2}', "removed": False}


def test_a_transaction_is_recorded_and_its_latest_number_counts(appended):
    table = tablespec.open_table(str(appended))
    table.append(pa.table({"id": [4], "city": ["la"]}), transaction=("loader", 8))
    table.append(pa.table({"id": [5], "city": ["la"]}), transaction=("other", 1))

    (recorded,) = actions_of(appended, 1, "txn")
    assert (recorded["appId"], recorded["version"]) == ("loader", 7)
    found = DeltaFormat(Storage.at(str(appended))).latest().reconciled.transactions
    assert {name: action.version for name, action in found.items()} == {"loader": 8, "other": 1}


def test_transactions_survive_in_a_checkpoint(appended):
    tablespec.open_table(str(appended)).checkpoint()
    for version in (0, 1):
        commit_file(appended, version).unlink()

    found = DeltaFormat(Storage.at(str(appended))).latest().reconciled.transactions

    assert {name: action.version for name, action in found.items()} == {"loader": 7}


def test_a_path_with_odd_characters_is_written_as_a_uri(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(pa.table({"id": [1], "city": ["a b/ü=%"]}))

    (added,) = actions_of(tmp_path, 1, "add")

    assert added["path"].startswith("city=a%20b%252F%C3%BC%253D%2525/")
    assert added["partitionValues"] == {"city": "a b/ü=%"}
    (on_disk,) = (path for path in contents(tmp_path) if path.endswith(".parquet"))
    assert on_disk.startswith("city=a b%2Fü%3D%25/")


def test_the_log_is_written_in_utf8(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("größe", pa.int64()), ("😀", pa.string())]))
    table.append(pa.table({"größe": [1], "😀": ["🍏"]}))

    assert table.scan("`größe` = 1").to_table().to_pylist() == [{"größe": 1, "😀": "🍏"}]


# --- what a commit does not touch ---


def test_an_append_writes_neither_protocol_nor_metadata(appended):
    assert actions_of(appended, 1, "protocol") == []
    assert actions_of(appended, 1, "metaData") == []


def test_a_table_of_others_gets_no_row_ids(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", pa.table({"id": [1]})))
    tablespec.open_table(str(tmp_path)).append(pa.table({"id": [2]}))

    (added,) = actions_of(tmp_path, 1, "add")
    assert "baseRowId" not in added
    assert actions_of(tmp_path, 1, "domainMetadata") == []


def test_changing_the_metadata_keeps_what_others_wrote_there(tmp_path):
    action = metadata()
    action["metaData"].update(name="trips", description="all of them", createdTime=12345)
    commit(tmp_path, 0, LEGACY, action)
    table = tablespec.open_table(str(tmp_path))

    table.set_properties({"owner": "me"})

    (written,) = actions_of(tmp_path, 1, "metaData")
    expected = {**action["metaData"], "configuration": {"owner": "me"}}
    assert {name: written[name] for name in expected if name != "schemaString"} == {
        name: value for name, value in expected.items() if name != "schemaString"
    }
    assert json.loads(written["schemaString"]) == json.loads(expected["schemaString"])
    assert (table.info.name, table.info.description) == ("trips", "all of them")


def test_a_commit_is_decided_without_touching_anything(appended):
    state = DeltaFormat(Storage.at(str(appended))).latest()
    before = contents(appended)
    stats = FileStats(2, (ColumnStats(("id",), 5, 9, 0),))
    file = NewFile(path="city=x/1.parquet", size=7, modified=3, partition_values=("x",), stats=stats, group="g")

    lines = commit_lines(Change(operation="WRITE", adds=(file,), operation_id="o"), state, now=99)

    assert contents(appended) == before
    info, added, mark = lines
    assert info.commit_info["inCommitTimestamp"] == 99
    assert (added.add.path, added.add.base_row_id, added.add.partition_values) == ("city=x/1.parquet", 3, {"city": "x"})
    assert mark.domain_metadata.configuration == '{"rowIdHighWaterMark":4}'


def test_an_alter_without_effect_says_nothing_but_that_it_happened(appended):
    tablespec.open_table(str(appended)).add_columns(Schema(()))

    assert kinds(appended, 2) == ["commitInfo"]
    assert actions_of(appended, 2, "commitInfo")[0]["isBlindAppend"] is False
