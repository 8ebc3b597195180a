"""The rows of a slice: the reading half of an engine's integration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.convert import Finder, Places, by_field_id, by_logical_name, by_stored_name
from tablespec.arrow.evaluate import matching
from tablespec.arrow.parquet import PositionedBatch, no_columns, read_positioned, read_rows
from tablespec.arrow.parquet_file import open_rows
from tablespec.arrow.positions import outside
from tablespec.arrow.schema import arrow_type
from tablespec.arrow.tracked import commit_versions, row_ids
from tablespec.errors import CorruptFileError, DataFileMissingError, InvalidOptionError, UnsupportedTableError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Column, Compare, IsNull, Literal, Op, Or, Predicate, all_of
from tablespec.formats.base import MergingCodec, SliceCodec
from tablespec.formats.layout import ReadLayout
from tablespec.model import row
from tablespec.model.file import BaseFile, FileSlice
from tablespec.model.reading import Cdc, Incremental, ReadingMode, ReadOptimized, Snapshot
from tablespec.model.schema import LONG, Field, Schema, column_names
from tablespec.read.known import Known, Mark
from tablespec.read.needs import Columns, Needs, about_row_groups, column, everything, needs_of
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class FileSliceReader:
    """Reads slices as Arrow record batches; every setting gives a new reader, and readers pickle.

    Rows come in the order of the file. Filters remove rows here already: what comes out matches.
    """

    storage: Storage
    layout: ReadLayout = attrs.field(repr=False)
    codec: SliceCodec = attrs.field(repr=False)
    columns: tuple[str, ...] | None = None
    predicate: Predicate = TRUE
    mode: ReadingMode = Snapshot()

    def project(self, columns: Sequence[str] | Schema | None) -> FileSliceReader:
        """Give these columns in this order; None gives all that are not hidden."""
        names = columns.names if isinstance(columns, Schema) else columns
        reader = attrs.evolve(self, columns=None if names is None else column_names("columns", names))
        reader.schema  # noqa: B018 - an unknown column is told here and not on a worker
        return reader

    def push_down_filters(self, filters: Predicate | str) -> FileSliceReader:
        """Give only rows that match."""
        return attrs.evolve(self, predicate=bind(filters, everything(self.layout)))

    def reading_mode(self, mode: ReadingMode) -> FileSliceReader:
        """Read in that mode."""
        if not isinstance(mode, ReadingMode):
            expected = "Snapshot(), ReadOptimized(), Incremental(after) or Cdc(after)"
            raise InvalidOptionError("mode", repr(mode), expected)
        return attrs.evolve(self, mode=mode)

    @cached_property
    def schema(self) -> Schema:
        """The columns that come out."""
        if self.columns is None:
            return self.layout.schema
        return Schema(tuple(column(self.layout, name) for name in self.columns))

    def open(self, slice_: FileSlice, known: Known | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, batch by batch; nothing is read before the first is asked for.

        What is `known` about the rows of the base file saves looking at others, and stands for the filter.
        """
        match self.mode:
            case Snapshot() if slice_.logs:
                yield from self._merged(slice_, None)
                return
            case Snapshot():
                deleted = self.deleted(slice_)
            case ReadOptimized():
                deleted = None
            case Incremental(after, upto) if isinstance(self.codec, MergingCodec):
                yield from self._merged(slice_, self.codec.instants_between(after, upto))
                return
            case Incremental(after):
                yield from self._newer_than(after).open(slice_)
                return
            case Cdc():
                way_out = "file_index.list_changes_between tells which slices changed, and Table.changes reads them"
                raise UnsupportedTableError(self.storage.url, "the reading mode Cdc on single slices", way_out)
            case _:
                assert_never(self.mode)
        if slice_.base is None:
            return
        yield from self._rows(slice_, slice_.base, deleted, known=known)

    def open_written_by(self, slice_: FileSlice, instants: frozenset[int]) -> Iterator[pa.RecordBatch]:
        """The rows of a slice that these instants wrote, merged among themselves."""
        yield from self._merged(slice_, instants)

    def open_at(self, slice_: FileSlice, positions: BitMap64) -> Iterator[pa.RecordBatch]:
        """The rows of the base file at these positions, deleted or not; row groups without any are not read."""
        if positions and slice_.base is not None:
            yield from self._rows(slice_, slice_.base, None, positions)

    def deleted(self, slice_: FileSlice) -> BitMap64 | None:
        """The positions of the deleted rows of the base file, or None for none."""
        try:
            return self.codec.deleted_positions(self.storage, slice_)
        except FileNotFoundError as error:
            assert slice_.deletes is not None
            raise DataFileMissingError(self.storage.url, slice_.deletes.path or "") from error

    def kept(self, slice_: FileSlice) -> pa.BooleanArray | None:
        """For each row of a base file, as many as the log says, whether it is still there; None where all are."""
        deleted, base = self.deleted(slice_), slice_.base
        if not deleted or base is None:
            return None
        return outside(deleted, 0, base.rows or 0)

    def _newer_than(self, after: int) -> FileSliceReader:
        """This reader for the rows with a later commit version, and for those that have none."""
        if row.ROW_COMMIT_VERSION not in self.layout.hidden:
            feature = f"a column of its own named {row.ROW_COMMIT_VERSION}, the name of what incremental reads go by"
            raise UnsupportedTableError(self.storage.url, feature)
        version = Column((row.ROW_COMMIT_VERSION,), LONG)
        newer = Or((IsNull(version), Compare(Op.GT, version, Literal(after, LONG))))
        return attrs.evolve(self, predicate=all_of((self.predicate, newer)), mode=Snapshot())

    def _merged(self, slice_: FileSlice, instants: frozenset[int] | None) -> Iterator[pa.RecordBatch]:
        """The rows of a slice whose log records must be merged with its base file."""
        if not isinstance(self.codec, MergingCodec):
            raise UnsupportedTableError(self.storage.url, "log files", "read it in the mode ReadOptimized")
        constants = dict(zip(self.layout.constants, slice_.partition_values))
        needs = self._needs
        fields = (*needs.wanted.fields, *needs.tested.fields)
        needed = Schema(tuple(dict.fromkeys(field for field in fields if field.name not in constants)))
        # A row group without a match may hold the older version of a row, or the only one that a log record changes.
        pushed = TRUE if slice_.logs else about_row_groups(self.layout, self.predicate, {*constants})

        def read_base(schema: Schema) -> Iterator[pa.RecordBatch]:
            if slice_.base is not None:
                yield from (piece.batch for piece in self._pieces(slice_, slice_.base, schema, pushed))

        for batch in self.codec.merged(self.storage, slice_, needed, read_base, instants):
            made = _Made(None, constants, self.layout.hidden, PositionedBatch(0, batch, needed, by_logical_name))
            if self.predicate != TRUE:
                made = made.filtered(matching(self.predicate, made.columns(needs.tested)))
            if made.rows:
                yield made.columns(needs.wanted)

    def _rows(
        self,
        slice_: FileSlice,
        base: BaseFile,
        deleted: BitMap64 | None,
        positions: BitMap64 | None = None,
        known: Known | None = None,
    ) -> Iterator[pa.RecordBatch]:
        marks, needs = tuple[Mark, ...](), self._needs
        if known is not None:
            marks, positions = known.marks, known.rows
            needs = needs_of(self.layout, self.schema, known.predicate, [mark.name for mark in marks])
        constants = dict(zip(self.layout.constants, slice_.partition_values))
        seldom = needs.untested if needs.tested.fields or positions is not None else frozenset[str]()
        for piece in self._pieces(slice_, base, needs.stored, needs.pushed, positions, seldom):
            made = _Made(base, constants, self.layout.hidden, piece)
            kept = None if deleted is None else _not_deleted(piece, deleted)
            if positions is not None and piece.chosen is None:
                chosen = piece.among(positions)
                kept = chosen if kept is None else pc.and_(kept, chosen)
            if needs.predicate != TRUE:
                matched = matching(needs.predicate, _marked(made.columns(needs.tested), piece, marks))
                kept = matched if kept is None else pc.and_(kept, matched)
            if kept is not None:
                made = made.filtered(kept)
            if made.rows:
                yield made.columns(needs.wanted)

    @cached_property
    def _needs(self) -> Needs:
        return needs_of(self.layout, self.schema, self.predicate)

    def _pieces(
        self,
        slice_: FileSlice,
        base: BaseFile,
        needed: Schema,
        pushed: Predicate,
        positions: BitMap64 | None = None,
        seldom: Collection[str] = (),
    ) -> Iterator[PositionedBatch]:
        """The rows of the base file; of the columns `seldom` few of them will be wanted."""
        needed = needed.stored_as(dict(slice_.stored_names))
        find: Finder = _by_id_or_name if self.layout.by_field_id else by_stored_name
        try:
            with open_rows(self.storage, base.path, needed, find, seldom) as file:
                # Where the log has statistics of a file, they have told what the footer of a single row group could tell.
                rows = None if positions is None else read_rows(self.storage, base.path, file, needed, find, positions)
                if rows is not None:
                    yield rows
                    return
                told = base.rows is not None and file.metadata.num_row_groups == 1
                yield from read_positioned(file, needed, find, TRUE if told else pushed, positions=positions)
        except FileNotFoundError as error:
            raise DataFileMissingError(self.storage.url, base.path) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptFileError(self.storage.url, base.path, str(error)) from error


def _marked(batch: pa.RecordBatch, piece: PositionedBatch, marks: tuple[Mark, ...]) -> pa.RecordBatch:
    """Columns of rows of a file, with those that an index knows."""
    for mark in marks:
        true, null = piece.among(BitMap64.deserialize(mark.true)), piece.among(BitMap64.deserialize(mark.null))
        batch = batch.append_column(mark.name, pc.if_else(null, pa.scalar(None, pa.bool_()), true))
    return batch


@attrs.frozen(eq=False)
class _Made:
    """Rows of a file, with columns made on demand that files do not hold, or not for every row."""

    base: BaseFile | None
    constants: dict[str, object]
    hidden: Schema
    piece: PositionedBatch

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.piece.rows

    def filtered(self, kept: pa.BooleanArray) -> _Made:
        """The rows for which the mask is true."""
        rows = pc.indices_nonzero(kept)
        return self if len(rows) == self.rows else _Made(self.base, self.constants, self.hidden, self.piece.take(rows))

    def columns(self, columns: Columns) -> pa.RecordBatch:
        """Some columns of the rows."""
        if not columns.fields:
            return no_columns(self.rows)
        return pa.RecordBatch.from_arrays(list(map(self._column, columns.fields)), schema=columns.arrow)

    def _column(self, field: Field) -> pa.Array:
        if field.name in self.constants:
            return pa.repeat(pa.scalar(self.constants[field.name], arrow_type(field.type)), self.rows)
        if field.name not in self.hidden or self.base is None:
            return self.piece.column(field.name)
        match field.name:
            case row.FILE:
                return pa.repeat(pa.scalar(self.base.logged_as or self.base.path), self.rows)
            case row.POSITION:
                return self.piece.positions
            case row.ROW_ID:
                return row_ids(self.piece, self.base.base_row_id)
            case row.ROW_COMMIT_VERSION:
                return commit_versions(self.piece, self.base.row_commit_version, self.base.returned)
            case _:
                return self.piece.column(field.name)


def _by_id_or_name(candidates: Sequence[pa.Field]) -> Places:
    by_id, by_name = by_field_id(candidates), by_stored_name(candidates)
    return lambda field: by_name(field) if field.field_id is None else by_id(field)


def _not_deleted(piece: PositionedBatch, deleted: BitMap64) -> pa.BooleanArray | None:
    """A mask of the rows whose position is not deleted; None when that is all of them."""
    start, rows = piece.start, piece.rows
    if piece.chosen is None and (not rows or not deleted.range_cardinality(start, start + rows)):
        return None
    return piece.outside(deleted)
