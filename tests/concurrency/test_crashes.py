"""A process that dies in the middle of a verb leaves the table as it was before, or as it is after."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tests.concurrency.crashes import VERBS
from tests.rows import assert_same_rows

CRASHES = Path(__file__).with_name("crashes.py")


@pytest.fixture
def source(tmp_path):
    """A table with two versions of rows, a deletion vector, and files that no version needs."""
    folder = tmp_path / "table"
    schema = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])
    table = tablespec.create_table(str(folder), schema, partition_by=["p"], key=["id"])
    table.append(pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "a", "b"], "v": [1.0, 2.0, 3.0, 4.0]}))
    table.append(pa.table({"id": [5, 6], "p": ["a", "b"], "v": [5.0, 6.0]}))
    table.delete("id = 6")
    return folder


def rows(folder):
    return tablespec.open_table(str(folder)).scan().to_table().to_pylist()


def files(folder):
    log = folder / "_delta_log"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and log not in path.parents}


@pytest.mark.parametrize("verb", VERBS)
def test_a_killed_verb_happened_or_did_not_and_vacuum_removes_what_it_left(source, verb):
    before = rows(source)

    done = subprocess.run(
        [sys.executable, str(CRASHES), str(source), verb], capture_output=True, text=True, check=True, timeout=200
    )

    ends = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert [status for _, status in ends] == [-signal.SIGKILL] * (len(ends) - 1) + [0]
    assert len(ends) > 2
    after = rows(source.with_name(f"table-{ends[-1][0]}"))
    for number, _ in ends:
        folder = source.with_name(f"table-{number}")
        found = rows(folder)
        if sorted(map(str, found)) != sorted(map(str, after)):
            assert_same_rows(found, before)
        table = tablespec.open_table(str(folder))
        table.vacuum(timedelta(0), allow_short_retention=True)
        assert_same_rows(rows(folder), found)
        assert files(folder) == needed(table)


def needed(table):
    """The data files and deletion vectors of the newest state."""
    slices = [slice_ for part in table.file_index.list_files_at() for slice_ in part.file_slices]
    return {slice_.base.path for slice_ in slices} | {slice_.deletes.path for slice_ in slices if slice_.deletes}
