"""The rows of tables as lazy frames.

Polars reads the Parquet files itself where it reads them as tables mean them; everything else comes through Arrow. Files that no row of a
query can be in are left out before they are opened. A frame stays on the state that it was made on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import attrs
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from tablespec import At, Filters, Scan, Table, TableSpecError, UnsupportedByEngineError, all_of
from tablespec_polars.expressions import is_pattern, predicates_of
from tablespec_polars.files import file_rows, one_read, polars_schema

# Of so many files Polars opens each to find out that a filter excludes it; of more the log is asked, query by query.
_MOST_FILES = 1000


def scan(
    table: Table, where: Filters | pl.Expr = None, columns: Sequence[str] | None = None, at: At = None
) -> pl.LazyFrame:
    """The rows that match, as of an instant."""
    if isinstance(where, pl.Expr):
        return _narrowed(_frame(table.scan(at=at)), where, columns)
    return _frame(table.scan(where, columns, at))


def read_optimized(
    table: Table, where: Filters | pl.Expr = None, columns: Sequence[str] | None = None, at: At = None
) -> pl.LazyFrame:
    """The rows of base files as of an instant, leaving merge-on-read changes aside."""
    if isinstance(where, pl.Expr):
        return _narrowed(_frame(table.read_optimized(at=at)), where, columns)
    return _frame(table.read_optimized(where, columns, at))


def incremental(
    table: Table,
    after: At,
    upto: At = None,
    where: Filters | pl.Expr = None,
    columns: Sequence[str] | None = None,
) -> pl.LazyFrame:
    """The rows as of `upto` that were inserted or changed after `after`."""
    if isinstance(where, pl.Expr):
        return _narrowed(_streamed(table.incremental(after, upto)), where, columns)
    return _streamed(table.incremental(after, upto, where, columns))


def changes(
    table: Table,
    after: At,
    upto: At = None,
    where: Filters | pl.Expr = None,
    columns: Sequence[str] | None = None,
) -> pl.LazyFrame:
    """What happened to rows after `after` up to and including `upto`, change by change."""
    if isinstance(where, pl.Expr):
        return _narrowed(_streamed(table.changes(after, upto)), where, columns)
    return _streamed(table.changes(after, upto, where, columns))


def attach(
    context: pl.SQLContext[pl.LazyFrame], table: Table, name: str, at: At = None, *, follow: bool = False
) -> None:
    """Give a table a name in SQL; it stays on its state until it is attached again or refreshed."""
    if follow:
        way_out = f"call refresh(context, table, {name!r})"
        raise UnsupportedByEngineError("Polars", f"let {name} follow the table", way_out)
    context.register(name, scan(table, at=at))


def refresh(context: pl.SQLContext[pl.LazyFrame], table: Table, name: str) -> None:
    """Let the name of a table in SQL show the newest state."""
    attach(context, table, name)


def _narrowed(frame: pl.LazyFrame, where: pl.Expr, columns: Sequence[str] | None) -> pl.LazyFrame:
    found = frame.filter(where)
    if columns is None:
        return found
    _check_columns(columns)
    return found.select(columns)


def _check_columns(names: Sequence[str]) -> None:
    """Raise for columns that make no frame of the same rows: without any, a frame forgets how many there are."""
    if not names:
        way_out = "name one, or count the rows by the table's own scan"
        raise UnsupportedByEngineError("Polars", "give rows without columns", way_out)
    if len(set(names)) < len(names):
        raise UnsupportedByEngineError("Polars", f"give a column twice, as in {list(names)}", "name each once")
    for name in filter(is_pattern, names):
        raise UnsupportedByEngineError(
            "Polars", f"tell the column {name} from a pattern of names", "read other columns"
        )


def _frame(asked: Scan) -> pl.LazyFrame:
    """The frame of a scan: one read that Polars plans itself, or a source that each query asks for its files."""
    _check_columns(asked.schema.names)
    parts = asked.divided()
    if parts is not None:
        plain, merged = parts
        return pl.concat([_frame(plain), _streamed(merged)]) if plain.slices else _streamed(merged)
    found = one_read(asked) if len(asked.slices) <= _MOST_FILES else None
    if found is not None:
        return found
    return register_io_source(
        _FileSource(asked).frames, schema=polars_schema(asked.arrow_schema), is_pure=True, explain_name="tablespec"
    )


def _streamed(rows: _Rows) -> pl.LazyFrame:
    _check_columns(rows.arrow_schema.names)
    return register_io_source(
        _StreamSource(rows).frames, schema=polars_schema(rows.arrow_schema), is_pure=True, explain_name="tablespec"
    )


class _Rows(Protocol):
    """Rows that can be read any number of times."""

    @property
    def arrow_schema(self) -> pa.Schema: ...
    def to_batches(self) -> Iterator[pa.RecordBatch]: ...


@attrs.frozen(eq=False)
class _StreamSource:
    """Rows that come through Arrow; what a query asks for is applied to each batch."""

    rows: _Rows

    def frames(
        self, columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """The rows that a query needs."""
        left = limit
        for batch in self.rows.to_batches():
            frame = pl.DataFrame(batch)
            if predicate is not None:
                # Polars relies on this and does not look at the rows again.
                frame = frame.filter(predicate)
            if columns is not None:
                frame = frame.select(columns) if columns else pl.DataFrame(height=frame.height)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame
            if left == 0:
                return


@attrs.frozen(eq=False)
class _FileSource:
    """The files of a scan; each query leaves out those that cannot hold its rows."""

    asked: Scan

    def frames(
        self, columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """The rows that a query needs."""
        if columns == [] and predicate is None:
            count = self.asked.count()
            yield pl.DataFrame(height=count if limit is None else min(count, limit))
            return
        asked = self.asked
        names = asked.schema.names if columns is None else tuple(columns)
        pruned = self._pruned(predicate)
        frame = file_rows(asked, names, pruned.slices, predicate)
        if frame is None:
            yield from _StreamSource(pruned).frames(columns, predicate, limit, batch_rows)
            return
        yield from (frame if limit is None else frame.head(limit)).collect_batches(chunk_size=batch_rows)

    def _pruned(self, predicate: pl.Expr | None) -> Scan:
        """The scan without files that cannot hold a row of the query."""
        if predicate is None:
            return self.asked
        # Hidden columns are none of the table's, and files are not judged by them.
        parts = predicates_of(predicate, self.asked.reader.layout.schema)
        known = tuple(part for part in parts if part is not None)
        try:
            bound = self.asked.reader.push_down_filters(all_of(known)).predicate
        except TableSpecError:
            # What tables cannot compare Polars may be able to, or it tells what is wrong with it.
            return self.asked
        return attrs.evolve(self.asked, predicate=all_of((self.asked.predicate, bound)))
