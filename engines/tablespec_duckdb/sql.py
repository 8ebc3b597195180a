"""Statements in SQL: those that change tables of attached catalogs run here, and every other one by DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import attrs
from duckdb import ColumnExpression, DuckDBPyConnection, DuckDBPyRelation

import tablespec
from tablespec import ArrowStream, Catalog, Catalogs, ChangeResult, changed_table
from tablespec_duckdb.write import Streamed

_ATTACHED: WeakKeyDictionary[DuckDBPyConnection, Catalogs] = WeakKeyDictionary()


def attach_catalog(con: DuckDBPyConnection, catalog: Catalog, name: str) -> None:
    """Give a catalog a name, for as long as the connection lives: `sql` then knows its tables as `name.db.table`."""
    _ATTACHED[con] = _ATTACHED.get(con, Catalogs()).with_catalog(name, catalog)


def sql(
    con: DuckDBPyConnection, statement: str, *, data_columns: bool = False
) -> ChangeResult | DuckDBPyRelation | None:
    """Run a DELETE, UPDATE, INSERT or MERGE on a table of an attached catalog, and every other statement by DuckDB.

    The query that INSERT or MERGE takes its rows from may be any that DuckDB knows. `data_columns` lets INSERT INTO ... REPLACE
    WHERE look at other columns than those of the partitions.
    """
    catalogs = _ATTACHED.get(con, Catalogs())
    if not catalogs.has(changed_table(statement)):
        return con.sql(statement)
    return tablespec.sql(statement, catalogs, data_columns=data_columns, queries=lambda text: _Answer(con.sql(text)))


@attrs.frozen(eq=False)
class _Answer:
    """The rows that DuckDB found for a query."""

    found: DuckDBPyRelation

    @property
    def names(self) -> Sequence[str]:
        return self.found.columns

    def rows(self, names: Sequence[str]) -> ArrowStream:
        columns = [ColumnExpression(old).alias(new) for old, new in zip(self.found.columns, names)]
        return Streamed(self.found.select(*columns))
