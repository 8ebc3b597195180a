import itertools
import pickle
import random
from datetime import date, datetime

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    InvalidOptionError,
    InvalidSchemaError,
    UnsupportedTableError,
    UnsupportedTypeError,
)
from tablespec.maintain import cluster as clustering
from tablespec.maintain.cluster import plan, write_ordered
from tablespec.maintain.rewrite import RewriteResult, begin
from tablespec.maintain.row_order import Order
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import (
    Interrupted,
    append,
    data_files,
    deltalake_rows,
    new_table,
    tracked_rows,
    vector_files,
)

CITIES = ("sf", "la", "ny", None)


@pytest.fixture
def table(tmp_path):
    """Two partitions of 300 rows each in no order, in five files each, some rows deleted."""
    table = new_table(tmp_path)
    numbers = list(range(600))
    random.Random(7).shuffle(numbers)
    for start in range(0, 600, 120):
        append(table, *((number, CITIES[number % 4], number % 2) for number in numbers[start : start + 120]))
    table.delete("id in (5, 50, 500)")
    return table


def ranges(table, column, where=None):
    """The least and the greatest value of a column in each file, in order; files without any value are left out."""
    found = []
    for one in table.scan(where).slices:
        rows = table.slice_reader().project((column,)).open(one.slice)
        values = [value for batch in rows for value in batch.column(column).to_pylist() if value is not None]
        found += [(min(values), max(values))] if values else []
    return sorted(found)


def file_size(table, folder, files):
    """The size of a file when the live rows of a partition make so many."""
    return sum((folder / path).stat().st_size for path in data_files(table) if path.startswith("day=1")) // files


@pytest.mark.parametrize("order", [order.value for order in Order])
def test_rows_with_their_ids_and_commit_versions_stay_the_same(table, tmp_path, order):
    before, rows = tracked_rows(table), table.scan().to_table()

    table.cluster(["city", "id"], order=order, target_bytes=file_size(table, tmp_path, 4))

    assert_same_rows(tracked_rows(table), before)
    assert_same_rows(deltalake_rows(tmp_path), rows)
    assert vector_files(table) == set()


def test_after_a_sort_the_files_of_a_partition_do_not_meet(table, tmp_path):
    table.cluster(["id"], target_bytes=file_size(table, tmp_path, 4))

    for day in (0, 1):
        found = ranges(table, "id", f"day = {day}")
        assert len(found) in (4, 5)
        assert [pair for pair in itertools.pairwise(found) if pair[0][1] >= pair[1][0]] == []


def test_the_rows_of_a_sorted_file_are_in_order(table):
    table.cluster(["id"])

    for one in table.scan().slices:
        values = [value for batch in table.slice_reader().open(one.slice) for value in batch.column("id").to_pylist()]
        assert values == sorted(values)


def test_a_curve_makes_files_narrow_in_both_columns(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("x", pa.int64()), ("y", pa.int64())]))
    points = list(itertools.product(range(32), range(32)))
    random.Random(7).shuffle(points)
    table.append(pa.table({"x": [x for x, _ in points], "y": [y for _, y in points]}))
    (path,) = data_files(table)

    table.cluster(["x", "y"], order="zorder", target_bytes=(tmp_path / path).stat().st_size // 16)

    for column in ("x", "y"):
        assert {high - low for low, high in ranges(table, column)} == {7}


def test_nothing_counts_as_changed(table, tmp_path):
    version = table.cluster(["id"]).instant.version

    actions = [*actions_of(tmp_path, version, "add"), *actions_of(tmp_path, version, "remove")]
    assert {action["dataChange"] for action in actions} == {False}
    assert table.incremental(version - 1).to_table().num_rows == 0
    assert table.changes(version - 1).to_table().num_rows == 0


def test_only_partitions_that_match_are_written_anew(table):
    before = {path for path in data_files(table) if path.startswith("day=0")}

    table.cluster(["id"], where="day = 1")

    assert before < data_files(table)
    assert len(data_files(table) - before) == 1


def test_a_partition_is_written_whole_when_some_of_its_files_match(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (9, "sf", 1), (10, "la", 2))
    append(table, (20, "sf", 1), (21, "la", 2))

    table.cluster(["id"], where="id = 7")

    assert len([path for path in data_files(table) if path.startswith("day=1")]) == 1
    assert len([path for path in data_files(table) if path.startswith("day=2")]) == 2


@pytest.mark.parametrize("spools", [1, 3, 64])
def test_rows_of_many_files_pass_through_few_spools(table, tmp_path, monkeypatch, spools):
    monkeypatch.setattr(clustering, "SPOOLS", spools)
    before = tracked_rows(table)

    table.cluster(["id"], target_bytes=file_size(table, tmp_path, 10))

    assert len(data_files(table)) >= 18
    assert_same_rows(tracked_rows(table), before)


ODD = {
    "double": pa.array([float("nan"), float("inf"), float("-inf"), -0.0, 0.0, None, 5e-324, 1.5], pa.float64()),
    "single": pa.array([None, -0.0, float("inf"), float("nan"), float("-inf"), 0.0, 1.5, -1.5], pa.float32()),
    "date": pa.array([date(9999, 12, 31), date(1, 1, 1), None, *5 * [date(1970, 1, 1)]]),
    "time": pa.array([datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1), *6 * [None]]),
    "decimal": pa.array([10**38 - 1, 1 - 10**38, 0, None, 1, -1, 7, 7], pa.decimal128(38, 0)),
    "binary": pa.array([b"", b"\xff\x00", b"\x00", None, b"\x80", b"a" * 100, b"a", b"b"]),
    "text": pa.array(["", "\U0010ffff", "\x00", None, "a" * 100, "ä", "a", "z"]),
    "flag": pa.array([True, False, None, True, False, None, True, True]),
    "nothing": pa.array([None] * 8, pa.string()),
}


@pytest.mark.parametrize("order", [order.value for order in Order])
@pytest.mark.parametrize("by", [*([name] for name in ODD), [*ODD]], ids=[*ODD, "all"])
def test_rows_with_odd_values_stay_the_same_in_any_order_and_nothing_changes(tmp_path, by, order):
    table = tablespec.create_table(str(tmp_path), pa.table(ODD).schema)
    for start in (0, 3, 6):
        table.append(pa.table(ODD).slice(start, 3))
    before = sorted(map(repr, tracked_rows(table)))

    result = table.cluster(by, order=order, target_bytes=1)

    assert sorted(map(repr, tracked_rows(table))) == before
    assert (result.files_removed, result.rows_moved) == (3, 8)
    version = result.instant.version
    assert table.changes(version - 1).count() == table.incremental(version - 1).count() == 0


def test_an_empty_table_is_left_alone(tmp_path):
    assert new_table(tmp_path).cluster(["id"]) == RewriteResult(instant=None)


@pytest.mark.parametrize(
    ("by", "error", "told"),
    [
        ([], InvalidSchemaError, "one column or more"),
        (["id", "ID"], InvalidSchemaError, "each named once"),
        (["idd"], ColumnNotFoundError, "did you mean id"),
        ("id", InvalidOptionError, "by is 'id'; expected the names of columns"),
        ([1], InvalidOptionError, "by is .1.; expected the names of columns"),
        (None, InvalidOptionError, "by is None; expected the names of columns"),
    ],
    ids=["no column", "one column twice", "an unknown column", "a text", "a number", "nothing"],
)
def test_columns_that_make_no_order_are_refused(table, tmp_path, by, error, told):
    before = contents(tmp_path)

    with pytest.raises(error, match=told):
        table.cluster(by)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"order": "zz"}, "order is 'zz'; expected sort or zorder"),
        ({"order": None}, "order is None; expected sort or zorder"),
        ({"target_bytes": 0}, "target_bytes is 0; expected a whole number from 1 on"),
        ({"cooldown": "1d"}, "cooldown is '1d'; expected a timedelta"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(table, tmp_path, wrong, told):
    before = contents(tmp_path)

    with pytest.raises(InvalidOptionError, match=told):
        table.cluster(["id"], **wrong)
    assert contents(tmp_path) == before


def test_a_table_may_have_a_column_named_like_the_new_place_of_a_row(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64(), "_place": pa.string()}))
    table.append(pa.table({"id": [2, 1], "_place": ["b", "a"]}))

    table.cluster(["_place"])

    assert table.scan().to_table().to_pylist() == [{"id": 1, "_place": "a"}, {"id": 2, "_place": "b"}]


def test_a_table_with_a_column_named_like_one_of_a_clustering_is_refused(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"__tablespec_place": pa.string()}))

    with pytest.raises(UnsupportedTableError, match=r"named __tablespec_place, .* rename it to cluster the table"):
        table.cluster(["__tablespec_place"])


def test_a_column_of_lists_makes_no_order(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("a", pa.list_(pa.int64()))]))

    with pytest.raises(UnsupportedTypeError, match="rows cannot be ordered by it"):
        table.cluster(["a"])


def test_rows_appended_meanwhile_are_there(table):
    before = table.scan().to_table()
    expected = [*zip(*(column.to_pylist() for column in before.columns)), (1000, "sf", 1)]

    table.cluster(["id"], runner=Interrupted(lambda: append(table, (1000, "sf", 1))))

    assert_same_rows(table.scan(), expected)


def test_a_delete_meanwhile_is_a_conflict(table):
    with pytest.raises(CommitConflictError):
        table.cluster(["id"], runner=Interrupted(lambda: table.delete("id = 1")))


def test_tasks_and_what_comes_of_them_pickle(table):
    job = begin(table.format, "cluster", None, whole_partitions=True)

    for task in plan(job.files, job.target, ("id",), Order.SORT, 1 << 20):
        fragment = write_ordered(pickle.loads(pickle.dumps(task)))
        assert pickle.loads(pickle.dumps(fragment)) == fragment
        assert len(fragment.added) == 1


def test_the_parameters_tell_columns_and_order(table, tmp_path):
    version = table.cluster(["CITY", "id"], order="zorder").instant.version

    (info,) = actions_of(tmp_path, version, "commitInfo")
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"] == {"predicate": "TRUE", "order": "zorder", "clusterBy": '["city","id"]'}
