"""Replacing the rows under a predicate."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import tablespec
from tablespec import Strategy
from tablespec.errors import (
    ColumnNotFoundError,
    ConstraintViolatedError,
    FullTableChangeError,
    InvalidPredicateError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tests.handmade import LEGACY, actions_of, add, commit, contents, metadata
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.int64()})
ROWS = [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, None, 2), (5, "d/e%", 1)]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["p"])
    made.append(rows(*ROWS))
    return made


@pytest.mark.parametrize(
    ("predicate", "gone"),
    [
        ("p = 'a'", {1, 2}),
        ("p != 'a'", {3, 5}),
        ("p < 'b'", {1, 2}),
        ("p <= 'b'", {1, 2, 3}),
        ("p > 'b'", {5}),
        ("p >= 'b'", {3, 5}),
        ("p in ('a', 'b')", {1, 2, 3}),
        ("p not in ('a', 'b')", {5}),
        ("p between 'b' and 'c'", {3}),
        ("p is null", {4}),
        ("p is not null", {1, 2, 3, 5}),
        ("p <=> null", {4}),
        ("p <=> 'a'", {1, 2}),
        ("p like 'd/%'", {5}),
        ("p = 'a' and p < 'b'", {1, 2}),
        ("p = 'a' or p is null", {1, 2, 4}),
        ("not p = 'a'", {3, 5}),
    ],
)
def test_partitions_are_replaced_without_being_read(table, tmp_path, predicate, gone):
    for file in tmp_path.glob("p=*/*.parquet"):
        file.write_bytes(b"")
    left = {row[0] for row in ROWS} - gone

    told = table.replace_where(predicate, dry_run=True)
    assert (told.rows_deleted, table.instant().version) == (len(gone), 1)
    done = table.replace_where(predicate)

    assert (done.rows_deleted, done.rows_inserted, done.vectors_written) == (len(gone), 0, 0)
    slices = [one.slice for one in table.scan().slices]
    assert sum(slice_.rows for slice_ in slices) == len(left)


@both
def test_rows_of_other_columns_are_replaced_when_that_is_allowed(table, strategy):
    result = table.replace_where("n = 1", rows((9, "z", 1)), data_columns=True, strategy=strategy)

    assert (result.rows_deleted, result.rows_inserted) == (3, 1)
    assert_same_rows(table.scan(), [(2, "a", 2), (4, None, 2), (9, "z", 1)])


def test_several_predicates_are_one_commit(table, tmp_path):
    result = table.replace_where([("p = 'a'", rows((6, "a", 1))), ("p is null", rows((7, None, 1), (8, None, 2)))])

    assert (result.rows_deleted, result.rows_inserted, result.instant.version) == (3, 3, 2)
    assert_same_rows(table.scan(columns=["id"]), [(3,), (5,), (6,), (7,), (8,)])
    (info,) = actions_of(tmp_path, 2, "commitInfo")
    assert info["tablespec"]["replaceWhere"]["predicates"] == ["`p` = 'a'", "`p` IS NULL"]


def test_the_commit_joins_several_predicates_by_or(table, tmp_path):
    table.replace_where([("p = 'a'", rows()), ("p is null or p = 'b'", rows())])

    (info,) = actions_of(tmp_path, 2, "commitInfo")
    assert info["tablespec"]["replaceWhere"]["predicate"] == "(`p` = 'a') OR (`p` IS NULL OR `p` = 'b')"
    assert info["operationParameters"]["predicate"] == "`p` = 'a' OR `p` IS NULL OR `p` = 'b'"


@pytest.mark.parametrize("dry_run", [False, True], ids=["written", "dry run"])
def test_each_new_row_must_satisfy_the_predicate_that_it_is_given_for(table, tmp_path, dry_run):
    before = contents(tmp_path)

    for pairs in (
        [("p = 'a'", rows((6, "b", 1))), ("p = 'b'", rows())],
        [("p = 'a'", rows()), ("p = 'b'", rows((6, "a", 1)))],
    ):
        with pytest.raises(ReplaceWhereMismatchError, match="'id': 6"):
            table.replace_where(pairs, dry_run=dry_run)

    assert contents(tmp_path) == before


@both
def test_a_row_under_several_predicates_goes_once(table, strategy):
    pairs = [("p = 'a'", rows()), ("n = 1", rows((6, "z", 1))), ("id = 2", rows((2, "b", 1)))]

    result = table.replace_where(pairs, data_columns=True, strategy=strategy)

    assert (result.rows_deleted, result.rows_inserted) == (4, 2)
    assert_same_rows(table.scan(), [(4, None, 2), (6, "z", 1), (2, "b", 1)])


@both
@pytest.mark.parametrize("predicate", ["p = 'a'", "p is null or p > 'b'", "n = 1", "id < 4 and n = 2", "id > 9"])
def test_rows_replaced_by_themselves_are_the_same(table, predicate, strategy):
    before = table.scan(predicate).to_table().num_rows

    result = table.replace_where(predicate, table.scan(predicate), data_columns=True, strategy=strategy)

    assert (result.rows_deleted, result.rows_inserted) == (before, before)
    assert_same_rows(table.scan(), ROWS)


def test_data_beside_several_predicates_is_refused_and_not_dropped(table, tmp_path):
    before = contents(tmp_path)

    with pytest.raises(InvalidPredicateError, match="each with its own data"):
        table.replace_where([("p = 'a'", rows((6, "a", 1)))], rows((7, "a", 1)))

    assert contents(tmp_path) == before


@pytest.mark.parametrize("pairs", [["p = 'a'"], [("p = 'a'",)], [1, 2], ["ab"]], ids=str)
def test_several_predicates_that_are_no_pairs_are_refused(table, tmp_path, pairs):
    before = contents(tmp_path)

    with pytest.raises(InvalidPredicateError, match="given as pairs"):
        table.replace_where(pairs)

    assert contents(tmp_path) == before


def test_the_commit_tells_the_predicate_and_the_metrics(table, tmp_path):
    result = table.replace_where("p = 'a'", rows((6, "a", 1)))

    (info,) = actions_of(tmp_path, 2, "commitInfo")
    recorded = info["tablespec"]["replaceWhere"]
    assert (recorded["predicate"], recorded["dataChange"]) == ("`p` = 'a'", True)
    assert abs(recorded["timestamp"] - info["timestamp"]) < 60_000
    assert info["operationMetrics"] == {name: str(count) for name, count in result.metrics}
    assert dict(result.metrics) | {"numDeletedRows": 2, "numOutputRows": 1, "numRemovedFiles": 1} == dict(
        result.metrics
    )


def test_the_replacement_is_an_action_of_its_own_where_the_table_wants_that(table, tmp_path):
    table.set_properties({"tablespec.topLevelActions": "true"})

    result = table.replace_where("p = 'a'", rows((6, "a", 1)))

    (told,) = actions_of(tmp_path, 3, "replaceWhere")
    assert set(told) == {"predicate", "predicates", "timestamp", "dataChange", "operationMetrics"}
    assert (told["predicate"], told["dataChange"]) == ("`p` = 'a'", True)
    assert told["operationMetrics"] == {name: str(count) for name, count in result.metrics}
    assert len(actions_of(tmp_path, 3, "remove")) == 1
    (protocol,) = actions_of(tmp_path, 2, "protocol")
    assert "tablespec-topLevelActions" in protocol["writerFeatures"]
    left = [(3, "b", 1), (4, None, 2), (5, "d/e%", 1), (6, "a", 1)]
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), left)
    assert_same_rows(deltalake.DeltaTable(tmp_path).to_pyarrow_table().select(SCHEMA.names), left)


def test_otherwise_no_action_is_written_that_other_clients_do_not_know(table, tmp_path):
    table.replace_where("p = 'a'", rows((6, "a", 1)))

    assert actions_of(tmp_path, 2, "replaceWhere") == []


def test_partitions_without_a_value_are_null_however_they_are_written(table):
    table.replace_where("p is null or p = ''", rows((7, "", 1), (8, None, 1)))

    assert_same_rows(table.scan("p is null"), [(7, None, 1), (8, None, 1)])


@pytest.mark.parametrize("row", [(6, "b", 1), (6, None, 1)], ids=["false", "null"])
def test_a_new_row_for_which_the_predicate_is_not_true_is_named_and_nothing_changes(table, tmp_path, row):
    before = contents(tmp_path)

    with pytest.raises(ReplaceWhereMismatchError, match="'id': 6"):
        table.replace_where("p = 'a'", rows((5, "a", 1), row))

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (rows((7, "b", 1)), ReplaceWhereMismatchError),
        (rows((None, "a", 1)), ConstraintViolatedError),
        (pa.table({"id": [7], "p": ["a"], "other": [1]}), SchemaMismatchError),
    ],
    ids=["predicate", "constraint", "columns"],
)
def test_a_dry_run_refuses_the_rows_that_the_replacement_would(table, tmp_path, data, error):
    table.add_constraint("named", "id is not null")
    before = contents(tmp_path)

    for dry_run in (True, False):
        with pytest.raises(error):
            table.replace_where("p = 'a'", data, dry_run=dry_run)
        with pytest.raises(error):
            table.replace_where([("p = 'd/e%'", rows()), ("p = 'a'", data)], dry_run=dry_run)

    assert contents(tmp_path) == before


@both
@pytest.mark.parametrize(
    "pairs",
    [
        [("p = 'a'", rows((6, "a", 1), (7, "a", 1)))],
        [("p in ('a', 'b')", rows((6, "b", 1), (7, "a", 1))), ("p is null", rows((8, None, 1), (9, "", 1)))],
        [("p = 'a'", rows((6, "a", 1))), ("p in ('a', 'b')", rows((7, "a", 1)))],
        [("p = 'none'", rows())],
        [("n = 1", rows((6, "x", 1), (7, "y", 1)))],
        [("id = 1", rows())],
        [("id in (1, 2)", rows((1, "a", 5)))],
        [("n = 2", rows((2, "a", 2))), ("p = 'b'", rows((3, "b", 1)))],
        [("n = 1", rows()), ("p = 'a'", rows())],
    ],
    ids=[
        *("one partition", "several predicates", "overlapping partitions", "no match", "other columns", "no data"),
        *("all rows of a file", "other columns and partitions", "overlapping rows"),
    ],
)
@pytest.mark.parametrize("before", ["", "id = 2"], ids=["whole files", "files with deleted rows"])
def test_a_dry_run_tells_what_the_replacement_does(table, tmp_path, pairs, before, strategy):
    if before:
        table.delete(before)
    found = contents(tmp_path)

    told = table.replace_where(pairs, data_columns=True, dry_run=True, strategy=strategy)
    assert (told.instant, contents(tmp_path)) == (None, found)
    done = table.replace_where(pairs, data_columns=True, strategy=strategy)

    assert told.metrics == done.metrics


def test_a_dry_run_tells_what_the_replacement_does_where_the_log_counts_no_rows(tmp_path):
    file = add(tmp_path, "1.parquet", pa.table({"id": [1, 2, 3]}), stats="{}")
    commit(tmp_path, 0, LEGACY, metadata(), file)
    for predicate in ("id = 2", "id in (1, 3)"):
        table = tablespec.open_table(str(tmp_path))
        how = {"data_columns": True, "strategy": Strategy.COPY_ON_WRITE}

        told = table.replace_where(predicate, dry_run=True, **how)

        assert told.metrics == table.replace_where(predicate, **how).metrics


def test_a_dry_run_leaves_the_rows_of_a_reader_to_the_replacement(table):
    new = rows((7, "a", 7))
    reader = pa.RecordBatchReader.from_batches(new.schema, new.to_batches())

    told = table.replace_where("p = 'a'", reader, dry_run=True)
    done = table.replace_where("p = 'a'", reader)

    assert (told.rows_deleted, done.rows_deleted, done.rows_inserted) == (2, 2, 1)
    assert_same_rows(table.scan("p = 'a'"), [(7, "a", 7)])


def test_a_replacement_that_is_refused_leaves_no_folders_of_new_partitions(table, tmp_path):
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(ReplaceWhereMismatchError):
        table.replace_where([("p = 'new'", rows((6, "new", 1))), ("p = 'newer'", rows((7, "newer", 1), (8, "x", 1)))])

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "predicate",
    [
        *(None, "", "true", "1 = 1", "p = 'a' or true", "p is null or p is not null", "p <=> p", "p = p or p is null"),
        *("p is not distinct from p", "p in ('a') or p not in ('a') or p is null", "p < 'b' or p >= 'b' or p is null"),
        *("not (p <=> 'a') or p = 'a'", "p >= '' or p is null"),
    ],
)
def test_all_rows_are_replaced_only_when_that_is_allowed(table, predicate):
    with pytest.raises(FullTableChangeError):
        table.replace_where(predicate, rows((9, "z", 1)))

    table.replace_where(predicate, rows((9, "z", 1)), allow_full_table=True)

    assert_same_rows(table.scan(), [(9, "z", 1)])


@pytest.mark.parametrize(("first", "second"), [("p is null", "p is not null"), ("p = 'a'", "p != 'a' or p is null")])
def test_predicates_that_together_leave_no_row_out_need_leave_too(table, tmp_path, first, second):
    pairs = [(first, rows()), (second, rows((9, "z", 1)))]
    before = contents(tmp_path)

    for dry_run in (True, False):
        with pytest.raises(FullTableChangeError):
            table.replace_where(pairs, dry_run=dry_run)

    assert contents(tmp_path) == before
    table.replace_where(pairs, allow_full_table=True)
    assert_same_rows(table.scan(), [(9, "z", 1)])


def test_a_predicate_that_is_always_true_is_refused_wherever_it_stands(table, tmp_path):
    before = contents(tmp_path)

    with pytest.raises(FullTableChangeError):
        table.replace_where([("p = 'a'", rows()), ("p <=> p", rows())])

    assert contents(tmp_path) == before


@pytest.mark.parametrize("allow_full_table", [False, True])
def test_no_predicate_at_all_replaces_nothing_and_is_refused(table, allow_full_table):
    with pytest.raises(InvalidPredicateError, match="none is given"):
        table.replace_where([], allow_full_table=allow_full_table)


def test_a_predicate_that_all_rows_happen_to_satisfy_needs_no_leave(table):
    assert table.replace_where("p in ('a', 'b', 'd/e%') or p is null").rows_deleted == len(ROWS)


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("p = ", InvalidPredicateError),
        ("upper(p) = 'A'", UnsupportedOperatorError),
        ("p in (select 1)", UnsupportedOperatorError),
        ("n = 1", PartitionColumnNotFoundError),
        ("p = 1", TypeMismatchError),
    ],
)
def test_predicates_are_refused_by_name(table, predicate, error):
    with pytest.raises(error):
        table.replace_where(predicate, rows())


@pytest.mark.parametrize(("predicate", "column"), [("n = 1", "n"), ("nope = 1", "nope"), ("p = 'a' and id = 1", "id")])
@pytest.mark.parametrize("more", [0, 1], ids=["alone", "second"])
def test_a_column_that_is_no_partition_column_is_named_with_those_there_are(table, predicate, column, more):
    with pytest.raises(PartitionColumnNotFoundError) as refused:
        table.replace_where([("p = 'b'", rows())] * more + [(predicate, rows())])

    assert (refused.value.column, refused.value.partition_columns) == (column, ("p",))


def test_where_all_columns_may_be_asked_for_an_unknown_one_is_no_column(table):
    with pytest.raises(ColumnNotFoundError, match="'nope'"):
        table.replace_where("nope = 1", data_columns=True)


def test_a_table_without_partitions_needs_to_allow_other_columns(tmp_path):
    flat = tablespec.create_table(str(tmp_path / "flat"), SCHEMA)
    flat.append(rows(*ROWS))

    for predicate in ("n = 1", "nope = 1", "false"):
        with pytest.raises(NonPartitionedTableError):
            flat.replace_where(predicate, rows())
    assert flat.replace_where("n = 1", data_columns=True).rows_deleted == 3
