"""Row changes with rows that come from DuckDB: a relation, the text of a query, or anything that speaks Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Unpack

import attrs
import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation
from duckdb.sqltypes import DuckDBPyType

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

# Bits come as the bytes in which DuckDB holds them, and large numbers as negative ones.
_OTHERS_IN_ARROW = ("bit", "uhugeint")
_NESTED = ("array", "list", "map", "struct", "union")

Rows = DuckDBPyRelation | ArrowStream | str


def append(con: DuckDBPyConnection, table: Table, data: Rows, **options: Unpack[Appending]) -> Appended:
    """Add rows."""
    return table.append(stream(con, data), **options)


def replace_where(
    con: DuckDBPyConnection,
    table: Table,
    predicate: Predicate | str,
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
        predicate,
        None if data is None else stream(con, data),
        data_columns=data_columns,
        allow_full_table=allow_full_table,
        dry_run=dry_run,
        transaction=transaction,
        **how,
    )


def replace_using(
    con: DuckDBPyConnection, table: Table, columns: Sequence[str], data: Rows, **how: Unpack[Changing]
) -> ChangeResult:
    """Replace the rows that have the same values in some columns as a row of the data."""
    return table.replace_using(columns, stream(con, data), **how)


def overwrite_partitions(con: DuckDBPyConnection, table: Table, data: Rows, **how: Unpack[Changing]) -> ChangeResult:
    """Replace every partition that the data has rows for."""
    return table.overwrite_partitions(stream(con, data), **how)


def delete(
    con: DuckDBPyConnection,
    table: Table,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Delete the rows for which the predicate is true."""
    return table.delete(predicate, allow_full_table=allow_full_table, **how)


def update(
    con: DuckDBPyConnection,
    table: Table,
    values: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    **how: Unpack[Changing],
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true."""
    return table.update(values, predicate, allow_full_table=allow_full_table, **how)


def merge(
    con: DuckDBPyConnection, table: Table, source: Rows, on: Predicate | str, *clauses: Clause, **how: Unpack[Changing]
) -> ChangeResult:
    """Merge a source: matched rows change or go, others come; `t` names the table and `s` the source."""
    return table.merge(stream(con, source), on, *clauses, **how)


def upsert(
    con: DuckDBPyConnection, table: Table, data: Rows, *, order_by: str | None = None, **how: Unpack[Changing]
) -> ChangeResult:
    """Insert rows, or replace those with the same record key."""
    return table.upsert(stream(con, data), order_by=order_by, **how)


def compact(
    con: DuckDBPyConnection, table: Table, where: Filters = None, **options: Unpack[Compacting]
) -> RewriteResult:
    """Write small files, and files with many deleted rows, anew; the rows stay the same."""
    return table.compact(where, **options)


def cluster(
    con: DuckDBPyConnection, table: Table, by: Sequence[str], where: Filters = None, **options: Unpack[Clustering]
) -> RewriteResult:
    """Write partitions anew with their rows in order, by `sort` or `zorder`; the rows stay the same."""
    return table.cluster(by, where, **options)


def stream(con: DuckDBPyConnection, data: Rows) -> ArrowStream:
    """Rows of any kind as a stream."""
    match data:
        case str():
            source = f"the query {data!r} of DuckDB"
            with source_errors(source, duckdb.Error):
                asked: DuckDBPyRelation | None = con.sql(data)
            if asked is None:
                raise UnsupportedByEngineError("DuckDB", f"take rows from {data!r}", "give the text of a query")
            return Streamed(asked, source)
        case DuckDBPyRelation():
            return Streamed(data)
        case _:
            return data


def _check_type(column: str, kind: DuckDBPyType) -> None:
    """Raise for a type whose values come out of DuckDB as others, wherever it stands in a column."""
    if kind.id in _OTHERS_IN_ARROW:
        what = f"hand over the column {column} of type {kind}"
        raise UnsupportedByEngineError("DuckDB", what, "cast it to another type, or leave it out")
    for name, child in kind.children if kind.id in _NESTED else ():
        if isinstance(child, DuckDBPyType):
            _check_type(f"{column}.{name}", child)


@attrs.frozen(eq=False)
class Streamed:
    """A relation that gives its rows batch by batch, as often as it is asked; its columns may get other names, by their places."""

    relation: DuckDBPyRelation
    source: str = "the relation of DuckDB"
    names: tuple[str, ...] | None = None

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a reader, which raises SourceFailedError where DuckDB cannot make them."""
        for name, kind in zip(self.relation.columns, self.relation.types):
            _check_type(name, kind)
        with source_errors(self.source, duckdb.Error):
            reader = self.relation.to_arrow_reader()
        names = reader.schema.names if self.names is None else self.names
        schema = pa.schema([field.with_name(name) for field, name in zip(reader.schema, names)])
        return pa.RecordBatchReader.from_batches(schema, self._batches(reader, schema))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _batches(self, reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wide = [index for index, kind in enumerate(self.relation.types) if "HUGEINT" in str(kind)]
        with source_errors(self.source, duckdb.Error):
            for batch in reader:
                for index in wide:
                    # Whole numbers of 128 bits come as decimals of 38 digits, which some have one more of.
                    batch.column(index).validate(full=True)
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
