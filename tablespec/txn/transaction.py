"""Commits that take their chance: try, see who won, check, try again."""

from __future__ import annotations

import random
import time
import uuid
import warnings
from typing import assert_never

import attrs

from tablespec.errors import (
    CommitConflictError,
    CommitRetriesExhaustedError,
    InvalidOptionError,
    TableSpecError,
    TableSpecWarning,
)
from tablespec.formats.base import Change, Committed, Lost, TableState, WritableFormat
from tablespec.model.instant import Instant
from tablespec.txn.conflict import conflict, isolation_of

ISOLATION = "delta.isolationLevel"


@attrs.frozen
class Retries:
    """How often a lost race is run again, and how long the pauses between are, in seconds."""

    attempts: int = 15
    first_pause: float = 0.01
    longest_pause: float = 2.0

    def pause(self, attempt: int) -> float:
        """A random pause before the next attempt: two writers that met once should not meet again."""
        return random.uniform(0, min(self.longest_pause, self.first_pause * 2**attempt))


def check_retries(retries: Retries) -> None:
    """Raise for what does not say how often a lost race is run again."""
    if not isinstance(retries, Retries):
        raise InvalidOptionError("retries", repr(retries), "Retries, such as Retries(attempts=3)")


def new_operation_id() -> str:
    """An id that tells one's own commit from those of others."""
    return str(uuid.uuid4())


def commit(format_: WritableFormat, change: Change, state: TableState, retries: Retries = Retries()) -> Instant:
    """Make `change`, which was decided on `state`, durable, and give the instant at which it is.

    After each lost race the commits that came in between are checked; a conflict raises and nothing has changed.
    """
    check_retries(retries)
    if not change.operation_id:
        change = attrs.evolve(change, operation_id=new_operation_id())
    for attempt in range(retries.attempts):
        outcome = format_.try_commit(change, state)
        match outcome:
            case Committed(instant):
                _housekeeping(format_, instant)
                return instant
            case Lost():
                state = _rebased(format_, change, state)
                time.sleep(retries.pause(attempt))
            case _:
                assert_never(outcome)
    raise CommitRetriesExhaustedError(format_.storage.url, change.operation, retries.attempts)


def _housekeeping(format_: WritableFormat, instant: Instant) -> None:
    try:
        format_.after_commit(instant)
    except TableSpecError as error:
        # The commit is durable; telling its caller otherwise would make them write it twice.
        warnings.warn(f"version {instant.version} is durable, but: {error}", TableSpecWarning, stacklevel=3)


def _rebased(format_: WritableFormat, change: Change, state: TableState) -> TableState:
    """The newest state, once nothing that happened since `state` stands against the change."""
    newest = format_.latest()
    isolation = isolation_of(newest.properties.get(ISOLATION, ""))
    found = conflict(change, format_.commits_after(state.instant.version), isolation)
    if found is not None:
        rule, winner = found
        raise CommitConflictError(format_.storage.url, change.operation, winner.version, rule.why)
    format_.check_writable(newest, change.operation)
    return newest
