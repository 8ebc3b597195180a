"""Changes of tables that run on Spark's executors; the driver plans and commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from pyspark.sql import DataFrame, SparkSession

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
    Predicate,
    RewriteResult,
    Table,
)
from tablespec_spark.errors import require_running
from tablespec_spark.merge import source_of
from tablespec_spark.rows import FrameRows
from tablespec_spark.runner import Executors, check_reachable


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
    """Replace the rows that have the same values in some columns as a row of the data."""
    return table.replace_using(columns, _kept_rows(table, data), runner=_runner(spark, table), **how)


def overwrite_partitions(spark: SparkSession, table: Table, data: DataFrame, **how: Unpack[Changing]) -> ChangeResult:
    """Replace every partition that the data has rows for."""
    return table.overwrite_partitions(_kept_rows(table, data), runner=_runner(spark, table), **how)


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
    """Merge a source: matched rows change or go, others come."""
    return table.merge(source_of(table, source), on, *clauses, runner=_runner(spark, table), **how)


def upsert(
    spark: SparkSession, table: Table, data: DataFrame, *, order_by: str | None = None, **how: Unpack[Changing]
) -> ChangeResult:
    """Insert rows, or replace those with the same record key."""
    return table.upsert(source_of(table, data), order_by=order_by, runner=_runner(spark, table), **how)


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


def _kept_rows(table: Table, data: DataFrame) -> FrameRows:
    """Rows that are looked at twice, and must be the same then."""
    rows = _rows(table, data)
    rows.arrow_schema  # noqa: B018 - columns that cannot be handed over are told before anything is computed
    return FrameRows(data.localCheckpoint())
