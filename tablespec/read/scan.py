"""Rows of a table, asked for lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_schema
from tablespec.arrow.stream import worked_ahead
from tablespec.expr.nodes import TRUE, Predicate, all_of
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import JudgedSlice, MergingCodec, Survey, TableFormat, TableState
from tablespec.model.bulk import made_in_bulk
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.reading import ReadingMode, ReadOptimized, Snapshot
from tablespec.model.schema import Schema, column_names
from tablespec.read.file_index import At, Filters, bound_filters, judged_slices, state_at
from tablespec.read.known import KnownSlice, Narrower, narrowed
from tablespec.read.needs import nameable
from tablespec.read.slice_reader import FileSliceReader
from tablespec.read.task import ReadTask, TaskSlice, balanced
from tablespec.storage.store import Storage

TARGET_BYTES = 128 << 20


def scan(
    format_: TableFormat,
    where: Filters = None,
    columns: Sequence[str] | None = None,
    at: At = None,
    *,
    index: Narrower | None = None,
    mode: ReadingMode = Snapshot(),
) -> Scan:
    """The rows of a table that match, as of an instant."""
    state = state_at(format_, at)
    names = None if columns is None else column_names("columns", columns)
    predicate = bound_filters(where, nameable(state.layout))
    return Scan(storage=format_.storage, state=state, predicate=predicate, columns=names, mode=mode, index=index)


@attrs.frozen(slots=False, eq=False, kw_only=True)
class Scan:
    """The rows of one state of a table that match a predicate; lazy, and can be read any number of times."""

    storage: Storage
    state: TableState
    predicate: Predicate = TRUE
    columns: tuple[str, ...] | None = None
    mode: ReadingMode = Snapshot()
    index: Narrower | None = attrs.field(default=None, repr=False)
    merging: bool | None = None

    @property
    def instant(self) -> Instant:
        """The instant whose state is read."""
        return self.state.instant

    @property
    def schema(self) -> Schema:
        """The columns that come out."""
        return self.reader.schema

    @cached_property
    def slices(self) -> tuple[JudgedSlice, ...]:
        """The slices that will be read, in path order."""
        return tuple(one.judged for one in self.known_slices)

    @cached_property
    def known_slices(self) -> tuple[KnownSlice, ...]:
        """The slices that will be read, with what an index knows about their rows."""
        with made_in_bulk():
            judged = judged_slices(self.state, self.predicate)
            if self.merging is not None:
                judged = [one for one in judged if self._needs_merge(one.slice) is self.merging]
            return narrowed(self.index, self.state, self.predicate, judged)

    def divided(self) -> tuple[Scan, Scan] | None:
        """The scan in two: of slices that any Parquet reader can read, and of those that must be merged; None where none must."""
        may_merge = isinstance(self.state.codec, MergingCodec)
        if not may_merge or not any(map(self._needs_merge, self.survey().unclean)):
            return None
        return attrs.evolve(self, merging=False), attrs.evolve(self, merging=True)

    def _needs_merge(self, slice_: FileSlice) -> bool:
        if isinstance(self.mode, ReadOptimized):
            return slice_.base is None or bool(slice_.stored_names)
        return slice_.needs_merge

    def survey(self) -> Survey:
        """What the slices are altogether; without a predicate they are not looked at one by one."""
        if self.predicate == TRUE and self.merging is None:
            return self.state.files.survey()
        slices = [judged.slice for judged in judged_slices(self.state, self.predicate)]
        if self.merging is not None:
            slices = [slice_ for slice_ in slices if self._needs_merge(slice_) is self.merging]
        unclean = tuple(slice_ for slice_ in slices if not slice_.is_clean)
        return Survey(bytes=sum(slice_.size for slice_ in slices), unclean=unclean)

    @cached_property
    def reader(self) -> FileSliceReader:
        """The reader of single slices, without the filter."""
        layout, codec = self.state.layout, self.state.codec
        reader = FileSliceReader(storage=self.storage, layout=layout, codec=codec, mode=self.mode)
        return reader.project(self.columns)

    def where(self, filters: Filters) -> Scan:
        """The same scan for the rows that also match further filters."""
        more = bound_filters(filters, nameable(self.state.layout))
        return attrs.evolve(self, predicate=all_of((self.predicate, more)))

    def tasks(self, target_bytes: int = TARGET_BYTES) -> list[ReadTask]:
        """The work in pieces of about equal size; each is plain data and reads its rows wherever it is sent."""
        pieces = [_piece(one) for one in self.known_slices]
        return [ReadTask(self.reader, self.predicate, group) for group in balanced(pieces, target_bytes)]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch, slice after slice; no more than one is open at a time."""
        yield from self._whole().read()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows in memory, slice after slice; as many are read at a time as there are processors."""
        whole = self._whole()
        opened = whole.opener()
        parts = worked_ahead(lambda piece: tuple(opened(piece)), whole.slices, pa.cpu_count())
        return pa.Table.from_batches((batch for part in parts for batch in part), self.arrow_schema)

    def count(self) -> int:
        """The number of rows; slices whose rows all match are counted without being read where the log knows how many they hold."""
        total = 0
        for found in self.known_slices:
            one = found.judged
            known = one.slice.rows if one.verdict is Verdict.ALWAYS and isinstance(self.mode, Snapshot) else None
            if known is not None:
                total += known
                continue
            task = ReadTask(self.reader.project(()), self.predicate, (_piece(found),))
            total += sum(batch.num_rows for batch in task.read())
        return total

    def _whole(self) -> ReadTask:
        return ReadTask(self.reader, self.predicate, tuple(_piece(one) for one in self.known_slices))

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([field.with_nullable(True) for field in arrow_schema(self.schema)])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def _piece(found: KnownSlice) -> TaskSlice:
    return TaskSlice(found.judged.slice, found.judged.verdict is Verdict.ALWAYS, found.known)
