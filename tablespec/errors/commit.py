"""Errors of protocols and of commits."""

from __future__ import annotations

import attrs

from tablespec.errors.root import TableSpecError


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
