"""The clauses of a merge, as people write them."""

from __future__ import annotations

from tablespec.expr.nodes import Predicate
from tablespec.write.merge_plan import Clause, Kind
from tablespec.write.update import Assignments


def when_matched_update(values: Assignments | None = None, where: Predicate | str | None = None) -> Clause:
    """Update the row of the table; without `values` all columns that the source has too."""
    return Clause(Kind.MATCHED_UPDATE, where, values)


def when_matched_delete(where: Predicate | str | None = None) -> Clause:
    """Delete the row of the table."""
    return Clause(Kind.MATCHED_DELETE, where)


def when_not_matched_insert(values: Assignments | None = None, where: Predicate | str | None = None) -> Clause:
    """Insert the row of the source; without `values` all columns that the table has too."""
    return Clause(Kind.NOT_MATCHED_INSERT, where, values)


def when_not_matched_by_source_update(values: Assignments, where: Predicate | str | None = None) -> Clause:
    """Update rows of the table that no row of the source matches."""
    return Clause(Kind.UNMATCHED_UPDATE, where, values)


def when_not_matched_by_source_delete(where: Predicate | str | None = None) -> Clause:
    """Delete rows of the table that no row of the source matches."""
    return Clause(Kind.UNMATCHED_DELETE, where)
