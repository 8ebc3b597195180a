"""Deleting and updating the rows that match."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import tablespec
from tablespec import Column, Compare, In, IsNull, Literal, Not, Op, Or, Strategy, Text, TextTest, all_of
from tablespec.errors import (
    ColumnNotFoundError,
    ConstraintViolatedError,
    FullTableChangeError,
    InvalidOptionError,
    InvalidPredicateError,
    TypeMismatchError,
)
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import tracked_rows

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string(), "day": pa.int64()})
ROWS = [(1, "100%", 1), (2, "a_b", 1), (3, "it's", 1), (4, "b\\s", 1), (5, "q`", 2), (6, None, 2)]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
NAME, ID = Column(("name",)), Column(("id",))


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["day"])
    made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in ROWS], SCHEMA))
    return made


def left_by(table):
    return {row["id"] for row in table.scan(columns=["id"]).to_table().to_pylist()}


# --- filters ---


@pytest.mark.parametrize(
    ("filter_", "gone"),
    [
        (Compare(Op.EQ, NAME, Literal("it's")), {3}),
        (Compare(Op.LT, ID, Literal(3)), {1, 2}),
        (Compare(Op.GT, ID, Literal(4)), {5, 6}),
        (Compare(Op.LE, ID, Literal(1)), {1}),
        (Compare(Op.GE, ID, Literal(6)), {6}),
        (IsNull(NAME), {6}),
        (Not(IsNull(NAME)), {1, 2, 3, 4, 5}),
        (Text(TextTest.STARTS_WITH, NAME, "100%"), {1}),
        (Text(TextTest.ENDS_WITH, NAME, "_b"), {2}),
        (Text(TextTest.CONTAINS, NAME, "\\"), {4}),
        (In(NAME, (Literal("q`"), Literal("x"))), {5}),
        (Not(Compare(Op.EQ, NAME, Literal("it's"))), {1, 2, 4, 5}),
        (Or((Compare(Op.EQ, ID, Literal(1)), IsNull(NAME))), {1, 6}),
        (all_of((Compare(Op.GT, ID, Literal(1)), Compare(Op.LT, ID, Literal(3)))), {2}),
    ],
    ids=str,
)
@both
def test_each_filter_deletes_the_rows_for_which_it_is_true(table, filter_, gone, strategy):
    assert table.delete(filter_, strategy=strategy).rows_deleted == len(gone)
    assert left_by(table) == {row[0] for row in ROWS} - gone


# --- what is written ---


def test_merge_on_read_writes_one_file_of_vectors_for_all_files_and_rewrites_none(table, tmp_path):
    before = contents(tmp_path)

    result = table.delete("id in (1, 5)", strategy=Strategy.MERGE_ON_READ)

    new = sorted(set(contents(tmp_path)) - set(before))
    assert [path.split("/")[0] for path in new] == ["_delta_log", "dv"]
    assert (result.vectors_written, result.files_added, result.rows_copied) == (2, 0, 0)
    assert {action["deletionVector"]["storageType"] for action in actions_of(tmp_path, 2, "add")} == {"u"}


def test_copy_on_write_writes_the_touched_files_anew_and_rows_keep_ids_and_versions(table, tmp_path):
    before = {row[0]: row for row in tracked_rows(table)}

    result = table.delete("id = 1", strategy=Strategy.COPY_ON_WRITE)

    assert (result.files_rewritten, result.rows_copied, result.vectors_written) == (1, 3, 0)
    assert_same_rows(tracked_rows(table), [before[number] for number in (2, 3, 4, 5, 6)])
    assert not (tmp_path / "dv").exists()


def test_the_table_may_choose_the_strategy(table, tmp_path):
    table.set_properties({"tablespec.mergeOnRead": "false"})

    assert table.delete("id = 1").files_rewritten == 1
    assert table.delete("id = 2", strategy=Strategy.MERGE_ON_READ).vectors_written == 1


def test_a_strategy_that_is_none_is_refused(table):
    told = r"strategy is 'copy'; expected Strategy\.MERGE_ON_READ or Strategy\.COPY_ON_WRITE"
    for change in (table.delete, table.begin_delete, table.begin_update, table.begin_merge):
        with pytest.raises(InvalidOptionError, match=told):
            change("id = 1", strategy="copy")

    assert table.instant().version == 1


@pytest.mark.parametrize("retries", [3, None])
def test_retries_that_say_nothing_are_refused_and_leave_nothing_behind(table, tmp_path, retries):
    new = pa.table([[7], ["x"], [1]], schema=SCHEMA)
    table.append(new)
    before = contents(tmp_path)

    for change in (
        lambda: table.delete("id = 1", retries=retries),
        lambda: table.append(new, retries=retries),
        lambda: table.compact(retries=retries),
        lambda: table.restore(1, retries=retries),
    ):
        with pytest.raises(InvalidOptionError, match=r"retries is .*; expected Retries, such as Retries\(attempts=3\)"):
            change()

    assert contents(tmp_path) == before


def test_a_runner_that_runs_nothing_is_refused(table):
    with pytest.raises(InvalidOptionError, match="runner is 3; expected what runs tasks"):
        table.delete("id = 1", runner=3)


@pytest.mark.parametrize("values", [[("name", "'x'")], "name = 'x'", None], ids=repr)
def test_values_that_are_no_mapping_are_refused(table, values):
    with pytest.raises(InvalidOptionError, match=r"values is .*; expected columns with what they are set to"):
        table.update(values, "id = 1")


def test_a_column_that_is_no_text_is_in_no_table(table):
    with pytest.raises(ColumnNotFoundError, match="the table has no column '1'"):
        table.update({1: "'x'"}, "id = 1")


@both
@pytest.mark.parametrize("name", ["_row_id", "_row_commit_version", "_op"])
@pytest.mark.parametrize("feed", ["true", "false"])
def test_rows_go_from_a_table_with_a_column_of_its_own_named_like_a_hidden_one(tmp_path, strategy, name, feed):
    schema = pa.schema({"id": pa.int64(), name: pa.string()})
    properties = {"delta.enableChangeDataFeed": feed}
    table = tablespec.create_table(str(tmp_path / "named"), schema, properties=properties)
    table.append(pa.table([range(6), list("abcdef")], schema=schema))

    table.delete("id = 1", strategy=strategy)
    table.replace_where(f"{name} = 'c'", pa.table([[2], ["c"]], schema=schema), data_columns=True, strategy=strategy)
    table.replace_using([name], pa.table([[-4], ["e"]], schema=schema), strategy=strategy)
    many = pa.table([[3, *range(10, 2010)], ["d", *"z" * 2000]], schema=schema)
    table.replace_using([name, "id"], many, strategy=strategy)
    handle = table.begin_delete("id = 5", strategy=strategy)
    sources = [handle.page_source(file) for file in handle.files]
    for source in sources:
        while (page := source.get_next_page()) is not None:
            source.delete_rows(page.column("_row"))
    handle.finish([fragment for source in sources for fragment in source.finish()])

    new = [(3, "d"), *((number, "z") for number in range(10, 2010))]
    assert_same_rows(table.scan(), [(0, "a"), (2, "c"), (-4, "e"), *new])


@both
def test_files_that_match_as_a_whole_are_dropped_unread(table, tmp_path, strategy):
    for file in (tmp_path / "day=2").iterdir():
        file.write_bytes(b"")

    result = table.delete("day = 2", strategy=strategy)

    assert (result.rows_deleted, result.files_removed, result.files_added) == (2, 1, 0)


@both
def test_rows_of_dropped_files_are_counted_where_the_log_does_not_tell(tmp_path, strategy):
    DeltaTable.create(str(tmp_path), SCHEMA, configuration={"delta.dataSkippingNumIndexedCols": "0"})
    table = tablespec.open_table(str(tmp_path))
    table.append(pa.table({"id": [1, 2], "name": ["a", "b"], "day": [1, 1]}, SCHEMA))
    lines = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    lines = [line if '"add"' not in line else _without_stats(line) for line in lines]
    (tmp_path / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines) + "\n")
    table = tablespec.open_table(str(tmp_path))
    assert [one.slice.rows for one in table.scan().slices] == [None]

    assert table.delete(None, allow_full_table=True, strategy=strategy).rows_deleted == 2


def _without_stats(line):
    action = json.loads(line)
    action["add"].pop("stats", None)
    return json.dumps(action)


def test_a_match_of_nothing_commits_nothing(table, tmp_path):
    before = contents(tmp_path)

    for result in (table.delete("id = 99"), table.update({"name": "'x'"}, "id = 99")):
        assert (result.instant, result.rows_deleted, result.rows_updated) == (None, 0, 0)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        "",
        "true",
        "id = 1 or true",
        "day <=> day",
        "id = 1 or id != 1 or id is null",
        "name >= '' or name is null",
    ],
)
def test_all_rows_go_only_when_that_is_allowed(table, predicate):
    with pytest.raises(FullTableChangeError):
        table.delete(predicate)
    with pytest.raises(FullTableChangeError):
        table.update({"name": "'x'"}, predicate)

    assert table.delete(predicate, allow_full_table=True).rows_deleted == 6
    assert left_by(table) == set()


def test_a_condition_that_all_rows_happen_to_satisfy_needs_no_leave(table):
    assert table.update({"name": "'x'"}, "id >= 1").rows_updated == 6
    assert table.delete("day = 1 or day = 2").rows_deleted == 6


def test_all_rows_of_a_column_without_nulls_go_only_when_that_is_allowed(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    table.append(pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])))

    with pytest.raises(FullTableChangeError):
        table.delete("id is not null")

    assert table.delete("id is not null", allow_full_table=True).rows_deleted == 1


# --- updates ---


@both
def test_expressions_see_the_row_as_it_was_and_rows_keep_their_ids(table, tmp_path, strategy):
    ids = {row[0]: row[3] for row in tracked_rows(table)}

    result = table.update({"id": "id + 100", "name": "concat(name, '!')"}, "id in (3, 6)", strategy=strategy)

    assert result.rows_updated == 2
    expected = [*(row for row in ROWS if row[0] not in (3, 6)), (103, "it's!", 1), (106, None, 2)]
    assert_same_rows(table.scan(), expected)
    assert {row[0]: row[3] for row in tracked_rows(table) if row[0] > 100} == {103: ids[3], 106: ids[6]}
    theirs = QueryBuilder().register("t", DeltaTable(str(tmp_path))).execute("select id, name, day from t").read_all()
    assert_same_rows(theirs, expected)


def test_new_versions_stay_in_the_file_group_of_the_old(table):
    groups = {one.slice.group.id for one in table.scan("day = 1").slices}

    table.update({"name": "'x'"}, "id = 1", strategy=Strategy.MERGE_ON_READ)

    assert {one.slice.group.id for one in table.scan("day = 1").slices} == groups


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"nothing": "1"}, ColumnNotFoundError),
        ({}, InvalidPredicateError),
        ({"id": "'x'"}, TypeMismatchError),
        ({"name": "'x'", "NAME": "'y'"}, InvalidPredicateError),
    ],
    ids=["unknown", "none", "type", "twice"],
)
def test_assignments_that_make_no_sense_are_refused(table, values, error):
    with pytest.raises(error):
        table.update(values, "id = 1")


@both
def test_a_constraint_that_an_update_would_break_leaves_everything_as_it_was(table, tmp_path, strategy):
    table.add_constraint("small", "id < 50")
    before = contents(tmp_path)

    with pytest.raises(ConstraintViolatedError, match="small"):
        table.update({"id": "id * 10"}, "id > 4", strategy=strategy)

    assert contents(tmp_path) == before


def test_new_versions_of_rows_in_several_files_of_a_group_share_a_file(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64(), "n": pa.int64()}))
    table.append(pa.table({"id": [1, 2, 3], "n": [0, 0, 0]}))
    table.append(pa.table({"id": [4], "n": [0]}))
    table.update({"n": "1"}, "id = 1")

    result = table.update({"n": "n + 10"}, "id <= 4")

    groups = {one.slice.group.id for one in table.scan().slices}
    assert (result.rows_updated, result.files_added, len(groups)) == (4, 2, 2)
    assert_same_rows(table.scan(), [(1, 11), (2, 10), (3, 10), (4, 10)])
