"""Work of the core on Spark's executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tablespec import Schema, TableSpecError, UnsupportedTableError
from tablespec_spark.connect import spread
from tablespec_spark.jvm import is_connect, map_in_arrow
from tablespec_spark.schema import spark_schema

_OUTCOMES = StructType([StructField("number", IntegerType()), StructField("outcome", BinaryType())])
Task = TypeVar("Task")
Result = TypeVar("Result")


class ReadsRows(Protocol):
    """A piece of a scan of any kind."""

    def read(self) -> Iterator[pa.RecordBatch]: ...


def task_rows(spark: SparkSession, tasks: Sequence[ReadsRows], schema: Schema, table: str) -> DataFrame:
    """The rows of tasks that read themselves, in Arrow batches on executors; a task is never cut."""
    check_readable(table, schema)
    if is_connect(spark):
        return spread(spark, [pickle.dumps(task) for task in tasks], _read_all, spark_schema(schema))
    pickled = [(pickle.dumps(task),) for task in tasks]
    rows = spark.sparkContext.parallelize(pickled, max(1, len(pickled)))
    return map_in_arrow(spark.createDataFrame(rows, "task binary"), _read_all, spark_schema(schema))


def _read_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pickled in batch.column("task"):
            yield from pickle.loads(pickled.as_py()).read()


def arrow_rows(tasks: Iterable[ReadsRows], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of tasks in the types that Spark wants; for executors."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    return (batch.cast(wanted) for task in tasks for batch in task.read())


def check_readable(table: str, schema: Schema) -> None:
    """Raise where executors cannot read these columns of a table by themselves."""
    check_reachable(table)
    if any("variant" in str(field.type) for field in schema):
        raise UnsupportedTableError(table, "variants where Spark's own reader cannot be used", "choose other columns")


def check_reachable(table: str) -> None:
    """Raise where executors cannot get at the files of a table."""
    if table.startswith("memory://"):
        raise UnsupportedTableError(
            table, "the memory of this process", "executors cannot see it: write to a real store"
        )


@attrs.frozen
class Executors:
    """Runs tasks on the executors of a session, one Spark task each."""

    spark: SparkSession

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results in the order of the tasks; of a task that was tried again only the attempt that Spark counts."""
        if not tasks:
            return
        for outcome in self._outcomes(_Attempt(function), tasks):
            if isinstance(outcome, TableSpecError):
                raise outcome
            yield outcome

    def _outcomes(self, attempt: _Attempt, tasks: Sequence[Any]) -> Iterable[Any]:
        if not is_connect(self.spark):
            return self.spark.sparkContext.parallelize(list(tasks), len(tasks)).map(attempt).collect()
        pickled = [cloudpickle.dumps((attempt, task)) for task in tasks]  # type: ignore[no-untyped-call]  # it has no types
        told = spread(self.spark, pickled, _run_all, _OUTCOMES).collect()
        return [pickle.loads(row.outcome) for row in sorted(told, key=lambda row: row.number)]


def _run_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number, pickled in zip(batch.column("number"), batch.column("task")):
            attempt, task = pickle.loads(pickled.as_py())
            outcome = pa.array([pickle.dumps(attempt(task))], pa.binary())
            yield pa.RecordBatch.from_pydict({"number": pa.array([number.as_py()], pa.int32()), "outcome": outcome})


@attrs.frozen
class _Attempt:
    """Calls a function and gives back what went wrong as a value, which Spark does not wrap."""

    function: Callable[[Any], Any]

    def __call__(self, task: Any) -> Any:
        try:
            return self.function(task)
        except TableSpecError as error:
            return error
