"""The metadata table of a table that Hudi wrote."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import tablespec
from tablespec import OpenOptions
from tablespec.errors import TableSpecWarning
from tablespec.formats.hudi.hfile import read_hfile
from tablespec.formats.hudi.listing import data_files

ARCHIVE = Path(__file__).parents[3] / "fixtures" / "hudi" / "mor_v9_metadata_table.zip"


@pytest.fixture
def folder(tmp_path) -> Path:
    with zipfile.ZipFile(ARCHIVE) as files:
        files.extractall(tmp_path)
    return tmp_path / ARCHIVE.stem


def test_files_are_listed_as_the_storage_lists_them(folder):
    state = tablespec.open_table(str(folder)).format.latest()

    listed = {(file.path, file.size) for file in state.metadata.files()}

    stored = {(file.path, file.size) for file in data_files(state.storage)}
    assert {(path, size) for path, size in stored if not path.endswith("metadata")} == listed


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

    found = table.format.locations([*(key for key, _, _ in rows), "k04", "no such key"])

    assert {key: (group.partition, group.id) for key, group in found.items()} == {
        key: (part, file.split("_")[0]) for key, part, file in rows
    }


@pytest.mark.parametrize("body", [b"", b"short", b"x" * 5000], ids=["empty", "short", "no trailer"])
def test_bytes_that_are_no_hfile_are_refused(body):
    with pytest.raises(ValueError, match="HFile"):
        read_hfile(body)


def test_an_index_that_does_not_know_the_newest_write_is_left_aside(folder):
    timeline = folder / ".hoodie" / "timeline"
    newest = max(timeline.glob("*.deltacommit"))
    (timeline / "20991231000000000_20991231000000001.deltacommit").write_bytes(newest.read_bytes())

    assert tablespec.open_table(str(folder)).format.latest().metadata is None
