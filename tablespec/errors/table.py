"""Errors of finding a table and of what it is."""

from __future__ import annotations

import attrs

from tablespec.errors.root import TableSpecError


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
class InvalidNameError(TableSpecError):
    """The text cannot name a table of a catalog."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} is not a name of the form db.table, each part of letters, digits and _ and not beginning with a digit"


@attrs.define
class InvalidPropertyError(TableSpecError):
    """A table property has a value that makes no sense."""

    property: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"the table property {self.property} is {self.value!r}; expected {self.expected}"


@attrs.define
class InvalidOptionError(TableSpecError):
    """An option of an operation has a value that makes no sense."""

    option: str
    value: str
    expected: str

    def __str__(self) -> str:
        return f"the option {self.option} is {self.value}; expected {self.expected}, and nothing was done"


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


@attrs.define
class UnsupportedByEngineError(TableSpecError):
    """The engine has no way to do this."""

    engine: str
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.engine} cannot {self.what}; {self.way_out}"


@attrs.define
class IndexNotFoundError(TableSpecError):
    """The table has no index of that name."""

    table: str
    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        known = (
            f"it has {', '.join(self.known)}"
            if self.known
            else "it has none: make one with create_text_index or create_record_index"
        )
        return f"{self.table} has no index {self.name!r}; {known}"


@attrs.define
class IndexExistsError(TableSpecError):
    """The table has another index of that name."""

    table: str
    name: str
    about: str

    def __str__(self) -> str:
        return f"{self.table} has an index {self.name!r} already, {self.about}; drop it first or choose another name"


@attrs.define
class InvalidIndexNameError(TableSpecError):
    """The text cannot name an index."""

    name: str

    def __str__(self) -> str:
        return f"{self.name!r} cannot name an index: 1 to 64 letters, digits, - and _ can, with a letter or digit first"
