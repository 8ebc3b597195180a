"""Every error and warning that tablespec raises on purpose.

Fields are positional and the sentence is made in `__str__`, so that an error survives pickling on its way back from a worker.
"""

from __future__ import annotations

import attrs


class TableSpecError(Exception):
    """The base of every error of this package."""


class TableSpecWarning(UserWarning):
    """Something was odd about a table, and reading went on with a right answer."""


# --- finding a table ------------------------------------------------------------------------------------------------


@attrs.define
class TableNotFoundError(TableSpecError):
    """There is nothing at that place."""

    table: str

    def __str__(self) -> str:
        return f"there is no table at {self.table}; check the path, or make one with tablespec.create_table"


@attrs.define
class NotATableError(TableSpecError):
    """The place exists and holds no table of a known format."""

    table: str

    def __str__(self) -> str:
        return (
            f"{self.table} holds neither a _delta_log nor a .hoodie folder, so it is not a table that tablespec knows"
        )


@attrs.define
class TableExistsError(TableSpecError):
    """A table is already there."""

    table: str

    def __str__(self) -> str:
        return f"{self.table} is already a table; open it with tablespec.open_table or choose another place"


@attrs.define
class UnsupportedTableError(TableSpecError):
    """The table uses something that this release refuses to misread."""

    table: str
    feature: str
    way_out: str = ""

    def __str__(self) -> str:
        return f"{self.table} uses {self.feature}, which tablespec does not support" + (
            f"; {self.way_out}" if self.way_out else ""
        )


@attrs.define
class InstantNotFoundError(TableSpecError):
    """The table has no completed instant of that version or time."""

    table: str
    asked: str
    available: str

    def __str__(self) -> str:
        return f"{self.table} has no completed instant {self.asked}; it has {self.available}"


@attrs.define
class MissingExtraError(TableSpecError):
    """A package that is needed for this is not installed."""

    purpose: str
    extra: str

    def __str__(self) -> str:
        return f"{self.purpose} needs a package that is not installed; run pip install 'tablespec[{self.extra}]'"


# --- what lies in storage -------------------------------------------------------------------------------------------


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


# --- protocol -------------------------------------------------------------------------------------------------------


@attrs.define
class ProtocolVersionError(TableSpecError):
    """The table asks for more than this release can do."""

    table: str
    access: str
    required: str
    supported: str
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        features = f" Unknown features: {', '.join(self.unknown)}." if self.unknown else ""
        return (
            f"{self.table} cannot be {self.access} by this release of tablespec. The table requires {self.required}; "
            f"this release supports {self.supported}.{features} Upgrade tablespec, or use a client that has these features."
        )


@attrs.define
class ProtocolUpgradeNeededError(TableSpecError):
    """An operation needs a table feature, and upgrades by themselves are switched off."""

    table: str
    operation: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.table} needs the table features {', '.join(self.features)}; "
            "upgrades cannot be undone, so allow it with auto_upgrade=True or call upgrade_protocol first"
        )


# --- schema and data ------------------------------------------------------------------------------------------------


@attrs.define
class ColumnNotFoundError(TableSpecError):
    """The schema has no such column."""

    column: str
    near: tuple[str, ...]
    where: str = "the table"

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
        return f"{self.where} has no column {self.column!r}{hint}"


@attrs.define
class InvalidPredicateError(TableSpecError):
    """The text is not a predicate."""

    text: str
    position: int
    why: str

    def __str__(self) -> str:
        return f"cannot read the predicate at position {self.position}: {self.why}\n  {self.text}\n  {' ' * self.position}^"


@attrs.define
class UnsupportedOperatorError(TableSpecError):
    """The predicate uses something outside of the supported grammar."""

    text: str
    operator: str
    supported: str

    def __str__(self) -> str:
        return f"the predicate {self.text!r} uses {self.operator}, which is not supported; there are {self.supported}"


@attrs.define
class TypeMismatchError(TableSpecError):
    """A value cannot be compared with, or stored in, a column of that type."""

    column: str
    type: str
    value: str

    def __str__(self) -> str:
        return f"column {self.column} is of type {self.type}, which does not fit {self.value}"


@attrs.define
class SchemaMismatchError(TableSpecError):
    """The data does not have the table's columns."""

    table: str
    differences: tuple[str, ...]
    way_out: str

    def __str__(self) -> str:
        return f"the data does not fit {self.table}: {'; '.join(self.differences)}. {self.way_out}"


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
class InvalidPropertyError(TableSpecError):
    """A table property has a value that makes no sense."""

    property: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"the table property {self.property} is {self.value!r}; expected {self.expected}"


# --- concurrency ----------------------------------------------------------------------------------------------------


@attrs.define
class CommitConflictError(TableSpecError):
    """Another writer changed what this operation depends on."""

    table: str
    operation: str
    version: int
    why: str

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.table} conflicts with version {self.version}: {self.why}; "
            "nothing was changed, run it again on the new state"
        )


@attrs.define
class CommitRetriesExhaustedError(TableSpecError):
    """Other writers won every attempt."""

    table: str
    operation: str
    attempts: int

    def __str__(self) -> str:
        return (
            f"{self.operation} on {self.table} lost {self.attempts} races in a row; nothing was changed, "
            "try again later or with more retries"
        )


@attrs.define
class ReadOnlyFormatError(TableSpecError):
    """The format of this table can be read, not written."""

    table: str
    format: str
    operation: str

    def __str__(self) -> str:
        return (
            f"{self.operation} is not supported on {self.table}: {self.format} tables can only be read by this release"
        )


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
    """A new row does not satisfy the predicate under which rows are replaced."""

    table: str
    predicate: str
    row: str

    def __str__(self) -> str:
        return (
            f"a new row does not satisfy the predicate {self.predicate} under which rows of {self.table} are replaced: "
            f"{self.row}; nothing was changed"
        )


@attrs.define
class InvalidPageError(TableSpecError):
    """Row changes were handed over that do not fit the pages that were read."""

    why: str

    def __str__(self) -> str:
        return self.why


@attrs.define
class MultipleMatchesError(TableSpecError):
    """More than one row of the source matches the same row of the table."""

    table: str
    row: str

    def __str__(self) -> str:
        return (
            f"a row of {self.table} is matched by more than one row of the source, and it is not clear which one counts: "
            f"{self.row}; make the source unique in the columns of the condition. Nothing was changed"
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


# --- computed values ------------------------------------------------------------------------------------------------


@attrs.define
class AmbiguousColumnError(TableSpecError):
    """More than one table has a column of that name."""

    column: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        return f"the column {self.column!r} is ambiguous; write {' or '.join(self.candidates)}"


@attrs.define
class ValueOverflowError(TableSpecError):
    """An expression gave a value that its type cannot hold."""

    expression: str
    type: str
    why: str

    def __str__(self) -> str:
        return f"{self.expression} gave a value that {self.type} cannot hold: {self.why}"


# --- names, privileges and statements -------------------------------------------------------------------------------


@attrs.define
class InvalidNameError(TableSpecError):
    """The text cannot name a table of a catalog."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} is not a name of the form db.table, each part of letters, digits and _ and not beginning with a digit"


@attrs.define
class NotAuthorizedError(TableSpecError):
    """The principal does not have the privilege that an operation needs."""

    principal: str
    table: str
    privilege: str

    def __str__(self) -> str:
        return f"{self.principal} does not have the privilege {self.privilege} on {self.table}; nothing was done"


@attrs.define
class InvalidPolicyError(TableSpecError):
    """A policy file does not say who may do what."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"the policy file {self.path} cannot be used: {self.why}"


@attrs.define
class InvalidStatementError(TableSpecError):
    """The text is not an SQL statement that tablespec runs."""

    text: str
    position: int
    why: str

    def __str__(self) -> str:
        line = self.text.count("\n", 0, self.position)
        column = self.position - (self.text.rfind("\n", 0, self.position) + 1)
        shown = self.text.split("\n")[line]
        return f"cannot run the statement, line {line + 1} column {column + 1}: {self.why}\n  {shown}\n  {' ' * column}^"


# --- looking after tables -------------------------------------------------------------------------------------------


@attrs.define
class ShortRetentionError(TableSpecError):
    """Files would go that readers and writers at work may still need."""

    table: str
    asked: str
    least: str

    def __str__(self) -> str:
        return (
            f"a retention of {self.asked} may take files away from readers and writers of {self.table} that are at work; "
            f"ask for {self.least} or more, or say allow_short_retention=True when nobody else uses the table"
        )
