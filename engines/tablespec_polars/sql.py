"""Statements in SQL: those that change tables of attached catalogs run here, and every other one by Polars."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import attrs
import polars as pl

import tablespec
from tablespec import (
    ArrowStream,
    Catalog,
    Catalogs,
    ChangeResult,
    changed_table,
    names_in,
    source_errors,
)
from tablespec_polars.scan import scan
from tablespec_polars.write import Streamed, columns

_ATTACHED: WeakKeyDictionary[pl.SQLContext[pl.LazyFrame], Catalogs] = WeakKeyDictionary()


def attach_catalog(context: pl.SQLContext[pl.LazyFrame], catalog: Catalog, name: str) -> None:
    """Give a catalog a name, for as long as the context lives: `sql` then knows its tables as `name.db.table`."""
    _ATTACHED[context] = _ATTACHED.get(context, Catalogs()).with_catalog(name, catalog)


def sql(
    context: pl.SQLContext[pl.LazyFrame], statement: str, *, data_columns: bool = False
) -> ChangeResult | pl.LazyFrame:
    """Run a DELETE, UPDATE, INSERT or MERGE on a table of an attached catalog, and every other statement by Polars.

    Tables of attached catalogs can be named in both, beside those of the context. `data_columns` lets INSERT INTO ... REPLACE WHERE
    look at other columns than those of the partitions.
    """
    catalogs = _ATTACHED.get(context, Catalogs())
    if not catalogs.has(changed_table(statement)):
        catalogs.check_unaltered(statement, "Polars")
        return _asked(context, catalogs, statement)
    return tablespec.sql(
        statement, catalogs, data_columns=data_columns, queries=lambda text: _answer(context, catalogs, text)
    )


def _answer(context: pl.SQLContext[pl.LazyFrame], catalogs: Catalogs, query: str) -> _Answer:
    source = f"the query {query!r} of Polars"
    with source_errors(source, pl.exceptions.PolarsError):
        return _Answer(_asked(context, catalogs, query), source)


def _asked(context: pl.SQLContext[pl.LazyFrame], catalogs: Catalogs, query: str) -> pl.LazyFrame:
    """What Polars makes of a statement that may name tables of catalogs, which the context knows only meanwhile."""
    own = context.tables()
    tables = {".".join(name[:3]): catalogs.find(name) for name in names_in(query)} if catalogs.named else {}
    frames = {name: scan(table) for name, table in tables.items() if table is not None and name not in own}
    context.register_many(frames)
    try:
        return context.execute(query)
    finally:
        context.unregister(list(frames))


@attrs.frozen(eq=False)
class _Answer:
    """The rows that Polars found for a query."""

    found: pl.LazyFrame
    source: str

    @property
    def names(self) -> Sequence[str]:
        return columns(self.found, self.source).names()

    def rows(self, names: Sequence[str]) -> ArrowStream:
        return Streamed(self.found.rename(dict(zip(self.names, names))), self.source)
