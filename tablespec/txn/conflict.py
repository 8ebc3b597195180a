"""When two commits that started from the same state cannot both stand: one table of rules."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

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
            return bool(winner.added_paths) and bool(winner.added.judge(predicate))


def _changes_the_table(change: Change) -> bool:
    return change.schema is not None or change.properties is not None


def _reads_removed(change: Change, winner: WinningCommit) -> bool:
    match change.reads:
        case ReadsNothing():
            return False
        case ReadsWhere(files=files):
            return bool(winner.removed) if files is None else not winner.removed.isdisjoint(files)


CONFLICTS: tuple[Rule, ...] = (
    Rule(
        # Whoever only needs a feature finds out anew whether the table has it; whether it may be written at all is asked anew, too.
        name="protocol changed",
        levels=BOTH,
        holds=lambda change, winner: bool(change.features) and winner.protocol_changed,
        why="it changed the protocol of the table",
    ),
    Rule(
        # What was written may rest on them.
        name="features dropped",
        levels=BOTH,
        holds=lambda change, winner: winner.features_dropped,
        why="it dropped features of the table",
    ),
    Rule(
        # That rows may be deleted by vectors disturbs only who brings other metadata, which do not say so.
        name="metadata changed",
        levels=BOTH,
        holds=lambda change, winner: (
            winner.metadata_changed and (not winner.vectors_allowed or _changes_the_table(change))
        ),
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
        # Rows that were only moved are as they were read.
        holds=lambda change, winner: winner.data_change and _reads_removed(change, winner),
        why="it removed rows that this operation might have read",
    ),
    Rule(
        name="concurrent delete of the same files",
        levels=BOTH,
        holds=lambda change, winner: not change.touched.isdisjoint(winner.removed),
        why="it removed files that this operation removes too",
    ),
    Rule(
        # What the log says about a file is copied when its deleted rows change: row ids given meanwhile would be lost.
        name="concurrent new description of the same files",
        levels=BOTH,
        holds=lambda change, winner: not change.touched.isdisjoint(winner.added_paths),
        why="it described files anew that this operation removes",
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


def conflict(
    change: Change, winners: Sequence[WinningCommit], isolation: Isolation
) -> tuple[Rule, WinningCommit] | None:
    """The first rule by which `change` must not follow the commits `winners`, with the first of them that it is about, or None.

    Rules are tried in their order over all commits: predicates are judged only where no commit has changed the columns.
    """
    rules = (rule for rule in CONFLICTS if isolation in rule.levels)
    return next(((rule, winner) for rule in rules for winner in winners if rule.holds(change, winner)), None)
