from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Profile
from tablespec.errors import (
    InstantNotFoundError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidSchemaError,
    NotATableError,
    ReadOnlyFormatError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTypeError,
    UnsupportedUrlError,
)
from tablespec.formats.delta.format import DeltaFormat
from tablespec.model.schema import LONG, STRING, Field, Schema
from tablespec.storage.store import Storage
from tests.handmade import contents
from tests.rows import assert_same_rows
from tests.unit.formats.hudi.conftest import HudiTable
from tests.unit.read.measuring import MeasuringStorage

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
ROWS = pa.table({"id": [1, 2], "city": ["sf", "la"]})


# --- opening ---


def test_there_is_no_table_where_nothing_is(tmp_path):
    with pytest.raises(TableNotFoundError) as caught:
        tablespec.open_table(f"{tmp_path}/nothing")

    assert str(caught.value) == (
        f"there is no table at file://{tmp_path}/nothing; check the path, or make one with tablespec.create_table"
    )
    assert contents(tmp_path) == {}


def test_an_empty_folder_is_no_table(tmp_path):
    with pytest.raises(TableNotFoundError):
        tablespec.open_table(str(tmp_path))


def test_a_folder_of_other_things_is_not_a_table(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    with pytest.raises(NotATableError) as caught:
        tablespec.open_table(str(tmp_path))

    assert str(caught.value) == (
        f"file://{tmp_path} holds neither a _delta_log nor a .hoodie folder, so it is not a table that tablespec knows"
    )
    assert list(contents(tmp_path)) == ["notes.txt"]


def test_what_an_engine_left_that_was_killed_before_the_first_commit_is_no_table(tmp_path):
    (tmp_path / tablespec.UNFINISHED).touch()
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=1" / "rows.parquet").write_bytes(b"PAR1")

    with pytest.raises(TableNotFoundError):
        tablespec.open_table(str(tmp_path))

    tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64()})).append(pa.table({"id": [1]}))
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), [(1,)])


def test_a_file_is_not_a_table(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")

    with pytest.raises(TableNotFoundError):
        tablespec.open_table(f"{tmp_path}/rows.parquet")


@pytest.mark.parametrize("url", ["", "ftp://host/table", "s3://", "file://elsewhere/x"])
def test_a_url_that_no_store_can_mean_is_refused(url):
    with pytest.raises(UnsupportedUrlError, match="cannot open"):
        tablespec.open_table(url)


@pytest.mark.parametrize("form", ["{}", "{}/", "file://{}", "file:{}", "{}/../table"])
def test_one_table_has_many_spellings(tmp_path, form):
    tablespec.create_table(f"{tmp_path}/table", SCHEMA).append(ROWS)

    table = tablespec.open_table(form.format(f"{tmp_path}/table"))

    assert_same_rows(table.scan(), ROWS)
    assert table.url == f"file://{tmp_path}/table"


def test_a_relative_path_is_taken_from_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tablespec.create_table("table", SCHEMA).append(ROWS)

    assert_same_rows(tablespec.open_table("./table").scan(), ROWS)


def test_a_table_in_memory_lives_as_long_as_the_process():
    tablespec.create_table("memory://test_table/t", SCHEMA).append(ROWS)

    assert_same_rows(tablespec.open_table("memory://test_table/t").scan(), ROWS)


# --- creating ---


def test_a_table_is_not_created_over_another(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA).append(ROWS)
    before = contents(tmp_path)

    with pytest.raises(TableExistsError) as caught:
        tablespec.create_table(str(tmp_path), pa.schema([("other", pa.int64())]))

    assert str(caught.value) == (
        f"file://{tmp_path} is already a table; open it with tablespec.open_table or choose another place"
    )
    assert contents(tmp_path) == before


def test_a_table_is_not_created_over_one_of_another_format(tmp_path):
    hudi = HudiTable(Storage.at(str(tmp_path)), 9)
    hudi.properties()
    before = contents(tmp_path)

    with pytest.raises(TableExistsError):
        tablespec.create_table(str(tmp_path), SCHEMA)

    assert contents(tmp_path) == before


def test_a_table_may_be_created_beside_files_that_are_no_table(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")

    tablespec.create_table(str(tmp_path), SCHEMA).append(ROWS)

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), ROWS)


@pytest.mark.parametrize("schema", [SCHEMA, Schema((Field(name="id", type=LONG), Field(name="city", type=STRING)))])
def test_columns_may_be_given_as_arrow_or_as_a_schema(tmp_path, schema):
    table = tablespec.create_table(str(tmp_path), schema)

    assert table.schema == Schema((Field(name="id", type=LONG), Field(name="city", type=STRING)))


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.duration("s"), pa.decimal256(50, 2), pa.struct([])], ids=str)
def test_types_that_tables_cannot_hold_are_named(tmp_path, kind):
    with pytest.raises(UnsupportedTypeError, match="column x has the type"):
        tablespec.create_table(f"{tmp_path}/table", pa.schema([("x", kind)]))

    assert contents(tmp_path) == {}


def test_a_new_table_shows_what_it_is(tmp_path):
    table = tablespec.create_table(
        str(tmp_path), SCHEMA, partition_by=["city"], key=["id"], properties={"owner": "me"}, profile=Profile.STRICT
    )

    assert table.partition_columns == ("city",)
    assert table.record_key == ("id",)
    assert table.properties["owner"] == "me"
    assert table.info.format == "delta"
    assert [instant.version for instant in table.timeline] == [0]
    assert_same_rows(table.scan(), [])


# --- travelling ---


@pytest.fixture
def travelled(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(ROWS)
    table.append(pa.table({"id": [3], "zip": ["94103"]}), merge_schema=True)
    return table


def test_rows_and_columns_are_those_of_the_instant(travelled):
    assert_same_rows(travelled.scan(at=1), [(1, "sf"), (2, "la")])
    assert_same_rows(travelled.scan(), [(1, "sf", None), (2, "la", None), (3, None, "94103")])
    assert travelled.schema_at(1).names == ("id", "city")
    assert travelled.schema_at().names == ("id", "city", "zip")


def test_a_filter_is_bound_to_the_columns_of_the_instant(travelled):
    with pytest.raises(tablespec.TableSpecError, match="no column 'zip'"):
        travelled.scan("zip is null", at=1)


def test_an_instant_is_found_by_version_text_and_time(travelled):
    first = travelled.timeline.at(1)

    assert travelled.instant(1) == travelled.instant("1") == travelled.instant(first) == first
    assert travelled.instant(first.time) == travelled.instant(first.time.isoformat()) == first
    assert travelled.instant() == travelled.timeline.latest()
    assert travelled.timeline.find_latest_completed_action_at(first.time) == first


def test_an_instant_that_is_not_there_is_an_error(travelled):
    for at in (9, "9", datetime(1990, 1, 1, tzinfo=UTC), "1990-01-01T00:00:00Z"):
        with pytest.raises(InstantNotFoundError):
            travelled.instant(at)


# --- formats that can only be read ---

WRITES = {
    "append": lambda table: table.append(ROWS),
    "set_properties": lambda table: table.set_properties({"a": "b"}),
    "upgrade_protocol": lambda table: table.upgrade_protocol(["x"]),
    "add_columns": lambda table: table.add_columns(Schema((Field(name="x", type=LONG),))),
    "add_constraint": lambda table: table.add_constraint("c", "qty > 0"),
    "checkpoint": lambda table: table.checkpoint(),
}


@pytest.mark.parametrize("verb", list(WRITES))
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_hudi_table_refuses_every_write_and_stays_as_it_was(tmp_path, verb, version):
    hudi = HudiTable(Storage.at(str(tmp_path)), version)
    hudi.properties()
    hudi.write(1, "a", "f", [("1", "a", 7)])
    before = contents(tmp_path)

    with pytest.raises(ReadOnlyFormatError) as caught:
        WRITES[verb](tablespec.open_table(str(tmp_path)))

    assert (caught.value.format, caught.value.operation) == ("hudi", verb)
    assert str(caught.value) == (
        f"{verb} is not supported on file://{tmp_path}: hudi tables can only be read by this release"
    )
    assert contents(tmp_path) == before


# --- history ---


def test_a_limited_history_has_the_newest_instants_and_reads_no_others(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    for _ in range(5):
        table.append(ROWS)
    storage = MeasuringStorage.at(str(tmp_path))
    measured = tablespec.Table(DeltaFormat(storage))
    measured.instant()
    storage.read_bytes.clear()

    limited = measured.history(limit=2)

    assert list(limited) == list(table.history()[:2])
    assert [entry.instant.version for entry in limited] == [5, 4]
    assert len(storage.read_bytes) == 2


def test_a_profile_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidOptionError, match=r"profile is 'strict'; expected Profile\.OPEN or Profile\.STRICT"):
        tablespec.create_table(f"{tmp_path}/table", SCHEMA, profile="strict")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("made_of", "told"),
    [
        ({"schema": {"id": "long"}}, r"schema is a dict; expected a pyarrow Schema, such as data\.schema"),
        ({"schema": ROWS}, r"schema is a Table; expected a pyarrow Schema, such as data\.schema"),
        ({"key": "id"}, "key is 'id'; expected the names of columns"),
        ({"partition_by": "city"}, "partition_by is 'city'; expected the names of columns"),
        ({"partition_by": None}, "partition_by is None; expected the names of columns"),
        ({"properties": [("a", "b")]}, "properties is .*; expected names with values"),
        ({"key": [5]}, r"key is \[5\]; expected the names of columns"),
        ({"partition_by": [5]}, r"partition_by is \[5\]; expected the names of columns"),
    ],
)
def test_no_table_is_made_of_what_means_nothing(tmp_path, made_of, told):
    with pytest.raises(InvalidOptionError, match=told):
        tablespec.create_table(f"{tmp_path}/table", **{"schema": SCHEMA, **made_of})

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [("nope >", "line 1 column"), ("nope > 0", "no column 'nope'"), ("id = 'x'", "does not fit"), ("", "no condition")],
)
@pytest.mark.parametrize("name", ["delta.constraints.c", "Delta.Constraints.C"])
def test_no_table_is_made_with_a_constraint_that_no_row_can_be_held_against(tmp_path, name, text, why):
    with pytest.raises(InvalidPropertyError, match=f"{name} is .*; expected a condition on rows: .*{why}"):
        tablespec.create_table(f"{tmp_path}/table", SCHEMA, properties={name: text})

    assert list(tmp_path.iterdir()) == []


def test_a_record_key_has_no_column_with_a_comma_in_its_name(tmp_path):
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "a,b": pa.int64()})

    with pytest.raises(InvalidSchemaError, match="the column 'a,b' cannot be part of a record key"):
        tablespec.create_table(f"{tmp_path}/table", schema, key=["a,b"])

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("profile", list(Profile))
def test_every_limit_gives_the_same_instants_as_the_whole_history(tmp_path, profile):
    table = tablespec.create_table(str(tmp_path), SCHEMA, profile=profile)
    table.append(ROWS)
    table.append(ROWS)

    for limit in range(5):
        assert list(table.history(limit)) == list(table.history()[:limit])


# --- what is given by mistake ---


@pytest.mark.parametrize("option", ["partition_by", "key"])
@pytest.mark.parametrize("names", ["id", 5, [1]], ids=repr)
def test_columns_of_a_new_table_are_names_and_no_text_alone(tmp_path, option, names):
    schema = pa.schema({"i": pa.int64(), "d": pa.int64(), "id": pa.int64()})

    with pytest.raises(InvalidOptionError, match=rf"{option} is .*; expected the names of columns, such as \['id'\]"):
        tablespec.create_table(str(tmp_path), schema, **{option: names})

    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    "read",
    [
        lambda table: table.scan(columns="id"),
        lambda table: table.incremental(0, columns="id"),
        lambda table: table.changes(0, columns="id"),
        lambda table: table.slice_reader().project("id"),
        lambda table: table.search("sf", columns="city"),
        lambda table: table.search("sf", select="city"),
        lambda table: table.create_text_index("city"),
        lambda table: table.replace_using("id", ROWS),
        lambda table: table.cluster("id"),
    ],
    ids=["scan", "incremental", "changes", "project", "search", "select", "text index", "replace_using", "cluster"],
)
def test_columns_are_names_and_no_text_alone(tmp_path, read):
    table = tablespec.create_table(str(tmp_path), SCHEMA)

    with pytest.raises(InvalidOptionError, match=r"expected the names of columns, such as \['id'\]"):
        read(table)


def test_a_reader_of_slices_takes_columns_as_a_list(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)

    assert table.slice_reader().project(["city"]).schema.names == ("city",)


def test_a_reading_mode_is_refused_when_it_is_none(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)

    with pytest.raises(InvalidOptionError, match="the option mode is 'snapshot'; expected Snapshot"):
        table.slice_reader().reading_mode("snapshot")


@pytest.mark.parametrize("place", [Path("trips"), b"trips", None], ids=["path", "bytes", "none"])
def test_a_place_is_text_and_nothing_else(place):
    with pytest.raises(UnsupportedUrlError, match=r"it is no text; write str\(path\)"):
        tablespec.open_table(place)


# --- what a notebook shows ---


def test_values_are_shown_in_a_few_lines_whatever_the_table_holds(tmp_path):
    schema = pa.schema([(f"column_{number}", pa.int64()) for number in range(200)])
    table = tablespec.create_table(f"{tmp_path}/wide", schema, key=["column_0"])
    for number in range(3):
        table.append(pa.table({name: [number] for name in schema.names}))
    handle = table.begin_update("column_1 = 1")
    shown = [
        table,
        table.scan("column_1 = 1"),
        table.incremental(1),
        table.changes(1, columns=["column_1"]),
        table.file_index,
        table.slice_reader(),
        table.record_index,
        handle,
        handle.sink(),
        handle.page_source(handle.files[0]),
    ]

    assert [type(one).__name__ for one in shown if len(repr(one)) > 1000] == []
    assert [type(one).__name__ for one in shown if f"{tmp_path}/wide" not in repr(one)] == []


def test_a_schema_is_shown_as_its_columns():
    schema = Schema((Field(name="id", type=LONG, nullable=False), Field(name="city", type=STRING)))

    assert repr(schema) == "Schema(id long not null, city string)"
