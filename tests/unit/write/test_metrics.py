"""What a commit that changes rows records about itself: how much it did, and under which predicate."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import ChangeResult, Strategy, Table, when_matched_delete, when_matched_update, when_not_matched_insert
from tablespec.expr.parse import parse
from tests.handmade import actions_of

ON_READ, ON_WRITE = Strategy.MERGE_ON_READ, Strategy.COPY_ON_WRITE
NAMES = (
    "numDeletedRows",
    "numUpdatedRows",
    "numOutputRows",
    "numCopiedRows",
    "numRemovedFiles",
    "numAddedFiles",
    "numRewrittenFiles",
    "numDeletionVectorsAdded",
)
# One file each. What is done here touches the first two as a whole, parts of the next three, and leaves the last one alone.
FILES = [[1, 2, 3], [4, 5, 6], [*range(11, 18)], [*range(21, 29)], [*range(31, 37)], [41, 42]]
WHERE = "id <= 12 OR id >= 21 AND id < 24 OR id >= 36 AND id < 40"
MATCHED = [1, 2, 3, 4, 5, 6, 11, 12, 21, 22, 23, 36]
CHANGED = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 21, 22, 23, 31, 32, 33, 34]
NEW = [91, 92, 93, 94, 95, 96, 97]


def delete(table: Table, strategy: Strategy) -> ChangeResult:
    return table.delete(WHERE, strategy=strategy)


def update(table: Table, strategy: Strategy) -> ChangeResult:
    return table.update({"value": "value + 1"}, WHERE, strategy=strategy)


def merge(table: Table, strategy: Strategy) -> ChangeResult:
    clauses = [when_matched_delete("t.id <= 12"), when_matched_update(), when_not_matched_insert()]
    return table.merge(rows([*CHANGED, *NEW]), "t.id = s.id", *clauses, strategy=strategy)


def upsert(table: Table, strategy: Strategy) -> ChangeResult:
    return table.upsert(rows([*MATCHED, *NEW]), strategy=strategy)


def rows(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "value": [0] * len(ids)})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of six files with a record key."""
    table = tablespec.create_table(str(tmp_path), rows([0]).schema, key=["id"])
    for ids in FILES:
        table.append(rows(ids))
    return table


@pytest.mark.parametrize(
    ("change", "strategy", "expected"),
    [
        (delete, ON_READ, (12, 0, 0, 0, 2, 0, 0, 3)),
        (delete, ON_WRITE, (12, 0, 0, 15, 5, 3, 3, 0)),
        (update, ON_READ, (0, 12, 0, 0, 2, 5, 0, 3)),
        (update, ON_WRITE, (0, 12, 0, 15, 5, 5, 3, 0)),
        (merge, ON_READ, (8, 9, 7, 0, 2, 4, 0, 3)),
        (merge, ON_WRITE, (8, 9, 7, 10, 5, 4, 3, 0)),
        (upsert, ON_READ, (0, 12, 7, 0, 2, 6, 0, 3)),
        (upsert, ON_WRITE, (0, 12, 7, 15, 5, 6, 3, 0)),
    ],
    ids=lambda value: getattr(value, "value", getattr(value, "__name__", "")),
)
def test_a_commit_records_what_it_did_to_rows_and_files(change, strategy, expected, table, tmp_path):
    result = change(table, strategy)

    assert dict(result.metrics) == dict(zip(NAMES, expected))
    (info,) = actions_of(tmp_path, result.instant.version, "commitInfo")
    assert info["operationMetrics"] == {name: str(count) for name, count in result.metrics}


@pytest.mark.parametrize(
    ("change", "strategy"),
    [(change, strategy) for change in (delete, update, merge, upsert) for strategy in Strategy],
    ids=lambda value: getattr(value, "value", getattr(value, "__name__", "")),
)
def test_the_recorded_files_are_those_that_the_log_removes_and_adds(change, strategy, table, tmp_path):
    result = change(table, strategy)

    removed = {(one["path"], vector(one)) for one in actions_of(tmp_path, result.instant.version, "remove")}
    added = {(one["path"], vector(one)) for one in actions_of(tmp_path, result.instant.version, "add")}
    marked = {path for path, id_ in added if id_ is not None}
    assert len(marked) == result.vectors_written
    assert len(removed) - len(marked) == result.files_removed
    assert len(added) - len(marked) == result.files_added
    assert len({path for path, _ in removed} - marked) == result.files_removed


def vector(action: dict[str, object]) -> str | None:
    found = action.get("deletionVector")
    return str(found) if found else None


@pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
@pytest.mark.parametrize(
    ("change", "operation", "predicate"),
    [
        (delete, "DELETE", WHERE),
        (update, "UPDATE", WHERE),
        (merge, "MERGE", "t.id = s.id"),
        (upsert, "MERGE", "t.id = s.id"),
    ],
    ids=["delete", "update", "merge", "upsert"],
)
def test_a_commit_records_the_predicate_of_the_rows_that_it_may_change(
    change, operation, predicate, strategy, table, tmp_path
):
    result = change(table, strategy)

    (info,) = actions_of(tmp_path, result.instant.version, "commitInfo")
    assert info["operation"] == operation
    assert parse(info["operationParameters"]["predicate"]) == parse(predicate)


def test_a_merge_records_its_clauses_as_delta_does(table, tmp_path):
    result = table.merge(
        rows([*CHANGED, *NEW]),
        "t.id = s.id and s.value < 5",
        when_matched_delete("t.id <= 12"),
        when_matched_update(),
        when_not_matched_insert(where="s.id > 0"),
        tablespec.when_not_matched_by_source_delete("t.id = 9"),
    )

    (info,) = actions_of(tmp_path, result.instant.version, "commitInfo")
    told = info["operationParameters"]
    assert told["predicate"] == "`t`.`id` = `s`.`id` AND `s`.`value` < 5"
    assert json.loads(told["matchedPredicates"]) == [
        {"predicate": "`t`.`id` <= 12", "actionType": "delete"},
        {"actionType": "update"},
    ]
    assert json.loads(told["notMatchedPredicates"]) == [{"predicate": "`s`.`id` > 0", "actionType": "insert"}]
    assert json.loads(told["notMatchedBySourcePredicates"]) == [{"predicate": "`t`.`id` = 9", "actionType": "delete"}]
