"""Work of the core on Spark's executors."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import Broadcast, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tablespec import Primitive, Schema, TableSpecError, UnsupportedTableError, types_in
from tablespec_spark.connect import spread
from tablespec_spark.errors import SparkFailureError, ToldError, first_sentence, require_running
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
            try:
                yield from pickle.loads(pickled.as_py()).read()
            except TableSpecError as error:
                raise ToldError(error) from None


def arrow_rows(tasks: Iterable[ReadsRows], schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of tasks in the types that Spark wants; for executors."""
    wanted = to_arrow_schema(schema, timezone="UTC")
    return (batch.cast(wanted) for task in tasks for batch in task.read())


def check_readable(table: str, schema: Schema) -> None:
    """Raise where executors cannot read these columns of a table by themselves."""
    check_reachable(table)
    if any(Primitive("variant") in types_in(field.type) for field in schema):
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
        try:
            outcomes = self._outcomes(_Attempt(function), tasks)
        except (PySparkException, Py4JJavaError) as error:
            raise SparkFailureError(first_sentence(error)) from error
        failures = [outcome for outcome in outcomes if isinstance(outcome, TableSpecError)]
        yield from (outcome for outcome in outcomes if not isinstance(outcome, TableSpecError))
        if failures:
            raise failures[0]

    def _outcomes(self, attempt: _Attempt, tasks: Sequence[Any]) -> Sequence[Any]:
        if is_connect(self.spark):
            pickled = [cloudpickle.dumps((attempt, task)) for task in tasks]  # type: ignore[no-untyped-call]  # it has no types
            told = spread(self.spark, pickled, _run_all, _OUTCOMES).collect()
            return [pickle.loads(row.outcome) for row in sorted(told, key=lambda row: row.number)]
        require_running(self.spark)
        context = self.spark.sparkContext
        shared: dict[int, pa.Table] = {}
        pickled = [_pickled(task, shared) for task in tasks]
        sent = context.broadcast(list(shared.values())) if shared else None
        try:
            work = _Unpacked(attempt, sent, tuple(shared))
            return context.parallelize(pickled, len(pickled)).map(work).collect()
        finally:
            if sent is not None:
                sent.destroy()


def _pickled(task: object, shared: dict[int, pa.Table]) -> bytes:
    """A task without the Arrow tables in it, which tasks share and executors need once."""
    sink = io.BytesIO()
    _Pickler(sink, shared).dump(task)
    return sink.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, sink: io.BytesIO, shared: dict[int, pa.Table]) -> None:
        super().__init__(sink, protocol=5)
        self._shared = shared

    def persistent_id(self, value: object) -> int | None:
        if not isinstance(value, pa.Table):
            return None
        self._shared[id(value)] = value
        return id(value)


@attrs.frozen(eq=False)
class _Unpacked:
    """Puts the tables that were sent once into a task, and attempts it."""

    attempt: _Attempt
    sent: Broadcast[list[pa.Table]] | None
    keys: tuple[int, ...]

    def __call__(self, task: bytes) -> Any:
        return self.attempt(_Unpickler(task, self).load())

    def table(self, key: int) -> pa.Table:
        """The table that stood in a task under a key."""
        assert self.sent is not None
        return self.sent.value[self.keys.index(key)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, unpacked: _Unpacked) -> None:
        super().__init__(io.BytesIO(data))
        self._unpacked = unpacked

    def persistent_load(self, key: int) -> pa.Table:
        return self._unpacked.table(key)


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
