"""Tables as DataFrames: files chosen by the filters of each query and read by Spark itself."""

from __future__ import annotations

import math
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import tablespec_spark
from tablespec_spark import jvm, relation

import tablespec
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

pytestmark = pytest.mark.spark

TRIPS = pa.schema({"id": pa.int64(), "day": pa.date32(), "city": pa.string(), "fare": pa.float64()})
FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)
ROWS = [
    (1, FIRST, "sf", 1.5),
    (2, FIRST, "l a/%x", 2.5),
    (3, SECOND, "sf", math.nan),
    (4, None, None, None),
    (5, SECOND, "ñ'", -0.0),
]


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    """A table of five rows in five partitions, a file each."""
    table = tablespec.create_table(str(tmp_path_factory.mktemp("trips")), TRIPS, partition_by=["day", "city"])
    table.append(_trips(ROWS))
    return table


def _trips(rows):
    return pa.Table.from_pylist([dict(zip(TRIPS.names, row)) for row in rows], TRIPS)


def _rows(frame):
    return [tuple(row) for row in frame.collect()]


def _files(table, where=None):
    return [Path(table.url.removeprefix("file://"), one.slice.base.path) for one in table.scan(where).slices]


def test_every_type_comes_out_as_it_went_in(spark, tmp_path):
    data = pa.table({**dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    table = tablespec.create_table(str(tmp_path), data.schema)
    table.append(data)

    assert_same_rows(tablespec_spark.read(spark, table).toArrow(), data)
    # Hidden columns are known to the slice reader alone.
    hidden = tablespec_spark.read(spark, table, columns=[*data.column_names, "_row_id"])
    assert_same_rows(hidden.drop("_row_id").toArrow(), data)
    assert_same_rows(tablespec_spark.read(spark, table, "_row_id >= 0").toArrow(), data)


def test_partition_values_of_every_type_are_handed_over_typed(spark, tmp_path):
    data = EVERY_TYPE.append_column("id", [[1, 2]])
    table = tablespec.create_table(str(tmp_path), data.schema, partition_by=EVERY_TYPE.column_names)
    table.append(data)

    frame = tablespec_spark.read(spark, table)

    assert_same_rows(frame.toArrow(), data)
    nothing = " and ".join(f"`{name}` is null" for name in EVERY_TYPE.column_names)
    assert _rows(frame.where(nothing).select("id")) == [(2,)]


@pytest.mark.parametrize(
    "where",
    [
        "day = date'2024-01-01'",
        "day > '2024-01-01' and fare is not null",
        "day is null",
        "not (city = 'sf')",
        "city <=> null",
        "city in ('sf', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j')",
        "dayofmonth(day) % 2 = 0",
        "upper(city) = 'SF' or coalesce(city, 'none') = 'none'",
        "city like 's%' and id < 3",
        "city like '%x' or fare = double('NaN')",
        "id in (1, 5) and fare <= 0",
        "fare > 2 or day is null",
        "day = date'2024-01-01' or id = 5",
        "cast(id as string) = '3'",
        "id = 1.0",
    ],
)
def test_a_filter_finds_what_spark_finds_without_a_table(spark, trips, where):
    plain = spark.createDataFrame(_trips(ROWS))

    assert_same_rows(_rows(tablespec_spark.read(spark, trips).where(where)), _rows(plain.where(where)))


@pytest.mark.parametrize(
    "where",
    [
        "day = '2024-01-02'",
        "city in ('sf', null)",
        "fare > 2",
        "not starts_with(city, 's')",
        "fare <=> null",
        "id != 3",
    ],
)
def test_the_filter_of_a_read_means_what_it_means_everywhere(spark, trips, where):
    frame = tablespec_spark.read(spark, trips, where=where, columns=["fare", "id"])

    assert_same_rows(_rows(frame), trips.scan(where, ["fare", "id"]))


@pytest.mark.parametrize(("connective", "test", "found"), [("or", "=", 2), ("and", "!=", 3)], ids=["or", "and"])
def test_the_filter_of_a_read_may_have_very_many_parts(spark, trips, connective, test, found):
    where = f" {connective} ".join(f"id {test} {value}" for value in [1, 5, *range(10, 600)])

    assert tablespec_spark.read(spark, trips, where=where).count() == found


@pytest.mark.parametrize("where", ["day = date'1582-10-14'", "day >= date'0001-01-01' and day < date'1500-03-01'"])
def test_days_before_the_calendar_changed_are_compared_as_they_are(spark, tmp_path, where):
    days = [date(1, 1, 1), date(1500, 2, 28), date(1500, 3, 1), date(1582, 10, 14), date(1582, 10, 15), None]
    table = tablespec.create_table(str(tmp_path), pa.schema({"day": pa.date32()}))
    table.append(pa.table({"day": days}))

    assert_same_rows(_rows(tablespec_spark.read(spark, table, where=where)), table.scan(where))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("where", ["x = {}", "x <=> {}", "x in ({}, 7.0)", "not (x <> {})", "x >= {} and x <= {}"])
def test_the_two_zeros_are_equal_in_the_filter_of_a_read(spark, tmp_path, kind, zero, where):
    table = tablespec.create_table(str(tmp_path), pa.schema({"x": kind}))
    table.append(pa.table({"x": pa.array([-zero, -zero], kind)}))

    found = tablespec_spark.read(spark, table, where=where.format(zero, zero))

    assert _rows(found) == [(0.0,), (0.0,)]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize(
    "where",
    [
        *("x = {0}", "{0} <=> x", "x in ({0}, 7.0)", "not (x <> {0})", "x >= {0} and x <= {0}", "s.y = {0}"),
        "x in ({0}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
        "x = (select {0} * max(id) from range(1, 3))",
    ],
)
def test_the_two_zeros_are_equal_in_every_later_filter(spark, tmp_path, kind, zero, where):
    table = tablespec.create_table(str(tmp_path), pa.schema({"x": kind, "s": pa.struct({"y": kind})}))
    zeros = pa.array([-zero, -zero], kind)
    table.append(pa.table({"x": zeros, "s": pa.StructArray.from_arrays([zeros], ["y"])}))
    tablespec_spark.attach(spark, table, "zeros", follow=True)

    found = spark.sql(
        f"SELECT x FROM zeros WHERE {where.format('double(-0.0D)' if math.copysign(1, zero) < 0 else '0.0D')}"
    )

    assert _rows(found) == [(0.0,), (0.0,)]


@pytest.mark.parametrize(
    "where",
    [
        *("day = date'{0}'", "day >= date'{0}'", "day <= date'{0}'", "day in (date'{0}', date'2024-01-01')"),
        *("at = timestamp'{0} 05:06:07Z'", "at >= timestamp'{0} 05:06:07Z'", "at <= timestamp'{0} 05:06:07Z'"),
    ],
)
def test_days_that_the_calendar_left_out_are_found(spark, tmp_path, where):
    schema = pa.schema({"day": pa.date32(), "at": pa.timestamp("us", "UTC")})
    table = tablespec.create_table(str(tmp_path), schema)
    for day in (5, 10, 14):
        moment = datetime(1582, 10, day, 5, 6, 7, tzinfo=UTC)
        table.append(pa.table({"day": [moment.date()], "at": [moment]}, schema))
    asked = where.format("1582-10-10")

    later = tablespec_spark.read(spark, table).where(asked)

    assert_same_rows(later.toArrow(), table.scan(asked))
    assert_same_rows(tablespec_spark.read(spark, table, where=asked).toArrow(), table.scan(asked))


def test_filters_that_are_made_on_rows_leave_files_out_too(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"x": pa.float64()}))
    table.append(pa.table({"x": [-0.0, 1.0]}))
    table.append(pa.table({"x": [5.0]}))
    frame = tablespec_spark.read(spark, table)
    for path in set(_files(table)) - set(_files(table, "x = 0")):
        path.unlink()

    assert _rows(frame.where("x = 0")) == [(0.0,)]


@pytest.mark.parametrize("where", ["x = float('1.1')", "x <= float('1.1')", "x in (float('1.1'), float('7'))"])
def test_a_filter_with_a_number_of_32_bits_finds_it(spark, tmp_path, where):
    table = tablespec.create_table(str(tmp_path), pa.schema({"x": pa.float32()}))
    table.append(pa.table({"x": pa.array([1.1], pa.float32())}))

    assert tablespec_spark.read(spark, table).where(where).count() == 1


@pytest.mark.parametrize("where", ["day = date'2024-01-01' and city = 'sf'", "id = 1", "id < 2 and fare > 1"])
def test_files_that_a_later_filter_excludes_are_not_touched(spark, tmp_path, where):
    table = tablespec.create_table(str(tmp_path / "trips"), TRIPS, partition_by=["day", "city"])
    table.append(_trips(ROWS))
    frame = tablespec_spark.read(spark, table)
    for path in _files(table):
        if path not in _files(table, "id = 1"):
            path.unlink()

    assert_same_rows(_rows(frame.where(where)), [ROWS[0]])


def test_what_spark_tells_of_files_is_not_taken_for_columns_of_the_same_name(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"file_name": pa.string(), "file_size": pa.int64()}))
    table.append(pa.table({"file_name": ["x"], "file_size": [1]}))
    frame = tablespec_spark.read(spark, table)
    told = frame.select("_metadata.file_name", "_metadata.file_size").first()

    found = frame.where(f"_metadata.file_name = '{told[0]}' and _metadata.file_size = {told[1]}")

    assert _rows(found) == [("x", 1)]


def test_two_filters_on_one_frame_never_influence_each_other(spark, trips):
    frame = tablespec_spark.read(spark, trips)
    one, two = frame.where("id = 1"), frame.where("day = date'2024-01-02'")

    assert_same_rows(_rows(one.union(two)), [ROWS[0], ROWS[2], ROWS[4]])
    assert_same_rows(_rows(one.select("id").join(frame.select("id", "city"), "id")), [(1, "sf")])
    assert frame.count() == 5


def test_what_one_query_keeps_in_memory_is_not_taken_for_another(spark, trips):
    frame = tablespec_spark.read(spark, trips)
    kept = frame.where("id = 1").cache()
    assert kept.count() == 1

    assert_same_rows(_rows(frame.where("id = 3")), [ROWS[2]])
    assert_same_rows(_rows(tablespec_spark.read(spark, trips).where("id = 1")), [ROWS[0]])
    assert frame.count() == 5
    kept.unpersist()


def test_what_is_kept_in_memory_is_not_taken_for_a_table_that_was_made_anew_in_its_place(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path / "trips"), TRIPS)
    table.append(_trips(ROWS[:1]))
    kept = tablespec_spark.read(spark, table).cache()
    assert kept.count() == 1
    shutil.rmtree(tmp_path / "trips")
    again = tablespec.create_table(str(tmp_path / "trips"), TRIPS)
    again.append(_trips(ROWS[1:2]))

    assert_same_rows(_rows(tablespec_spark.read(spark, again)), [ROWS[1]])
    kept.unpersist()


def test_partitions_are_pruned_by_what_a_join_finds(spark, trips):
    days = spark.createDataFrame([(FIRST, "yes"), (SECOND, "no")], "day date, wanted string").where("wanted = 'yes'")
    frame = tablespec_spark.read(spark, trips)

    assert_same_rows(_rows(frame.join(days, "day").select("id")), [(1,), (2,)])


@pytest.fixture
def thinned(tmp_path):
    """A table of two files, one with deleted rows."""
    schema = pa.schema({"id": pa.int64(), "text": pa.string()})
    table = tablespec.create_table(str(tmp_path / "a b%20#"), schema)
    table.append(pa.table({"id": range(1000), "text": [f"row {number}" for number in range(1000)]}))
    table.append(pa.table({"id": range(1000, 1010), "text": ["late"] * 10}))
    table.delete("id >= 3 and id < 999")
    return table


def test_deleted_rows_do_not_come(spark, thinned):
    frame = tablespec_spark.read(spark, thinned)

    assert_same_rows(_rows(frame.where("id < 1002")), thinned.scan("id < 1002"))
    assert_same_rows(_rows(frame.where("text = 'row 4' or text = 'row 999'")), [(999, "row 999")])
    assert frame.count() == 14


@pytest.fixture(params=["plan", "broadcast", "join"])
def scattered(request, tmp_path, monkeypatch):
    """A table of three files with rows deleted at their beginning, in the middle and at their end; by few bits, many or none."""
    if request.param == "broadcast":
        monkeypatch.setattr(jvm, "_MOST_IN_PLAN", 0)
    if request.param == "join":
        monkeypatch.setattr(relation, "_MOST_BITS", 0)
    table = tablespec.create_table(
        str(tmp_path), pa.schema({"id": pa.int64(), "part": pa.int32()}), partition_by=["part"]
    )
    for part in range(3):
        table.append(pa.table({"id": range(100 * part, 100 * part + 100), "part": pa.array([part] * 100, pa.int32())}))
    table.delete("id in (0, 1, 150, 298, 299)")
    return table


@pytest.mark.parametrize("where", ["true", "part = 1", "part <> 1", "id > 148", "id % 100 < 2", "part = 0 and id < 5"])
def test_rows_and_counts_leave_out_what_is_deleted_in_any_file(spark, scattered, where):
    left = [(number, number // 100) for number in range(300) if number not in (0, 1, 150, 298, 299)]
    wanted = spark.createDataFrame(left, "id long, part int").where(where)
    frame = tablespec_spark.read(spark, scattered).where(where)

    assert_same_rows(_rows(frame), _rows(wanted))
    assert frame.count() == wanted.count()
    assert_same_rows(_rows(frame.groupBy("part").count()), _rows(wanted.groupBy("part").count()))


def test_counts_of_every_kind_leave_out_what_is_deleted(spark, thinned):
    tablespec_spark.attach(spark, thinned, "thinned")
    counts = {
        "SELECT count(*), count(1), count(id), count(DISTINCT text) FROM thinned": [(14, 14, 14, 5)],
        "SELECT count(*) + 1 AS more FROM thinned": [(15,)],
        "SELECT count(*) FILTER (WHERE id > 5) FROM thinned": [(11,)],
        "SELECT count(NULL) FROM thinned": [(0,)],
        "SELECT count(*) FROM (SELECT * FROM thinned LIMIT 13)": [(13,)],
        "SELECT count(*) FROM (SELECT explode(array(id, id)) FROM thinned)": [(28,)],
        "SELECT count(*) FROM (SELECT id FROM thinned UNION ALL SELECT id FROM thinned WHERE id < 2)": [(16,)],
        "SELECT (SELECT count(*) FROM thinned) AS all, count(*) FROM thinned WHERE id < 3": [(14, 3)],
    }

    assert {text: _rows(spark.sql(text)) for text in counts} == counts


def test_a_count_of_a_whole_table_looks_at_no_position(spark, thinned, capsys):
    frame = tablespec_spark.read(spark, thinned)

    frame.groupBy().count().explain()
    whole = capsys.readouterr().out
    frame.where("id > 3").groupBy().count().explain()
    some = capsys.readouterr().out

    assert "row_index" in some
    assert "row_index" not in whole


def test_deleted_rows_do_not_come_out_of_tables_that_spark_reads_row_by_row(spark, tmp_path):
    columns = {f"c{number}": pa.array(range(5)) for number in range(110)}
    table = tablespec.create_table(str(tmp_path), pa.table(columns).schema)
    table.append(pa.table(columns))
    table.delete("c0 in (1, 3)")
    frame = tablespec_spark.read(spark, table)

    assert_same_rows(_rows(frame), [(number,) * 110 for number in (0, 2, 4)])
    assert frame.count() == 3


@pytest.mark.parametrize("name", ["_tmp_metadata_row_index", "__tablespec_first", "__Tablespec_Numbered"])
def test_a_column_of_a_name_that_stands_for_positions_is_read_as_it_is(spark, tmp_path, name):
    data = pa.table({name: pa.array([7, 8, 9])})
    table = tablespec.create_table(str(tmp_path), data.schema)
    table.append(data)
    table.delete(f"{name} = 8")

    assert_same_rows(_rows(tablespec_spark.read(spark, table)), [(7,), (9,)])


def test_read_optimized_leaves_deletions_aside(spark, thinned):
    frame = tablespec_spark.read_optimized(spark, thinned, where="id < 5")

    assert_same_rows(_rows(frame), [(number, f"row {number}") for number in range(5)])


def test_a_frame_stays_on_its_snapshot(spark, thinned):
    frame = tablespec_spark.read(spark, thinned).cache()
    assert frame.count() == 14

    thinned.delete("id = 0")
    thinned.append(pa.table({"id": [7, 8], "text": ["new", "new"]}))

    assert frame.count() == 14
    assert tablespec_spark.read(spark, thinned).count() == 15
    assert tablespec_spark.read(spark, thinned, at=2).count() == 1010
    frame.unpersist()


def test_a_view_stays_and_a_following_view_moves_with_the_table(spark, thinned):
    tablespec_spark.attach(spark, thinned, "still")
    tablespec_spark.attach(spark, thinned, "moving", follow=True)

    thinned.append(pa.table({"id": [7], "text": ["new"]}))
    thinned.delete("id = 0")

    assert _rows(spark.sql("SELECT count(*), min(id) FROM still")) == [(14, 0)]
    assert _rows(spark.sql("SELECT count(*), min(id) FROM moving")) == [(14, 1)]
    assert _rows(spark.sql("SELECT text FROM moving WHERE id = 7")) == [("new",)]


def test_columns_are_found_under_their_physical_names_at_every_level(spark, tmp_path):
    data = pa.table({"id": pa.array([1, 2]), "day": pa.array([FIRST, None]), **NESTED})
    mapping = {"delta.columnMapping.mode": "name"}
    table = tablespec.create_table(str(tmp_path), data.schema, partition_by=["day"], properties=mapping)
    table.append(data)
    table.delete("id = 2")
    frame = tablespec_spark.read(spark, table)

    assert_same_rows(frame.toArrow(), data.slice(0, 1))
    assert _rows(frame.where("struct.b.c = 'x' and day = date'2024-01-01'").select("struct.a")) == [(1,)]


def test_added_and_widened_columns_are_read_from_old_files(spark, tmp_path):
    old = pa.schema({"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(4, 2), "day": pa.date32()})
    new = pa.schema(
        {"i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(12, 4), "day": pa.timestamp("us"), "more": pa.string()}
    )
    table = tablespec.create_table(str(tmp_path), old, properties={"delta.enableTypeWidening": "true"})
    table.append(pa.Table.from_pylist([{"i": 1, "f": 0.5, "d": Decimal("1.25"), "day": FIRST}], old))
    row = {"i": 2**40, "f": 0.1, "d": Decimal("1.2345"), "day": datetime(2024, 1, 2, 3), "more": "x"}
    table.append(pa.Table.from_pylist([row], new), merge_schema=True)

    frame = tablespec_spark.read(spark, table)

    assert_same_rows(frame.toArrow(), table.scan())
    assert_same_rows(frame.where("i < 5 and d > 1").toArrow(), table.scan("i < 5"))


def test_incremental_reads_give_what_is_new(spark, thinned):
    before = thinned.instant().version
    thinned.append(pa.table({"id": [7], "text": ["new"]}))

    assert_same_rows(_rows(tablespec_spark.incremental(spark, thinned, before)), [(7, "new")])


def test_changes_tell_what_happened_to_rows(spark, thinned):
    before = thinned.instant().version
    thinned.delete("id = 999")

    frame = tablespec_spark.changes(spark, thinned, before, columns=["id", "_change_type", "_commit_version"])

    assert_same_rows(_rows(frame), [(999, "delete", before + 1)])


def test_members_of_structs_may_be_called_variants(spark, tmp_path):
    rows = pa.table({"item": [{"variant": 1}]})
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows)

    assert_same_rows(tablespec_spark.incremental(spark, table, 0).toArrow(), rows)


def test_a_table_in_the_memory_of_the_driver_is_refused(spark):
    table = tablespec.create_table("memory://spark/t", TRIPS)

    with pytest.raises(tablespec.TableSpecError, match="executors cannot see it"):
        tablespec_spark.read(spark, table)
