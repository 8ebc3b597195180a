"""MERGE statements from their syntax trees."""

from __future__ import annotations

from itertools import chain, repeat

import attrs
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tablespec.errors import InvalidStatementError
from tablespec.expr.nodes import TRUE
from tablespec.expr.value import Value
from tablespec.sql.parse_rows import read_select, read_values
from tablespec.sql.scope import Scope, qualifiers_of
from tablespec.sql.statement import Merge, MergeClause, Name, Rows, Selected
from tablespec.sql.syntax import Source
from tablespec.write.merge_plan import SOURCE, TARGET, Kind

_KINDS = {
    ("MATCHED", "UPDATE"): Kind.MATCHED_UPDATE,
    ("MATCHED", "DELETE"): Kind.MATCHED_DELETE,
    ("NOT MATCHED", "INSERT"): Kind.NOT_MATCHED_INSERT,
    ("NOT MATCHED BY SOURCE", "UPDATE"): Kind.UNMATCHED_UPDATE,
    ("NOT MATCHED BY SOURCE", "DELETE"): Kind.UNMATCHED_DELETE,
}


@attrs.frozen(eq=False)
class _Scopes:
    """How the names of columns of the table alone are read, and those of both sides."""

    table: Scope
    both: Scope


def read_merge(source: Source, tree: exp.Merge) -> Merge:
    """MERGE INTO a table USING a table, VALUES or SELECT."""
    source.only(tree, "this", "using", "on", "whens")
    source.refuse_empty(TokenType.ON, TokenType.WHEN)
    source.refuse_empty(TokenType.AND, TokenType.THEN)
    if not tree.args.get("on"):
        raise source.refusal(tree, "ON is missing, with the condition under which rows match")
    table = source.name(tree.this)
    using = tree.args["using"]
    rows, source_name, names = _using(source, using)
    sides = qualifiers_of(source, tree.this, table, TARGET), qualifiers_of(source, using, source_name, SOURCE)
    target_names, source_names = ({".".join(one.parts).lower() for one in side} for side in sides)
    if target_names & source_names:
        shared = min(target_names & source_names)
        raise source.refusal(using, f"table and source are both called {shared}; give one of them another name with AS")
    scopes = _Scopes(Scope(source, qualifiers_of(source, tree.this, table)), Scope(source, (*sides[0], *sides[1])))
    whens = zip(tree.args["whens"].expressions, chain(source.when_positions(), repeat(0)))
    clauses = tuple(_clause(source, when, position, scopes) for when, position in whens)
    on = scopes.both.condition(tree.args["on"]) or TRUE
    return Merge(table=table, source=rows, names=names, on=on, clauses=clauses)


def _using(source: Source, node: exp.Expr) -> tuple[Rows, Name, tuple[str, ...]]:
    """The rows of the source, its name, and the names of its columns where they are written out."""
    if isinstance(node, exp.Table):
        name = source.name(node)
        return source.query or Selected(table=name), name, ()
    if not isinstance(node, exp.Values | exp.Subquery) or not node.alias:
        raise source.refusal(node, "the source must have a name: USING (...) AS s")
    name = Name((node.alias,), source.position(node))
    if isinstance(node, exp.Values):
        source.only(node, "expressions", "alias")
        names = tuple(column.name for column in node.args["alias"].args.get("columns") or ())
        rows = read_values(source, node)
        if len(names) != len(rows.rows[0]) or len({one.lower() for one in names}) < len(names):
            raise source.refusal(
                node, f"each column of VALUES must have a name: (VALUES ...) AS {node.alias}(a, b, ...)"
            )
        return rows, name, names
    source.only(node, "this", "alias")
    source.only(node.args["alias"], "this")
    if source.query is not None:
        return source.query, name, ()
    if not isinstance(node.this, exp.Select):
        raise source.refusal(node, "the source must be a table, VALUES, or SELECT of columns from one table")
    return read_select(source, node.this), name, ()


def _clause(source: Source, when: exp.When, position: int, scopes: _Scopes) -> MergeClause:
    source.only(when, "matched", "source", "condition", "then")
    then = when.args["then"]
    action = then.name.upper() if isinstance(then, exp.Var) else then.key.upper()
    state = "MATCHED" if when.args.get("matched") else "NOT MATCHED"
    state += " BY SOURCE" if when.args.get("source") else ""
    kind = _KINDS.get((state, action))
    if kind is None:
        raise InvalidStatementError(source.text, position, f"WHEN {state} THEN {action} is not supported")
    columns, values = _values(source, then, kind, position, scopes)
    where = scopes.both.condition(when.args.get("condition"))
    return MergeClause(kind=kind, where=where, columns=columns, values=values, position=position)


def _values(
    source: Source, then: exp.Expr, kind: Kind, position: int, scopes: _Scopes
) -> tuple[tuple[str, ...] | None, tuple[Value, ...] | None]:
    """The columns that a clause sets and the values that it sets them to."""
    match then:
        case exp.Update():
            source.only(then, "expressions")
            assigned = then.args["expressions"]
            if _is_star(assigned):
                if kind is Kind.UNMATCHED_UPDATE:
                    why = "UPDATE SET * takes its values from a row of the source, and here there is none"
                    raise InvalidStatementError(source.text, position, why)
                return None, None
            if not isinstance(assigned, list) or not assigned:
                why = "UPDATE sets nothing; write UPDATE SET * or UPDATE SET a = b"
                raise InvalidStatementError(source.text, position, why)
            pairs = scopes.table.assignments(assigned, scopes.both)
            return tuple(name for name, _ in pairs), tuple(value for _, value in pairs)
        case exp.Insert():
            source.only(then, "this", "expression")
            if _is_star(then.this):
                return None, None
            if not isinstance(then.expression, exp.Tuple):
                why = "INSERT has no values; write INSERT * or (a, b) VALUES (c, d)"
                raise InvalidStatementError(source.text, position, why)
            columns = None if then.this is None else scopes.table.columns(then.this.expressions)
            return columns, tuple(map(scopes.both.value, then.expression.expressions))
        case _:
            return None, None


def _is_star(node: exp.Expr | list[exp.Expr] | None) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, list) and len(node) == 1 and isinstance(node[0], exp.Star))
