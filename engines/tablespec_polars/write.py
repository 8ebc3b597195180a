"""Row changes with rows that come from Polars: a frame, a lazy frame, or anything that speaks Arrow."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import polars as pl
import pyarrow as pa

from tablespec import (
    Appended,
    ArrowStream,
    Assignments,
    ChangeResult,
    Clause,
    Predicate,
    Strategy,
    Table,
)
from tablespec_polars.expressions import exact_predicate

Condition = Predicate | str | pl.Expr
Rows = pl.LazyFrame | ArrowStream


def append(table: Table, data: Rows, *, merge_schema: bool = False) -> Appended:
    """Add rows."""
    return table.append(_stream(data), merge_schema=merge_schema)


def replace_where(
    table: Table,
    predicate: Condition,
    data: Rows,
    *,
    data_columns: bool = False,
    allow_full_table: bool = False,
    dry_run: bool = False,
) -> ChangeResult:
    """Replace the rows under a predicate in one commit."""
    return table.replace_where(
        exact_predicate(predicate, table.schema) if isinstance(predicate, pl.Expr) else predicate,
        _stream(data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
    )


def delete(
    table: Table,
    predicate: Condition | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(
        _predicate(table, predicate),
        allow_full_table=allow_full_table,
        strategy=strategy,
    )


def update(
    table: Table,
    values: Assignments,
    predicate: Condition | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(
        values,
        _predicate(table, predicate),
        allow_full_table=allow_full_table,
        strategy=strategy,
    )


def merge(
    table: Table,
    source: Rows,
    on: Predicate | str,
    *clauses: Clause,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Merge a source: matched rows change or go, others come; `t` names the table and `s` the source."""
    return table.merge(_stream(source), on, *clauses, strategy=strategy)


def upsert(
    table: Table,
    data: Rows,
    *,
    order_by: str | None = None,
    strategy: Strategy | None = None,
) -> ChangeResult:
    """Insert rows, or replace those with the same record key."""
    return table.upsert(_stream(data), order_by=order_by, strategy=strategy)


def _predicate(table: Table, condition: Condition | None) -> Predicate | str | None:
    return exact_predicate(condition, table.schema) if isinstance(condition, pl.Expr) else condition


def _stream(data: Rows) -> ArrowStream:
    return _Streamed(data) if isinstance(data, pl.LazyFrame) else data


@attrs.frozen(eq=False)
class _Streamed:
    """A lazy frame that is computed batch by batch, as often as it is asked."""

    frame: pl.LazyFrame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        schema = self.frame.collect_schema().to_frame().to_arrow().schema
        reader = pa.RecordBatchReader.from_batches(schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for frame in self.frame.collect_batches(lazy=True):
            yield from frame.to_arrow().to_batches()
