"""Changes of tables that run on executors."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
import tablespec_spark
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from tablespec_spark.schema import spark_schema

import tablespec
from tablespec import UnsupportedTableError
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROWS = [(number, "sf" if number % 2 else "la", float(number)) for number in range(6)]


@pytest.fixture
def table(tmp_path):
    """A table of six rows in two partitions, in two files each."""
    made = tablespec.create_table(str(tmp_path / "trips"), SCHEMA, partition_by=["city"], key=["id"])
    for rows in (ROWS[:3], ROWS[3:]):
        made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA))
    return made


def _frame(spark, *rows):
    return spark.createDataFrame(list(rows), "id long, city string, fare double")


def _data_files(table):
    return sorted(Path(table.url.removeprefix("file://")).rglob("*.parquet"))


def test_append_writes_each_partition_of_a_frame_where_it_is(spark, table):
    frame = spark.range(100, 200, numPartitions=4).selectExpr("id", "'ny' city", "double(id) fare")

    done = tablespec_spark.append(spark, table, frame, transaction=("job", 1))

    assert (done.rows, done.files) == (100, 4)
    assert_same_rows(table.scan(), [*ROWS, *((number, "ny", float(number)) for number in range(100, 200))])


def test_every_type_is_appended_as_it_is(spark, tmp_path):
    data = pa.table({**dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    made = tablespec.create_table(str(tmp_path / "types"), data.schema)

    tablespec_spark.append(spark, made, spark.createDataFrame(data, spark_schema(made.schema)))

    assert_same_rows(made.scan(), data)


def test_columns_may_have_any_characters_in_their_names(spark, tmp_path):
    names = ["a.b", "c`d", "e f", "_metadata"]
    mapped = {"delta.columnMapping.mode": "name"}
    table = tablespec.create_table(
        str(tmp_path), pa.schema({name: pa.int64() for name in names}), key=["a.b"], properties=mapped
    )
    frame = spark.range(1).selectExpr("1L", "2L", "3L", "4L").toDF(*names)

    tablespec_spark.append(spark, table, frame)
    tablespec_spark.replace_using(spark, table, ["a.b"], frame)
    tablespec_spark.upsert(spark, table, frame)

    assert_same_rows(table.scan(), [(1, 2, 3, 4)])


def test_append_checks_the_columns_of_a_frame_before_anything_is_written(spark, table):
    files = _data_files(table)
    frame = _frame(spark, (7, "sf", 1.0)).withColumn("more", F.lit("x"))

    with pytest.raises(tablespec.TableSpecError, match="the column more is not in the table"):
        tablespec_spark.append(spark, table, frame)
    assert _data_files(table) == files

    tablespec_spark.append(spark, table, frame, merge_schema=True)
    assert_same_rows(table.scan("id = 7"), [(7, "sf", 1.0, "x")])


def test_a_frame_with_a_column_twice_is_refused(spark, table):
    frame = _frame(spark, (7, "sf", 1.0)).select("*", F.col("id").alias("ID"))

    with pytest.raises(tablespec.TableSpecError, match="the column id stands more than once"):
        tablespec_spark.append(spark, table, frame)


def test_a_row_that_breaks_a_constraint_comes_back_as_our_error_and_leaves_no_file(spark, table):
    table.add_constraint("cheap", "fare < 50")
    files = _data_files(table)
    frame = spark.range(40, 60, numPartitions=4).selectExpr("id", "'ny' city", "double(id) fare")

    with pytest.raises(tablespec.TableSpecError, match="cheap"):
        tablespec_spark.append(spark, table, frame)

    assert _data_files(table) == files
    assert_same_rows(table.scan(), ROWS)


def test_overwriting_the_partition_of_one_zero_leaves_that_of_the_other(spark, tmp_path):
    schema = pa.schema({"id": pa.int64(), "p": pa.float64()})
    zeros = tablespec.create_table(str(tmp_path / "zeros"), schema, partition_by=["p"])
    zeros.append(pa.table({"id": [1, 2, 3], "p": [0.0, -0.0, 1.0]}))

    tablespec_spark.overwrite_partitions(spark, zeros, spark.createDataFrame([(4, -0.0)], "id long, p double"))

    assert_same_rows(zeros.scan(), [(1, 0.0), (4, -0.0), (3, 1.0)])


@pytest.mark.parametrize("verb", ["append", "replace_where"])
def test_files_of_a_frame_whose_query_fails_in_another_partition_go(spark, table, verb):
    files = _data_files(table)
    folder, known = Path(table.url.removeprefix("file://")), len(files)

    @F.udf("double")
    def failing(number):
        if number == 7:
            deadline = time.monotonic() + 60
            while len(list(folder.rglob("*.parquet"))) == known and time.monotonic() < deadline:
                time.sleep(0.05)
            # The file of the other partition is there; Spark hears of it when its task has ended.
            time.sleep(3)
            raise ValueError("seven")
        return float(number)

    frame = spark.range(0, 8, numPartitions=2).select("id", F.lit("sf").alias("city"), failing("id").alias("fare"))

    with pytest.raises(PySparkException, match="seven"):
        if verb == "append":
            tablespec_spark.append(spark, table, frame)
        else:
            tablespec_spark.replace_where(spark, table, "city = 'sf'", frame)

    assert _data_files(table) == files
    assert_same_rows(table.scan(), ROWS)


def test_rows_of_an_attempt_that_does_not_count_are_not_committed(spark, table):
    frame = spark.range(100, 104, numPartitions=2).selectExpr("id", "'ny' city", "double(id) fare")
    writer = _Recorded()

    table.append(writer.twice(tablespec_spark.rows.FrameRows(frame)))

    assert len(writer.files) == 4
    assert_same_rows(table.scan("city = 'ny'"), [(number, "ny", float(number)) for number in range(100, 104)])


class _Recorded:
    """Runs the writing job twice, as attempts of tasks do, and lets only the second count."""

    def __init__(self):
        self.files = ()

    def twice(self, rows):
        outer = self

        class Twice:
            arrow_schema = rows.arrow_schema

            def write(self, writer):
                first, second = rows.write(writer), rows.write(writer)
                outer.files = {file.path for file in (*first, *second)}
                return second

        return Twice()


def test_replace_where_replaces_a_partition_by_the_rows_of_a_frame(spark, table):
    result = tablespec_spark.replace_where(spark, table, "city = 'sf'", _frame(spark, (9, "sf", 9.0)))

    assert (result.rows_deleted, result.rows_inserted) == (3, 1)
    assert_same_rows(table.scan(), [(0, "la", 0.0), (2, "la", 2.0), (4, "la", 4.0), (9, "sf", 9.0)])


def test_replace_where_refuses_rows_outside_of_the_predicate(spark, table):
    with pytest.raises(tablespec.TableSpecError, match="city"):
        tablespec_spark.replace_where(spark, table, "city = 'sf'", _frame(spark, (9, "sf", 9.0), (8, "la", 1.0)))

    assert_same_rows(table.scan(), ROWS)


def test_delete_and_update_run_on_executors(spark, table):
    gone = tablespec_spark.delete(spark, table, "fare >= 4")
    changed = tablespec_spark.update(spark, table, {"fare": "fare + 10"}, "id = 1")

    assert (gone.rows_deleted, changed.rows_updated) == (2, 1)
    assert_same_rows(table.scan(), [(0, "la", 0.0), (1, "sf", 11.0), (2, "la", 2.0), (3, "sf", 3.0)])


def test_an_error_of_a_task_comes_back_as_our_error(spark, table):
    table.add_constraint("cheap", "fare < 50")

    with pytest.raises(tablespec.TableSpecError, match="cheap"):
        tablespec_spark.update(spark, table, {"fare": "fare + 100"}, "id = 1")


def test_merge_and_upsert_take_frames(spark, table):
    source = _frame(spark, (1, "sf", -1.0), (10, "sf", 10.0))
    clauses = [tablespec.when_matched_delete(), tablespec.when_not_matched_insert()]

    tablespec_spark.merge(spark, table, source, "t.id = s.id", *clauses)
    tablespec_spark.upsert(spark, table, _frame(spark, (10, "sf", 11.0), (12, "ny", 12.0)))

    expected = [row for row in ROWS if row[0] != 1]
    assert_same_rows(table.scan(), [*expected, (10, "sf", 11.0), (12, "ny", 12.0)])


def test_compact_and_cluster_keep_the_rows(spark, table):
    tablespec_spark.compact(spark, table)
    assert len(table.scan().slices) == 2

    tablespec_spark.cluster(spark, table, ["fare"])

    assert_same_rows(table.scan(), ROWS)


def test_tasks_run_on_executors_and_not_on_the_driver(spark):
    runner = tablespec_spark.runner.Executors(spark)

    assert list(runner.run(_partition_number, [0, 1, 2])) == [(0, 0), (1, 1), (2, 2)]
    assert list(runner.run(_partition_number, [])) == []


def test_what_other_tasks_did_is_told_before_one_fails(spark):
    results = tablespec_spark.runner.Executors(spark).run(_fails_at_one, [0, 1, 2])

    assert [next(results), next(results)] == [0, 2]
    with pytest.raises(UnsupportedTableError):
        next(results)


def test_a_table_that_tasks_share_is_sent_to_executors_once(spark):
    table = pa.table({"n": range(100_000)})
    tasks = [(number, table) for number in range(5)]
    shared = {}

    sizes = [len(tablespec_spark.runner._pickled(task, shared)) for task in tasks]

    assert max(sizes) < 200
    assert list(shared.values()) == [table]
    assert list(tablespec_spark.runner.Executors(spark).run(_counted, tasks)) == [(n, 100_000) for n in range(5)]


def _fails_at_one(number):
    if number == 1:
        raise UnsupportedTableError("t", "the number one", "take another")
    return number


def _counted(task):
    number, table = task
    return number, table.num_rows


def _partition_number(task):
    context = TaskContext.get()
    return task, None if context is None else context.partitionId()
