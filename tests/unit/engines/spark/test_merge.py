"""Merging DataFrames whose rows are sent to the executors of their keys."""

from __future__ import annotations

import math
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import tablespec_spark
from tablespec_spark.merge import MOST_SENT, FrameSource
from tablespec_spark.schema import spark_schema

import tablespec
from tablespec.errors import EmptyKeyError, MultipleMatchesError
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
BOTH = (tablespec.when_matched_update(), tablespec.when_not_matched_insert())
CASES = {
    "update and insert": ("t.id = s.id", BOTH),
    "a condition beside the keys": (
        "t.id = s.id and t.fare < s.fare",
        (
            tablespec.when_matched_update({"fare": "t.fare + s.fare"}),
            tablespec.when_not_matched_insert(where="s.id > 60"),
        ),
    ),
    "delete, and what the source lacks": (
        "t.id = s.id and t.city = s.city",
        (
            tablespec.when_matched_delete("s.fare > 200"),
            tablespec.when_matched_update({"fare": "s.fare"}),
            tablespec.when_not_matched_by_source_delete("t.id < 5"),
            tablespec.when_not_matched_insert(),
        ),
    ),
}


@pytest.fixture(autouse=True)
def several_partitions(spark):
    """Let Spark leave small partitions apart, so that rows really meet by their keys."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def _table(folder, *, feed=False, partition_by=("city",)):
    """Sixty rows and some without a key."""
    properties = {"delta.enableChangeDataFeed": str(feed).lower()}
    made = tablespec.create_table(
        str(folder), SCHEMA, partition_by=list(partition_by), key=["id"], properties=properties
    )
    rows = [{"id": n, "city": ("sf", "la", None)[n % 3], "fare": float(n)} for n in range(60)]
    for start in (0, 30):
        made.append(pa.Table.from_pylist([*rows[start : start + 30], {"id": None, "city": "sf", "fare": 1.0}], SCHEMA))
    return made


def _frame(spark, first=30, end=90):
    rows = spark.range(first, end, numPartitions=3).selectExpr(
        "int(id) id", "element_at(array('sf', 'la', null), int(id % 3) + 1) city", "id * 4.0D fare"
    )
    lacking = spark.range(7, 19, numPartitions=4).selectExpr("int(null) id", "'ny' city", "double(id) fare")
    return rows.unionAll(lacking)


def _files(table):
    return sorted(one for one in Path(table.url.removeprefix("file://")).rglob("*") if one.is_file())


@pytest.mark.parametrize("feed", [False, True], ids=["without feed", "with feed"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_happens_as_in_a_merge_on_the_driver(spark, tmp_path, case, feed):
    once = _table(tmp_path / "once", feed=feed, partition_by=("city",) if feed else ())
    shutil.copytree(tmp_path / "once", tmp_path / "spread")
    spread = tablespec.open_table(str(tmp_path / "spread"))
    on, clauses = CASES[case]
    version = once.instant().version

    wanted = once.merge(_frame(spark).toArrow(), on, *clauses)
    done = spread.merge(FrameSource(_frame(spark)), on, *clauses)

    counts = ("rows_inserted", "rows_updated", "rows_deleted")
    assert [getattr(done, name) for name in counts] == [getattr(wanted, name) for name in counts]
    assert_same_rows(spread.scan(), once.scan())
    told = [table.changes(version).to_table().drop_columns(["_commit_timestamp"]) for table in (spread, once)]
    assert_same_rows(*told)


def test_many_rows_are_upserted_where_their_keys_are_and_the_newest_counts(spark, tmp_path):
    table = _table(tmp_path / "t", partition_by=())
    count = MOST_SENT + 50_000
    # Every key stands twice, the greater fare first.
    data = spark.range(0, 2 * count, numPartitions=4).selectExpr(
        f"id % {count} id", "'sf' city", f"double({2 * count} - id) fare"
    )

    done = tablespec_spark.upsert(spark, table, data, order_by="fare")

    assert (done.rows_updated, done.rows_inserted) == (60, count - 60)
    rows = table.scan(where="id is not null", columns=["id", "fare"]).to_table().sort_by("id")
    assert rows.column("id").to_pylist() == list(range(count))
    assert rows.column("fare").to_pylist() == [2.0 * count - number for number in range(count)]


def test_a_statement_merges_many_rows_too(spark, tmp_path):
    catalog = tablespec.Catalog(str(tmp_path))
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [1, 2], "city": ["sf", "la"], "fare": [1.0, 2.0]}))
    tablespec_spark.attach_catalog(spark, catalog, "lake")
    spark.range(MOST_SENT + 10).selectExpr("id", "'ny' city", "0.5D fare").createOrReplaceTempView("many")

    done = tablespec_spark.sql(
        spark,
        """
        MERGE INTO lake.db.t AS t USING (SELECT * FROM many) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
        """,
    )

    assert (done.rows_updated, done.rows_inserted) == (2, MOST_SENT + 8)
    assert_same_rows(table.scan(where="id < 4"), [(number, "ny", 0.5) for number in range(4)])


def test_a_row_with_two_partners_is_refused_as_itself_and_nothing_changes(spark, tmp_path):
    table = _table(tmp_path / "t")
    before = _files(table)
    twice = _frame(spark).unionAll(spark.sql("SELECT 33, 'sf', 1.0D"))

    with pytest.raises(MultipleMatchesError):
        table.merge(FrameSource(twice), "t.id = s.id", *BOTH)

    assert _files(table) == before


def test_a_constraint_is_told_as_itself_and_nothing_changes(spark, tmp_path):
    table = _table(tmp_path / "t")
    table.add_constraint("cheap", "fare < 300")
    before = _files(table)

    with pytest.raises(tablespec.TableSpecError, match="cheap"):
        table.merge(FrameSource(_frame(spark)), "t.id = s.id", *BOTH)

    assert _files(table) == before


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.float64(), [0.0, -0.0, math.nan, 1e300]),
        (pa.decimal128(10, 2), [1, 2, 3]),
        (pa.binary(), [b"", b"\x00", b"\xff"]),
        (pa.timestamp("us", "UTC"), [datetime(2024, 3, 31, 1, 30, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]),
        (pa.timestamp("us"), [datetime(2024, 3, 31, 2, 30), datetime(9999, 1, 1)]),
        (pa.bool_(), [True, False]),
    ],
    ids=str,
)
def test_keys_of_every_type_find_each_other_in_any_time_zone(spark, tmp_path, kind, keys):
    data = pa.table({"k": pa.array(keys, kind), "v": pa.array([0] * len(keys), pa.int64())})
    table = tablespec.create_table(str(tmp_path / "t"), data.schema)
    distinct = data.slice(1) if keys[0] == 0.0 and len(keys) == 4 else data
    table.append(data)
    source = spark.createDataFrame(distinct, spark_schema(table.schema)).selectExpr("k", "7L v")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        done = table.merge(FrameSource(source), "t.k = s.k", *BOTH)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert (done.rows_updated, done.rows_inserted) == (len(keys), 0)


def test_columns_of_every_type_come_through_as_they_are(spark, tmp_path):
    data = pa.table({"k": [1, 2], **dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    table = tablespec.create_table(str(tmp_path / "t"), data.schema)
    table.append(data.slice(0, 1).set_column(0, "k", pa.array([3])))
    frame = spark.createDataFrame(data, spark_schema(table.schema))

    table.merge(FrameSource(frame), "t.k = s.k", *BOTH)
    table.merge(FrameSource(frame.selectExpr("k", "1L n")), "t.k = s.k", tablespec.when_matched_update({"long": "s.n"}))

    first = data.set_column(data.column_names.index("long"), "long", pa.array([1, 1]))
    assert_same_rows(table.scan(where="k < 3"), first)


def test_rows_without_a_key_are_refused_by_an_upsert_as_on_the_driver(spark, tmp_path):
    table = _table(tmp_path / "t")
    before = _files(table)
    data = _frame(spark).repartition(4)

    for source in (data.toArrow(), FrameSource(data)):
        with pytest.raises(EmptyKeyError, match=r"no value in id.*'city': 'ny'"):
            table.upsert(source, order_by="fare")

    assert _files(table) == before


def test_an_upsert_changes_the_same_rows_as_on_the_driver(spark, tmp_path):
    once, spread = (_table(tmp_path / name) for name in ("once", "spread"))
    data = _frame(spark).where("id is not null").repartition(4)

    wanted = once.upsert(data.toArrow(), order_by="fare")
    done = spread.upsert(FrameSource(data), order_by="fare")

    assert (done.rows_updated, done.rows_inserted) == (wanted.rows_updated, wanted.rows_inserted) == (30, 30)
    assert_same_rows(spread.scan(), once.scan())


def test_into_an_empty_table_all_rows_are_inserted(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path / "t"), SCHEMA, partition_by=["city"], key=["id"])

    done = table.upsert(FrameSource(spark.range(20).selectExpr("id ID", "'sf' city", "1.0D fare")))

    assert (done.rows_inserted, done.files_added) == (20, 1)
    assert table.scan().count() == 20
