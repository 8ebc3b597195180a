"""The port of formats whose files can be looked after: rewritten, removed when nobody needs them, and taken back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

import attrs

from tablespec.formats.base import TableState, WritableFormat
from tablespec.model.schema import Schema
from tablespec.storage.store import FileInfo

# What the folder of a table has in it, whatever its format: by these a table inside of another is known.
LOG_FOLDERS = frozenset({"_delta_log", ".hoodie"})


@attrs.frozen
class Retention:
    """For how long a table promises its past: the files that its states are made of, and the log that tells of them."""

    files: timedelta
    log: timedelta


@attrs.frozen
class Definition:
    """What a table is, its rows aside."""

    schema: Schema
    partition_columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]


@runtime_checkable
class MaintainableFormat(WritableFormat, Protocol):
    """A table whose files can be looked after."""

    def retention(self, state: TableState) -> Retention:
        """For how long that state asks its past to be kept."""
        ...

    def needed_since(self, version: int) -> frozenset[str]:
        """The files below the table that a reader of `version` or of any later one needs, by their paths as listed."""
        ...

    def disposable(self, state: TableState, files: Iterable[FileInfo]) -> Sequence[FileInfo]:
        """Those of the files below the table that may be removed when no instant needs them; what is hidden is somebody's."""
        ...

    def domain(self, state: TableState, name: str) -> str | None:
        """The text that the table keeps under a name, see `Change.domains`."""
        ...

    def definition_of(self, then: TableState, now: TableState) -> Definition:
        """The definition of an older state as the newest table can have it; what files and features need stays as it is now."""
        ...

    def expired_log(self, version: int) -> Sequence[FileInfo]:
        """The files of the log that no version from `version` on needs, oldest first."""
        ...
