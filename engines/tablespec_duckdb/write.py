"""Row changes with rows that come from DuckDB: a relation, the text of a query, or anything that speaks Arrow."""

from __future__ import annotations

import re

import attrs
from duckdb import DuckDBPyConnection, DuckDBPyRelation

from tablespec import (
    Appended,
    ArrowStream,
    Assignments,
    Catalog,
    ChangeResult,
    Clause,
    Predicate,
    Strategy,
    Table,
)
from tablespec import sql as run_statement

Rows = DuckDBPyRelation | ArrowStream | str
_CHANGE = re.compile(r"\s*(DELETE|UPDATE|INSERT|MERGE)\b", re.IGNORECASE)


def append(con: DuckDBPyConnection, table: Table, data: Rows, *, merge_schema: bool = False) -> Appended:
    """Add rows."""
    return table.append(_stream(con, data), merge_schema=merge_schema)


def replace_where(
    con: DuckDBPyConnection,
    table: Table,
    predicate: Predicate | str,
    data: Rows,
    *,
    data_columns: bool = False,
    allow_full_table: bool = False,
    dry_run: bool = False,
) -> ChangeResult:
    """Replace the rows under a predicate in one commit."""
    return table.replace_where(
        predicate,
        _stream(con, data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
    )


def delete(
    con: DuckDBPyConnection,
    table: Table,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(predicate, allow_full_table=allow_full_table, strategy=strategy)


def update(
    con: DuckDBPyConnection,
    table: Table,
    values: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(values, predicate, allow_full_table=allow_full_table, strategy=strategy)


def merge(
    con: DuckDBPyConnection,
    table: Table,
    source: Rows,
    on: Predicate | str,
    *clauses: Clause,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Merge a source: matched rows change or go, others come; `t` names the table and `s` the source."""
    return table.merge(_stream(con, source), on, *clauses, strategy=strategy)


def upsert(
    con: DuckDBPyConnection,
    table: Table,
    data: Rows,
    *,
    order_by: str | None = None,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Insert rows, or replace those with the same record key."""
    return table.upsert(_stream(con, data), order_by=order_by, strategy=strategy)


def sql(
    con: DuckDBPyConnection, statement: str, catalog: Catalog, *, data_columns: bool = False
) -> ChangeResult | DuckDBPyRelation | None:
    """Run a DELETE, UPDATE, INSERT or MERGE on tables of a catalog, and every other statement by DuckDB itself."""
    if _CHANGE.match(statement):
        return run_statement(statement, catalog, data_columns=data_columns)
    return con.sql(statement)


def _stream(con: DuckDBPyConnection, data: Rows) -> ArrowStream:
    match data:
        case str():
            return _Streamed(con.sql(data))
        case DuckDBPyRelation():
            return _Streamed(data)
        case _:
            return data


@attrs.frozen(eq=False)
class _Streamed:
    """A relation that gives its rows batch by batch, as often as it is asked."""

    relation: DuckDBPyRelation

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = self.relation.to_arrow_reader()
        return reader.__arrow_c_stream__(requested_schema)
