"""What commits did to the rows of a table, and which slices hold rows that are new since a version."""

from __future__ import annotations

import enum

import attrs

from tablespec.model.file import DeletionVector, FileSlice, LogFile
from tablespec.model.instant import Instant
from tablespec.model.schema import LONG, STRING, TIMESTAMP, Field, Schema

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"

# What a change tells besides the columns of its row.
CHANGE_COLUMNS = Schema(
    (
        Field(name=CHANGE_TYPE, type=STRING),
        Field(name=COMMIT_VERSION, type=LONG),
        Field(name=COMMIT_TIMESTAMP, type=TIMESTAMP),
    )
)


class ChangeType(enum.Enum):
    """What happened to a row; the two images of an updated row are two changes."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"


class Images(enum.Enum):
    """How rows that went and rows that came in one commit are known to be the same row.

    UNPAIRED: they are not; what went was deleted and what came was inserted.
    BY_ROW_ID: rows with the same id are the two images of an updated row, or one row that was only moved.
    BY_VALUE: as many equal rows as went and came were only moved; the others were deleted and inserted.
    """

    UNPAIRED = "unpaired"
    BY_ROW_ID = "by row id"
    BY_VALUE = "by value"


@attrs.frozen
class SliceChange:
    """What a commit did to one base file, or to one file group.

    One that came has no `before`, one that went has no `after`; one that stays with other rows has both. `log` are files in which the
    writer noted the changes.
    """

    before: FileSlice | None
    after: FileSlice | None
    log: tuple[LogFile, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.before is None and self.after is None:
            raise ValueError("a change needs a slice before or after it")

    @property
    def slice(self) -> FileSlice:
        """The slice as it is afterwards, or as it was last."""
        found = self.after or self.before
        assert found is not None
        return found


@attrs.frozen
class ExplicitChanges:
    """The row changes of one commit, as files that its writer made for them; each row tells its change type."""

    instant: Instant
    files: tuple[FileSlice, ...]


@attrs.frozen
class InferredChanges:
    """The row changes of one commit, told by what it did to base files."""

    instant: Instant
    slices: tuple[SliceChange, ...]
    images: Images = Images.UNPAIRED


@attrs.frozen
class KeyedChanges:
    """The row changes of one commit, told by the states of file groups before and after it.

    Rows of a group with the same values in the columns `key` are the same row, which was changed where `version` differs, or any column
    where rows carry no version.
    """

    instant: Instant
    slices: tuple[SliceChange, ...]
    key: tuple[str, ...]
    version: str | None


CommitChanges = ExplicitChanges | InferredChanges | KeyedChanges


@attrs.frozen
class AllRows:
    """Every live row of the slice is new."""


@attrs.frozen
class NewerRows:
    """New are the rows with a later commit version, and those without one."""


@attrs.frozen
class ReturnedRows:
    """New are the rows that were deleted before and are not any more; `deleted` is what was."""

    deleted: DeletionVector


@attrs.frozen
class WrittenRows:
    """New are the rows that these instants wrote, merged among themselves."""

    instants: frozenset[int]


@attrs.frozen
class MarkedRows:
    """New are the live rows with one of these values in a hidden column."""

    column: str
    values: tuple[str, ...]


FreshRows = AllRows | NewerRows | ReturnedRows | WrittenRows | MarkedRows


@attrs.frozen
class FreshSlice:
    """A live slice that may hold rows inserted or changed after a version, and which of its rows those are."""

    slice: FileSlice
    rows: FreshRows
