"""Rows written into Parquet files under names that nobody can see yet.

Memory is bounded by the buffers: rows wait until those of their partition make a row group, or until all waiting rows together are
too many; only then is the file of the partition begun.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterator
from typing import BinaryIO

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablespec.arrow.convert import relabelled
from tablespec.arrow.encoding import dictionary_columns, stepping_columns
from tablespec.arrow.schema import stored_field
from tablespec.arrow.sink import in_large_pieces
from tablespec.arrow.stats import bounded_leaves, file_stats, leaf_values, nan_leaves
from tablespec.errors import TypeMismatchError
from tablespec.formats.base import NewFile
from tablespec.formats.layout import WriteLayout
from tablespec.model.change import CHANGE_TYPE
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.storage.publishing import Publishing, discard
from tablespec.storage.store import Storage

# Beside the columns of a table, for the group that a row stays in.
GROUP = "__tablespec_group"
# A page ends with the first so many rows that fill it; of long values these are fewer.
PAGE_BYTES = 8 << 10
PAGE_ROWS = 256
LEAST_PAGE_ROWS = 32
# What a column of a batch takes in memory besides its values; it counts when partitions get a few rows at a time.
BATCH_OVERHEAD = 512
_EXTRAS = (ROW_ID, ROW_COMMIT_VERSION, CHANGE_TYPE)


@attrs.frozen(kw_only=True)
class Buffers:
    """Bounds of a writer: bytes of a row group, of all rows that wait, and files written to at a time."""

    row_group_bytes: int = 64 << 20
    waiting_bytes: int = 192 << 20
    open_files: int = 100


def write_files(
    storage: Storage,
    layout: WriteLayout,
    batches: Iterator[pa.RecordBatch],
    buffers: Buffers = Buffers(),
    folder: str = "",
) -> tuple[NewFile, ...]:
    """Write rows in the columns of the table into new files; when anything fails, no file is left behind."""
    writer = FileWriter(storage, layout, buffers, folder)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def by_partition(
    batch: pa.RecordBatch, columns: tuple[str, ...]
) -> Iterator[tuple[tuple[object, ...], pa.RecordBatch]]:
    """The rows of each partition apart, in the order they had."""
    if not columns or not batch.num_rows:
        if batch.num_rows:
            yield (), batch
        return
    # Under names of their own: Arrow takes one that begins with a point for a path.
    keys = pa.RecordBatch.from_arrays(
        [_by_bits(batch.column(name)) for name in columns], names=[str(number) for number in range(len(columns))]
    )
    if len(_run_starts(keys)) == 1:
        yield _first(batch.select(list(columns))), batch
        return
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names])
    runs = _run_starts(keys.take(order))
    for start, end in zip(runs, [*runs[1:], batch.num_rows]):
        # Rows of their own: a slice would keep the whole batch in memory for as long as they wait.
        rows = batch.take(order.slice(start, end - start))
        yield _first(rows.select(list(columns))), rows


def _by_bits(values: pa.Array) -> pa.Array:
    """Values to group by. The two zeros are equal, and still partitions of their own: each is read back as it was written."""
    if not pa.types.is_floating(values.type):
        return values
    # Every NaN is the same partition, though their bits may differ.
    alike = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return alike.view(pa.int64() if pa.types.is_float64(values.type) else pa.int32())


def _first(keys: pa.RecordBatch) -> tuple[object, ...]:
    values = (_value(name, column[0]) for name, column in zip(keys.schema.names, keys.columns))
    return tuple(math.nan if value != value else value for value in values)


def _value(column: str, scalar: pa.Scalar) -> object:
    try:
        return scalar.as_py()
    except (OverflowError, UnicodeDecodeError) as error:
        kind = f"{scalar.type} in a partition column"
        raise TypeMismatchError(column, kind, f"a value that the log has no text for ({error})") from error


def _run_starts(keys: pa.RecordBatch) -> list[int]:
    starts = {0}
    for column in keys.columns:
        ends = pc.run_end_encode(column).run_ends.to_pylist()
        starts.update(ends[:-1])
    return sorted(starts)


@attrs.frozen
class _Place:
    """Which file a row goes to: one for each partition, file group and set of columns."""

    # Compared by their texts, in which the two zeros differ and NaN is the same as NaN.
    values: tuple[object, ...] = attrs.field(eq=repr)
    group: str
    extras: tuple[str, ...]


@attrs.define(eq=False)
class _Waiting:
    """Rows that wait to be written together."""

    batches: list[pa.RecordBatch] = attrs.field(factory=list)
    size: int = 0


@attrs.define(eq=False)
class _OpenFile:
    """A file being written."""

    path: str
    group: str
    sink: BinaryIO
    pieces: pa.NativeFile
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData]
    with_nan: dict[tuple[str, ...], int]
    """The leaves that may hold NaN, for which the file has no statistics, and how many nulls they have."""


@attrs.define(eq=False)
class FileWriter:
    """Writes rows into new files, one or more a partition.

    Besides the columns of the table a batch may have hidden ones (row ids, commit versions, the type of a change), which are
    stored, and `GROUP`, which says to which file group a row belongs; rows without one make new groups.
    """

    storage: Storage
    layout: WriteLayout
    buffers: Buffers = Buffers()
    folder: str = ""
    _waiting: dict[_Place, _Waiting] = attrs.field(factory=dict, init=False)
    _open: dict[_Place, _OpenFile] = attrs.field(factory=dict, init=False)
    _done: list[NewFile] = attrs.field(factory=list, init=False)
    _waiting_bytes: int = attrs.field(default=0, init=False)
    _publishing: Publishing = attrs.field(factory=Publishing, init=False)
    _columns: dict[tuple[str, ...], tuple[tuple[str, ...], pa.Schema]] = attrs.field(factory=dict, init=False)
    """What files store, by the hidden columns among it: the names of the columns, and the physical ones with their types."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        hidden = [name for name in batch.schema.names if name not in self.layout.schema]
        extras, grouped = tuple(name for name in hidden if name in _EXTRAS), GROUP in hidden
        keys = (*self.layout.partition_columns, GROUP) if grouped else self.layout.partition_columns
        for values, rows in by_partition(batch, keys):
            place = _Place(values[:-1], str(values[-1]), extras) if grouped else _Place(values, "", extras)
            for stored, size in _pieces(self._stored(rows, extras), self._group_bytes):
                self._take(place, stored, size)

    def settle(self, group: str) -> None:
        """No more rows of a file group come: its files are made to last while others are written."""
        for place in [place for place in self._waiting if place.group == group]:
            self._flush(place)
        for place in [place for place in self._open if place.group == group]:
            self._close(place)

    def finish(self) -> tuple[NewFile, ...]:
        """Close all files and tell what was written."""
        for place in list(self._waiting):
            self._flush(place)
        for place in list(self._open):
            self._close(place)
        self._publishing.finish()
        return tuple(self._done)

    def abort(self) -> None:
        """Leave nothing behind."""
        for file in self._open.values():
            _discard(file)
        self._publishing.abort()
        for written in self._done:
            self.storage.delete(written.path)

    @property
    def _group_bytes(self) -> int:
        # A row group is the least that can be written, so none may be larger than a file should be.
        return min(self.buffers.row_group_bytes, self.layout.file_bytes)

    def _stored(self, batch: pa.RecordBatch, extras: tuple[str, ...]) -> pa.RecordBatch:
        """The columns that files hold, under their physical names."""
        if extras not in self._columns:
            self._columns[extras] = _stored_columns(self.layout, extras)
        names, schema = self._columns[extras]
        columns = [relabelled(batch.column(name), type_) for name, type_ in zip(names, schema.types)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _take(self, place: _Place, rows: pa.RecordBatch, size: int) -> None:
        waiting = self._waiting.setdefault(place, _Waiting())
        size += BATCH_OVERHEAD * rows.num_columns
        waiting.batches.append(rows)
        waiting.size += size
        self._waiting_bytes += size
        if waiting.size >= self._group_bytes:
            self._flush(place)
        while self._waiting_bytes >= self.buffers.waiting_bytes:
            self._flush(max(self._waiting, key=lambda other: self._waiting[other].size))

    def _flush(self, place: _Place) -> None:
        """Write the rows that wait as a row group of the file of their place, which is begun where none is open."""
        waiting = self._waiting.pop(place)
        self._waiting_bytes -= waiting.size
        rows = pa.Table.from_batches(waiting.batches)
        with_nan = nan_leaves(rows)
        if place in self._open and not with_nan <= self._open[place].with_nan.keys():
            # Which statistics a file has is settled when it is begun.
            self._close(place)
        file = self._open.pop(place, None) or self._new(place, rows, with_nan)
        self._open[place] = file
        for path in file.with_nan:
            file.with_nan[path] += leaf_values(rows, path).null_count
        file.writer.write_table(rows, row_group_size=rows.num_rows)
        if file.pieces.tell() >= self.layout.file_bytes:
            self._close(place)
        if len(self._open) > self.buffers.open_files:
            # The one that was written to longest ago; more rows of its partition go to another file.
            self._close(next(iter(self._open)))

    def _new(self, place: _Place, first: pa.Table, with_nan: frozenset[tuple[str, ...]]) -> _OpenFile:
        name = str(uuid.uuid4())
        parts = (self.folder, self.layout.naming.folder(place.values), f"{name}.parquet")
        path = "/".join(part for part in parts if part)
        sink = self.storage.create(path)
        pieces = in_large_pieces(sink)
        footers: list[pq.FileMetaData] = []
        dictionaries = dictionary_columns(first)
        steps = stepping_columns(first, dictionaries) if self.layout.recent_readers else {}
        writer = pq.ParquetWriter(
            pieces,
            first.schema,
            compression="snappy",
            use_dictionary=dictionaries,
            column_encoding=steps or None,
            version="2.6",
            metadata_collector=footers,
            write_statistics=bounded_leaves(first.schema, with_nan),
            store_schema=False,
            coerce_timestamps="us",
            # By these single rows can be read without the rest of their row group.
            data_page_size=PAGE_BYTES,
            write_batch_size=_page_rows(first),
            write_page_index=True,
        )
        return _OpenFile(path, place.group or name, sink, pieces, writer, footers, dict.fromkeys(with_nan, 0))

    def _close(self, place: _Place) -> None:
        file = self._open.pop(place)
        try:
            file.writer.close()
            file.pieces.close()
        except BaseException:
            _discard(file)
            raise
        self._done.append(
            NewFile(
                path=file.path,
                size=file.sink.tell(),
                modified=time.time_ns() // 1_000_000,
                partition_values=place.values,
                stats=file_stats(file.footers[0], self.layout.stats_leaves, file.with_nan),
                group=file.group,
                form=self.layout.form,
            )
        )
        self._publishing.add(file.sink)


def _page_rows(rows: pa.Table) -> int:
    """The rows of a page that are written before it is looked at whether it is full: about a quarter of it."""
    widest: int = max((column.nbytes for column in rows.columns), default=0) // max(rows.num_rows, 1)
    return min(PAGE_ROWS, max(LEAST_PAGE_ROWS, PAGE_BYTES // 4 // max(widest, 1)))


def _discard(file: _OpenFile) -> None:
    file.writer.is_open = False
    discard(file.sink)


def _pieces(rows: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """The rows in batches of at most about that many bytes, with how many these are."""
    size = rows.nbytes
    step = max(1, rows.num_rows * most // max(size, 1))
    if rows.num_rows <= step:
        yield rows, size
        return
    for start in range(0, rows.num_rows, step):
        piece = rows.slice(start, step)
        yield piece, piece.nbytes


def _stored_columns(layout: WriteLayout, extras: tuple[str, ...]) -> tuple[tuple[str, ...], pa.Schema]:
    stored = [field for field in layout.schema if field.name not in layout.partition_columns]
    hidden = {
        ROW_ID: pa.field(layout.row_id_column, pa.int64()),
        ROW_COMMIT_VERSION: pa.field(layout.row_commit_version_column, pa.int64()),
        CHANGE_TYPE: pa.field(CHANGE_TYPE, pa.string()),
    }
    names = (*(field.name for field in stored), *extras)
    return names, pa.schema([*map(stored_field, stored), *(hidden[name] for name in extras)])
