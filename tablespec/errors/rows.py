"""Errors of rows: their schema, their constraints, and what was to be done with them."""

from __future__ import annotations

import attrs

from tablespec.errors.root import TableSpecError


@attrs.define
class SchemaMismatchError(TableSpecError):
    """The data does not have the table's columns."""

    table: str
    differences: tuple[str, ...]
    way_out: str

    def __str__(self) -> str:
        return f"the data does not fit {self.table}: {'; '.join(self.differences)}. {self.way_out}"


@attrs.define
class SourceFailedError(TableSpecError):
    """The rows to take could not be had from where they come."""

    source: str
    why: str

    def __str__(self) -> str:
        return f"the rows could not be read from {self.source}: {self.why}"


@attrs.define
class InvalidSchemaError(TableSpecError):
    """The schema or the partition columns cannot make a table."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define
class UnsupportedTypeError(TableSpecError):
    """A column type has no counterpart in tables."""

    column: str
    type: str
    why: str = "tables cannot hold it"

    def __str__(self) -> str:
        return f"column {self.column} has the type {self.type}: {self.why}"


@attrs.define
class ConstraintViolatedError(TableSpecError):
    """A row breaks a NOT NULL or CHECK constraint of the table."""

    table: str
    constraint: str
    row: str

    def __str__(self) -> str:
        return f"a row breaks the constraint {self.constraint} of {self.table}: {self.row}; nothing was written"


@attrs.define
class UnsupportedConstraintError(TableSpecError):
    """A constraint of the table cannot be checked by this release, so nothing may be written."""

    table: str
    constraint: str
    why: str

    def __str__(self) -> str:
        return f"{self.table} has the constraint {self.constraint}, which tablespec cannot check: {self.why}; write with Spark instead"


@attrs.define
class FullTableChangeError(TableSpecError):
    """An operation would change every row and nobody said that it should."""

    table: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.table} has no condition, or one that is always true, and would change every row; "
            "say allow_full_table=True if that is meant"
        )


@attrs.define
class AppendOnlyTableError(TableSpecError):
    """The table lets rows come and never go."""

    table: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.table} would remove rows, and the table is append-only; nothing was changed. "
            "Its property delta.appendOnly says so"
        )


@attrs.define
class NonPartitionedTableError(TableSpecError):
    """The table has no partitions to replace."""

    table: str

    def __str__(self) -> str:
        return f"{self.table} is not partitioned; to replace rows by other columns say data_columns=True"


@attrs.define
class PartitionColumnNotFoundError(TableSpecError):
    """The predicate looks at a column that is not a partition column."""

    column: str
    partition_columns: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.column} is not a partition column; these are: {', '.join(self.partition_columns)}. "
            "To replace rows by other columns say data_columns=True"
        )


@attrs.define
class ReplaceWhereMismatchError(TableSpecError):
    """A new row does not satisfy the predicate under which rows are replaced, be it because '' in a column is stored as null."""

    table: str
    predicate: str
    row: str
    emptied: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = f" ('' in {', '.join(self.emptied)} is stored as null)" if self.emptied else ""
        return (
            f"a new row does not satisfy the predicate {self.predicate} under which rows of {self.table} are replaced: "
            f"{self.row}{why}; nothing was changed"
        )


@attrs.define
class EmptyPartitionError(TableSpecError):
    """A new row of a partition '' that another writer made would be stored in the partition without a value."""

    table: str
    columns: tuple[str, ...]
    partition: str

    def __str__(self) -> str:
        names = ", ".join(self.columns)
        both = " OR ".join(f"`{name}` = '' OR `{name}` IS NULL" for name in self.columns)
        return (
            f"{self.table} has the partition {self.partition}, and new rows with '' in {names} are stored as null, in another one; "
            f"to replace both say replace_where with a condition such as {both}. Nothing was changed"
        )


@attrs.define
class InvalidPageError(TableSpecError):
    """Row changes were handed over that do not fit the pages that were read."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define
class MultipleMatchesError(TableSpecError):
    """More than one row of the source would change the same row of the table."""

    table: str
    row: str

    def __str__(self) -> str:
        return (
            f"a row of {self.table} is matched by more than one row of the source, and it is not clear which one counts: "
            f"{self.row}; make the source unique in the columns of the condition, or let clauses apply to one of them. "
            "Nothing was changed"
        )


@attrs.define
class NoRecordKeyError(TableSpecError):
    """An operation by record key was asked of a table that has none."""

    table: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.table} has no record key, which {self.operation} needs; create it with key=[...], "
            "set the property tablespec.recordKey, or use merge"
        )


@attrs.define
class EmptyKeyError(TableSpecError):
    """A row to upsert has a record key that would be null once it is stored, and never be found again."""

    table: str
    column: str
    row: str

    def __str__(self) -> str:
        return (
            f"a row has no value in {self.column}, which the record key of {self.table} is made of (nor have texts without characters "
            f"where it is partitioned by it): it would match nothing, and be inserted again by each upsert: {self.row}; nothing was changed"
        )
