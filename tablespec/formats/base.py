"""The port that every table format implements, and the values that cross it.

A format that can be read is a `TableFormat`; one that can also be written is a `WritableFormat`. Nothing above this layer names a
concrete format.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.expr.nodes import Predicate
from tablespec.expr.verdict import Verdict
from tablespec.formats.layout import ReadLayout, WriteLayout
from tablespec.model.change import CommitChanges, FreshSlice
from tablespec.model.file import FileGroupId, FileSlice, LogFile, Returned
from tablespec.model.instant import Instant, Timeline
from tablespec.model.schema import Schema
from tablespec.model.stats import FileStats
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class OpenOptions:
    """How a table is to be read, where its format leaves a choice; only Hudi tables do.

    `schema_on_read` finds columns in older files by their ids, so that renamed ones keep their values; without it by name, as Hudi does
    unless it is told otherwise. `metadata_table` lists files from the table's own index where that is valid, with the same outcome.
    """

    schema_on_read: bool = False
    metadata_table: bool = True


@attrs.frozen
class JudgedSlice:
    """A slice that may hold matching rows, and whether all its rows match (ALWAYS) or it must be read to know (MAYBE)."""

    slice: FileSlice
    verdict: Verdict


@attrs.frozen(kw_only=True)
class LiveFile:
    """A file that may hold matching rows, with what its format needs to change or remove it.

    `origin` is opaque, plain data.
    """

    slice: FileSlice
    verdict: Verdict
    origin: bytes


class SliceCodec(Protocol):
    """What a format knows about the inside of its slices; picklable."""

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64 | None:
        """The physical positions of the rows of the base file that are deleted, or None for none."""
        ...


@runtime_checkable
class MergingCodec(SliceCodec, Protocol):
    """A codec of slices that may have log files, whose records must be merged with those of the base file."""

    def merged(
        self,
        storage: Storage,
        slice_: FileSlice,
        wanted: Schema,
        read_base: Callable[[Schema], Iterator[pa.RecordBatch]],
        instants: frozenset[int] | None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a slice with at least the wanted columns, in no particular order.

        `read_base` gives columns of the base file. With `instants` only the rows and log blocks that these instants wrote are merged.
        """
        ...

    def instants_between(self, after: int, upto: int | None) -> frozenset[int]:
        """The instants whose rows are new in a window; which clock counts is for the format to say."""
        ...


@attrs.frozen(eq=False)
class LoggedChanges:
    """Changes that a writer noted: what happened (i, u or d) to which key, and the rows before and after where it noted them too."""

    operations: pa.Array
    keys: pa.Array | None
    before: pa.RecordBatch | None
    after: pa.RecordBatch | None


@runtime_checkable
class LoggingCodec(SliceCodec, Protocol):
    """A codec of tables whose writers note changes in files of their own."""

    def logged_changes(self, storage: Storage, files: Sequence[LogFile], columns: Schema) -> Iterator[LoggedChanges]:
        """The changes in files, with these columns of the rows."""
        ...

    def record_keys(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The keys of rows as these files spell them, given the columns that rows are known by."""
        ...


@attrs.frozen(kw_only=True)
class Survey:
    """What files are altogether, for planners: about how many bytes, and which slices are more than their base file."""

    bytes: int
    unclean: tuple[FileSlice, ...]


class FileSet(Protocol):
    """Files that can be asked which of them may hold matching rows."""

    def judge(self, predicate: Predicate) -> Sequence[JudgedSlice]:
        """Every slice but those that cannot match, in no particular order; `predicate` is bound to the schema."""
        ...


class StateFiles(FileSet, Protocol):
    """All files of a state."""

    def all(self) -> Sequence[FileSlice]:
        """Every slice, in no particular order."""
        ...

    def survey(self) -> Survey:
        """What they are altogether, told without looking at each."""
        ...


class TableState(Protocol):
    """A table at one instant."""

    @property
    def instant(self) -> Instant: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def partition_columns(self) -> tuple[str, ...]: ...
    @property
    def record_key(self) -> tuple[str, ...]: ...
    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def constraints(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def files(self) -> StateFiles: ...
    @property
    def layout(self) -> ReadLayout: ...
    @property
    def codec(self) -> SliceCodec: ...


@attrs.frozen
class KeyLocations:
    """The file groups in which some record keys lie, by an index that knows one row of each key and `entries` keys altogether."""

    groups: frozenset[FileGroupId]
    entries: int


@runtime_checkable
class LocatesKeys(Protocol):
    """A state of a table whose writers keep an index of record keys."""

    def key_locations(self, keys: Sequence[pa.Array]) -> KeyLocations | None:
        """Where the keys lie, given as the columns of the record key; None where no index can tell."""
        ...


@attrs.frozen(kw_only=True)
class TableInfo:
    """What a person wants to know about a table at first sight."""

    format: str
    name: str
    id: str
    description: str
    protocol: tuple[tuple[str, str], ...]


@attrs.frozen(kw_only=True)
class HistoryEntry:
    """What one commit did, for people."""

    instant: Instant
    operation: str
    parameters: tuple[tuple[str, str], ...] = ()
    metrics: tuple[tuple[str, str], ...] = ()
    engine: str = ""
    files_added: int = 0
    files_removed: int = 0


@runtime_checkable
class TableFormat(Protocol):
    """A table that can be read."""

    @property
    def storage(self) -> Storage: ...
    def timeline(self) -> Timeline:
        """All completed instants that can still be named, oldest first."""
        ...

    def latest(self) -> TableState:
        """The newest state; cheap when nothing has changed since the last call."""
        ...

    def state_at(self, version: int) -> TableState:
        """The state right after that version; raises InstantNotFoundError when it cannot be told any more."""
        ...

    def added_between(self, start: int | None, end: int) -> frozenset[str]:
        """Paths of the base files, current at `end`, that may hold rows inserted or changed after `start`."""
        ...

    def fresh_slices(self, state: TableState, after: int, predicate: Predicate) -> Sequence[FreshSlice]:
        """The slices of that state that may hold a matching row inserted or changed after a version; below 0 all are new.

        Costs what the commits in between cost, whatever the size of the table. Raises ChangesGoneError when one of them is gone.
        """
        ...

    def changes_between(self, state: TableState, after: int, predicate: Predicate) -> Sequence[CommitChanges]:
        """What each commit after a version up to that state did to rows, oldest first; commits that did nothing are left out.

        Files that cannot hold a match may be left out. Raises ChangesGoneError when a commit in between is gone.
        """
        ...

    def history(self, limit: int | None = None) -> Sequence[HistoryEntry]:
        """What each instant did, newest first; with a limit only the newest, and older ones are not looked at."""
        ...

    def info(self, state: TableState) -> TableInfo:
        """What a person wants to know about the table in that state."""
        ...

    def problems(self) -> Sequence[str]:
        """What is wrong with the log or its files, one sentence each; empty for a sound table."""
        ...


@runtime_checkable
class CompletionClock(Protocol):
    """A table whose incremental windows go by when actions were completed, which need not be the order of their versions.

    Such times are numbers that order like times; the bounds of a window are given as such.
    """

    def completion_of(self, version: int) -> int:
        """When the action of that version was completed; a number that is no version is taken for a time of completion itself."""
        ...

    def completion_at(self, millis: int) -> int:
        """The number of a time in milliseconds UTC."""
        ...

    def window(self, after: int | None, upto: int | None) -> TableState:
        """The state to read for what was completed after a time up to another one; None leaves that side open.

        Its instant is the last one completed in the window, so that the next window begins after it.
        """
        ...


@attrs.frozen(kw_only=True)
class NewFile:
    """A data file that a worker has written and no reader can see yet."""

    path: str
    size: int
    modified: int
    partition_values: tuple[object, ...]
    stats: FileStats
    group: str
    form: str = ""


class Profile(enum.Enum):
    """What a new native table asks of other clients.

    OPEN: every known client may read and write it; row ids and in-commit timestamps are written, though not promised.
    STRICT: row ids and in-commit timestamps are declared, so clients that cannot keep them may only read.
    """

    OPEN = "open"
    STRICT = "strict"


@attrs.frozen
class ReadsNothing:
    """The operation does not depend on what is in the table (a blind append)."""


@attrs.frozen
class ReadsWhere:
    """The operation depends on the rows that match a bound predicate.

    `files` are the files, by their paths as logged, that may have held such rows; None stands for all files of the table.
    """

    predicate: Predicate
    files: frozenset[str] | None = None


ReadSet = ReadsNothing | ReadsWhere


@attrs.frozen(kw_only=True)
class Change:
    """Everything that one commit does to a table.

    `schema`, `properties` and `partition_columns` are None where they stay as they are. `domains` are texts that the table keeps under
    names of their own; None drops one.
    """

    operation: str
    parameters: tuple[tuple[str, str], ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()
    adds: tuple[NewFile, ...] = ()
    # Files that go, by their origins, and files that stay with other deleted rows, by their old and new origins.
    removes: tuple[bytes, ...] = ()
    revised: tuple[tuple[bytes, bytes], ...] = ()
    # Files of an older state that the table has again, by their origins.
    restored: tuple[bytes, ...] = ()
    change_files: tuple[NewFile, ...] = ()
    # The paths, as logged, of all files that go or are revised.
    touched: frozenset[str] = frozenset()
    data_change: bool = True
    # What tablespec wants to remember about the commit, as JSON text.
    details: tuple[tuple[str, str], ...] = ()
    schema: Schema | None = None
    properties: tuple[tuple[str, str], ...] | None = None
    partition_columns: tuple[str, ...] | None = None
    domains: tuple[tuple[str, str | None], ...] = ()
    transactions: tuple[tuple[str, int], ...] = ()
    reads: ReadSet = ReadsNothing()
    features: frozenset[str] = frozenset()
    operation_id: str = ""
    auto_upgrade: bool = True


@attrs.frozen
class Committed:
    """The change is durable as this instant."""

    instant: Instant


@attrs.frozen
class Lost:
    """Another commit has taken this version."""

    version: int


@attrs.frozen(kw_only=True)
class WinningCommit:
    """What a commit that came in between has done, as far as conflicts go.

    Files are named by their paths as logged; one whose deleted rows changed is both added and removed.
    """

    version: int
    operation_id: str
    blind_append: bool
    data_change: bool
    added: FileSet
    added_paths: frozenset[str]
    removed: frozenset[str]
    metadata_changed: bool
    # Whether the change of the metadata says no more than that rows may be deleted by vectors from now on.
    vectors_allowed: bool
    protocol_changed: bool
    features_dropped: bool
    transactions: frozenset[str]
    domains: frozenset[str]


@runtime_checkable
class WritableFormat(TableFormat, Protocol):
    """A table that can be written."""

    def check_writable(self, state: TableState, operation: str) -> None:
        """Raise when the protocol of that state does not let this release write."""
        ...

    def check_removable(self, state: TableState, operation: str) -> None:
        """Raise when that state does not let rows go."""
        ...

    def write_layout(self, state: TableState, schema: Schema) -> WriteLayout:
        """How files must be written for that state, once its columns are those of `schema`."""
        ...

    def grown(self, state: TableState, schema: Schema) -> Schema:
        """`schema` as the next commit will record it: new columns get what the format gives every column."""
        ...

    def live_files(self, state: TableState, predicate: Predicate) -> Sequence[LiveFile]:
        """The files of that state that may hold a match of a bound predicate, in path order."""
        ...

    def revise(self, state: TableState, deleted: Sequence[tuple[bytes, BitMap64]]) -> Sequence[tuple[bytes, bytes]]:
        """Write which rows of files, given by their origins, are deleted now; gives old and new origins for a change.

        The positions include those that were deleted before. Nothing is visible before the change is committed.
        """
        ...

    def try_commit(self, change: Change, state: TableState) -> Committed | Lost:
        """Write the next version after `state` unless somebody else has."""
        ...

    def commits_after(self, version: int) -> Sequence[WinningCommit]:
        """The commits after `version` up to the newest, oldest first."""
        ...

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest state and tell how many files it lists."""
        ...

    def after_commit(self, instant: Instant) -> None:
        """Housekeeping that a durable commit asks for, such as a checkpoint; its failure does not undo the commit."""
        ...


@runtime_checkable
class RecordsTransactions(Protocol):
    """A table that remembers how far applications have come that write to it."""

    def transaction(self, state: TableState, application: str) -> int | None:
        """The number that an application recorded last."""
        ...


@runtime_checkable
class WritesVectors(Protocol):
    """A table that writes files for what `revise` is told."""

    def vector_files(self, revised: Sequence[tuple[bytes, bytes]]) -> frozenset[str]:
        """The files that `revise` wrote for these origins, by their paths."""
        ...


@runtime_checkable
class KnowsVersions(Protocol):
    """A table that knows how new the rows of files are which keep no versions of their own, or which a restore brought back."""

    def newest_rows(self, paths: frozenset[str]) -> Mapping[str, int]:
        """The version of the newest rows of each of these files, given as logged; files older than the log are left out.

        Rows that were only moved are as new as the newest of the files that they came from.
        """
        ...

    def returned(self, files: Sequence[LiveFile]) -> Mapping[str, tuple[Returned, ...]]:
        """Which rows came back at which versions, by the paths of their files as logged; files without any are left out."""
        ...
