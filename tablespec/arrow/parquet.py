"""Parquet files read through a table's eyes: columns found and converted, row groups chosen, rows with their positions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tablespec.arrow.convert import Finder, Places, convert, nulls
from tablespec.arrow.pages import Source, rows_at
from tablespec.arrow.parquet_file import OpenedFile
from tablespec.arrow.positions import outside
from tablespec.arrow.schema import arrow_schema, arrow_type, is_text, without_views
from tablespec.arrow.stats import leaf_indexes, value_range
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.errors import TypeMismatchError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.model.schema import Field, Schema, StructType
from tablespec.storage.file_state import file_state
from tablespec.storage.store import Storage

# A batch has so many rows, or fewer where they would take more bytes than this as they lie in the file.
BATCH_ROWS = 131_072
BATCH_BYTES = 4 << 20
LEAST_ROWS = 1_024
# Where more than one row of about so many is wanted, most pages are.
ROWS_A_PAGE = 500
# From other stores each page is a request of its own, and so many take as long as a large one.
REQUESTS = 32


@attrs.frozen(eq=False)
class PositionedBatch:
    """Rows of a file in file order; the first has physical position `start`, and the others follow.

    Rows that were chosen one by one have their positions in `chosen`. Columns of `schema` are converted when they are asked for: a
    column of which few rows are left by then costs little. Where they are among the stored ones, `place` tells.
    """

    start: int
    stored: pa.RecordBatch
    schema: Schema
    find: Finder
    chosen: pa.Array | None = None
    place: Places = attrs.Factory(lambda self: self.find(list(self.stored.schema)), takes_self=True)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.stored.num_rows)

    @property
    def batch(self) -> pa.RecordBatch:
        """All columns of the schema."""
        if not len(self.schema.fields):
            return no_columns(self.rows)
        # Old files may lack a column that is NOT NULL today; what is read must not claim otherwise.
        wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(self.schema)])
        return pa.RecordBatch.from_arrays([self.column(field.name) for field in self.schema], schema=wanted)

    def column(self, name: str) -> pa.Array:
        """A column of the schema; null where the file lacks it."""
        field = self.schema.field(name)
        index = self.place(field)
        return nulls(self.rows, field.type) if index is None else convert(self.stored.column(index), field, self.find)

    @property
    def positions(self) -> pa.Array:
        """The physical position of each row."""
        return pa.arange(self.start, self.start + self.rows) if self.chosen is None else self.chosen

    def take(self, rows: pa.Array) -> PositionedBatch:
        """Some of the rows, by their numbers here."""
        left = _pickable(self.stored).take(rows) if self.stored.num_columns else no_columns(len(rows))
        places = pc.add(rows.cast(pa.int64()), self.start) if self.chosen is None else self.chosen.take(rows)
        return PositionedBatch(0, left, self.schema, self.find, places, self.place)

    def among(self, positions: BitMap64) -> pa.BooleanArray:
        """Whether the position of each row is among these."""
        return pc.invert(self.outside(positions))

    def outside(self, positions: BitMap64) -> pa.BooleanArray:
        """Whether the position of each row is none of these."""
        if self.chosen is not None:
            return pa.array([position not in positions for position in self.chosen.to_pylist()], pa.bool_())
        return outside(positions, self.start, self.rows)


def no_columns(rows: int) -> pa.RecordBatch:
    """That many rows without any column."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def _pickable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in types from which Arrow can pick: delta-rs stores that its texts were views, from which it cannot."""
    types = batch.schema.types
    pickable = list(map(without_views, types))
    if pickable == types:
        return batch
    return batch.cast(pa.schema([field.with_type(type_) for field, type_ in zip(batch.schema, pickable)]))


def read_rows(
    storage: Storage, path: str, file: OpenedFile, schema: Schema, find: Finder, positions: BitMap64
) -> PositionedBatch | None:
    """The rows at few positions, read by the pages that hold them; None where that is not possible or not worth it."""
    if not len(schema.fields) or len(positions) * ROWS_A_PAGE > file.metadata.num_rows:
        return None
    top = list(file.schema_arrow)
    found = map(find(top), schema)
    names = list(dict.fromkeys(top[index].name for index in found if index is not None))
    chosen = positions.to_array()
    if not names or not len(chosen):
        return None
    local = storage.local_path(path)
    if local is None and len(chosen) > REQUESTS:
        return None
    if local is None:
        info = storage.head(path)
        size = 0 if info is None else info.size
        source = Source(size, lambda offset, length: storage.read_range(path, offset, length))
        batch = rows_at(file, source, names, chosen)
    else:
        with Path(local).open("rb") as opened:
            state = file_state(opened.fileno())
            source = Source(state.size, lambda offset, length: os.pread(opened.fileno(), length, offset), state)
            batch = rows_at(file, source, names, chosen)
    if batch is None:
        return None
    return PositionedBatch(0, batch, schema, find, pa.array(chosen, pa.int64()))


def read_positioned(
    file: pq.ParquetFile | OpenedFile,
    schema: Schema,
    find: Finder,
    predicate: Predicate = TRUE,
    batch_rows: int | None = None,
    positions: BitMap64 | None = None,
) -> Iterator[PositionedBatch]:
    """The columns of `schema` from every row group that may hold a match of `predicate`; all rows of such a row group come.

    Where `positions` are given, row groups without any of them are left out.
    """
    top = list(file.schema_arrow)
    names = [top[index].name for index in map(find(top), schema) if index is not None]
    # A name with dots in it selects a leaf of another column too, which does no harm.
    selected = list(dict.fromkeys(names))
    # The same for all batches of a file.
    place: Places | None = None
    for group, start in _chosen_groups(file, schema, find, predicate):
        rows = file.metadata.row_group(group).num_rows
        if positions is not None and not positions.range_cardinality(start, start + rows):
            continue
        if not names:
            size = batch_rows or BATCH_ROWS
            for offset in range(0, rows, size):
                yield PositionedBatch(start + offset, no_columns(min(size, rows - offset)), schema, find)
            continue
        position = start
        size = batch_rows or _rows_at_once(file.metadata.row_group(group), set(selected))
        for batch in file.iter_batches(batch_size=size, row_groups=[group], columns=selected, use_threads=False):
            place = place or find(list(batch.schema))
            yield PositionedBatch(position, batch, schema, find, place=place)
            position += batch.num_rows


def _rows_at_once(group: pq.RowGroupMetaData, columns: set[str]) -> int:
    chunks = (group.column(index) for index in range(group.num_columns))
    size = sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema.split(".")[0] in columns)
    rows: int = group.num_rows * BATCH_BYTES // max(size, 1)
    return max(LEAST_ROWS, min(BATCH_ROWS, rows))


def _chosen_groups(
    file: pq.ParquetFile | OpenedFile, schema: Schema, find: Finder, predicate: Predicate
) -> Iterator[tuple[int, int]]:
    metadata = file.metadata
    starts, total = [], 0
    for group in range(metadata.num_row_groups):
        starts.append(total)
        total += metadata.row_group(group).num_rows
    if predicate == TRUE or not starts:
        yield from enumerate(starts)
        return
    rows = pa.array([metadata.row_group(group).num_rows for group in range(len(starts))], pa.int64())
    may_match, _ = verdicts(predicate, lambda path: group_bounds(file, schema, find, path), rows, len(starts))
    for group, chosen in enumerate(may_match.to_pylist()):
        if chosen:
            yield group, starts[group]


def group_bounds(
    file: pq.ParquetFile | OpenedFile, schema: Schema, find: Finder, path: tuple[str, ...]
) -> ColumnBounds | None:
    """What the footer says about one leaf column in each row group; None when it says nothing usable."""
    located = _leaf(file, schema, find, path)
    if located is None:
        return None
    index, field, stored_type = located
    if pa.types.is_string(arrow_type(field.type)) and not is_text(stored_type):
        # Numbers that became text do not sort as text.
        return None
    mins: list[object] = []
    maxs: list[object] = []
    null_counts: list[int | None] = []
    for group in range(file.metadata.num_row_groups):
        statistics = file.metadata.row_group(group).column(index).statistics
        low, high = value_range(statistics) or (None, None)
        mins.append(low)
        maxs.append(high)
        null_counts.append(statistics.null_count if statistics is not None and statistics.has_null_count else None)
    counts = pa.array(null_counts, pa.int64())
    try:
        lows, highs = (convert(pa.array(values, stored_type), field, find) for values in (mins, maxs))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeMismatchError):
        return ColumnBounds(None, None, counts)
    return ColumnBounds(lows, highs, counts)


def _leaf(
    file: pq.ParquetFile | OpenedFile, schema: Schema, find: Finder, path: tuple[str, ...]
) -> tuple[int, Field, pa.DataType] | None:
    candidates = list(file.schema_arrow)
    fields, stored = schema.fields, list[str]()
    for name in path:
        found = [field for field in fields if field.name == name]
        position = find(candidates)(found[0]) if found else None
        if position is None:
            return None
        field = found[0]
        stored.append(candidates[position].name)
        stored_type = candidates[position].type
        fields = field.type.fields if isinstance(field.type, StructType) else ()
        candidates = list(stored_type) if pa.types.is_struct(stored_type) else []
    index = leaf_indexes(file.metadata).get(".".join(stored))
    return None if index is None or pa.types.is_nested(stored_type) else (index, field, stored_type)
