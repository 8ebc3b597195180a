"""What goes wrong inside of Spark comes out as an error of tablespec."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
import tablespec_spark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tablespec_spark.errors import FileGoneError, retold, told

import tablespec
from tablespec.errors import CorruptLogError, SchemaMismatchError
from tests.rows import assert_same_rows

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROWS = [(1, "sf", 10.0), (2, "la", 20.0)]


@pytest.fixture
def table(tmp_path):
    """Two rows in two partitions."""
    made = tablespec.create_table(str(tmp_path / "trips"), SCHEMA, partition_by=["city"])
    made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in ROWS], SCHEMA))
    return made


def test_errors_survive_their_way_as_text_wherever_it_stands():
    error = CorruptLogError("s3://x/t", "_delta_log/1.json", 3, 'the text "3"\nis odd')

    again = retold(f"java.lang.Exception: {told(error)} at Some.java:12\n\tat Other")

    assert (type(again), str(again)) == (CorruptLogError, str(error))
    assert retold("java.lang.Exception: something else") is None
    assert "why" in str(retold("tablespec error " + '["NobodyKnowsError", [], "the reason why"]'))


def test_an_error_while_spark_plans_is_raised_as_itself(spark, table, tmp_path):
    table.checkpoint()
    frame = tablespec_spark.read(spark, tablespec.open_table(table.url))
    frame.createOrReplaceTempView("broken_trips")
    (checkpoint,) = (tmp_path / "trips" / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1 damaged PAR1")
    for entry in (tmp_path / "trips" / "_delta_log").glob("*.json"):
        entry.unlink()

    for action in (frame.count, frame.where("id = 1").collect, spark.sql("SELECT * FROM broken_trips").toArrow):
        with pytest.raises(tablespec.TableSpecError, match="checkpoint") as caught:
            action()
        assert type(caught.value).__module__.startswith("tablespec.errors")
        assert "Py4J" not in str(caught.value)
        assert "at org.apache" not in str(caught.value)


def test_an_error_of_a_task_that_reads_is_raised_as_itself(spark, table, tmp_path):
    before = table.instant().version
    table.append(pa.table({"id": [3], "city": ["sf"], "fare": [1.0]}))
    frame = tablespec_spark.incremental(spark, table, before)
    for file in (tmp_path / "trips").rglob("*.parquet"):
        file.unlink()

    with pytest.raises(tablespec.TableSpecError) as caught:
        frame.collect()
    assert len(str(caught.value).splitlines()) == 1


def test_a_table_that_was_dropped_under_a_frame_is_named(spark, table, tmp_path):
    frame = tablespec_spark.read(spark, table)
    shutil.rmtree(tmp_path / "trips")

    with pytest.raises(FileGoneError, match=r"trips/city=.*read the table again"):
        frame.collect()


def test_errors_of_others_stay_what_they_are(spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "plain"))
    plain = spark.read.parquet(str(tmp_path / "plain"))
    shutil.rmtree(tmp_path / "plain")

    with pytest.raises(Py4JJavaError, match="FILE_NOT_EXIST"):
        plain.collect()
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        spark.sql("SELECT 1 / 0").collect()


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("1L id, 'x' city, 1D fare, 2 more", "the column more is not in the table"),
        ("1L id, 2L ID, 'x' city, 1D fare", "stands more than once"),
        ("1L id, 1D fare", "the partition column city is missing"),
        ("interval '1' month id, 'x' city, 1D fare", "the column id of type interval month"),
        ("interval '1' day id, 'x' city, 1D fare", "id"),
        ("'one' id, 'x' city, 1D fare", "id"),
    ],
    ids=["unknown column", "column twice", "partition column missing", "type without Arrow", "duration", "wrong type"],
)
def test_frames_that_do_not_fit_are_refused_by_name_and_nothing_is_written(spark, table, columns, problem):
    with pytest.raises(tablespec.TableSpecError, match=problem):
        tablespec_spark.append(spark, table, spark.sql(f"SELECT {columns}"))

    assert_same_rows(table.scan(), ROWS)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("1L id, 2L ID, 'x' city, 1D fare", "the column id stands more than once"),
        ("1L id, 'x' city, interval '1' month fare", "the column fare of type interval month"),
    ],
    ids=["column twice", "type without Arrow"],
)
def test_frames_that_do_not_fit_are_refused_by_name_in_merges(spark, table, columns, problem):
    with pytest.raises(tablespec.TableSpecError, match=problem):
        tablespec_spark.merge(
            spark, table, spark.sql(f"SELECT {columns}"), "t.id = s.id", tablespec.when_not_matched_insert()
        )


@pytest.mark.parametrize("write", [tablespec_spark.append, tablespec_spark.upsert], ids=lambda verb: verb.__name__)
def test_what_is_no_frame_and_streams_are_refused_by_name(spark, table, write):
    with pytest.raises(tablespec.TableSpecError, match="Spark cannot write a Table; make a DataFrame of it"):
        write(spark, table, pa.table({"id": [3], "city": ["sf"], "fare": [1.0]}))
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'sf' AS city", "0.5D AS fare")
    with pytest.raises(tablespec.TableSpecError, match="cannot write a stream at once; use writeStream"):
        write(spark, table, stream)


def test_columns_that_are_missing_become_null(spark, table):
    tablespec_spark.append(spark, table, spark.sql("SELECT 3L id, 'sf' city"))

    assert_same_rows(table.scan("id = 3"), [(3, "sf", None)])


def test_a_filter_without_a_translation_is_applied_by_spark_for_reads_and_refused_for_writes(spark, table):
    with pytest.raises(tablespec.TableSpecError):
        tablespec_spark.delete(spark, table, "length(city) + id = 3")

    found = tablespec_spark.read(spark, table).where("length(city) + id = 3")
    assert_same_rows([tuple(row) for row in found.collect()], ROWS[:1])
    assert_same_rows(table.scan(), ROWS)


def test_a_file_that_is_gone_is_told_by_tasks_that_write(spark, table, tmp_path):
    for file in (tmp_path / "trips").rglob("*.parquet"):
        file.unlink()

    with pytest.raises(tablespec.TableSpecError):
        tablespec_spark.update(spark, table, {"fare": "fare + 1"}, "id = 1")


def test_the_error_of_a_refused_frame_is_a_schema_mismatch(spark, table):
    with pytest.raises(SchemaMismatchError):
        tablespec_spark.append(spark, table, spark.sql("SELECT true id, 'x' city, 1D fare"))
