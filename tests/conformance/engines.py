"""The engines: how each reads and writes a table, in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import attrs
import duckdb
import polars as pl
import pyarrow as pa
import tablespec_duckdb
import tablespec_polars
import tablespec_spark

from tablespec import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("scan", "read_optimized", "incremental", "changes")
VERBS = ("append", "replace_where", "delete", "update", "merge", "upsert")


class Engine(Protocol):
    """An engine under test; rows are given to it and taken from it as Arrow tables."""

    def read(self, mode: str, table: Table, **options: object) -> pa.Table:
        """The rows of a reading mode."""
        ...

    def query(self, table: Table, columns: list[str], where: str, limit: int | None) -> pa.Table:
        """What the engine itself makes of a projection, a filter in SQL and a limit over all rows of the table."""
        ...

    def write(self, verb: str, table: Table, *arguments: object, **options: object) -> object:
        """Change the table; Arrow tables among the arguments are handed over as the engine's own rows."""
        ...


@attrs.frozen
class Arrow:
    """No engine: the table itself, read through the Arrow stream interface."""

    def read(self, mode, table, **options):
        return pa.RecordBatchReader.from_stream(getattr(table, mode)(**options)).read_all()

    def query(self, table, columns, where, limit):
        return table.scan(where, columns).to_table().slice(0, limit)

    def write(self, verb, table, *arguments, **options):
        return getattr(table, verb)(*arguments, **options)


@attrs.frozen
class DuckDb:
    """DuckDB, in a session whose time zone is not the one of the data."""

    con: duckdb.DuckDBPyConnection

    def read(self, mode, table, **options):
        return getattr(tablespec_duckdb, mode)(self.con, table, **options).to_arrow_table()

    def query(self, table, columns, where, limit):
        found = tablespec_duckdb.scan(self.con, table).filter(where).select(*map(duckdb.ColumnExpression, columns))
        return (found if limit is None else found.limit(limit)).to_arrow_table()

    def write(self, verb, table, *arguments, **options):
        rows = [self.con.from_arrow(one) if isinstance(one, pa.Table) else one for one in arguments]
        return getattr(tablespec_duckdb, verb)(self.con, table, *rows, **options)


@attrs.frozen
class Polars:
    """Polars, writing from lazy frames."""

    def read(self, mode, table, **options):
        return getattr(tablespec_polars, mode)(table, **options).collect().to_arrow()

    def query(self, table, columns, where, limit):
        found = tablespec_polars.scan(table).filter(pl.sql_expr(where)).select(columns)
        return (found if limit is None else found.head(limit)).collect().to_arrow()

    def write(self, verb, table, *arguments, **options):
        rows = [pl.DataFrame(one).lazy() if isinstance(one, pa.Table) else one for one in arguments]
        return getattr(tablespec_polars, verb)(table, *rows, **options)


@attrs.frozen
class Spark:
    """Spark, in the one session that all tests share."""

    spark: SparkSession

    def read(self, mode, table, **options):
        return getattr(tablespec_spark, mode)(self.spark, table, **options).toArrow()

    def query(self, table, columns, where, limit):
        found = tablespec_spark.scan(self.spark, table).where(where).select(columns)
        return (found if limit is None else found.limit(limit)).toArrow()

    def write(self, verb, table, *arguments, **options):
        rows = [self.spark.createDataFrame(one) if isinstance(one, pa.Table) else one for one in arguments]
        return getattr(tablespec_spark, verb)(self.spark, table, *rows, **options)


ENGINES = ("arrow", "duckdb", "polars", "spark")


@contextmanager
def started(name: str, session: Callable[[], SparkSession]) -> Iterator[Engine]:
    """An engine, for as long as it is needed."""
    match name:
        case "arrow":
            yield Arrow()
        case "polars":
            yield Polars()
        case "duckdb":
            with duckdb.connect() as con:
                con.execute("SET TimeZone = 'America/New_York'")
                yield DuckDb(con)
        case "spark":
            with _interpreted(session()) as spark:
                yield Spark(spark)
        case _:
            raise ValueError(name)


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that compiles nothing: for a handful of rows that takes longer than everything else together."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)
