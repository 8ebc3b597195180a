"""Writes that are planned here, whose rows are written elsewhere, and that are committed here."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import CommitConflictError, FullTableChangeError, StorageError
from tablespec.formats.delta.format import DeltaFormat
from tablespec.table import Table
from tests.rows import assert_same_rows
from tests.storages import Refusing

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
ROWS = pa.table({"id": [1, 2], "city": ["sf", "la"]})
NEW = pa.table({"id": [3], "city": ["sf"]})
EVERYTHING = tablespec.ReplaceOptions(allow_full_table=True)


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    made.append(ROWS)
    return made


def written(writer, data=NEW):
    """The files of rows that another process writes: all that it gets and gives is pickled."""
    return pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(data.to_reader())))


def data_files(table):
    return sorted(Path(table.url.removeprefix("file://")).rglob("*.parquet"))


def test_files_of_a_planned_append_are_committed(table):
    plan = table.plan_append(NEW.schema)

    done = table.commit_append(plan, written(plan.writer))

    assert (done.rows, done.instant.version) == (1, 2)
    assert_same_rows(table.scan(), [(1, "sf"), (2, "la"), (3, "sf")])


def test_a_planned_append_stands_beside_appends_that_came_in_between(table):
    plan = table.plan_append(NEW.schema)
    table.append(ROWS)

    table.commit_append(plan, written(plan.writer))

    assert_same_rows(table.scan(), [(1, "sf"), (2, "la"), (1, "sf"), (2, "la"), (3, "sf")])


def test_a_planned_append_stands_beside_the_first_deletion_vector_of_a_table(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(ROWS)
    plan = table.plan_append(NEW.schema)
    table.delete("id = 1")

    table.commit_append(plan, written(plan.writer))

    assert_same_rows(table.scan(), [(2, "la"), (3, "sf")])
    assert table.properties["delta.enableDeletionVectors"] == "true"


@pytest.mark.parametrize(
    "meddle",
    [
        lambda table: table.set_properties({"a": "b"}),
        lambda table: (table.delete("id = 1"), table.set_properties({"a": "b"})),
    ],
    ids=["a property", "the first deletion vector and a property"],
)
def test_a_planned_append_does_not_stand_beside_a_changed_property(tmp_path, meddle):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(ROWS)
    plan = table.plan_append(NEW.schema)
    meddle(table)

    with pytest.raises(CommitConflictError, match="the schema or the properties"):
        table.commit_append(plan, written(plan.writer))


def test_a_planned_append_that_brings_columns_does_not_stand_beside_the_first_deletion_vector(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(ROWS)
    more = NEW.append_column("fare", pa.array([1.0]))
    plan = table.plan_append(more.schema, merge_schema=True)
    table.delete("id = 1")

    with pytest.raises(CommitConflictError, match="the schema or the properties"):
        table.commit_append(plan, written(plan.writer, more))


@pytest.mark.parametrize("mapping", ["none", "name"])
def test_a_planned_append_brings_columns(tmp_path, mapping):
    table = tablespec.create_table(str(tmp_path), SCHEMA, properties={"delta.columnMapping.mode": mapping})
    data = NEW.append_column("more", pa.array(["x"]))

    plan = table.plan_append(data.schema, merge_schema=True)
    table.commit_append(plan, written(plan.writer, data))

    assert_same_rows(table.scan(), [(3, "sf", "x")])


def test_a_planned_append_conflicts_with_a_new_constraint_and_its_files_go(table):
    plan = table.plan_append(NEW.schema)
    files = written(plan.writer)
    table.add_constraint("few", "id < 3")

    with pytest.raises(CommitConflictError):
        table.commit_append(plan, files)

    assert len(data_files(table)) == 2
    assert_same_rows(table.scan(), ROWS)


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda table: None,
        lambda table: table.append(ROWS.slice(0, 0), transaction=("other", 1)),
        lambda table: table.compact(),
        lambda table: table.add_constraint("few", "id < 9"),
    ],
    ids=["nothing", "another commit", "a compaction", "a conflict"],
)
def test_files_are_committed_once_however_often_that_is_tried(table, meanwhile):
    append, replace = table.plan_append(NEW.schema), table.plan_replace("city = 'la'", NEW.schema)
    added, replacing = written(append.writer), written(replace, pa.table({"id": [4], "city": ["la"]}))
    table.commit_append(append, added)
    table.commit_replace(replace, replacing)
    meanwhile(table)
    newest = table.instant()

    again = table.commit_append(append, added), table.commit_replace(replace, replacing)

    assert (again[0].rows, again[1].instant, table.instant()) == (0, None, newest)
    assert_same_rows(table.scan(), [(1, "sf"), (3, "sf"), (4, "la")])


def test_rows_of_a_transaction_are_added_once_whoever_adds_them(table):
    plan = table.plan_append(NEW.schema)
    files = written(plan.writer)
    table.commit_append(plan, files, transaction=("stream", 4))

    again = [
        table.commit_append(plan, files, transaction=("stream", 4)),
        table.commit_append(plan, written(plan.writer), transaction=("stream", 3)),
        table.append(NEW, transaction=("stream", 4)),
    ]

    assert [(done.rows, done.instant.version) for done in again] == [(0, 2)] * 3
    assert_same_rows(table.scan(), [(1, "sf"), (2, "la"), (3, "sf")])
    table.append(NEW, transaction=("stream", 5))
    assert_same_rows(table.scan("city = 'sf'"), [(1, "sf"), (3, "sf"), (3, "sf")])


def test_files_of_a_commit_that_may_be_durable_stay(table, tmp_path):
    plan = table.plan_append(NEW.schema)
    files = written(plan.writer)
    broken = Table(DeltaFormat(Refusing(table.url)))

    with pytest.raises(StorageError):
        broken.commit_append(plan, files)

    assert (tmp_path / files[0].path).exists()


def test_files_of_a_planned_replacement_take_the_place_of_what_is_there_by_then(table):
    writer = table.plan_replace("city = 'sf'", NEW.schema)
    files = written(writer)
    table.append(pa.table({"id": [8, 9], "city": ["sf", "la"]}))

    done = table.commit_replace(writer, files)

    assert (done.rows_deleted, done.rows_inserted) == (2, 1)
    assert_same_rows(table.scan(), [(2, "la"), (3, "sf"), (9, "la")])


def test_a_planned_replacement_of_everything_must_be_asked_for(table):
    with pytest.raises(FullTableChangeError):
        table.plan_replace("", NEW.schema)

    writer = table.plan_replace("", NEW.schema, EVERYTHING)
    with pytest.raises(FullTableChangeError):
        table.commit_replace(writer, written(writer))
    table.commit_replace(writer, written(writer), EVERYTHING)

    assert_same_rows(table.scan(), NEW)


def test_a_planned_replacement_conflicts_with_a_new_constraint_and_its_files_go(table):
    writer = table.plan_replace("city = 'sf'", NEW.schema)
    files = written(writer)
    table.add_constraint("few", "id < 3")

    with pytest.raises(CommitConflictError, match="constraints"):
        table.commit_replace(writer, files)

    assert len(data_files(table)) == 2
    assert_same_rows(table.scan(), ROWS)


def test_a_replacement_of_a_transaction_is_done_once(table):
    writer = table.plan_replace("", NEW.schema, EVERYTHING)
    once = tablespec.ReplaceOptions(allow_full_table=True, transaction=("stream", 1))
    files = written(writer)
    table.commit_replace(writer, files, once)
    table.append(ROWS)

    assert table.commit_replace(writer, files, once).instant is None
    assert_same_rows(table.scan(), [(1, "sf"), (2, "la"), (3, "sf")])
