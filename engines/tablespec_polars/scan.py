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

from tablespec import (
    ArrayType,
    At,
    DataType,
    Field,
    FileSlice,
    Filters,
    JudgedSlice,
    Literal,
    MapType,
    Primitive,
    Scan,
    Snapshot,
    StructType,
    Table,
    TableSpecError,
    UnsupportedByEngineError,
    all_of,
    columns_of,
)
from tablespec_polars.expressions import condition, predicates_of

_EVERYTHING = Literal(True)
_UNREADABLE = (Primitive("variant"), Primitive("void"))
_WIDENED = tuple(map(Primitive, ("short", "integer", "long", "float", "double")))
_CASTS = pl.ScanCastOptions(
    integer_cast=["upcast", "allow-float"],
    float_cast="upcast",
    datetime_cast=["convert-timezone", "nanosecond-downcast", "millisecond-upcast"],
    missing_struct_fields="insert",
    extra_struct_fields="ignore",
)
_ROW = "tablespec row of the file"


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
    return found if columns is None else found.select(columns)


def _frame(asked: Scan) -> pl.LazyFrame:
    """The frame of a scan: Parquet files as they are where nothing but their columns is asked for."""
    simple = all(one.slice.is_clean for one in asked.slices) and not asked.reader.layout.constants
    found = _native(asked, asked.schema.names, asked.slices, None) if simple else None
    if found is not None:
        return found
    return register_io_source(
        _FileSource(asked).frames, schema=_schema(asked.arrow_schema), is_pure=True, explain_name="tablespec"
    )


def _streamed(rows: _Rows) -> pl.LazyFrame:
    return register_io_source(
        _StreamSource(rows).frames, schema=_schema(rows.arrow_schema), is_pure=True, explain_name="tablespec"
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
        frame = _native(asked, names, pruned.slices, predicate)
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


def _native(
    asked: Scan, names: Sequence[str], slices: Sequence[JudgedSlice], predicate: pl.Expr | None
) -> pl.LazyFrame | None:
    """The rows of slices read by Polars itself; None where it could give other ones."""
    everything = _schema(attrs.evolve(asked, columns=None).arrow_schema)
    reading = _reading(asked, {*names, *(path[0] for path in columns_of(asked.predicate))}, predicate, everything)
    matched = None if reading is None else condition(asked.predicate, everything)
    if reading is None or matched is None:
        return None
    parts = reading.parts(asked, [one.slice for one in slices])
    if not parts:
        return None
    rows = parts[0] if len(parts) == 1 else pl.concat(parts)
    if asked.predicate != _EVERYTHING:
        rows = rows.filter(matched)
    if predicate is not None:
        rows = rows.filter(predicate)
    return rows.select(names)


@attrs.frozen(kw_only=True, eq=False)
class _Reading:
    """Which columns Polars reads: those of files, by the names that they have there, and those that the log holds."""

    stored: tuple[Field, ...]
    constants: tuple[Field, ...]
    order: tuple[str, ...]
    types: pl.Schema

    def parts(self, asked: Scan, slices: Sequence[FileSlice]) -> list[pl.LazyFrame]:
        """The rows of slices; empty where one of them cannot be reached by Polars or needs a merge."""
        clean: dict[tuple[object, ...], list[str]] = {}
        dirty: list[pl.LazyFrame] = []
        for slice_ in slices:
            path = None if slice_.base is None or slice_.needs_merge else asked.storage.local_path(slice_.base.path)
            if path is None:
                return []
            deleted = asked.reader.deleted(slice_) if asked.mode == Snapshot() else None
            if not deleted:
                clean.setdefault(slice_.partition_values, []).append(path)
                continue
            gone = pl.Series(list(deleted), dtype=pl.get_index_type()).implode()
            rows = self._read([path], row_index_name=_ROW).filter(~pl.col(_ROW).is_in(gone))
            dirty.append(self._named(rows, slice_.partition_values))
        return [*(self._named(self._read(paths), values) for values, paths in clean.items()), *dirty]

    def _read(self, paths: list[str], row_index_name: str | None = None) -> pl.LazyFrame:
        return pl.scan_parquet(
            paths,
            row_index_name=row_index_name,
            schema={field.stored_name: self.types[field.name] for field in self.stored},
            glob=False,
            hive_partitioning=False,
            missing_columns="insert",
            extra_columns="ignore",
            cast_options=_CASTS,
        )

    def _named(self, rows: pl.LazyFrame, partition_values: tuple[object, ...]) -> pl.LazyFrame:
        """The rows with the names of the table, and the values of their partition."""
        found = rows.select(pl.col(field.stored_name).alias(field.name) for field in self.stored)
        values = dict(zip(self.order, partition_values))
        return found.with_columns(
            pl.lit(values[field.name], self.types[field.name]).alias(field.name) for field in self.constants
        )


def _reading(asked: Scan, names: set[str], predicate: pl.Expr | None, types: pl.Schema) -> _Reading | None:
    """How to read some columns and those of a query's filter; None where Polars cannot read one."""
    layout = asked.reader.layout
    needed = names if predicate is None else {*names, *predicate.meta.root_names()}
    if layout.by_field_id or any(name not in layout.schema for name in needed):
        return None
    stored = [field for field in layout.schema if field.name not in layout.constants]
    chosen = [field for field in stored if field.name in needed] or [
        field for field in stored if _is_readable(field.type, field)
    ][:1]
    if not chosen or not all(_is_readable(field.type, field) for field in chosen):
        return None
    constants = tuple(field for field in layout.schema if field.name in layout.constants and field.name in needed)
    return _Reading(stored=tuple(chosen), constants=constants, order=layout.constants, types=types)


def _is_readable(data_type: DataType, field: Field) -> bool:
    """Whether Polars finds and converts the values of a column as tables do."""
    if any(key == "delta.typeChanges" for key, _ in field.metadata) and data_type not in _WIDENED:
        return False
    match data_type:
        case StructType(fields):
            return bool(fields) and all(
                member.stored_name == member.name and _is_readable(member.type, member) for member in fields
            )
        case ArrayType(element):
            return _is_readable(element, field)
        case MapType(key, value):
            return _is_readable(key, field) and _is_readable(value, field)
        case _:
            return data_type not in _UNREADABLE


def _schema(arrow: pa.Schema) -> pl.Schema:
    return pl.DataFrame(arrow.empty_table()).schema
