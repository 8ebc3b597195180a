"""The rows of a slice: the reading half of an engine's integration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.convert import Finder, by_field_id, by_stored_name
from tablespec.arrow.evaluate import matching
from tablespec.arrow.parquet import PositionedBatch, open_parquet, read_positioned
from tablespec.arrow.schema import arrow_schema, arrow_type
from tablespec.errors import ColumnNotFoundError, CorruptFileError, DataFileMissingError, UnsupportedTableError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Predicate, columns_of
from tablespec.expr.rewrite import split
from tablespec.formats.base import ReadLayout, SliceCodec
from tablespec.model import row
from tablespec.model.file import BaseFile, FileSlice
from tablespec.model.reading import Cdc, Incremental, ReadingMode, ReadOptimized, Snapshot
from tablespec.model.row import PHYSICAL
from tablespec.model.schema import Field, Schema, near_names
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class FileSliceReader:
    """Reads slices as Arrow record batches; every setting gives a new reader, and readers pickle.

    Rows come in the order of the file. Filters remove rows here already: what comes out matches.
    """

    storage: Storage
    layout: ReadLayout
    codec: SliceCodec
    columns: tuple[str, ...] | None = None
    predicate: Predicate = TRUE
    mode: ReadingMode = Snapshot()

    def project(self, columns: tuple[str, ...] | Schema | None) -> FileSliceReader:
        """Give these columns in this order; None gives all that are not hidden."""
        names = columns.names if isinstance(columns, Schema) else columns
        reader = attrs.evolve(self, columns=None if names is None else tuple(names))
        reader.schema  # noqa: B018 - an unknown column is told here and not on a worker
        return reader

    def push_down_filters(self, filters: Predicate | str) -> FileSliceReader:
        """Give only rows that match."""
        return attrs.evolve(self, predicate=bind(filters, _everything(self.layout)))

    def reading_mode(self, mode: ReadingMode) -> FileSliceReader:
        """Read in that mode."""
        return attrs.evolve(self, mode=mode)

    @property
    def schema(self) -> Schema:
        """The columns that come out."""
        if self.columns is None:
            return self.layout.schema
        return Schema(tuple(_find(self.layout, name) for name in self.columns))

    def open(self, slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, batch by batch; nothing is read before the first is asked for."""
        match self.mode:
            case Snapshot():
                deleted = self._deleted(slice_)
            case ReadOptimized():
                deleted = None
            case Incremental() | Cdc():
                raise UnsupportedTableError(
                    self.storage.url, f"the reading mode {type(self.mode).__name__} on single slices"
                )
            case _:
                assert_never(self.mode)
        if slice_.logs and isinstance(self.mode, Snapshot):
            raise UnsupportedTableError(self.storage.url, "log files", "read it in the mode ReadOptimized")
        if slice_.base is None:
            return
        yield from self._rows(slice_, slice_.base, deleted)

    def _deleted(self, slice_: FileSlice) -> BitMap64 | None:
        try:
            return self.codec.deleted_positions(self.storage, slice_)
        except FileNotFoundError as error:
            assert slice_.deletes is not None
            raise DataFileMissingError(self.storage.url, slice_.deletes.path or "") from error

    def _rows(self, slice_: FileSlice, base: BaseFile, deleted: BitMap64 | None) -> Iterator[pa.RecordBatch]:
        constants = dict(zip(self.layout.constants, slice_.partition_values))
        wanted = self.schema
        fields = _with_filter_columns(self, wanted)
        made = {*constants, *(field.name for field in PHYSICAL if field.name in self.layout.hidden)}
        needed = Schema(tuple(field for field in fields if field.name not in made))
        unread = made | set(self.layout.hidden.names)
        pushed, _ = split(self.predicate, lambda path: path[0] not in unread)
        for piece in self._pieces(base, needed, pushed):
            batch = _completed(piece, base, constants, fields, self.layout.hidden)
            if deleted is not None:
                batch = _without(batch, piece.start, deleted)
            if self.predicate != TRUE:
                batch = batch.filter(matching(self.predicate, batch))
            if batch.num_rows:
                yield _select(batch, wanted)

    def _pieces(self, base: BaseFile, needed: Schema, pushed: Predicate) -> Iterator[PositionedBatch]:
        find: Finder = _by_id_or_name if self.layout.by_field_id else by_stored_name
        try:
            with open_parquet(self.storage, base.path) as file:
                yield from read_positioned(file, needed, find, pushed)
        except FileNotFoundError as error:
            raise DataFileMissingError(self.storage.url, base.path) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptFileError(self.storage.url, base.path, str(error)) from error


def _everything(layout: ReadLayout) -> Schema:
    return Schema((*layout.schema.fields, *layout.hidden.fields))


def _find(layout: ReadLayout, name: str) -> Field:
    if name in layout.hidden:
        return layout.hidden.field(name)
    try:
        return layout.schema.field(name)
    except ColumnNotFoundError as error:
        names = [*layout.schema.names, *layout.hidden.names]
        raise ColumnNotFoundError(name, near_names(name, names)) from error


def _with_filter_columns(reader: FileSliceReader, wanted: Schema) -> tuple[Field, ...]:
    names = set(wanted.names)
    extra = sorted({path[0] for path in columns_of(reader.predicate)} - names)
    return (*wanted.fields, *(_find(reader.layout, name) for name in extra))


def _completed(
    piece: PositionedBatch, base: BaseFile, constants: dict[str, object], fields: tuple[Field, ...], hidden: Schema
) -> pa.RecordBatch:
    """The rows of a piece with the columns that files do not hold, or not for every row."""
    batch = piece.batch
    if not any(field.name in constants or field.name in hidden for field in fields):
        return batch
    columns = []
    for field in fields:
        if field.name in constants:
            columns.append(pa.repeat(pa.scalar(constants[field.name], arrow_type(field.type)), batch.num_rows))
        elif field.name in hidden:
            columns.append(_hidden(field.name, piece, base))
        else:
            columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])


def _hidden(name: str, piece: PositionedBatch, base: BaseFile) -> pa.Array:
    rows = piece.batch.num_rows
    positions = pa.arange(piece.start, piece.start + rows)
    match name:
        case row.FILE:
            return pa.repeat(pa.scalar(base.logged_as or base.path), rows)
        case row.POSITION:
            return positions
        case row.ROW_ID:
            fresh = pc.add(positions, pa.scalar(base.base_row_id, pa.int64()))
            return pc.coalesce(piece.batch.column(name), fresh)
        case row.ROW_COMMIT_VERSION:
            return pc.coalesce(piece.batch.column(name), pa.scalar(base.row_commit_version, pa.int64()))
        case _:
            return piece.batch.column(name)


def _by_id_or_name(field: Field, candidates: list[pa.Field]) -> int | None:
    return by_field_id(field, candidates) if field.field_id is not None else by_stored_name(field, candidates)


def _without(batch: pa.RecordBatch, start: int, deleted: BitMap64) -> pa.RecordBatch:
    """The rows whose position, counted from `start`, is not deleted."""
    end = start + batch.num_rows
    if not batch.num_rows or not deleted.range_cardinality(start, end):
        return batch
    keep = bytearray(b"\x01") * batch.num_rows
    for position in deleted.iter_equal_or_larger(start):
        if position >= end:
            break
        keep[position - start] = 0
    mask = pc.equal(pa.Array.from_buffers(pa.uint8(), batch.num_rows, [None, pa.py_buffer(keep)]), 1)
    return batch.filter(mask)


def _select(batch: pa.RecordBatch, wanted: Schema) -> pa.RecordBatch:
    if not wanted.fields:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(wanted)])
    return pa.RecordBatch.from_arrays([batch.column(field.name) for field in wanted], schema=schema)
