import json

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import InvalidPropertyError, UnsupportedTableError
from tablespec.formats.delta.properties import (
    PROPERTY_FEATURES,
    check_properties,
    checkpoint_interval,
    constraints_of,
    file_bytes,
    needed_features,
)
from tablespec.formats.delta.protocol import FEATURES
from tablespec.model.schema import (
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    Field,
    MapType,
    Schema,
    StructType,
)
from tests.handmade import LEGACY, actions_of, add, checkpoint_file, commit, contents, metadata
from tests.rows import assert_same_rows

MODE = "delta.columnMapping.mode"
ROW_ID = "delta.rowTracking.materializedRowIdColumnName"
ROW_VERSION = "delta.rowTracking.materializedRowCommitVersionColumnName"
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})


def schema(**columns):
    return Schema(tuple(Field(name=name, type=kind) for name, kind in columns.items()))


@pytest.fixture
def table(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(ROWS)
    return table


# --- which values make sense ---

BAD = [
    ("delta.appendOnly", "yes", "true or false"),
    ("delta.enableChangeDataFeed", "", "true or false"),
    ("tablespec.mergeOnRead", "True", "true or false"),
    ("delta.columnMapping.mode", "index", "none or name or id"),
    ("delta.isolationLevel", "ReadCommitted", "Serializable or WriteSerializable"),
    ("delta.checkpointInterval", "0", "a whole number above zero"),
    ("delta.checkpointInterval", "ten", "a whole number above zero"),
    ("delta.checkpointInterval", "-1", "a whole number above zero"),
    ("delta.targetFileSize", "0", "a number of bytes, such as 134217728 or 128mb"),
    ("delta.targetFileSize", "big", "a number of bytes, such as 134217728 or 128mb"),
]


@pytest.mark.parametrize(("name", "value", "expected"), BAD)
def test_a_known_property_with_a_senseless_value_is_refused_and_nothing_changes(table, tmp_path, name, value, expected):
    before = contents(tmp_path)

    with pytest.raises(InvalidPropertyError) as caught:
        table.set_properties({name: value})

    assert str(caught.value) == f"the table property {name} is {value!r}; expected {expected}"
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("name", "value", "expected"), BAD)
def test_a_table_is_not_created_with_a_senseless_property(tmp_path, name, value, expected):
    with pytest.raises(InvalidPropertyError, match=expected):
        tablespec.create_table(f"{tmp_path}/table", SCHEMA, properties={name: value})

    assert contents(tmp_path) == {}


NO_TEXTS = [
    {"owner": 1},
    {"owner": True},
    {"owner": ["me"]},
    {"owner": b"me"},
    {1: "me"},
    {None: "me", "owner": "me"},
    {"owner": "\ud800"},
    {"\ud800": "me"},
    {"delta.checkpointInterval": 5},
    {"delta.targetFileSize": 5},
    {"delta.logRetentionDuration": 5},
    {"delta.dataSkippingNumIndexedCols": 5},
]


@pytest.mark.parametrize("properties", NO_TEXTS, ids=str)
def test_properties_that_are_no_texts_are_refused_and_nothing_changes(table, tmp_path, properties):
    before = contents(tmp_path)

    with pytest.raises(InvalidPropertyError, match="a text under a text"):
        table.set_properties(properties)
    with pytest.raises(InvalidPropertyError, match="a text under a text"):
        tablespec.create_table(f"{tmp_path}/other", SCHEMA, properties=properties)

    assert contents(tmp_path) == before


def test_properties_that_nobody_knows_are_kept_as_they_are(table):
    table.set_properties({"owner": "me", "delta.somethingNew": "maybe"})
    table.set_properties({"owner": None, "team": ""})

    assert {name: value for name, value in table.properties.items() if "rowTracking" not in name} == {
        "delta.somethingNew": "maybe",
        "team": "",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1000", 1000), ("64kb", 64 << 10), ("128mb", 128 << 20), ("128MB", 128 << 20), ("1g", 1 << 30), ("2b", 2)],
)
def test_a_file_size_may_be_told_in_units(text, expected):
    check_properties({"delta.targetFileSize": text})

    assert file_bytes({"delta.targetFileSize": text}) == expected


def test_without_properties_there_are_defaults():
    assert file_bytes({}) == 256 << 20
    assert checkpoint_interval({}) == 10


@pytest.mark.parametrize("name", ["delta.targetFileSize", "delta.checkpointInterval", "delta.isolationLevel"])
def test_odd_values_that_another_client_left_do_not_stop_a_write(tmp_path, name):
    commit(tmp_path, 0, LEGACY, metadata(properties={name: "whatever"}))
    table = tablespec.open_table(str(tmp_path))

    table.append(pa.table({"id": [1]}))

    assert_same_rows(table.scan(), [(1,)])


def test_setting_what_is_set_already_writes_no_metadata(table, tmp_path):
    table.set_properties({"owner": "me"})
    table.set_properties({"owner": "me"})

    assert len(actions_of(tmp_path, 2, "metaData")) == 1
    assert actions_of(tmp_path, 3, "metaData") == []


def test_the_checkpoint_interval_takes_effect_with_the_commit_that_sets_it(table, tmp_path):
    table.set_properties({"delta.checkpointInterval": "3"})
    table.append(ROWS)
    table.append(ROWS)

    assert checkpoint_file(tmp_path, 3).exists()
    assert not checkpoint_file(tmp_path, 2).exists()
    assert not checkpoint_file(tmp_path, 4).exists()


# --- what the format keeps itself ---


@pytest.mark.parametrize("name", [ROW_ID, ROW_VERSION, "delta.columnMapping.maxColumnId"])
@pytest.mark.parametrize("value", [None, "7"])
def test_properties_that_the_format_keeps_cannot_be_changed(tmp_path, name, value):
    table = tablespec.create_table(str(tmp_path), SCHEMA, properties={MODE: "name"})
    before = contents(tmp_path)

    with pytest.raises(InvalidPropertyError, match=f"{name}.*the format keeps it itself"):
        table.set_properties({name: value})

    assert contents(tmp_path) == before


def test_a_table_may_be_made_with_the_properties_of_another_one(tmp_path):
    first = tablespec.create_table(f"{tmp_path}/first", SCHEMA, properties={MODE: "name", "owner": "me"})
    first.append(ROWS)
    first.set_properties({"delta.enableInCommitTimestamps": "true"})

    second = tablespec.create_table(f"{tmp_path}/second", SCHEMA, properties=first.properties)
    second.append(ROWS)

    assert {name for name in first.properties if "Enablement" in name} and second.properties["owner"] == "me"
    assert not {name for name in second.properties if "Enablement" in name}
    assert second.properties[ROW_ID] != first.properties[ROW_ID]
    stamps = [actions_of(tmp_path / "second", number, "commitInfo")[0]["inCommitTimestamp"] for number in (0, 1)]
    assert [instant.timestamp for instant in second.timeline] == stamps
    assert_same_rows(second.scan(), ROWS)


def test_properties_may_be_given_as_they_are(table):
    table.set_properties({**table.properties, "owner": "me"})

    assert table.properties["owner"] == "me"


# --- column mapping ---


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_mapped_table_reads_what_was_written(tmp_path, mode):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["p"], properties={MODE: mode})
    table.append(ROWS)

    assert_same_rows(table.scan("id = 2 and p = 'b'"), [(2, "b")])
    fields = table.schema.fields
    assert [field.field_id for field in fields] == [1, 2]
    assert all(field.physical_name.startswith("col-") for field in fields)
    (first, _) = actions_of(tmp_path, 1, "add")
    assert list(first["partitionValues"]) == [fields[1].physical_name]


def test_a_table_that_is_mapped_late_still_finds_its_old_columns(table):
    table.set_properties({MODE: "name"})
    table.append(pa.table({"id": [3], "p": ["c"], "q": [1.5]}), merge_schema=True)

    assert_same_rows(table.scan(), [(1, "a", None), (2, "b", None), (3, "c", 1.5)])
    assert_same_rows(table.scan("p = 'b'"), [(2, "b", None)])
    old, older, new = table.schema.fields
    assert (old.physical_name, older.physical_name) == ("id", "p")
    assert new.physical_name.startswith("col-")
    assert [field.field_id for field in (old, older, new)] == [1, 2, 3]


def test_members_of_structs_keep_their_names_when_a_table_is_mapped_late(tmp_path):
    rows = pa.table({"s": [{"a": 1, "b": [{"c": 2}]}]})
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows)

    table.set_properties({MODE: "name"})

    assert_same_rows(table.scan(), [({"a": 1, "b": [{"c": 2}]},)])


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "id"), ("name", "id"), ("name", "none"), ("name", None), ("id", "name"), ("id", "none")],
)
def test_a_mapping_that_would_lose_the_columns_of_files_is_refused(tmp_path, before, after):
    table = tablespec.create_table(str(tmp_path), SCHEMA, properties={MODE: before} if before else {})
    table.append(ROWS)
    unchanged = contents(tmp_path)

    with pytest.raises(InvalidPropertyError, match=MODE):
        table.set_properties({MODE: after})

    assert contents(tmp_path) == unchanged
    assert_same_rows(table.scan(), [(1, "a"), (2, "b")])


# --- features ---


def test_every_feature_that_a_property_asks_for_is_known():
    assert [name for _, _, names in PROPERTY_FEATURES for name in names if name not in FEATURES] == []


@pytest.mark.parametrize(
    ("columns", "needed"),
    [
        (schema(x=LONG), set()),
        (schema(x=TIMESTAMP_NTZ), {"timestampNtz"}),
        (schema(x=ArrayType(TIMESTAMP_NTZ)), {"timestampNtz"}),
        (schema(x=MapType(STRING, ArrayType(TIMESTAMP_NTZ))), {"timestampNtz"}),
        (schema(x=StructType((Field(name="y", type=TIMESTAMP_NTZ),))), {"timestampNtz"}),
        (schema(x=ArrayType(StructType((Field(name="y", type=TIMESTAMP_NTZ),)))), {"timestampNtz"}),
        (schema(x=VARIANT), {"variantType"}),
        (Schema((Field(name="x", type=LONG, nullable=False),)), {"invariants"}),
        (Schema((Field(name="x", type=LONG, metadata=(("delta.typeChanges", "[]"),)),)), {"typeWidening"}),
    ],
)
def test_columns_ask_for_features_at_any_depth(columns, needed):
    assert needed_features({}, columns) == needed


def test_a_table_of_a_type_that_cannot_be_written_is_not_created(tmp_path):
    with pytest.raises(tablespec.TableSpecError, match="variantType"):
        tablespec.create_table(f"{tmp_path}/table", schema(x=VARIANT))

    assert contents(tmp_path) == {}


# --- features that are switched on late ---


def test_in_commit_timestamps_switched_on_late_tell_since_when(table, tmp_path):
    switched = table.set_properties({"delta.enableInCommitTimestamps": "true"})

    stamps = [actions_of(tmp_path, version, "commitInfo")[0]["inCommitTimestamp"] for version in range(3)]
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == "2"
    assert table.properties["delta.inCommitTimestampEnablementTimestamp"] == str(stamps[2])
    assert switched.version == 2
    assert table.timeline.latest().timestamp == stamps[2]


def test_row_tracking_can_be_switched_on_where_all_files_have_ids(table, tmp_path):
    table.set_properties({"delta.enableRowTracking": "true"})
    table.append(ROWS)

    assert [add["baseRowId"] for version in (1, 3) for add in actions_of(tmp_path, version, "add")] == [0, 2]


def test_row_tracking_is_not_switched_on_where_files_have_no_ids(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", pa.table({"id": [1]})))
    before = contents(tmp_path)

    with pytest.raises(UnsupportedTableError, match=r"files without row ids.*enable it with Spark"):
        tablespec.open_table(str(tmp_path)).set_properties({"delta.enableRowTracking": "true"})

    assert contents(tmp_path) == before


def test_row_tracking_switched_on_names_its_hidden_columns(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata())
    table = tablespec.open_table(str(tmp_path))

    table.set_properties({"delta.enableRowTracking": "true"})

    assert table.properties[ROW_ID].startswith("_row-id-col-")
    assert table.properties[ROW_VERSION].startswith("_row-commit-version-col-")


# --- constraints ---


def test_constraints_are_those_of_properties_and_of_columns():
    invariant = json.dumps('{"expression": {"expression": "x > 3"}}')
    columns = Schema((Field(name="x", type=LONG, metadata=(("delta.invariants", invariant),)),))

    found = constraints_of({"delta.constraints.positive": "x > 0", "owner": "me"}, columns)

    assert found == (("positive", "x > 0"), ("of column x", "x > 3"))
