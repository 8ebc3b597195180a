"""An append-only table lets rows come and never go."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import AppendOnlyTableError
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2], "p": ["a", "b"]})
REMOVING = {
    "delete": lambda table: table.delete("id = 1"),
    "delete of a whole file": lambda table: table.delete("p = 'a'"),
    "update": lambda table: table.update({"id": "id + 10"}, "id = 1"),
    "replace_where": lambda table: table.replace_where("p = 'a'", ROWS.slice(0, 1)),
    "merge": lambda table: table.merge(ROWS, "t.id = s.id", tablespec.when_matched_update()),
    "restore": lambda table: table.restore(0),
}


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(
        str(tmp_path / "t"), ROWS.schema, partition_by=["p"], properties={"delta.appendOnly": "true"}
    )
    made.append(ROWS)
    return made


def files(folder):
    return sorted(str(path) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("verb", REMOVING)
def test_a_verb_that_removes_rows_is_refused_and_leaves_nothing(table, tmp_path, verb):
    before = files(tmp_path)

    with pytest.raises(AppendOnlyTableError, match="append-only"):
        REMOVING[verb](table)

    assert files(tmp_path) == before
    assert_same_rows(table.scan(), [(1, "a"), (2, "b")])


def test_a_merge_that_only_inserts_goes_through(table):
    table.merge(pa.table({"id": [3], "p": ["a"]}), "t.id = s.id", tablespec.when_not_matched_insert())

    assert_same_rows(table.scan(), [(1, "a"), (2, "b"), (3, "a")])


def test_compaction_moves_rows_and_removes_none(table):
    table.append(ROWS)
    table.compact()

    assert_same_rows(table.scan(), [(1, "a"), (2, "b"), (1, "a"), (2, "b")])
