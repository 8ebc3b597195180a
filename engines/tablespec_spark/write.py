"""Changes of tables that run on Spark's executors; the driver plans and commits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Unpack

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from tablespec import (
    Appended,
    Appending,
    Assignments,
    ChangeResult,
    Changing,
    Clause,
    Clustering,
    Compacting,
    Filters,
    NewFile,
    Predicate,
    RewriteResult,
    RowWriter,
    Table,
    TableSpecError,
    UnsupportedByEngineError,
)
from tablespec_spark.errors import require_running
from tablespec_spark.jvm import map_in_arrow
from tablespec_spark.runner import Executors, check_reachable

_OUTCOME = "outcome"


def append(spark: SparkSession, table: Table, data: DataFrame, **options: Unpack[Appending]) -> Appended:
    """Add the rows of a DataFrame; each of its partitions is written where it is."""
    return table.append(_rows(table, data), **options)


def replace_where(
    spark: SparkSession,
    table: Table,
    predicate: Predicate | str,
    data: DataFrame | None = None,
    *,
    data_columns: bool = False,
    allow_full_table: bool = False,
    dry_run: bool = False,
    transaction: tuple[str, int] | None = None,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Replace the rows under a predicate by others, which must satisfy it, in one commit; without data they only go."""
    return table.replace_where(
        predicate,
        None if data is None else _rows(table, data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
        transaction=transaction,
        runner=_runner(spark, table),
        **how,
    )


def replace_using(
    spark: SparkSession, table: Table, columns: Sequence[str], data: DataFrame, **how: Unpack[Changing]
) -> ChangeResult:
    """Replace the rows that have the same values in some columns as a row of the data, which must fit into the memory of the driver."""
    return table.replace_using(columns, data.toArrow(), runner=_runner(spark, table), **how)


def overwrite_partitions(spark: SparkSession, table: Table, data: DataFrame, **how: Unpack[Changing]) -> ChangeResult:
    """Replace every partition that the data, which must fit into the memory of the driver, has rows for."""
    return table.overwrite_partitions(data.toArrow(), runner=_runner(spark, table), **how)


def delete(
    spark: SparkSession,
    table: Table,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(predicate, allow_full_table=allow_full_table, runner=_runner(spark, table), **how)


def update(
    spark: SparkSession,
    table: Table,
    values: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(values, predicate, allow_full_table=allow_full_table, runner=_runner(spark, table), **how)


def merge(
    spark: SparkSession, table: Table, source: DataFrame, on: Predicate | str, *clauses: Clause, **how: Unpack[Changing]
) -> ChangeResult:
    """Merge a source, which must fit into the memory of the driver: matched rows change or go, others come."""
    return table.merge(source.toArrow(), on, *clauses, runner=_runner(spark, table), **how)


def upsert(
    spark: SparkSession, table: Table, data: DataFrame, *, order_by: str | None = None, **how: Unpack[Changing]
) -> ChangeResult:
    """Insert rows, which must fit into the memory of the driver, or replace those with the same record key."""
    return table.upsert(data.toArrow(), order_by=order_by, runner=_runner(spark, table), **how)


def compact(spark: SparkSession, table: Table, where: Filters = None, **options: Unpack[Compacting]) -> RewriteResult:
    """Write small files, and files with many deleted rows, anew; the rows stay the same."""
    return table.compact(where, runner=_runner(spark, table), **options)


def cluster(
    spark: SparkSession, table: Table, by: Sequence[str], where: Filters = None, **options: Unpack[Clustering]
) -> RewriteResult:
    """Write partitions anew with their rows in order, by `sort` or `zorder`; the rows stay the same."""
    return table.cluster(by, where, runner=_runner(spark, table), **options)


def _runner(spark: SparkSession, table: Table) -> Executors:
    check_reachable(table.url)
    require_running(spark)
    return Executors(spark)


def _rows(table: Table, data: DataFrame) -> FrameRows:
    check_reachable(table.url)
    return FrameRows(data)


@attrs.frozen(eq=False)
class FrameRows:
    """The rows of a DataFrame, written by the executors that compute them.

    Each attempt of a task writes files under names of its own, and only those of the attempt that Spark counts are told.
    """

    frame: DataFrame

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
        require_running(self.frame.sparkSession)
        for field in self.frame.schema:
            _check_type(field)
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def write(self, writer: RowWriter) -> tuple[NewFile, ...]:
        """The files that hold the rows now; when a part fails, what the others wrote is removed."""
        told = map_in_arrow(self.frame, _Part(writer), StructType().add(_OUTCOME, BinaryType())).collect()
        outcomes = [pickle.loads(row[_OUTCOME]) for row in told]
        files = tuple(file for outcome in outcomes if isinstance(outcome, tuple) for file in outcome)
        for outcome in outcomes:
            if isinstance(outcome, TableSpecError):
                for file in files:
                    writer.storage.delete(file.path)
                raise outcome
        return files


def _check_type(field: StructField) -> None:
    try:
        to_arrow_schema(StructType([field]), timezone="UTC")
    except PySparkException as error:
        what = f"hand over the column {field.name} of type {field.dataType.simpleString()}"
        raise UnsupportedByEngineError("Spark", what, "cast it to another type, or leave it out") from error


@attrs.frozen
class _Part:
    """Writes the rows of one partition of a DataFrame and tells the files, or what went wrong, as a value."""

    writer: RowWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rest = iter(batches)
        first = next(rest, None)
        if first is None:
            return
        outcome: tuple[NewFile, ...] | TableSpecError
        try:
            outcome = self.writer.write(pa.RecordBatchReader.from_batches(first.schema, chain([first], rest)))
        except TableSpecError as error:
            outcome = error
        yield pa.RecordBatch.from_pydict({_OUTCOME: pa.array([pickle.dumps(outcome)], pa.binary())})
