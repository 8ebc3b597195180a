"""Statements in SQL: those that change tables of attached catalogs run here, and every other one by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from weakref import WeakKeyDictionary

import attrs
import duckdb
from duckdb import DuckDBPyConnection, DuckDBPyRelation, token_type

import tablespec
from tablespec import (
    ArrowStream,
    Catalog,
    Catalogs,
    ChangeResult,
    Table,
    changed_table,
    source_errors,
)
from tablespec_duckdb.expressions import quoted
from tablespec_duckdb.scan import attach
from tablespec_duckdb.write import Streamed

# What a part of the name of a table of a catalog can look like, with quotes and without.
_PART = re.compile(r'[A-Za-z_][A-Za-z0-9_]*|"[^"]+"')
_ATTACHED: WeakKeyDictionary[DuckDBPyConnection, Catalogs] = WeakKeyDictionary()


def attach_catalog(con: DuckDBPyConnection, catalog: Catalog, name: str) -> None:
    """Give a catalog a name, for as long as the connection lives: `sql` then knows its tables as `name.db.table`."""
    _ATTACHED[con] = _ATTACHED.get(con, Catalogs()).with_catalog(name, catalog)


def sql(
    con: DuckDBPyConnection, statement: str, *, data_columns: bool = False
) -> ChangeResult | DuckDBPyRelation | None:
    """Run a DELETE, UPDATE, INSERT or MERGE on a table of an attached catalog, and every other statement by DuckDB.

    Tables of attached catalogs can be named in both, beside DuckDB's own tables and views. `data_columns` lets INSERT INTO ... REPLACE
    WHERE look at other columns than those of the partitions.
    """
    catalogs = _ATTACHED.get(con, Catalogs())
    if not catalogs.has(changed_table(statement)):
        catalogs.check_unaltered(statement, "DuckDB")
        return con.sql(_with_views(con, catalogs, statement))
    return tablespec.sql(
        statement,
        catalogs,
        data_columns=data_columns,
        queries=lambda text: _answer(con, catalogs, text),
    )


def _answer(con: DuckDBPyConnection, catalogs: Catalogs, query: str) -> _Answer:
    source = f"the query {query!r} of DuckDB"
    with source_errors(source, duckdb.Error):
        return _Answer(con.sql(_with_views(con, catalogs, query)), source)


def _with_views(con: DuckDBPyConnection, catalogs: Catalogs, text: str) -> str:
    """A statement with views in the place of the tables of catalogs, each of the state that its table has now."""
    if not catalogs.named:
        return text
    # DuckDB tells places in bytes.
    written = text.encode()
    views: dict[tuple[str, ...], str | None] = {}
    for start, end, name in reversed(list(_names(text))):
        if name not in views:
            views[name] = _view(con, name, catalogs.find(name))
        if (view := views[name]) is not None:
            written = written[:start] + quoted(view).encode() + written[end:]
    return written.decode()


def _view(con: DuckDBPyConnection, name: tuple[str, ...], table: Table | None) -> str | None:
    if table is None:
        return None
    # A relation looks for its views whenever it is run, so that one of a later state must have another name.
    instant = table.instant()
    view = f"{'.'.join(name)} at {instant.version}"
    attach(con, table, view, instant)
    return view


def _names(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """The names of three parts in a statement as DuckDB reads it, or what longer ones begin with, and where they stand."""
    written = text.encode()
    starts = [*duckdb.tokenize(text), (len(written), token_type.comment)]
    tokens = [
        (start, written[start:end].decode().rstrip())
        for (start, kind), (end, _) in pairwise(starts)
        if kind != token_type.comment
    ]
    for index in range(len(tokens) - 4):
        words = [word for _, word in tokens[index : index + 5]]
        parts = [_PART.fullmatch(word) for word in words[::2]]
        is_first = index == 0 or tokens[index - 1][1] != "."
        if is_first and all(parts) and words[1] == words[3] == ".":
            last, word = tokens[index + 4]
            yield tokens[index][0], last + len(word.encode()), tuple(word.strip('"') for word in words[::2])


@attrs.frozen(eq=False)
class _Answer:
    """The rows that DuckDB found for a query."""

    found: DuckDBPyRelation
    source: str

    @property
    def names(self) -> Sequence[str]:
        return self.found.columns

    def rows(self, names: Sequence[str]) -> ArrowStream:
        # By their places: a query may have several columns of one name.
        return Streamed(self.found, self.source, tuple(names))
