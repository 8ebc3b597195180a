"""Errors of what lies in storage: places, files and logs."""

from __future__ import annotations

import attrs

from tablespec.errors.root import TableSpecError


@attrs.define
class StorageError(TableSpecError):
    """The store did not do what it was asked for."""

    url: str
    why: str

    def __str__(self) -> str:
        return f"{self.url}: {self.why}"


@attrs.define
class UnsupportedUrlError(TableSpecError):
    """No store is known for this URL."""

    url: str
    why: str

    def __str__(self) -> str:
        return f"cannot open {self.url}: {self.why}"


@attrs.define
class PathOutsideTableError(TableSpecError):
    """A log names a file outside the table and the caller has not allowed that place."""

    table: str
    path: str

    def __str__(self) -> str:
        return (
            f"the log of {self.table} names {self.path!r}, which lies outside the table; "
            "if you trust it, open the table with allowed_roots=[...] naming that place"
        )


@attrs.define
class DataFileMissingError(TableSpecError):
    """A file that the table needs is not there."""

    table: str
    path: str

    def __str__(self) -> str:
        return (
            f"{self.table} names the file {self.path}, and it is not there; `tablespec fsck` lists all that are missing"
        )


@attrs.define
class ChangesGoneError(TableSpecError):
    """What a version changed cannot be told any more; `left` is the version after which changes can still be read."""

    table: str
    version: int
    why: str
    left: int | None = None

    def __str__(self) -> str:
        way_out = "start after a later version" if self.left is None else f"those after version {self.left} can be read"
        return f"the changes of version {self.version} of {self.table} are gone: {self.why}; {way_out}"


@attrs.define
class CorruptFileError(TableSpecError):
    """A data file or deletion vector cannot be read as what it should be."""

    table: str
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} of {self.table} is damaged: {self.why}"


@attrs.define
class CorruptLogError(TableSpecError):
    """A file of the log cannot be understood."""

    table: str
    file: str
    line: int
    why: str

    def __str__(self) -> str:
        where = f"{self.file} line {self.line}" if self.line else self.file
        return f"the log of {self.table} is damaged at {where}: {self.why}"


@attrs.define
class MissingLogError(TableSpecError):
    """Versions that are needed are not in the log and no checkpoint stands in for them."""

    table: str
    missing: int
    wanted: int

    def __str__(self) -> str:
        return (
            f"the log of {self.table} lacks version {self.missing}, which version {self.wanted} needs, "
            "and no complete checkpoint covers it; restore the file from a backup or ask for another version"
        )
