"""When two commits that started from the same state cannot both stand: one table of rules."""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from tablespec.formats.base import Change, ReadsNothing, ReadsWhere, WinningCommit


class Isolation(enum.Enum):
    """How strictly concurrent writers are kept apart.

    SERIALIZABLE: the result is that of some order of the commits, the one of the log. WRITE_SERIALIZABLE: a blind append may
    be thought of as having come later than the log says, so it does not disturb a change of rows that read those before it.
    """

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"


BOTH = frozenset(Isolation)


def isolation_of(name: str) -> Isolation:
    """The level of that name; the strictest where there is none of it."""
    return next((level for level in Isolation if level.value == name), Isolation.SERIALIZABLE)


@attrs.frozen(kw_only=True)
class Rule:
    """A reason why a change must not follow a commit that it did not know of."""

    name: str
    levels: frozenset[Isolation]
    holds: Callable[[Change, WinningCommit], bool]
    why: str


def _reads_added(change: Change, winner: WinningCommit) -> bool:
    match change.reads:
        case ReadsNothing():
            return False
        case ReadsWhere(predicate):
            return winner.added_any and bool(winner.added.judge(predicate))


def _changes_the_table(change: Change) -> bool:
    return change.schema is not None or change.properties is not None


def _reads_removed(change: Change, winner: WinningCommit) -> bool:
    # Which rows a removed file held is not known any more, so every change that reads is taken to have read it.
    return isinstance(change.reads, ReadsWhere) and winner.removed_any and winner.data_change


def _removes_the_same(change: Change, winner: WinningCommit) -> bool:
    return not change.touched.isdisjoint(winner.removed)


CONFLICTS: tuple[Rule, ...] = (
    Rule(
        name="protocol changed",
        levels=BOTH,
        holds=lambda change, winner: winner.protocol_changed,
        why="it changed the protocol of the table",
    ),
    Rule(
        name="metadata changed",
        levels=BOTH,
        holds=lambda change, winner: winner.metadata_changed,
        why="it changed the schema or the properties of the table",
    ),
    Rule(
        name="concurrent append",
        levels=frozenset({Isolation.SERIALIZABLE}),
        holds=lambda change, winner: winner.blind_append and _reads_added(change, winner),
        why="it appended rows that this operation might have read",
    ),
    Rule(
        # A new constraint must hold for the rows below it, whatever order is imagined.
        name="concurrent append before a change of the table",
        levels=BOTH,
        holds=lambda change, winner: _changes_the_table(change) and _reads_added(change, winner),
        why="it appended rows that this operation might have read",
    ),
    Rule(
        name="concurrent write",
        levels=BOTH,
        holds=lambda change, winner: not winner.blind_append and winner.data_change and _reads_added(change, winner),
        why="it wrote rows that this operation might have read",
    ),
    Rule(
        name="concurrent delete of what was read",
        levels=BOTH,
        holds=_reads_removed,
        why="it removed rows that this operation might have read",
    ),
    Rule(
        name="concurrent delete of the same files",
        levels=BOTH,
        holds=_removes_the_same,
        why="it removed files that this operation removes too",
    ),
    Rule(
        name="concurrent transaction",
        levels=BOTH,
        holds=lambda change, winner: any(app in winner.transactions for app, _ in change.transactions),
        why="it recorded progress of the same application",
    ),
    Rule(
        name="concurrent domain",
        levels=BOTH,
        holds=lambda change, winner: any(name in winner.domains for name, _ in change.domains),
        why="it changed what the table keeps under the same name",
    ),
)


def conflict(change: Change, winner: WinningCommit, isolation: Isolation) -> Rule | None:
    """The first rule by which `change` must not follow `winner`, or None."""
    return next((rule for rule in CONFLICTS if isolation in rule.levels and rule.holds(change, winner)), None)
