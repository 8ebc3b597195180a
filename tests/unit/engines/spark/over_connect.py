"""The adapter over Spark Connect; `test_connect` runs this in a process of its own, because Connect changes pyspark for all of it."""

from __future__ import annotations

import os
import sys
from datetime import date

import pyarrow as pa
import pytest
import tablespec_spark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from tablespec_spark.connect import file_path
from tablespec_spark.merge import FrameSource
from tablespec_spark.schema import spark_schema

import tablespec
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.date32(), "city": pa.string(), "fare": pa.float64()})
FIRST = date(2024, 1, 1)
ROWS = [
    (1, FIRST, "sf", 1.5),
    (2, FIRST, "l a/%x?*[b]{c}", 2.5),
    (3, None, "ñ'+&=\u00a0", 3.5),
    (4, FIRST, None, None),
    (5, FIRST, "sf", -0.0),
]
MORE = "id long, day date, city string, fare double"


@pytest.fixture(scope="session")
def spark():
    """A session of a Connect server whose tasks are tried three times."""
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    session = SparkSession.builder.remote("local[2,3]").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture
def table(tmp_path):
    """Partitions of every odd kind in a folder with an odd name; version 1 has the first three rows."""
    made = tablespec.create_table(str(tmp_path / "a b{1}%"), SCHEMA, partition_by=["day", "city"], key=["id"])
    for rows in (ROWS[:3], ROWS[3:]):
        made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA))
    return made


def _rows(frame):
    return [tuple(row) for row in frame.collect()]


def test_the_session_is_one_of_connect(spark):
    assert type(spark).__module__.startswith("pyspark.sql.connect")


def test_clean_tables_are_read_filtered_and_at_older_versions(spark, table):
    frame = tablespec_spark.read(spark, table)

    assert_same_rows(_rows(frame), ROWS)
    assert_same_rows(_rows(frame.where("city = 'sf' and fare > 1")), ROWS[:1])
    assert_same_rows(_rows(frame.where("day is null").union(frame.where("id = 1"))), [ROWS[2], ROWS[0]])
    assert_same_rows(_rows(tablespec_spark.read(spark, table, at=1)), ROWS[:3])
    chosen = tablespec_spark.read(spark, table, where="city <=> NULL OR fare = 2.5", columns=["id"])
    assert_same_rows(_rows(chosen), [(2,), (4,)])
    assert _rows(tablespec_spark.read(spark, table, where="city = 'nowhere'")) == []


def test_deleted_rows_are_left_out_and_everything_is_told_of_them(spark, table):
    table.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, (6, FIRST, "sf", 6.0)))] * 3, SCHEMA))
    before = table.instant().version
    gone = tablespec_spark.delete(spark, table, "id = 6 OR id = 5", strategy=tablespec.Strategy.MERGE_ON_READ)
    assert gone.rows_deleted == 4
    table.update({"fare": "fare + 10"}, "id = 1")

    left = [(1, FIRST, "sf", 11.5), *ROWS[1:4]]
    assert_same_rows(_rows(tablespec_spark.read(spark, table)), left)
    assert tablespec_spark.read(spark, table).where("city = 'sf'").count() == 1
    new = tablespec_spark.incremental(spark, table, before, columns=["id", "fare"])
    assert _rows(new) == [(1, 11.5)]
    changes = tablespec_spark.changes(spark, table, before + 1, columns=["id", "fare", "_change_type"])
    assert_same_rows(_rows(changes), [(1, 1.5, "update_preimage"), (1, 11.5, "update_postimage")])


def test_vectors_take_rows_away_from_the_files_that_they_belong_to(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path / "t"), pa.schema({"id": pa.int64()}))
    for start in (0, 100, 200):
        table.append(pa.table({"id": range(start, start + 100)}))
    table.delete("id >= 100 AND id < 110 OR id >= 250")
    assert sum(one.slice.deletes is not None for one in table.scan().slices) == 2

    left = [(number,) for number in [*range(100), *range(110, 250)]]
    assert_same_rows(_rows(tablespec_spark.read(spark, table)), left)
    assert tablespec_spark.read_optimized(spark, table).count() == 300


def test_every_type_comes_out_as_it_went_in_and_hidden_columns_too(spark, tmp_path):
    data = pa.table({**dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    table = tablespec.create_table(str(tmp_path / "t"), data.schema, partition_by=["decimal", "timestamp"])
    tablespec_spark.append(spark, table, spark.createDataFrame(data, spark_schema(table.schema)))

    assert_same_rows(tablespec_spark.read(spark, table).toArrow(), data)
    hidden = tablespec_spark.read(spark, table, columns=[*data.column_names, "_row_id"])
    assert_same_rows(hidden.drop("_row_id").toArrow(), data)


def test_rows_are_appended_replaced_merged_and_compacted(spark, table):
    new = spark.createDataFrame([(7, FIRST, "sf", 7.0), (8, FIRST, "ny", 8.0)], MORE)
    assert tablespec_spark.append(spark, table, new.repartition(2)).rows == 2
    tablespec_spark.replace_where(spark, table, "city = 'sf'", new.where("id = 7"))
    tablespec_spark.upsert(spark, table, spark.createDataFrame([(8, FIRST, "ny", 9.0)], MORE))
    tablespec_spark.compact(spark, table)

    expected = [*ROWS[1:4], (7, FIRST, "sf", 7.0), (8, FIRST, "ny", 9.0)]
    assert_same_rows(_rows(tablespec_spark.read(spark, table)), expected)


def test_rows_are_merged_where_their_keys_are_and_replaced_by_their_keys(spark, table):
    many = spark.range(3, 9, numPartitions=2).selectExpr("id", "DATE '2024-01-01' day", "'sf' city", "double(id) fare")
    clauses = (tablespec.when_matched_update({"fare": "s.fare"}), tablespec.when_not_matched_insert())

    done = table.merge(FrameSource(many.localCheckpoint()), "t.id = s.id", *clauses)
    tablespec_spark.replace_using(
        spark, table, ["id"], many.where("id = 8").selectExpr("id", "day", "city", "0.5D fare")
    )
    tablespec_spark.overwrite_partitions(spark, table, spark.createDataFrame([(10, FIRST, None, 10.0)], MORE))

    assert (done.rows_updated, done.rows_inserted) == (3, 3)
    kept = [*ROWS[:2], (3, None, ROWS[2][2], 3.0), (5, FIRST, "sf", 5.0)]
    new = [(6, FIRST, "sf", 6.0), (7, FIRST, "sf", 7.0), (8, FIRST, "sf", 0.5), (10, FIRST, None, 10.0)]
    assert_same_rows(_rows(tablespec_spark.read(spark, table)), [*kept, *new])


def test_views_stay_on_their_version_and_following_ones_are_refused_by_name(spark, table):
    tablespec_spark.attach(spark, table, "trips")
    table.delete("id = 1")

    assert spark.sql("SELECT count(*) FROM trips").collect()[0][0] == 5
    with pytest.raises(tablespec.TableSpecError, match="a view that follows a table needs Spark's planner"):
        tablespec_spark.attach(spark, table, "trips", follow=True)


def test_an_error_of_a_task_comes_back_as_our_error(spark, table):
    table.add_constraint("cheap", "fare IS NULL OR fare < 50")

    with pytest.raises(tablespec.TableSpecError, match="cheap"):
        tablespec_spark.update(spark, table, {"fare": "fare + 100"}, "id = 1")


def test_a_task_that_fails_at_first_leaves_its_rows_once(spark, table):
    tablespec_spark.register(spark)
    flaky = spark.range(100, 140, numPartitions=2).mapInArrow(_failing_at_first, "id long")
    rows = flaky.selectExpr("id", "date'2024-01-01' day", "'ny' city", "double(id) fare")

    rows.write.format("tablespec").mode("append").save(table.url)

    assert_same_rows(table.scan("city = 'ny'"), [(number, FIRST, "ny", float(number)) for number in range(100, 140)])


def _failing_at_first(batches):
    """Lets some rows through and then fails, in the first attempt of one task."""
    for batch in batches:
        yield batch.slice(0, 5)
        context = TaskContext.get()
        if context.attemptNumber() == context.partitionId() == 0:
            raise RuntimeError("this attempt fails")
        yield batch.slice(5)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("file:///a b/c%20d", "file:/a%20b/c%2520d"),
        ("s3a://bucket/é=x+y&'[z]", "s3a://bucket/é=x+y&'%5Bz%5D"),
    ],
)
def test_paths_are_spelled_as_spark_tells_them(url, told):
    assert file_path(url) == told
