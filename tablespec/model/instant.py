"""Points on a table's timeline."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from datetime import UTC, datetime

import attrs

from tablespec.errors import InstantNotFoundError


@attrs.frozen(order=True)
class Instant:
    """One completed action on a table.

    `version` orders the actions of a table: the version of a Delta log, the request time of a Hudi action as a number.
    `timestamp` is the time of completion in milliseconds UTC.
    """

    version: int
    timestamp: int = attrs.field(order=False)
    action: str = attrs.field(default="", order=False)

    @property
    def time(self) -> datetime:
        """The time of completion, in UTC."""
        return from_millis(self.timestamp)


@attrs.frozen
class Timeline:
    """The completed actions of a table, or of one file group, oldest first."""

    table: str
    instants: tuple[Instant, ...]

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def latest(self) -> Instant:
        """The newest instant; a timeline without any raises."""
        if not self.instants:
            raise InstantNotFoundError(self.table, "at all", "none")
        return self.instants[-1]

    def at(self, version: int) -> Instant:
        """The instant of exactly that version."""
        position = bisect.bisect_left(self.instants, version, key=lambda instant: instant.version)
        if position < len(self.instants) and self.instants[position].version == version:
            return self.instants[position]
        raise InstantNotFoundError(self.table, str(version), self._range())

    def between(self, start: int | None, end: int | None) -> Timeline:
        """The instants after `start` up to and including `end`; None leaves that side open."""
        low = 0 if start is None else bisect.bisect_right(self.instants, start, key=lambda instant: instant.version)
        high = (
            len(self.instants)
            if end is None
            else bisect.bisect_right(self.instants, end, key=lambda instant: instant.version)
        )
        return Timeline(self.table, self.instants[low:high])

    def find_latest_completed_action_at(self, when: datetime) -> Instant:
        """The newest instant that was completed at or before `when`; a time without a zone is taken as UTC."""
        limit = to_millis(when)
        done = [instant for instant in self.instants if instant.timestamp <= limit]
        if not done:
            raise InstantNotFoundError(self.table, f"at or before {when.isoformat()}", self._range())
        return done[-1]

    def _range(self) -> str:
        if not self.instants:
            return "none"
        first, last = self.instants[0], self.instants[-1]
        return f"{first.version} ({first.time.isoformat()}) to {last.version} ({last.time.isoformat()})"


def to_millis(when: datetime) -> int:
    """Milliseconds since the epoch; a time without a zone is taken as UTC."""
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


def from_millis(millis: int) -> datetime:
    """The UTC time that many milliseconds after the epoch."""
    return datetime.fromtimestamp(millis // 1000, UTC).replace(microsecond=millis % 1000 * 1000)
