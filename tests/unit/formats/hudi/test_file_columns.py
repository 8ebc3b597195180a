"""Files as columns."""

from __future__ import annotations

import os
import sys

import pytest

from tablespec.formats.hudi.file_columns import data_files, file_columns, listed_files
from tablespec.storage.store import FileInfo, Storage


def test_everything_but_the_metadata_folder_is_listed(tmp_path):
    storage = Storage.at(str(tmp_path))
    listed = ["-1/f", ".a/f", ".hoodie0/f", ".hoodie_partition_metadata", "b/.hoodie/f", "ü/f"]
    for path in [*listed, ".hoodie/hoodie.properties", ".hoodie/metadata/files/f", ".hoodie/\uffff/f"]:
        storage.put(path, b"")

    assert [file.path for file in data_files(storage)] == listed


def test_columns_give_back_the_files_that_they_were_made_of():
    files = [FileInfo("a", 1, 10), FileInfo("b/c/x", 2, 20), FileInfo("b/y", 3, 30)]

    assert file_columns(files).infos() == files
    assert file_columns(()).infos() == []


def test_a_folder_whose_name_is_no_text_keeps_it():
    files = [FileInfo("a/f", 1, 10), FileInfo("\udcff/f", 2, 20)]

    assert file_columns(files).infos() == files


def test_the_files_of_a_folder_stand_together_where_folders_lie_inside_of_others():
    files = [FileInfo(path, 0, 0) for path in ("a/b", "a/c/x", "a/c/y", "a/d", "e")]

    columns = file_columns(files)

    assert columns.folders == ("a", "a/c", "")
    assert columns.names.to_pylist() == ["b", "d", "x", "y", "e"]
    assert columns.numbers.to_pylist() == [0, 0, 1, 1, 2]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take no names that are no text")
def test_a_name_that_is_no_text_is_that_of_no_file_of_a_table(tmp_path):
    (tmp_path / "f_0-0-0_1.parquet").touch()
    (tmp_path / os.fsdecode(b"\xff_0-0-0_1.parquet")).touch()

    assert listed_files(Storage.at(str(tmp_path))).names.to_pylist() == ["f_0-0-0_1.parquet", ""]
