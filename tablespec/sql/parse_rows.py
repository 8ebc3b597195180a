"""The rows that a statement brings: written out, or those of another table."""

from __future__ import annotations

from sqlglot import exp

from tablespec.expr.parse import spoken_name
from tablespec.expr.value import Value, columns_of_value
from tablespec.sql.scope import Scope, qualifiers_of
from tablespec.sql.statement import Rows, Selected, Values
from tablespec.sql.syntax import ENGINES, Source


def read_rows(source: Source, node: exp.Expr | None) -> Rows:
    """VALUES, SELECT of columns from one table, or the query that is an engine's matter."""
    if source.query is not None:
        return source.query
    match node:
        case exp.Values():
            source.only(node, "expressions")
            return read_values(source, node)
        case exp.Select():
            return read_select(source, node)
        case exp.Subquery():
            source.only(node, "this")
            return read_rows(source, node.this)
        case None | bool():
            raise source.refusal(source.tree, "VALUES or SELECT is missing")
        case _:
            raise source.refusal(node, f"{node.key.upper()} is not supported here; {ENGINES}")


def read_values(source: Source, node: exp.Values) -> Values:
    """Rows of constant values, all of the same length."""
    rows = [_row(source, row) for row in node.expressions]
    for row, written in zip(rows, node.expressions):
        if len(row) != len(rows[0]):
            raise source.refusal(written, f"a row has {len(row)} values, and the first one has {len(rows[0])}")
    return Values(tuple(rows), source.position(node))


def read_select(source: Source, node: exp.Select) -> Selected:
    """SELECT of columns, or of all, from one table, with or without a condition."""
    source.only(node, "expressions", "from_", "where")
    clause = node.args.get("from_")
    if clause is None:
        raise source.refusal(node, f"SELECT without FROM is not supported; write VALUES, or {ENGINES}")
    table = source.name(clause.this, "version")
    scope = Scope(source, qualifiers_of(source, clause.this, table))
    return Selected(
        table=table,
        columns=_columns(scope, node.expressions),
        where=scope.where(node),
        at=_at(source, clause.this.args.get("version")),
    )


def _row(source: Source, node: exp.Expr) -> tuple[Value, ...]:
    cells = node.expressions if isinstance(node, exp.Tuple) else [node]
    scope = Scope(source, ())
    row = []
    for cell in cells:
        value = scope.value(cell)
        if columns_of_value(value):
            raise source.refusal(cell, "a column where a constant must stand")
        row.append(value)
    return tuple(row)


def _columns(scope: Scope, nodes: list[exp.Expr]) -> tuple[tuple[str, str], ...] | None:
    if len(nodes) == 1 and nodes[0].is_star:
        star = nodes[0].this if isinstance(nodes[0], exp.Column) else nodes[0]
        scope.source.only(star)
        return None
    return tuple(_column(scope, node) for node in nodes)


def _column(scope: Scope, node: exp.Expr) -> tuple[str, str]:
    inner = node.this if isinstance(node, exp.Alias) else node
    if not isinstance(inner, exp.Column) or inner.is_star:
        raise scope.source.refusal(node, f"{spoken_name(inner)} in SELECT is not supported; {ENGINES}")
    name = scope.column(inner)
    return name, node.alias or name


def _at(source: Source, version: exp.Expr | None) -> int | str | None:
    """The version, or the time, of VERSION AS OF or TIMESTAMP AS OF."""
    if version is None:
        return None
    wanted = version.args.get("expression")
    if version.args.get("kind") == "AS OF" and isinstance(wanted, exp.Literal):
        if version.name == "VERSION" and wanted.is_int:
            return int(wanted.name)
        if version.name == "TIMESTAMP" and wanted.is_string:
            return wanted.name
    raise source.refusal(version, "only VERSION AS OF a number and TIMESTAMP AS OF a text are supported")
