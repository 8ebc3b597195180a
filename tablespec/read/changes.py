"""The changes of rows between two instants, asked for lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import assert_never

import attrs
import pyarrow as pa

from tablespec.arrow.evaluate import matching
from tablespec.arrow.schema import arrow_schema
from tablespec.errors import ChangesGoneError, DataFileMissingError, UnsupportedTableError
from tablespec.expr.nodes import TRUE, Predicate, columns_of
from tablespec.expr.rewrite import split
from tablespec.formats.base import TableFormat, TableState
from tablespec.model.change import (
    CHANGE_COLUMNS,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    CommitChanges,
    ExplicitChanges,
    Images,
    InferredChanges,
    KeyedChanges,
    SliceChange,
)
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.model.schema import Schema, column_names
from tablespec.read.file_index import At, Filters, bound_filters, starting_version, state_at
from tablespec.read.images import Changed, inferred
from tablespec.read.keyed import keyed
from tablespec.read.needs import everything, nameable
from tablespec.read.scan import TARGET_BYTES
from tablespec.read.slice_reader import FileSliceReader
from tablespec.read.task import TaskSlice, balanced


def changes(format_: TableFormat, after: At, upto: At, where: Filters, columns: Sequence[str] | None) -> ChangeScan:
    """The changes after `after` up to and including `upto` that match; None as `after` means from the beginning."""
    state = state_at(format_, upto)
    shown = change_schema(state.schema, format_.storage.url)
    named = change_schema(nameable(state.layout), format_.storage.url)
    return ChangeScan(
        format=format_,
        state=state,
        after=starting_version(format_, after, state),
        predicate=bound_filters(where, named),
        columns=shown.names if columns is None else named.select(column_names("columns", columns)).names,
    )


def change_schema(schema: Schema, table: str) -> Schema:
    """The columns of a table and those that tell what happened to a row and when."""
    taken = [name for name in CHANGE_COLUMNS.names if name in schema]
    if taken:
        feature = f"columns of its own named {', '.join(taken)}, the names of what a change tells"
        raise UnsupportedTableError(table, feature)
    return Schema((*schema.fields, *CHANGE_COLUMNS.fields))


@attrs.frozen(slots=False, eq=False, kw_only=True)
class ChangeScan:
    """The row changes of a stretch of the timeline that match a predicate; lazy, and can be read any number of times.

    Changes come in the order of their commits. Rows have the columns of the state at the end; the filter is about changes,
    so that of the two images of an updated row only one may match.
    """

    format: TableFormat = attrs.field(repr=False)
    state: TableState
    after: int
    columns: tuple[str, ...]
    predicate: Predicate = TRUE

    @property
    def instant(self) -> Instant:
        """The instant of the last commit whose changes are read."""
        return self.state.instant

    @property
    def schema(self) -> Schema:
        """The columns that come out."""
        return change_schema(nameable(self.state.layout), self.format.storage.url).select(self.columns)

    @cached_property
    def commits(self) -> tuple[CommitChanges, ...]:
        """What will be read, commit by commit."""
        about_rows, _ = split(self.predicate, lambda path: path[0] in self.state.schema)
        found = tuple(self.format.changes_between(self.state, self.after, about_rows))
        asked = {*self.columns, *(path[0] for path in columns_of(self.predicate))}
        for name in (name for name in self.state.layout.hidden.names if name in asked):
            for commit in found:
                _check_told(name, commit, self.format.storage.url)
        return found

    def tasks(self, target_bytes: int = TARGET_BYTES) -> list[ChangeTask]:
        """The work in pieces, in the order of commits; each is plain data and reads its changes wherever it is sent.

        Images that must be found among all files of a commit are one piece, however large.
        """
        layout, codec = self.state.layout, self.state.codec
        reader = FileSliceReader(storage=self.format.storage, layout=layout, codec=codec)
        return [
            ChangeTask(reader=reader, changes=piece, schema=self.schema, predicate=self.predicate)
            for commit in self.commits
            for piece in _pieces(commit, target_bytes)
        ]

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, batch by batch."""
        for task in self.tasks():
            try:
                yield from task.read()
            except ChangesGoneError as error:
                raise attrs.evolve(error, left=self._left()) from error

    def to_reader(self) -> pa.RecordBatchReader:
        """The changes as an Arrow stream."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """All changes in memory."""
        return pa.Table.from_batches(self.to_batches(), self.arrow_schema)

    def count(self) -> int:
        """The number of changes."""
        narrow = attrs.evolve(self, columns=(CHANGE_TYPE,))
        return sum(batch.num_rows for batch in narrow.to_batches())

    @property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the changes."""
        return _nullable(self.schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _left(self) -> int | None:
        """The version after which all files are still there; None when the last commit lacks one."""
        head = self.format.storage.head
        for commit in reversed(self.commits):
            if any(head(path) is None for path in _files(commit)):
                version = commit.instant.version
                return version if version < self.instant.version else None
        return None


@attrs.frozen(kw_only=True)
class ChangeTask:
    """One piece of the changes, all of one commit: plain data that pickles."""

    reader: FileSliceReader
    changes: CommitChanges
    schema: Schema
    predicate: Predicate = TRUE

    @property
    def size(self) -> int:
        """The bytes of the files to read, at most."""
        match self.changes:
            case ExplicitChanges(_, files):
                return sum(file.size for file in files)
            case InferredChanges(_, slices) | KeyedChanges(_, slices):
                return sum(change.slice.size for change in slices)
            case _:
                assert_never(self.changes)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The changes that match; raises ChangesGoneError where a file is not there any more."""
        instant = self.changes.instant
        try:
            for rows, types in self._changed():
                found = self._completed(rows, types, instant)
                if self.predicate != TRUE:
                    found = found.filter(matching(self.predicate, found))
                if found.num_rows:
                    chosen = found.select(self.schema.names)
                    # A batch that is made of no columns has no rows.
                    yield (
                        pa.RecordBatch.from_arrays(chosen.columns, schema=_nullable(self.schema))
                        if chosen.columns
                        else chosen
                    )
        except DataFileMissingError as error:
            why = f"the file {error.path} is not there any more"
            raise ChangesGoneError(self.reader.storage.url, instant.version, why) from error

    def _changed(self) -> Iterator[Changed]:
        table = self.reader.layout.schema
        asked = {*self.schema.names, *(path[0] for path in columns_of(self.predicate))}
        names = tuple(name for name in everything(self.reader.layout).names if name in asked)
        about_rows, _ = split(self.predicate, lambda path: path[0] in table)
        match self.changes:
            case ExplicitChanges(_, files):
                yield from _explicit(self.reader.push_down_filters(about_rows), names, files)
            case InferredChanges(images=Images.BY_ROW_ID):
                # An image that does not match may tell that the other one is an image.
                yield from inferred(self.reader.project(names), self.changes)
            case KeyedChanges():
                yield from keyed(self.reader.project(names), self.changes)
            case InferredChanges():
                yield from inferred(self.reader.project(names).push_down_filters(about_rows), self.changes)
            case _:
                assert_never(self.changes)

    def _completed(self, rows: pa.RecordBatch, types: pa.Array, instant: Instant) -> pa.RecordBatch:
        count = len(types)
        told = {
            CHANGE_TYPE: types,
            COMMIT_VERSION: pa.repeat(pa.scalar(instant.version, pa.int64()), count),
            COMMIT_TIMESTAMP: pa.repeat(pa.scalar(instant.time, pa.timestamp("us", tz="UTC")), count),
        }
        return pa.RecordBatch.from_arrays([*rows.columns, *told.values()], names=[*rows.schema.names, *told])


def _check_told(name: str, commit: CommitChanges, table: str) -> None:
    """Raise where changes of a commit do not tell a hidden column exactly."""
    match commit:
        case ExplicitChanges():
            told_by = "the change files of"
        case InferredChanges(_, slices, images) if images is not Images.BY_VALUE:
            bases = [one.base for change in slices for one in (change.before, change.after) if one and one.base]
            if name == ROW_ID and any(base.base_row_id is None for base in bases):
                told_by = "files without row ids in"
            elif name == ROW_COMMIT_VERSION and any(base.row_commit_version is None for base in bases):
                told_by = "files without commit versions in"
            else:
                return
        case InferredChanges():
            told_by = "equal rows of"
        case KeyedChanges():
            told_by = "the keys of rows in"
        case _:
            assert_never(commit)
    feature = f"the column {name} of changes that are told by {told_by} version {commit.instant.version}"
    raise UnsupportedTableError(table, feature, "read the changes of other versions, or other columns of these")


def _explicit(reader: FileSliceReader, names: tuple[str, ...], files: tuple[FileSlice, ...]) -> Iterator[Changed]:
    """The rows of change files, with what they say happened to them."""
    layout = reader.layout
    with_type = Schema((*layout.schema.fields, CHANGE_COLUMNS.field(CHANGE_TYPE)))
    reader = attrs.evolve(reader, layout=attrs.evolve(layout, schema=with_type)).project((*names, CHANGE_TYPE))
    for file in files:
        for batch in reader.open(file):
            yield batch.select(list(names)), batch.column(CHANGE_TYPE)


def _pieces(commit: CommitChanges, target_bytes: int) -> Iterator[CommitChanges]:
    """The changes of a commit in pieces that can be read apart."""
    match commit:
        case ExplicitChanges(instant, files):
            for group in balanced([TaskSlice(file, False) for file in files], target_bytes):
                yield ExplicitChanges(instant, tuple(one.slice for one in group))
        case InferredChanges(images=Images.BY_ROW_ID):
            yield commit
        case InferredChanges(instant, slices, Images.BY_VALUE):
            # Equal rows are in the same partition.
            partitions: dict[tuple[object, ...], list[SliceChange]] = {}
            for change in slices:
                partitions.setdefault(change.slice.partition_values, []).append(change)
            for of_partition in partitions.values():
                yield InferredChanges(instant, tuple(of_partition), Images.BY_VALUE)
        case InferredChanges(instant, slices):
            for changes_ in balanced(slices, target_bytes):
                yield InferredChanges(instant, changes_)
        case KeyedChanges(_, slices):
            for changes_ in balanced(slices, target_bytes):
                yield attrs.evolve(commit, slices=changes_)
        case _:
            assert_never(commit)


def _files(commit: CommitChanges) -> Iterator[str]:
    """The paths of all files that the changes of a commit are told by."""
    match commit:
        case ExplicitChanges(_, files):
            slices = list(files)
        case InferredChanges(_, changed) | KeyedChanges(_, changed):
            slices = [slice_ for change in changed for slice_ in (change.before, change.after) if slice_ is not None]
        case _:
            assert_never(commit)
    for slice_ in slices:
        if slice_.base is not None:
            yield slice_.base.path
        yield from (log.path for log in slice_.logs)
        if slice_.deletes is not None and slice_.deletes.path is not None:
            yield slice_.deletes.path


def _nullable(schema: Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
