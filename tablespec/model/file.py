"""Files, the slices they make up, and the groups that slices belong to."""

from __future__ import annotations

import attrs

from tablespec.model.instant import Instant, Timeline


@attrs.frozen(weakref_slot=False)
class FileGroupId:
    """The identity of a batch of co-located records across its states."""

    partition: str
    id: str


@attrs.frozen
class Returned:
    """Rows of a base file that a restore brought back at a version: those at the positions, a serialized bitmap, or all."""

    version: int
    positions: bytes | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class BaseFile:
    """A Parquet file with the records of a slice.

    `path` is relative to the table, or an absolute URL where the log says so; `logged_as` is how the log spells it.
    `rows` counts physical rows, deleted ones included. `returned` is told only to whoever moves the rows to another file.
    `form` tells which columns it stores, see `model/form.py`; it is empty where the writer did not say.
    """

    path: str
    size: int
    logged_as: str = ""
    rows: int | None = None
    modified: int = 0
    base_row_id: int | None = None
    row_commit_version: int | None = None
    returned: tuple[Returned, ...] = ()
    form: str = ""


@attrs.frozen(kw_only=True)
class LogFile:
    """Changes to the records of a slice since its base file was written."""

    path: str
    size: int
    instant: int
    version: int


@attrs.frozen(kw_only=True)
class DeletionVector:
    """Where the set of deleted row positions of a base file is kept.

    `path` is relative to the table or an absolute URL; None means that `inline` holds the bytes themselves.
    """

    path: str | None
    inline: bytes | None
    offset: int
    size: int
    cardinality: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class FileSlice:
    """The files holding one state of a file group; `instant` is the version that made it, -1 where the log does not say.

    Where `upto` is given, records of later instants in its log files do not count. `stored_names` are columns, and
    members below them by their paths, that have another name in the base file than the table says, with that name.
    """

    group: FileGroupId
    instant: int
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()
    deletes: DeletionVector | None = None
    partition_values: tuple[object, ...] = ()
    upto: int | None = None
    stored_names: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all files of the slice."""
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)

    @property
    def rows(self) -> int | None:
        """The number of live rows, where it can be told without reading."""
        if self.logs or self.base is None or self.base.rows is None:
            return None
        return self.base.rows - (self.deletes.cardinality if self.deletes else 0)

    @property
    def is_clean(self) -> bool:
        """Whether the base file alone is the state, so that any Parquet reader may read it."""
        return self.deletes is None and not self.needs_merge

    @property
    def needs_merge(self) -> bool:
        """Whether no Parquet reader of an engine can give the rows, not even with the deleted positions at hand."""
        return self.base is None or bool(self.logs) or bool(self.stored_names)


@attrs.frozen
class FileGroup:
    """The states of one batch of co-located records over time."""

    id: FileGroupId
    timeline: Timeline
    slices: tuple[tuple[Instant, FileSlice], ...]

    def slice_at(self, instant: Instant) -> FileSlice | None:
        """The slice that is current at `instant`, or None before the group began."""
        current = [slice_ for when, slice_ in self.slices if when.version <= instant.version]
        return current[-1] if current else None


@attrs.frozen(kw_only=True)
class RecordLocation:
    """Where the current version of a record lies."""

    partition: str
    group: FileGroupId
    instant: int
    path: str
    position: int
