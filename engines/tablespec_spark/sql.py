"""Statements in SQL: those that change tables of attached catalogs run here, and every other one by Spark."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from pyspark.sql import DataFrame, SparkSession

import tablespec
from tablespec import (
    Appended,
    ArrowStream,
    Assignments,
    At,
    Catalog,
    Catalogs,
    ChangeResult,
    Clause,
    Filters,
    Predicate,
    Scan,
    Schema,
    Table,
    changed_table,
)
from tablespec_spark.jvm import session_id, sql_with_tables
from tablespec_spark.merge import source_of
from tablespec_spark.rows import FrameRows
from tablespec_spark.runner import Executors, check_reachable
from tablespec_spark.scan import scan

# By the id of the session: Python may have several objects for one session.
_ATTACHED: dict[str, Catalogs] = {}


def attach_catalog(spark: SparkSession, catalog: Catalog, name: str) -> None:
    """Give a catalog a name, for as long as the session lives: `sql` then knows its tables as `name.db.table`."""
    key = session_id(spark)
    _ATTACHED[key] = _ATTACHED.get(key, Catalogs()).with_catalog(name, catalog)


def sql(spark: SparkSession, statement: str, *, data_columns: bool = False) -> ChangeResult | DataFrame:
    """Run a DELETE, UPDATE, INSERT or MERGE on a table of an attached catalog, and every other statement by Spark.

    Tables of attached catalogs can be named in both, beside Spark's own tables and views. `data_columns` lets INSERT INTO ... REPLACE
    WHERE look at other columns than those of the partitions.
    """
    tables = _Tables(spark, _ATTACHED.get(session_id(spark), Catalogs()))
    if not tables.catalogs.has(changed_table(statement)):
        tables.catalogs.check_unaltered(statement, "Spark")
        return tables.query(statement)
    return tablespec.sql(statement, tables, data_columns=data_columns, queries=lambda text: _Answer(tables.query(text)))


@attrs.frozen(eq=False)
class _Tables:
    """The tables that one statement names; all that it reads of a table is of one instant."""

    spark: SparkSession
    catalogs: Catalogs
    seen: dict[str, tuple[Table, At]] = attrs.field(factory=dict)

    def load(self, name: str) -> _ChangedTable:
        """The table that the statement changes."""
        table = self.catalogs.load(name)
        check_reachable(table.url)
        return _ChangedTable(self.spark, table)

    def query(self, text: str) -> DataFrame:
        """What Spark makes of a statement that may name our tables."""
        if not self.catalogs.named:
            return self.spark.sql(text)
        return sql_with_tables(self.spark, text, self._frame)

    def _frame(self, name: tuple[str, ...], at: str | None) -> DataFrame | None:
        """The rows of a table of a catalog; None for names that are Spark's."""
        if not self.catalogs.has(name):
            return None
        full = ".".join(name)
        if full not in self.seen:
            table = self.catalogs.load(full)
            self.seen[full] = table, table.instant()
        table, instant = self.seen[full]
        return scan(self.spark, table, at=instant if at is None else at)


@attrs.frozen(eq=False)
class _ChangedTable:
    """A table whose changes run on executors."""

    spark: SparkSession
    table: Table

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def scan(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan:
        return self.table.scan(where, columns, at)

    def append(self, data: ArrowStream) -> Appended:
        return self.table.append(_spread(data))

    def delete(self, predicate: Predicate | str | None) -> ChangeResult:
        return self.table.delete(predicate, runner=Executors(self.spark))

    def update(self, values: Assignments, predicate: Predicate | str | None) -> ChangeResult:
        return self.table.update(values, predicate, runner=Executors(self.spark))

    def merge(self, source: ArrowStream, on: Predicate | str, *clauses: Clause) -> ChangeResult:
        rows = source_of(self.table, source) if isinstance(source, DataFrame) else source
        return self.table.merge(rows, on, *clauses, runner=Executors(self.spark))

    def replace_where(
        self, predicate: Predicate | str, data: ArrowStream | None = None, *, data_columns: bool = False
    ) -> ChangeResult:
        rows = None if data is None else _spread(data)
        return self.table.replace_where(predicate, rows, data_columns=data_columns, runner=Executors(self.spark))


def _spread(data: ArrowStream) -> FrameRows | ArrowStream:
    return FrameRows(data) if isinstance(data, DataFrame) else data


@attrs.frozen(eq=False)
class _Answer:
    """The rows that Spark found for a query."""

    frame: DataFrame

    @property
    def names(self) -> Sequence[str]:
        return self.frame.columns

    def rows(self, names: Sequence[str]) -> DataFrame:
        return self.frame.toDF(*names)
