"""Changes of tables that run on Spark's executors; the driver plans and commits."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructType

from tablespec import (
    COOLDOWN,
    Appended,
    Assignments,
    ChangeResult,
    Clause,
    Filters,
    NewFile,
    Predicate,
    Retries,
    RewriteResult,
    RowWriter,
    Strategy,
    Table,
    TableSpecError,
)
from tablespec_spark.jvm import map_in_arrow
from tablespec_spark.runner import Executors, check_reachable

_OUTCOME = "outcome"


def append(
    spark: SparkSession,
    table: Table,
    data: DataFrame,
    *,
    merge_schema: bool = False,
    transaction: tuple[str, int] | None = None,
    auto_upgrade: bool = True,
    retries: Retries = Retries(),
) -> Appended:
    """Add the rows of a DataFrame; each of its partitions is written where it is."""
    check_reachable(table.url)
    return table.append(
        FrameRows(data),
        merge_schema=merge_schema,
        transaction=transaction,
        auto_upgrade=auto_upgrade,
        retries=retries,
    )


def replace_where(
    spark: SparkSession,
    table: Table,
    predicate: Predicate | str,
    data: DataFrame | None = None,
    *,
    data_columns: bool = False,
    allow_full_table: bool = False,
    dry_run: bool = False,
    strategy: Strategy | None = None,
    retries: Retries = Retries(),
) -> ChangeResult:
    """Replace the rows under a predicate by those of a DataFrame, which must satisfy it; without one they only go."""
    check_reachable(table.url)
    return table.replace_where(
        predicate,
        None if data is None else FrameRows(data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
        strategy=strategy,
        runner=Executors(spark),
        retries=retries,
    )


def delete(
    spark: SparkSession,
    table: Table,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
    retries: Retries = Retries(),
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(
        predicate, allow_full_table=allow_full_table, strategy=strategy, runner=_runner(spark, table), retries=retries
    )


def update(
    spark: SparkSession,
    table: Table,
    values: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
    retries: Retries = Retries(),
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(
        values,
        predicate,
        allow_full_table=allow_full_table,
        strategy=strategy,
        runner=_runner(spark, table),
        retries=retries,
    )


def merge(
    spark: SparkSession,
    table: Table,
    source: DataFrame,
    on: Predicate | str,
    *clauses: Clause,
    strategy: Strategy | None = None,
    retries: Retries = Retries(),
) -> ChangeResult:
    """Merge a DataFrame, which must fit into the memory of the driver: matched rows change or go, others come."""
    runner = _runner(spark, table)
    return table.merge(source.toArrow(), on, *clauses, strategy=strategy, runner=runner, retries=retries)


def upsert(
    spark: SparkSession,
    table: Table,
    data: DataFrame,
    *,
    order_by: str | None = None,
    strategy: Strategy | None = None,
    retries: Retries = Retries(),
) -> ChangeResult:
    """Insert the rows of a DataFrame, which must fit into the memory of the driver, or replace those with the same key."""
    runner = _runner(spark, table)
    return table.upsert(data.toArrow(), order_by=order_by, strategy=strategy, runner=runner, retries=retries)


def compact(
    spark: SparkSession,
    table: Table,
    where: Filters = None,
    *,
    target_bytes: int | None = None,
    min_files: int = 2,
    max_deleted_fraction: float = 0.1,
    cooldown: timedelta = COOLDOWN,
    retries: Retries = Retries(),
) -> RewriteResult:
    """Write small files, and files with many deleted rows, anew; the rows stay the same."""
    return table.compact(
        where,
        target_bytes=target_bytes,
        min_files=min_files,
        max_deleted_fraction=max_deleted_fraction,
        cooldown=cooldown,
        runner=_runner(spark, table),
        retries=retries,
    )


def cluster(
    spark: SparkSession,
    table: Table,
    by: Sequence[str],
    where: Filters = None,
    *,
    order: str = "sort",
    target_bytes: int | None = None,
    cooldown: timedelta = COOLDOWN,
    retries: Retries = Retries(),
) -> RewriteResult:
    """Write partitions anew with their rows in order; the rows stay the same."""
    return table.cluster(
        by,
        where,
        order=order,
        target_bytes=target_bytes,
        cooldown=cooldown,
        runner=_runner(spark, table),
        retries=retries,
    )


def _runner(spark: SparkSession, table: Table) -> Executors:
    check_reachable(table.url)
    return Executors(spark)


@attrs.frozen(eq=False)
class FrameRows:
    """The rows of a DataFrame, written by the executors that compute them.

    Each attempt of a task writes files under names of its own, and only those of the attempt that Spark counts are told.
    """

    frame: DataFrame

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
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
