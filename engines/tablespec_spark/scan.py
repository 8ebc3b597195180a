"""Tables as Spark DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tablespec import At, Filters, Literal, Scan, Table, UnsupportedByEngineError
from tablespec_spark.expressions import condition
from tablespec_spark.jvm import register_following, selected
from tablespec_spark.relation import file_rows, reads_natively
from tablespec_spark.runner import task_rows

_EVERYTHING = Literal(True)


def scan(
    spark: SparkSession, table: Table, where: Filters = None, columns: Sequence[str] | None = None, at: At = None
) -> DataFrame:
    """The rows that match, as of an instant; the DataFrame stays on it.

    Filters of later queries choose the files to read, as `where` does.
    """
    return _frame(spark, table.scan(where, columns, at))


# Who comes from spark.read looks for this name.
read = scan


def read_optimized(
    spark: SparkSession, table: Table, where: Filters = None, columns: Sequence[str] | None = None, at: At = None
) -> DataFrame:
    """The rows of base files as of an instant, leaving merge-on-read changes aside."""
    return _frame(spark, table.read_optimized(where, columns, at))


def incremental(
    spark: SparkSession,
    table: Table,
    after: At,
    upto: At = None,
    where: Filters = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows as of `upto` that were inserted or changed after `after`."""
    asked = table.incremental(after, upto, where, columns)
    return task_rows(spark, asked.tasks(), asked.schema, table.url)


def changes(
    spark: SparkSession,
    table: Table,
    after: At,
    upto: At = None,
    where: Filters = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """What happened to rows after `after` up to and including `upto`, change by change, in no particular order."""
    asked = table.changes(after, upto, where, columns)
    return task_rows(spark, asked.tasks(), asked.schema, table.url)


def attach(spark: SparkSession, table: Table, name: str, at: At = None, *, follow: bool = False) -> None:
    """Make the table a temporary view of that name.

    The view stays on its instant; with `follow` every query reads the instant that is the newest by then.
    """
    if not follow:
        scan(spark, table, at=at).createOrReplaceTempView(_quoted(name))
        return
    if at is not None:
        raise UnsupportedByEngineError("A view", f"follow the table and stay at {at}", "choose one of the two")
    function = f"tablespec_follow_{name}"
    register_following(spark, function, lambda: scan(spark, table))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(name)} AS SELECT * FROM {_quoted(function)}()")


def refresh(spark: SparkSession, table: Table, name: str) -> None:
    """Let the view of a table show the newest state."""
    attach(spark, table, name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _frame(spark: SparkSession, asked: Scan) -> DataFrame:
    parts = asked.divided()
    if parts is not None:
        plain, merged = parts
        rows = task_rows(spark, merged.tasks(), merged.schema, merged.storage.url)
        return _frame(spark, plain).union(rows) if plain.slices else rows
    survey = asked.survey()
    if not reads_natively(spark, asked, survey):
        return task_rows(spark, asked.tasks(), asked.schema, asked.storage.url)
    rows = file_rows(spark, asked, survey)
    if asked.predicate != _EVERYTHING:
        rows = rows.where(condition(asked.predicate))
    names = asked.schema.names
    return rows if names == asked.state.schema.names else selected(rows, names)
