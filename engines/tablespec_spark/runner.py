"""Work of the core on Spark's executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tablespec import Schema, TableSpecError, UnsupportedTableError
from tablespec_spark.jvm import map_in_arrow, require_classic
from tablespec_spark.schema import spark_schema

Task = TypeVar("Task")
Result = TypeVar("Result")


class ReadsRows(Protocol):
    """A piece of a scan of any kind."""

    def read(self) -> Iterator[pa.RecordBatch]: ...


def task_rows(spark: SparkSession, tasks: Sequence[ReadsRows], schema: Schema, table: str) -> DataFrame:
    """The rows of tasks that read themselves, in Arrow batches on executors; a task is never cut."""
    check_readable(table, schema)
    require_classic(spark)
    pickled = [(pickle.dumps(task),) for task in tasks]
    rows = spark.sparkContext.parallelize(pickled, max(1, len(pickled)))
    return map_in_arrow(spark.createDataFrame(rows, "task binary"), _read_all, spark_schema(schema))


def _read_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for pickled in batch.column(0):
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
        require_classic(self.spark)
        spread = self.spark.sparkContext.parallelize(list(tasks), len(tasks))
        for outcome in spread.map(_Attempt(function)).collect():
            if isinstance(outcome, TableSpecError):
                raise outcome
            yield outcome


@attrs.frozen
class _Attempt:
    """Calls a function and gives back what went wrong as a value, which Spark does not wrap."""

    function: Callable[[Any], Any]

    def __call__(self, task: Any) -> Any:
        try:
            return self.function(task)
        except TableSpecError as error:
            return error
