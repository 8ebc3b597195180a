"""Row changes with rows that come from Polars: a frame, a lazy frame, or anything that speaks Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack

import attrs
import polars as pl
import pyarrow as pa

from tablespec import (
    Appended,
    Appending,
    ArrowStream,
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
    UnsupportedByEngineError,
    source_errors,
)
from tablespec_polars.expressions import exact_predicate

Condition = Predicate | str | pl.Expr
Rows = pl.LazyFrame | ArrowStream

_FRAME = "the frame of Polars"
_NOT_IN_ARROW = (pl.Int128, pl.UInt128, pl.Object)


def append(table: Table, data: Rows, **options: Unpack[Appending]) -> Appended:
    """Add rows."""
    return table.append(_stream(data), **options)


def replace_where(
    table: Table,
    predicate: Condition,
    data: Rows | None = None,
    *,
    data_columns: bool = False,
    allow_full_table: bool = False,
    dry_run: bool = False,
    transaction: tuple[str, int] | None = None,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Replace the rows under a predicate by others, which must satisfy it, in one commit; without data they only go."""
    return table.replace_where(
        exact_predicate(predicate, table.schema) if isinstance(predicate, pl.Expr) else predicate,
        None if data is None else _stream(data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
        transaction=transaction,
        **how,
    )


def replace_using(table: Table, columns: Sequence[str], data: Rows, **how: Unpack[Changing]) -> ChangeResult:
    """Replace the rows that have the same values in some columns as a row of the data."""
    return table.replace_using(columns, _stream(data), **how)


def overwrite_partitions(table: Table, data: Rows, **how: Unpack[Changing]) -> ChangeResult:
    """Replace every partition that the data has rows for."""
    return table.overwrite_partitions(_stream(data), **how)


def delete(
    table: Table,
    predicate: Condition | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(_predicate(table, predicate), allow_full_table=allow_full_table, **how)


def update(
    table: Table,
    values: Assignments,
    predicate: Condition | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(values, _predicate(table, predicate), allow_full_table=allow_full_table, **how)


def merge(table: Table, source: Rows, on: Predicate | str, *clauses: Clause, **how: Unpack[Changing]) -> ChangeResult:
    """Merge a source: matched rows change or go, others come; `t` names the table and `s` the source."""
    return table.merge(_stream(source), on, *clauses, **how)


def upsert(table: Table, data: Rows, *, order_by: str | None = None, **how: Unpack[Changing]) -> ChangeResult:
    """Insert rows, or replace those with the same record key."""
    return table.upsert(_stream(data), order_by=order_by, **how)


def compact(table: Table, where: Filters = None, **options: Unpack[Compacting]) -> RewriteResult:
    """Write small files, and files with many deleted rows, anew; the rows stay the same."""
    return table.compact(where, **options)


def cluster(table: Table, by: Sequence[str], where: Filters = None, **options: Unpack[Clustering]) -> RewriteResult:
    """Write partitions anew with their rows in order, by `sort` or `zorder`; the rows stay the same."""
    return table.cluster(by, where, **options)


def _predicate(table: Table, condition: Condition | None) -> Predicate | str | None:
    return exact_predicate(condition, table.schema) if isinstance(condition, pl.Expr) else condition


def _stream(data: Rows) -> ArrowStream:
    if isinstance(data, pl.DataFrame | pl.LazyFrame):
        for name, kind in columns(data).items():
            _check_type(name, kind)
    return Streamed(data) if isinstance(data, pl.LazyFrame) else data


def columns(frame: pl.DataFrame | pl.LazyFrame, source: str = _FRAME) -> pl.Schema:
    """The columns of a frame whose rows are to be written."""
    with source_errors(source, pl.exceptions.PolarsError):
        return frame.collect_schema()


def _check_type(column: str, kind: pl.DataType | pl.datatypes.DataTypeClass) -> None:
    """Raise for a type that Arrow does not know, wherever it stands in a column."""
    if kind in _NOT_IN_ARROW:
        what = f"hand over the column {column} of type {kind}"
        raise UnsupportedByEngineError("Polars", what, "cast it to another type, or leave it out")
    match kind:
        case pl.List(inner=inner) | pl.Array(inner=inner):
            _check_type(f"{column}.element", inner)
        case pl.Struct(fields=fields):
            for field in fields:
                _check_type(f"{column}.{field.name}", field.dtype)


@attrs.frozen(eq=False)
class Streamed:
    """A lazy frame that is computed batch by batch, as often as it is asked."""

    frame: pl.LazyFrame
    source: str = _FRAME

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, which raises SourceFailedError where Polars cannot make them."""
        schema = columns(self.frame, self.source).to_frame().to_arrow().schema
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with source_errors(self.source, pl.exceptions.PolarsError):
            for frame in self.frame.collect_batches(lazy=True):
                yield from frame.to_arrow().to_batches()
