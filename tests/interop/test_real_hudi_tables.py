"""Real Hudi tables, the fixtures among them, held against what Hudi itself reads from them."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import attrs
import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTable

import tablespec
from tablespec.errors import InstantNotFoundError, UnsupportedTableError
from tablespec.expr.bind import bind
from tablespec.model.file import FileGroupId, FileSlice

FOLDER = os.environ.get("TABLESPEC_REAL_TABLES")
ROOT = Path(FOLDER or "nowhere")
FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "hudi").glob("*.zip"))
BY_SPARK = [*FIXTURES, *sorted((ROOT / "hudi_spark").glob("*.zip"))]
OF_HUDI_RS = sorted((ROOT / "hudi").rglob("*.zip"))
REFUSED = {"bootstrap": "a bootstrap base path", "orc": "ORC base files"}
# Windows that tablespec answers otherwise on purpose; docs/hudi.md says why.
OTHERWISE = {
    "v6_mor_archived-000-": "Hudi looks only at files of active instants and misses rows",
    "v9_cow_special_partitions_url-000-20261116022621324": "Hudi shows encoded partition values in windows alone",
    "v9_cow_special_partitions_url-20261116022619096-": "Hudi shows encoded partition values in windows alone",
}
# Rows of logs have none of their own, and Hudi makes some up while it reads.
LOOSE = ("_hoodie_commit_seqno", "_hoodie_file_name")

needs_real_tables = pytest.mark.skipif(FOLDER is None, reason="TABLESPEC_REAL_TABLES names no folder of real tables")


def refusal(archive: Path) -> str | None:
    """The feature for which a table is refused, told by its name."""
    return next((feature for part, feature in REFUSED.items() if part in archive.stem), None)


def questions() -> Iterator[object]:
    """Every table that can be read with every question to it: the way to read, the time, and the answer of Spark."""
    for archive in BY_SPARK:
        if refusal(archive):
            continue
        with zipfile.ZipFile(archive) as files:
            expected = json.loads(files.read(f"{archive.stem}.expected.json"))
        asked = [("snapshot", "scan", None, expected["snapshot"])]
        asked += [("read_optimized", "read_optimized", None, expected["read_optimized"])]
        asked += [(f"as_of_{at}", "scan", at, answer) for at, answer in expected["as_of"].items()]
        asked += [
            (name, "scan", answer["options"]["as.of.instant"], answer)
            for name, answer in expected.get("extra", {}).items()
            if "as.of.instant" in answer["options"]
        ]
        for name, verb, at, answer in asked:
            schema = None if "error" in answer else expected["schemas"][answer["schema"]]
            yield pytest.param(archive, verb, at, answer, schema, id=f"{archive.stem}-{name}")


def windows(kind: str) -> Iterator[object]:
    """Every window of a kind that Hudi was asked for, with its answer."""
    for archive in BY_SPARK:
        if refusal(archive):
            continue
        with zipfile.ZipFile(archive) as files:
            expected = json.loads(files.read(f"{archive.stem}.expected.json"))
        for answer in expected.get(kind, ()):
            schema = None if "error" in answer else expected["schemas"][answer["schema"]]
            name = f"{archive.stem}-{answer['begin']}-{answer['end']}"
            reason = next(
                (why for part, why in OTHERWISE.items() if kind == "incremental" and name.startswith(part)), None
            )
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            yield pytest.param(archive, answer, schema, id=name, marks=marks)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Gives the folder of the table in an archive, unpacked once."""
    done: dict[Path, Path] = {}

    def unpack(archive: Path) -> str:
        if archive not in done:
            done[archive] = tmp_path_factory.mktemp("table")
            with zipfile.ZipFile(archive) as files:
                files.extractall(done[archive], [name for name in files.namelist() if "__MACOSX" not in name])
        return str(done[archive] / archive.stem)

    return unpack


@pytest.mark.parametrize(("archive", "verb", "at", "answer", "schema"), list(questions()))
def test_a_state_reads_as_hudi_on_spark_reads_it(unpacked, archive, verb, at, answer, schema):
    read = getattr(tablespec.open_table(unpacked(archive)), verb)
    if "error" in answer:
        with pytest.raises(InstantNotFoundError):
            read(at=at).to_table()
        return

    names = [field["name"] for field in schema["fields"]]
    rows = read(columns=names, at=at).to_table()

    assert told(rows) == expected_rows(names, answer)
    assert read(at=at).to_table().column_names == [name for name in names if not is_meta(name)]


@pytest.mark.parametrize(("archive", "answer", "schema"), list(windows("incremental")))
def test_a_window_reads_as_hudi_on_spark_reads_it(unpacked, archive, answer, schema):
    table = tablespec.open_table(unpacked(archive))
    begin, end = (None if answer["begin"] == "000" else answer["begin"]), answer["end"]
    if "error" in answer:
        with pytest.raises(UnsupportedTableError):
            table.incremental(begin, end).to_table()
        return

    names = [field["name"] for field in schema["fields"]]
    rows = table.incremental(begin, end, columns=names).to_table()

    assert told(rows) == expected_rows(names, answer)


@pytest.mark.parametrize(
    "archive", [archive for archive in BY_SPARK if "on_read" in archive.stem], ids=lambda a: a.stem
)
def test_columns_are_found_by_id_where_that_is_asked_for(unpacked, archive):
    with zipfile.ZipFile(archive) as files:
        expected = json.loads(files.read(f"{archive.stem}.expected.json"))
    answer = expected["extra"]["on_read"]
    names = [field["name"] for field in expected["schemas"][answer["schema"]]["fields"]]
    table = tablespec.open_table(unpacked(archive), options=tablespec.OpenOptions(schema_on_read=True))

    assert told(table.scan(columns=names).to_table()) == expected_rows(names, answer)


@pytest.mark.parametrize(("archive", "answer", "schema"), list(windows("cdc")))
def test_changes_read_as_hudi_on_spark_reads_them(unpacked, archive, answer, schema):
    table = tablespec.open_table(unpacked(archive))
    begin = None if answer["begin"] == "000" else answer["begin"]
    found = changes_in_json(table.changes(begin, answer["end"]).to_table().to_pylist(), table.record_key)
    if "error" in answer:
        return

    names = [field["name"] for field in schema["fields"]]
    listed = [dict(zip(names, row)) for row in answer["rows"]]
    images = [[row["op"], str(row["ts_ms"]), image(row["before"]), image(row["after"])] for row in listed]
    assert found == sorted(json.dumps(one, sort_keys=True) for one in images)


@pytest.mark.parametrize(("archive", "answer", "schema"), list(windows("cdc")))
def test_changes_without_columns_of_the_table_are_as_many(unpacked, archive, answer, schema):
    table = tablespec.open_table(unpacked(archive))
    begin = None if answer["begin"] == "000" else answer["begin"]

    kinds = table.changes(begin, answer["end"]).to_table().column("_change_type").to_pylist()

    alone = table.changes(begin, answer["end"], columns=["_change_type"])
    assert alone.to_table().column("_change_type").to_pylist() == kinds
    assert alone.count() == len(kinds)


def with_metadata_table() -> Iterator[object]:
    """Every table whose properties say that it has a metadata table."""
    for archive in (*BY_SPARK, *OF_HUDI_RS):
        with zipfile.ZipFile(archive) as files:
            properties = files.read(f"{archive.stem}/.hoodie/hoodie.properties").decode("latin-1")
        if re.search(r"hoodie.table.metadata.partitions=.*files", properties) and not refusal(archive):
            yield pytest.param(archive, id=archive.stem)


@pytest.mark.parametrize("archive", list(with_metadata_table()))
def test_the_metadata_table_changes_no_answer(unpacked, archive):
    table = tablespec.open_table(unpacked(archive))
    bare = tablespec.open_table(unpacked(archive), options=tablespec.OpenOptions(metadata_table=False))

    assert table.format.latest().metadata is not None
    assert [one.slice for one in table.scan().slices] == [without_times(one.slice) for one in bare.scan().slices]
    for name in table.schema.names:
        for where in (f"{name} IS NULL", f"{name} IS NOT NULL"):
            assert as_pairs(table.scan(where).to_table().to_pylist()) == as_pairs(
                bare.scan(where).to_table().to_pylist()
            )
    state = table.format.latest()
    if "partition_stats" in state.metadata.partitions:
        # The statistics of partitions alone leave out what those of files do in partitions without logs.
        alone = attrs.evolve(
            state.files, metadata=attrs.evolve(state.metadata, partitions=frozenset({"partition_stats"}))
        )
        loose = {one.group.partition for one in state.listing.slices if not one.is_clean}
        assert {one.slice for one in alone.judge(bind(f"{table.record_key[0]} > 'zzzz'", state.schema))} == {
            one for one in state.listing.slices if one.group.partition in loose
        }
    for value in ("gum", "birch", "zzz"):
        if "name" in table.schema.names:
            where = f"name = '{value}' OR name > 'n1' AND name < 'n2'"
            assert as_pairs(table.scan(where).to_table().to_pylist()) == as_pairs(
                bare.scan(where).to_table().to_pylist()
            )


def without_times(slice_: FileSlice) -> FileSlice:
    """The slice without the time of its file, which the metadata table does not know."""
    return attrs.evolve(slice_, base=slice_.base and attrs.evolve(slice_.base, modified=0))


@pytest.mark.parametrize("archive", list(with_metadata_table()))
def test_the_record_index_finds_the_groups_of_rows(unpacked, archive):
    table = tablespec.open_table(unpacked(archive))
    state = table.format.latest()
    if "record_index" not in state.metadata.partitions:
        assert state.key_locations([pa.array(["k00"])]) is None
        return
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = [tuple(row.values()) for row in table.scan(columns=columns).to_table().to_pylist()]
    once = {key for key, count in Counter(key for key, _, _ in rows).items() if count == 1}
    expected = {key: FileGroupId(part, file.split("_")[0]) for key, part, file in rows if key in once}

    found = state.metadata.located([*expected, "no such key"])

    assert (found.groups, found.entries) == (expected, len({key for key, _, _ in rows}))


@pytest.mark.parametrize("archive", list(with_metadata_table()))
def test_keys_are_tagged_as_they_are_without_the_metadata_table(unpacked, archive):
    table = tablespec.open_table(unpacked(archive))
    bare = tablespec.open_table(unpacked(archive), options=tablespec.OpenOptions(metadata_table=False))
    keys = table.scan(columns=list(table.record_key)).to_table()

    assert table.record_index.tag(keys).equals(bare.record_index.tag(keys))
    for key in (keys.slice(number, 1) for number in range(min(4, keys.num_rows))):
        assert table.record_index.tag(key).equals(bare.record_index.tag(key))
    if "record_index" in table.format.latest().metadata.partitions:
        assert table.format.latest().key_locations([keys.column(name) for name in table.record_key]) is not None


def changes_in_json(rows: list[dict[str, object]], key: tuple[str, ...]) -> list[str]:
    """Changes as the judge writes them, the two images of an update in one."""
    found, before = [], {}
    for row in rows:
        change, version = row.pop("_change_type"), str(row.pop("_commit_version"))
        row.pop("_commit_timestamp")
        values = {name: value for name, value in row.items() if value is not None}
        same_row = (version, *(row[name] for name in key))
        match change:
            case "insert":
                found.append(["i", version, None, values])
            case "delete":
                found.append(["d", version, values, None])
            case "update_preimage":
                before[same_row] = values
            case _:
                found.append(["u", version, before.pop(same_row), values])
    assert not before
    return sorted(json.dumps(one, sort_keys=True) for one in found)


def image(text: str | None) -> dict[str, object] | None:
    """A row of the judge, without meta columns and nulls."""
    parsed = json.loads(text) if text is not None else None
    return parsed and {name: value for name, value in parsed.items() if value is not None and not is_meta(name)}


@needs_real_tables
@pytest.mark.parametrize(
    "archive", [archive for archive in (*BY_SPARK, *OF_HUDI_RS) if refusal(archive)], ids=lambda archive: archive.stem
)
def test_a_table_that_would_be_misread_is_refused_by_name(unpacked, archive):
    with pytest.raises(UnsupportedTableError) as refused:
        tablespec.open_table(unpacked(archive))

    assert refused.value.feature == refusal(archive)


@needs_real_tables
@pytest.mark.parametrize(
    "archive", [archive for archive in OF_HUDI_RS if not refusal(archive)], ids=lambda archive: archive.stem
)
def test_every_state_reads_as_hudi_rs_reads_it(unpacked, archive):
    table, oracle = tablespec.open_table(unpacked(archive)), HudiTable(unpacked(archive))

    assert as_pairs(table.scan().to_table().to_pylist()) == as_pairs(pylist(oracle.read()))
    for instant in table.timeline:
        theirs = oracle.read(HudiReadOptions().with_as_of_timestamp(str(instant.version)))
        assert as_pairs(table.scan(at=instant.version).to_table().to_pylist()) == as_pairs(pylist(theirs))


def told(rows: pa.Table) -> list[str]:
    return in_json(rows.select([name for name in rows.column_names if name not in LOOSE]))


def expected_rows(names: list[str], answer: dict[str, list[list[object]]]) -> list[str]:
    kept = [index for index, name in enumerate(names) if name not in LOOSE]
    return sorted(json.dumps([row[index] for index in kept]) for row in answer["rows"])


def is_meta(name: str) -> bool:
    return name.startswith("_hoodie_") and name != "_hoodie_is_deleted"


def pylist(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [{name: row[name] for name in row if not is_meta(name)} for batch in batches for row in batch.to_pylist()]


def as_pairs(rows: list[dict[str, object]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def in_json(table: pa.Table) -> list[str]:
    """The rows as the answers of the judge are written, in the order of their text."""
    columns = [[plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return sorted(json.dumps(row) for row in map(list, zip(*columns)))


def plain(value: object, kind: pa.DataType) -> object:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return [plain(value[field.name], field.type) for field in kind]
    if pa.types.is_map(kind):
        pairs = [[plain(key, kind.key_type), plain(item, kind.item_type)] for key, item in value]
        return sorted(pairs, key=json.dumps)
    if pa.types.is_list(kind):
        return [plain(item, kind.value_type) for item in value]
    match value:
        case float():
            return repr(value)
        case bytes():
            return value.hex()
        case datetime():
            return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        case date():
            return (value - date(1970, 1, 1)).days
        case bool() | int() | str():
            return value
        case _:
            return str(value)
