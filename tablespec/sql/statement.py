"""Statements as values, not yet bound to any table."""

from __future__ import annotations

import attrs

from tablespec.expr.nodes import Predicate
from tablespec.expr.value import Value
from tablespec.sql.query import Query
from tablespec.write.merge_plan import Kind


@attrs.frozen
class Name:
    """The name of a table, and where in the text it stands."""

    parts: tuple[str, ...]
    position: int = attrs.field(eq=False)

    def __str__(self) -> str:
        return ".".join(self.parts)


@attrs.frozen
class Values:
    """Rows that are written out."""

    rows: tuple[tuple[Value, ...], ...]
    position: int = attrs.field(eq=False)


@attrs.frozen(kw_only=True)
class Selected:
    """Rows of a table; each column comes with the name that it gets, and None stands for all columns."""

    table: Name
    columns: tuple[tuple[str, str], ...] | None = None
    where: Predicate | None = None
    at: int | str | None = None


Rows = Values | Selected | Query


@attrs.frozen
class Delete:
    """DELETE FROM; `where` is None where there is no condition."""

    table: Name
    where: Predicate | None


@attrs.frozen
class Update:
    """UPDATE; `where` is None where there is no condition."""

    table: Name
    values: tuple[tuple[str, Value], ...]
    where: Predicate | None


@attrs.frozen(kw_only=True)
class Insert:
    """INSERT INTO, or with `replace` INSERT INTO ... REPLACE WHERE.

    Rows go into `columns` in order, None stands for all columns of the table. With `by_name` they go where their names say.
    """

    table: Name
    rows: Rows
    columns: tuple[str, ...] | None = None
    replace: Predicate | None = None
    by_name: bool = False


@attrs.frozen(kw_only=True)
class MergeClause:
    """A clause of MERGE. Without `columns` the values are for all columns of the table, without `values` the source's go by name."""

    kind: Kind
    where: Predicate | None = None
    columns: tuple[str, ...] | None = None
    values: tuple[Value, ...] | None = None
    position: int = attrs.field(default=0, eq=False)


@attrs.frozen(kw_only=True)
class Merge:
    """MERGE INTO; the qualifiers of columns are those of `Table.merge`. `names` are those of the columns of VALUES."""

    table: Name
    source: Rows
    names: tuple[str, ...]
    on: Predicate
    clauses: tuple[MergeClause, ...]


Statement = Delete | Update | Insert | Merge
