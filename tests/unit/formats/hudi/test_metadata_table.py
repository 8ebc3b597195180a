"""The metadata table of a table that Hudi wrote."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec import OpenOptions
from tablespec.errors import TableSpecWarning
from tablespec.expr.bind import bind
from tablespec.formats.hudi.file_columns import data_files
from tablespec.formats.hudi.hfile import read_hfile
from tablespec.formats.hudi.metadata_table import ColumnStat, _spanning
from tablespec.formats.hudi.pruning import without_match
from tablespec.model.file import BaseFile, FileSlice
from tests.rows import assert_same_rows

ARCHIVE = Path(__file__).parents[3] / "fixtures" / "hudi" / "mor_v9_metadata_table.zip"


@pytest.fixture
def folder(tmp_path) -> Path:
    with zipfile.ZipFile(ARCHIVE) as files:
        files.extractall(tmp_path)
    return tmp_path / ARCHIVE.stem


def test_files_are_listed_as_the_storage_lists_them(folder):
    state = tablespec.open_table(str(folder)).format.latest()

    listed = {(file.path, file.size) for file in state.metadata.files().infos()}

    stored = {(file.path, file.size) for file in data_files(state.storage)}
    assert {(path, size) for path, size in stored if not path.endswith("metadata")} == listed


def listed(folder: Path, *filters: str, metadata_table: bool = True) -> list[tuple[object, ...]]:
    """The partitions that a filter leaves, with their slices; only folders know when files were changed."""
    table = tablespec.open_table(str(folder), options=OpenOptions(metadata_table=metadata_table))
    assert (table.format.latest().metadata is not None) is metadata_table
    found = table.file_index.list_files_at(None, list(filters))
    return [
        (one.descriptor, [attrs.evolve(slice_, base=unchanged(slice_)) for slice_ in one.file_slices]) for one in found
    ]


def unchanged(slice_: FileSlice) -> BaseFile | None:
    """The base file of a slice without the time of its change."""
    return slice_.base and attrs.evolve(slice_.base, modified=0)


@pytest.mark.parametrize("filters", [[], ["part = 'a'"], ["part <> 'a'", "qty > 3"], ["part = 'none'"]])
def test_the_index_and_the_folders_list_the_same_slices(folder, filters):
    assert listed(folder, *filters) == listed(folder, *filters, metadata_table=False)
    assert len(listed(folder)) == 3


@pytest.mark.parametrize("metadata_table", [True, False], ids=["by the index", "by folders"])
def test_nothing_is_made_of_partitions_that_a_filter_excludes(folder, metadata_table):
    table = tablespec.open_table(str(folder), options=OpenOptions(metadata_table=metadata_table))

    table.file_index.list_files_at(None, ["part = 'b'"])

    assert set(table.format.latest().listing._made) == {"b"}


def test_a_file_that_the_index_does_not_know_is_not_looked_at(folder):
    before = tablespec.open_table(str(folder)).scan().to_table().num_rows
    for base in (folder / "a").glob("*.parquet"):
        (folder / "a" / f"stray-0_0-0-0_{base.stem.rsplit('_', 1)[-1]}.parquet").write_bytes(base.read_bytes())

    assert tablespec.open_table(str(folder)).scan().to_table().num_rows == before
    ignoring = tablespec.open_table(str(folder), options=OpenOptions(metadata_table=False))
    assert ignoring.scan().to_table().num_rows > before


def test_column_statistics_leave_out_base_files_that_cannot_match(folder):
    table = tablespec.open_table(str(folder))
    assert "column_stats" in table.format.latest().metadata.partitions

    assert [one.slice for one in table.scan("name = 'never'").slices if one.slice.is_clean] == []
    assert all(not one.slice.is_clean for one in table.scan("qty > 1000").slices)


def test_statistics_of_partitions_leave_out_their_base_files(folder):
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("column_stats,", ""))
    state = tablespec.open_table(str(folder)).format.latest()
    in_a, in_c = ([one for one in state.listing.slices if one.group.partition == part] for part in ("a", "c"))
    clean = [one for one in (*in_a, *in_c) if one.is_clean]
    beyond = bind("qty > 1000 OR name = 'never'", state.schema)
    assert state.metadata.partitions == {"files", "partition_stats", "record_index"} and len(clean) == 2

    assert without_match(state.metadata, clean, state.schema, beyond, newest=True) == frozenset(clean)
    assert (
        without_match(state.metadata, clean, state.schema, bind("qty >= 0", state.schema), newest=True) == frozenset()
    )
    # They are about the newest state, and a slice with logs keeps its partition.
    assert without_match(state.metadata, clean, state.schema, beyond, newest=False) == frozenset()
    assert without_match(state.metadata, in_a, state.schema, beyond, newest=True) == frozenset()


def test_records_of_a_partition_span_what_all_of_them_say(folder):
    metadata = tablespec.open_table(str(folder)).format.latest().metadata
    rows = tablespec.open_table(str(folder)).scan().to_table().to_pylist()

    found = {(stat.file, stat.column): stat for stat in metadata.partition_stats(frozenset({"id", "qty"}))}

    for (partition, column), stat in found.items():
        values = [row[column] for row in rows if row["part"] == partition and row[column] is not None]
        assert all(stat.low <= value <= stat.high for value in values)
    assert {partition for partition, _ in found} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("records", "bounds"),
    [
        ([(1, 5, 0, 3), (3, 9, 1, 2)], (1, 9)),
        ([(0, 0, 3, 3), (3, 9, 1, 2)], (3, 9)),
        ([(None, None, 3, 3), ("a", "b", 0, 2)], ("a", "b")),
        ([(None, None, 0, 3), (3, 9, 1, 2)], (None, None)),
        ([("1", "5", 0, 3), (3, 9, 1, 2)], (None, None)),
        ([(None, None, 3, 3)], (None, None)),
    ],
    ids=["wider", "zeros that stand for nulls", "all null", "unknown", "of two types", "none"],
)
def test_bounds_of_a_partition_are_never_too_narrow(records, bounds):
    spanned = _spanning([ColumnStat("a", "x", low, high, nulls, rows) for low, high, nulls, rows in records])

    assert (spanned.low, spanned.high) == bounds


def test_a_damaged_index_is_left_aside_with_a_warning(folder):
    expected = sorted(map(str, tablespec.open_table(str(folder)).scan().to_table().to_pylist()))
    for file in (folder / ".hoodie" / "metadata" / "files").glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:-100])

    with pytest.warns(TableSpecWarning, match="the metadata table is not used"):
        table = tablespec.open_table(str(folder))
        found = sorted(map(str, table.scan().to_table().to_pylist()))
    assert found == expected


def test_an_index_that_is_still_being_made_is_left_aside(folder):
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(
        properties.read_text().replace("partitions.inflight=", "partitions.inflight=files,", 1)
        if "partitions.inflight=" in properties.read_text()
        else properties.read_text() + "\nhoodie.table.metadata.partitions.inflight=files\n"
    )

    assert tablespec.open_table(str(folder)).format.latest().metadata is None


def test_record_keys_are_located(folder):
    table = tablespec.open_table(str(folder))
    columns = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = [tuple(row.values()) for row in table.scan(columns=columns).to_table().to_pylist()]

    found = table.format.latest().metadata.located([*(key for key, _, _ in rows), "k04", "no such key"])

    assert {key: (group.partition, group.id) for key, group in found.groups.items()} == {
        key: (part, file.split("_")[0]) for key, part, file in rows
    }
    assert found.entries == len(rows)


def tagged(folder: Path, *keys: str, **options: bool) -> list[dict[str, object]]:
    """Where keys lie, by a table that is opened anew."""
    table = tablespec.open_table(str(folder), options=OpenOptions(**options))
    return table.record_index.tag(pa.table({"id": pa.array(keys, pa.string())})).to_pylist()


def rewritten(folder: Path, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of a base file where it lies."""
    pq.write_table(change(pq.read_table(folder / path, partitioning=None)), folder / path)


def clean_files(folder: Path) -> dict[str, list[str]]:
    """The base files of slices without logs, with their keys."""
    table = tablespec.open_table(str(folder))
    paths = [one.slice.base.path for one in table.scan().slices if one.slice.is_clean]
    return {path: pq.read_table(folder / path, partitioning=None).column("id").to_pylist() for path in paths}


def test_keys_are_tagged_as_they_are_without_the_index(folder):
    keys = [*tablespec.open_table(str(folder)).scan().to_table().column("id").to_pylist(), "no such key"]

    for some in ([key] for key in keys):
        assert tagged(folder, *some) == tagged(folder, *some, metadata_table=False)
    assert tagged(folder, *keys, *keys) == tagged(folder, *keys, *keys, metadata_table=False)


def test_files_that_do_not_hold_a_key_by_the_record_index_are_not_read(folder):
    (path, (key, *_)), (other, _), *_ = clean_files(folder).items()
    rewritten(folder, other, lambda rows: rows.set_column(rows.column_names.index("id"), "id", [[key] * len(rows)]))

    assert [row["file"] for row in tagged(folder, key)] == [path]
    assert sorted({row["file"] for row in tagged(folder, key, metadata_table=False)}) == sorted([path, other])


def test_a_record_index_that_does_not_know_every_row_is_left_aside(folder):
    (path, (key, *_)), (other, _), *_ = clean_files(folder).items()
    twin = pq.read_table(folder / path, partitioning=None).slice(0, 1)
    rewritten(folder, other, lambda rows: pa.concat_tables([rows, twin]))

    assert sorted(row["file"] for row in tagged(folder, key)) == sorted([path, other])


def test_a_record_index_that_cannot_be_read_is_left_aside_with_a_warning(folder):
    (key, *_), *_ = clean_files(folder).values()
    expected = tagged(folder, key)
    for log in (folder / ".hoodie" / "metadata" / "record_index").glob(".record*.log*"):
        log.write_bytes(log.read_bytes()[:-50])

    with pytest.warns(TableSpecWarning, match="the record index of the metadata table is not used"):
        assert tagged(folder, key) == expected


@pytest.fixture
def plain(tmp_path) -> Path:
    """A table without logs, whose metadata table has a record index."""
    with zipfile.ZipFile(ARCHIVE.with_name("cow_v9_record_index.zip")) as files:
        files.extractall(tmp_path)
    return tmp_path / "cow_v9_record_index"


def files_for(folder: Path, where: str, **options: bool) -> list[str]:
    """The files that a scan reads, of a table that is opened anew."""
    table = tablespec.open_table(str(folder), options=OpenOptions(**options))
    return [one.slice.base.path for one in table.scan(where).slices]


def test_files_that_do_not_hold_the_keys_of_a_filter_by_the_record_index_are_left_out(plain):
    held = clean_files(plain)
    assert len(held) > 2

    for path, keys in held.items():
        assert files_for(plain, f"id = '{keys[0]}'") == [path]
    firsts = [keys[0] for keys in list(held.values())[:2]]
    assert files_for(plain, f"id IN ('{firsts[0]}', '{firsts[1]}', 'no such key')") == sorted(list(held)[:2])
    # By their statistics two files might hold this one.
    assert sum(min(keys) < "k030" < max(keys) for keys in held.values()) == 2
    assert files_for(plain, "id = 'k030'") == []


@pytest.mark.parametrize("where", ["id = 'k01'", "id IN ('k00', 'k05', 'no such key')", "id = 'k01' AND qty > 3"])
def test_filters_on_keys_give_the_rows_that_they_give_without_the_index(plain, where):
    found, expected = (
        tablespec.open_table(str(plain), options=OpenOptions(metadata_table=used)).scan(where).to_table()
        for used in (True, False)
    )

    assert_same_rows(found, expected)


def test_a_filter_does_not_go_by_a_record_index_that_does_not_know_every_row(plain):
    (path, (key, *_)), (other, _), *_ = clean_files(plain).items()
    twin = pq.read_table(plain / path, partitioning=None).slice(0, 1)
    asked = [pa.array([key])]
    assert tablespec.open_table(str(plain)).record_index.groups_with(asked) is not None

    rewritten(plain, other, lambda rows: pa.concat_tables([rows, twin]))

    assert tablespec.open_table(str(plain)).record_index.groups_with(asked) is None


def test_a_filter_does_not_go_by_a_record_index_where_slices_have_logs(folder):
    (key, *_), *_ = clean_files(folder).values()
    logged = [one.slice for one in tablespec.open_table(str(folder)).scan().slices if one.slice.logs]

    scanned = [one.slice for one in tablespec.open_table(str(folder)).scan(f"id = '{key}'").slices]

    assert set(logged) <= set(scanned)


def test_the_record_index_tells_nothing_of_older_states(folder):
    table = tablespec.open_table(str(folder))
    older = table.format.state_at(table.timeline.instants[0].version)

    assert older.key_locations([pa.array(["k01"])]) is None
    assert table.format.latest().key_locations([pa.array(["k01"])]) is not None


@pytest.mark.parametrize("body", [b"", b"short", b"x" * 5000], ids=["empty", "short", "no trailer"])
def test_bytes_that_are_no_hfile_are_refused(body):
    with pytest.raises(ValueError, match="HFile"):
        read_hfile(body)


def test_an_index_that_does_not_know_the_newest_write_is_left_aside(folder):
    timeline = folder / ".hoodie" / "timeline"
    newest = max(timeline.glob("*.deltacommit"))
    (timeline / "20991231000000000_20991231000000001.deltacommit").write_bytes(newest.read_bytes())

    assert tablespec.open_table(str(folder)).format.latest().metadata is None
