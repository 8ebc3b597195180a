"""The rows of a state that were inserted or changed after a version, asked for lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import assert_never

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.arrow.schema import arrow_schema
from tablespec.errors import ChangesGoneError, DataFileMissingError, InstantNotFoundError
from tablespec.expr.nodes import TRUE, Column, In, Literal, Predicate, all_of
from tablespec.formats.base import CompletionClock, TableFormat, TableState
from tablespec.model.change import AllRows, FreshSlice, MarkedRows, NewerRows, ReturnedRows, WrittenRows
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.reading import Incremental
from tablespec.model.schema import STRING, Schema, column_names
from tablespec.read.file_index import (
    At,
    Filters,
    about_table,
    bound_filters,
    completion_of,
    path_of,
    starting_version,
    state_at,
)
from tablespec.read.needs import nameable
from tablespec.read.scan import TARGET_BYTES
from tablespec.read.slice_reader import FileSliceReader
from tablespec.read.task import balanced


def incremental(
    format_: TableFormat, after: At, upto: At, where: Filters, columns: Sequence[str] | None
) -> IncrementalScan:
    """The rows of the state at `upto` that match and are newer than `after`; None as `after` makes all rows new."""
    state, start = _window(format_, after, upto)
    return IncrementalScan(
        format=format_,
        state=state,
        after=start,
        predicate=bound_filters(where, nameable(state.layout)),
        columns=None if columns is None else column_names("columns", columns),
    )


def _window(format_: TableFormat, after: At, upto: At) -> tuple[TableState, int]:
    """The state at the end of a window, and where it begins by the clock of the format."""
    if not isinstance(format_, CompletionClock):
        state = state_at(format_, upto)
        return state, starting_version(format_, after, state)
    first, last = (None if at is None else completion_of(format_, at, format_.storage.url) for at in (after, upto))
    if first is not None and last is not None and first > last:
        raise InstantNotFoundError(
            format_.storage.url, f"after {first} up to {last}", "an end that is not before its start"
        )
    return format_.window(first, last), -1 if first is None else first


@attrs.frozen(slots=False, eq=False, kw_only=True)
class IncrementalScan:
    """The rows of one state that are newer than a version and match a predicate; lazy, and can be read any number of times.

    New is a row with a later commit version: it was inserted or changed since. Rows that were only moved keep theirs. Rows without a
    commit version are as new as their file, and rows that a restore brought back as new as the restore.
    """

    format: TableFormat = attrs.field(repr=False)
    state: TableState
    after: int
    predicate: Predicate = TRUE
    columns: tuple[str, ...] | None = None

    @property
    def instant(self) -> Instant:
        """The instant whose state is read."""
        return self.state.instant

    @property
    def schema(self) -> Schema:
        """The columns that come out."""
        return self.reader.schema

    @cached_property
    def slices(self) -> tuple[FreshSlice, ...]:
        """The slices that will be looked at, in path order."""
        told, _ = about_table(self.predicate, self.state.schema)
        found = self.format.fresh_slices(self.state, self.after, told)
        return tuple(sorted(found, key=lambda one: path_of(one.slice)))

    @cached_property
    def reader(self) -> FileSliceReader:
        """The reader of single slices, without the filter."""
        layout, codec = self.state.layout, self.state.codec
        return FileSliceReader(storage=self.format.storage, layout=layout, codec=codec).project(self.columns)

    def tasks(self, target_bytes: int = TARGET_BYTES) -> list[IncrementalTask]:
        """The work in pieces of about equal size; each is plain data and reads its rows wherever it is sent."""
        return [
            IncrementalTask(self.reader, self.predicate, self.after, group)
            for group in balanced(self.slices, target_bytes)
        ]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; no more than one slice is open at a time."""
        for task in self.tasks():
            yield from task.read()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All rows in memory."""
        return pa.Table.from_batches(self.to_batches(), self.arrow_schema)

    def count(self) -> int:
        """The number of rows."""
        bare = attrs.evolve(self, columns=())
        return sum(batch.num_rows for batch in bare.to_batches())

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return pa.schema([field.with_nullable(True) for field in arrow_schema(self.schema)])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


@attrs.frozen
class IncrementalTask:
    """One piece of an incremental scan: plain data that pickles."""

    reader: FileSliceReader
    predicate: Predicate
    after: int
    slices: tuple[FreshSlice, ...]

    @property
    def size(self) -> int:
        """The bytes of the files to read."""
        return sum(one.slice.size for one in self.slices)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The new rows of the slices that match."""
        reader = self.reader if self.predicate == TRUE else self.reader.push_down_filters(self.predicate)
        for fresh in self.slices:
            match fresh.rows:
                case AllRows():
                    yield from reader.open(fresh.slice)
                case NewerRows():
                    yield from reader.reading_mode(Incremental(self.after)).open(fresh.slice)
                case WrittenRows(instants):
                    yield from reader.open_written_by(fresh.slice, instants)
                case MarkedRows(column, values):
                    marked = In(Column((column,), STRING), tuple(Literal(value, STRING) for value in values))
                    yield from self.reader.push_down_filters(all_of((self.predicate, marked))).open(fresh.slice)
                case ReturnedRows(deleted):
                    before = self._deleted_before(attrs.evolve(fresh.slice, deletes=deleted))
                    yield from reader.open_at(fresh.slice, before - (reader.deleted(fresh.slice) or BitMap64()))
                case _:
                    assert_never(fresh.rows)

    def _deleted_before(self, slice_: FileSlice) -> BitMap64:
        """The rows that were deleted at the start; the state at the end does not need that vector, so that it may be gone."""
        try:
            return self.reader.deleted(slice_) or BitMap64()
        except DataFileMissingError as error:
            why = f"the file {error.path} with the rows deleted before is not there any more"
            raise ChangesGoneError(self.reader.storage.url, self.after + 1, why) from error
