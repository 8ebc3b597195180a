"""Change feeds and row ids, held against what Delta on Spark and deltalake read."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import tablespec
from tablespec import Table
from tests.handmade import actions_of
from tests.rows import assert_same_rows
from tests.unit.read.histories import COLUMNS, GOING, history, steps, tuples

FOLDER = os.environ.get("TABLESPEC_REAL_TABLES")
ROOT = Path(FOLDER or "nowhere")
ANSWERS = json.loads((ROOT / "delta_spark/expected.json").read_text()) if FOLDER else {}

real_tables = [
    pytest.mark.real_tables,
    pytest.mark.skipif(FOLDER is None, reason="TABLESPEC_REAL_TABLES names no folder of real tables"),
]


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Callable[[str], Table]:
    """Opens a table of Spark by its name; it is unpacked once."""
    folder = tmp_path_factory.mktemp("real")

    def opened(name: str) -> Table:
        if not (folder / name).exists():
            with zipfile.ZipFile(ROOT / f"delta_spark/{name}.zip") as files:
                files.extractall(folder)
        return tablespec.open_table(str(folder / name))

    return opened


# --- what Spark read ---


def feeds() -> Iterator[object]:
    for name, answer in ANSWERS.items():
        if "cdf" in answer:
            yield pytest.param(name, answer["cdf"], id=name, marks=real_tables)


def row_ids() -> Iterator[object]:
    for name, answer in ANSWERS.items():
        for version, read in answer["versions"].items():
            if "row_ids" in read:
                yield pytest.param(name, int(version), read["row_ids"], id=f"{name}-{version}", marks=real_tables)


@pytest.mark.parametrize(("name", "feed"), list(feeds()))
def test_every_stretch_of_a_change_feed_reads_as_delta_on_spark_read_it(real, name, feed):
    table = real(name)
    last = table.instant().version

    for after in range(-1, last + 1):
        for upto in range(max(after, 0), last + 1):
            found = table.changes(after if after >= 0 else None, upto, columns=feed["columns"])
            wanted = [row for row in feed["rows"] if after < row[-1] <= upto]
            assert sorted(map(as_spark, tuples(found))) == sorted(map(json.dumps, wanted))


@pytest.mark.parametrize(("name", "version", "wanted"), list(row_ids()))
def test_row_ids_and_commit_versions_are_those_that_delta_on_spark_read(real, name, version, wanted):
    scan = real(name).scan(columns=["id", "_row_id", "_row_commit_version"], at=version)

    assert_same_rows(scan, [tuple(row) for row in wanted])


@pytest.mark.parametrize(("name", "version", "wanted"), list(row_ids()))
def test_what_is_new_since_a_version_is_what_spark_gave_a_later_commit_version(real, name, version, wanted):
    table = real(name)

    for after in range(version + 1):
        new = table.incremental(after, version, columns=["id", "_row_id", "_row_commit_version"])
        assert_same_rows(new, [tuple(row) for row in wanted if row[-1] > after])


def as_spark(row: tuple[object, ...]) -> str:
    """A row as the answers of Spark are written."""
    return json.dumps([_plain(value) for value in row])


def _plain(value: object) -> object:
    match value:
        case dict():
            return [_plain(item) for item in value.values()]
        case float():
            return repr(value)
        case _:
            return value


# --- what Spark wrote without a change feed ---


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, id=name, marks=real_tables) for name in sorted(ANSWERS)],
)
def test_a_state_and_the_changes_after_it_make_every_later_state(real, name):
    table = real(name)
    last = table.instant().version

    for after in range(last):
        for upto in range(after + 1, last + 1):
            changes = table.changes(after, upto)
            going = [row[:-3] for row in tuples(changes) if row[-3] in GOING]
            coming = [row[:-3] for row in tuples(changes) if row[-3] not in GOING]
            # What was there and what came is what is there and what went.
            assert_same_rows([*seen_through(table, after, upto), *coming], [*tuples(table.scan(at=upto)), *going])


def seen_through(table: Table, version: int, later: int) -> list[tuple[object, ...]]:
    """The rows of a version in the columns of a later one."""
    reader = table.slice_reader(later)
    slices = [slice_ for one in table.file_index.list_files_at(version) for slice_ in one.file_slices]
    return [tuple(row.values()) for slice_ in slices for batch in reader.open(slice_) for row in batch.to_pylist()]


# --- what deltalake reads ---


@given(given=st.lists(steps(), min_size=1, max_size=6), partitioned=st.booleans())
def test_the_change_feed_of_our_tables_reads_as_deltalake_reads_it(tmp_path_factory, given, partitioned):
    folder = tmp_path_factory.mktemp("table")
    past = history(folder, given, partitioned=partitioned, feed=True)

    for version in range(1, len(past.commits) + 1):
        theirs = pa.table(DeltaTable(str(folder)).load_cdf(starting_version=version, ending_version=version).read_all())
        columns = [*COLUMNS, "_change_type", "_commit_version"]
        assert_same_rows(past.table.changes(version - 1, version, columns=columns), theirs.select(columns))


def test_a_row_that_deltalake_updates_shows_as_one_that_went_and_one_that_came(tmp_path):
    write_deltalake(str(tmp_path), pa.table({"id": [1, 2, 3], "city": ["sf", "la", "la"]}))
    DeltaTable(str(tmp_path)).update(updates={"city": "'ny'"}, predicate="id = 2")
    DeltaTable(str(tmp_path)).optimize.compact()

    changes = tablespec.open_table(str(tmp_path)).changes(0, columns=["id", "city", "_change_type"])

    assert_same_rows(changes, [(2, "la", "delete"), (2, "ny", "insert")])


def test_files_that_deltalake_compacts_hold_nothing_new(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    DeltaTable(str(tmp_path)).optimize.compact()

    again = tablespec.open_table(str(tmp_path))

    assert actions_of(tmp_path, 3, "add")[0]["dataChange"] is False
    assert_same_rows(again.incremental(2), [])
    assert_same_rows(again.incremental(1), [(1,), (2,)])
