import warnings
from contextlib import nullcontext
from datetime import UTC, date, datetime, time
from functools import partial

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    ColumnNotFoundError,
    InstantNotFoundError,
    InvalidPredicateError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tablespec.expr.nodes import Column, Compare, Literal, Op
from tablespec.model.instant import Instant
from tablespec.model.partition import PartitionDescriptor
from tests.handmade import LEGACY, actions_of, add, commit, contents, metadata
from tests.rows import assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("pos", pa.struct([("x", pa.float64())]))])


def rows(*values):
    ids, cities, xs = zip(*values)
    return pa.table({"id": ids, "city": cities, "pos": [{"x": x} for x in xs]}, SCHEMA)


@pytest.fixture(params=[False, True], ids=["log", "checkpoint"])
def table(request, tmp_path):
    """Three appends: ids 1-2 in sf, 3-4 in la, 5 in sf; x is ten times the id."""
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(rows((1, "sf", 10.0), (2, "sf", 20.0)))
    table.append(rows((3, "la", 30.0), (4, "la", 40.0)))
    table.append(rows((5, "sf", 50.0)))
    if request.param:
        table.checkpoint()
        table = tablespec.open_table(str(tmp_path))
    return table


def listed(table, filters=None, at=None):
    """The ids in the files that are listed."""
    found = []
    for partition in table.file_index.list_files_at(at, filters):
        for slice_ in partition.file_slices:
            found += [row["id"] for batch in table.slice_reader(at).open(slice_) for row in batch.to_pylist()]
    return sorted(found)


# --- partitions ---


def test_files_are_listed_by_partition_in_path_order(table):
    la, sf = table.file_index.list_files_at()

    assert (la.descriptor, sf.descriptor) == (
        PartitionDescriptor("city=la", ("city",), ("la",)),
        PartitionDescriptor("city=sf", ("city",), ("sf",)),
    )
    assert la.latest_instant == sf.latest_instant == table.instant()
    assert [slice_.base.path for slice_ in sf.file_slices] == sorted(slice_.base.path for slice_ in sf.file_slices)
    assert [slice_.rows for slice_ in la.file_slices] == [2]
    assert sorted(slice_.instant for slice_ in sf.file_slices) == [1, 3]


def test_an_unpartitioned_table_is_one_partition_that_encloses_it(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))

    (partition,) = table.file_index.list_files_at()

    assert partition.descriptor == PartitionDescriptor("")


def test_a_table_without_rows_has_no_partitions(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])

    assert table.file_index.list_files_at() == []


# --- pruning ---


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (None, [1, 2, 3, 4, 5]),
        ("city = 'sf'", [1, 2, 5]),
        ("city <> 'sf'", [3, 4]),
        ("city in ('la', 'ny')", [3, 4]),
        ("city is null", []),
        ("city > 'm'", [1, 2, 5]),
        ("city = 'ny'", []),
        ("id = 2", [1, 2]),
        ("id > 4", [5]),
        ("id between 2 and 3", [1, 2, 3, 4]),
        ("id is null", []),
        ("pos.x >= 45", [5]),
        ("pos.x < 5", []),
        ("pos.x is null", []),
        ("city = 'sf' and id > 2", [5]),
        ("city = 'la' or id = 5", [3, 4, 5]),
        ("not (city = 'la')", [1, 2, 5]),
        ("ID = 5 and CITY = 'sf'", [5]),
        (["city = 'sf'", "id < 3"], [1, 2]),
        ([], [1, 2, 3, 4, 5]),
        (Compare(Op.EQ, Column(("id",)), Literal(5)), [5]),
        ("pos is null", [1, 2, 3, 4, 5]),
        ("pos is not null and pos.x = 50", [5]),
        ("true", [1, 2, 3, 4, 5]),
        ("false", []),
        ("null", []),
    ],
    ids=str,
)
def test_only_files_that_may_match_are_listed(table, filters, ids):
    assert listed(table, filters) == ids


def test_files_without_statistics_are_listed_for_any_filter_on_their_values(tmp_path):
    commit(
        tmp_path,
        0,
        LEGACY,
        metadata({"id": "long", "p": "string"}, partition_by=["p"]),
        add(tmp_path, "1.parquet", pa.table({"id": [1]}), stats=None, partitionValues={"p": "a"}),
        add(tmp_path, "2.parquet", pa.table({"id": [2]}), stats=None, partitionValues={"p": "b"}),
    )
    table = tablespec.open_table(str(tmp_path))

    assert listed(table, "id = 2") == [1, 2]
    assert listed(table, "id = 2 and p = 'a'") == [1]
    assert_same_rows(table.scan("id = 2"), [(2, "b")])
    assert table.scan().count() == 2


def test_statistics_that_are_not_json_cost_one_warning_and_no_rows(tmp_path):
    commit(
        tmp_path,
        0,
        LEGACY,
        metadata(),
        add(tmp_path, "1.parquet", pa.table({"id": [1]}), stats="{oops"),
        add(
            tmp_path,
            "2.parquet",
            pa.table({"id": [2]}),
            stats='{"numRecords":1,"minValues":{"id":2},"maxValues":{"id":2}}',
        ),
    )
    table = tablespec.open_table(str(tmp_path))

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        found = table.scan("id < 2").to_table()
        count = table.scan().count()

    assert_same_rows(found, [(1,)])
    assert count == 2
    (warning,) = told
    assert str(warning.message) == f"file://{tmp_path}: the statistics of 1 files are not JSON and are not used"


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":2,"minValues":{"x":"NaN"},"maxValues":{"x":"NaN"},"nullCount":{"x":0}}',
        '{"numRecords":2,"minValues":{"x":"-Infinity"},"maxValues":{"x":"Infinity"},"nullCount":{"x":0}}',
        '{"numRecords":2,"minValues":{"x":null},"maxValues":{"x":null},"nullCount":{"x":null}}',
        '{"numRecords":2,"minValues":{"x":1e999},"maxValues":{"x":1e999}}',
        '{"numRecords":2,"minValues":{"x":{"y":1}},"maxValues":{"x":[1]},"nullCount":{"x":"none"}}',
        '{"numRecords":2,"minValues":7,"maxValues":"x","nullCount":[]}',
        '{"numRecords":"two"}',
        "{}",
        "",
    ],
)
def test_odd_statistics_never_cost_a_row(tmp_path, stats):
    commit(
        tmp_path,
        0,
        LEGACY,
        metadata({"x": "double"}),
        add(tmp_path, "1.parquet", pa.table({"x": [float("inf"), float("nan")]}), stats=stats),
    )
    table = tablespec.open_table(str(tmp_path))

    with nullcontext() if stats else pytest.warns(tablespec.TableSpecWarning, match="are not JSON"):
        assert_same_rows(table.scan("x > 5"), [(float("inf"),), (float("nan"),)])
        assert_same_rows(table.scan("x < 5"), [])
        assert table.scan().count() == 2


@pytest.mark.parametrize("stats", ['{"numRecords":1,"minValues":{"id":99999999999},"maxValues":{"id":99999999999}}'])
def test_bounds_that_a_column_cannot_hold_never_cost_a_row(tmp_path, stats):
    rows_ = pa.table({"id": pa.array([1], pa.int32())})
    commit(tmp_path, 0, LEGACY, metadata({"id": "integer"}), add(tmp_path, "1.parquet", rows_, stats=stats))

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan("id = 1"), [(1,)])


# --- instants ---


@pytest.mark.parametrize(
    ("at", "ids"), [(0, []), (1, [1, 2]), (2, [1, 2, 3, 4]), (3, [1, 2, 3, 4, 5]), ("2", [1, 2, 3, 4])]
)
def test_files_are_listed_as_of_an_instant(table, at, ids):
    assert listed(table, at=at) == ids


def test_an_instant_of_the_timeline_names_its_version(table):
    assert listed(table, at=table.timeline.at(1)) == [1, 2]
    assert listed(table, at=Instant(2, 0)) == [1, 2, 3, 4]


def test_a_time_names_the_newest_instant_before_it(table):
    second = table.timeline.at(2).time

    assert listed(table, at=second) == [1, 2, 3, 4]
    assert listed(table, at=second.isoformat()) == [1, 2, 3, 4]
    assert listed(table, at=datetime(2150, 1, 1)) == [1, 2, 3, 4, 5]
    assert listed(table, at=date(2150, 1, 1)) == [1, 2, 3, 4, 5]
    assert listed(table, at="2150-01-01") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("at", [True, 1.0, "²", "٣", "", "-1", b"1", [1], time(1)], ids=repr)
def test_what_names_no_instant_is_refused(table, at):
    for ask in (
        table.instant,
        table.schema_at,
        table.changes,
        table.incremental,
        table.restore,
        partial(listed, table, None),
    ):
        with pytest.raises(InstantNotFoundError, match="it has versions and times, such as 12 or 2026-01-31T12:00:00"):
            ask(at)


@pytest.mark.parametrize(
    "at", [99, "99", -1, datetime(1999, 1, 1, tzinfo=UTC), "1999-01-01", date(1999, 1, 1)], ids=str
)
def test_an_instant_that_is_not_there_is_an_error(table, at):
    with pytest.raises(InstantNotFoundError, match="has no completed instant"):
        table.file_index.list_files_at(at)


def test_a_text_that_is_neither_a_version_nor_a_time_is_an_error(table):
    with pytest.raises(
        InstantNotFoundError, match=r"'yesterday'; it has versions and times, such as 12 or 2026-01-31T"
    ):
        table.file_index.list_files_at("yesterday")


# --- between instants ---


def between(table, start, end=None, filters=None):
    return sorted(
        row["id"]
        for partition in table.file_index.list_files_between(start, end, filters)
        for slice_ in partition.file_slices
        for batch in table.slice_reader(end).open(slice_)
        for row in batch.to_pylist()
    )


def test_files_that_came_between_two_instants_are_listed(table):
    assert between(table, 1) == [3, 4, 5]
    assert between(table, 1, 2) == [3, 4]
    assert between(table, 3) == []
    assert between(table, 0, 3, "city = 'sf'") == [1, 2, 5]


def test_without_a_start_all_files_are_listed(table):
    assert between(table, None) == [1, 2, 3, 4, 5]


def test_the_timeline_between_has_the_instants_after_the_start(table):
    partitions = table.file_index.list_files_between(1)

    assert [[instant.version for instant in partition.timeline] for partition in partitions] == [[2, 3], [2, 3]]


# --- groups ---


def test_a_file_group_has_its_slices_over_time(table, tmp_path):
    (added,) = actions_of(tmp_path, 2, "add")

    group = table.file_index.file_group(added["tags"]["tablespec.group"])

    assert (group.id.partition, [instant.version for instant in group.timeline]) == ("city=la", [2])
    ((_, slice_),) = group.slices
    assert slice_.base.path == added["path"]
    assert group.slice_at(table.timeline.at(1)) is None
    assert group.slice_at(table.timeline.at(3)) == slice_


def test_a_file_group_that_is_not_there_is_an_error(table):
    with pytest.raises(InstantNotFoundError, match="with the file group nobody"):
        table.file_index.file_group("nobody")


# --- filters that make no sense ---


@pytest.mark.parametrize(
    ("filters", "error", "why"),
    [
        ("idd = 1", ColumnNotFoundError, "the table has no column 'idd'; did you mean id?"),
        ("Cty = 'x'", ColumnNotFoundError, "did you mean city?"),
        ("pos.xx = 1", ColumnNotFoundError, "the struct pos has no column 'pos.xx'; did you mean x?"),
        ("zzzzzz = 1", ColumnNotFoundError, "the table has no column 'zzzzzz'"),
        ("id = 'one'", TypeMismatchError, "column id is of type long, which does not fit the value 'one'"),
        ("city > 5", TypeMismatchError, "column city is of type string, which does not fit the value 5"),
        ("pos = 1", TypeMismatchError, "column pos"),
        ("id = ", InvalidPredicateError, "cannot read the predicate, line 1 column"),
        ("id == == 1", InvalidPredicateError, "cannot read the predicate, line 1 column"),
        ("(id = 1", InvalidPredicateError, "cannot read the predicate, line 1 column"),
        ("sqrt(id) = 2", UnsupportedOperatorError, "sqrt"),
    ],
    ids=str,
)
def test_a_filter_that_makes_no_sense_is_named(table, tmp_path, filters, error, why):
    before = contents(tmp_path)
    for ask in (table.file_index.list_files_at, lambda at, where: table.scan(where, at=at)):
        with pytest.raises(error) as caught:
            ask(None, filters)
        assert why in str(caught.value)

    assert contents(tmp_path) == before


def test_a_malformed_filter_is_shown_with_the_place(table):
    with pytest.raises(InvalidPredicateError) as caught:
        table.scan("id > 1 and and city = 'x'")

    text, marker = str(caught.value).splitlines()[-2:]
    assert text.strip() == "id > 1 and and city = 'x'"
    assert marker.index("^") - 2 == caught.value.position
