"""Statements from SQL text."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tablespec.errors import InvalidStatementError
from tablespec.sql.parse_merge import read_merge
from tablespec.sql.parse_rows import read_rows
from tablespec.sql.scope import Scope, qualifiers_of
from tablespec.sql.statement import Delete, Insert, Statement, Update
from tablespec.sql.syntax import Source


def parse_statement(text: str, *, cut_query: bool = False) -> Statement:
    """The statement that SQL text writes; names may be quoted as in Spark or as in DuckDB: `a b` or "a b".

    With `cut_query` the query that its rows come from is left to an engine, and may be any that the engine knows.

    Raises InvalidStatementError for text that is no such statement, naming what is not supported and its position, and what
    predicates and values raise.
    """
    try:
        source = Source.read(text, cut_query=cut_query)
        match source.tree:
            case exp.Delete() as tree:
                return _delete(source, tree)
            case exp.Update() as tree:
                return _update(source, tree)
            case exp.Insert() as tree:
                return _insert(source, tree)
            case exp.Merge() as tree:
                return read_merge(source, tree)
            case tree:
                raise source.refusal(tree, f"{tree.key.upper()} is not supported")
    except RecursionError:
        raise InvalidStatementError(text, 0, "it is nested too deeply") from None


def _delete(source: Source, tree: exp.Delete) -> Delete:
    source.only(tree, "this", "where")
    table = source.name(tree.this)
    scope = Scope(source, qualifiers_of(source, tree.this, table))
    return Delete(table, scope.where(tree))


def _update(source: Source, tree: exp.Update) -> Update:
    source.only(tree, "this", "expressions", "where")
    table = source.name(tree.this)
    scope = Scope(source, qualifiers_of(source, tree.this, table))
    return Update(table, scope.assignments(tree.expressions, scope), scope.where(tree))


def _insert(source: Source, tree: exp.Insert) -> Insert:
    source.only(tree, "this", "expression", "where", "by_name")
    if tree.args.get("where") is None:
        for keyword in (TokenType.WHERE, TokenType.REPLACE):
            source.refuse_empty(keyword, TokenType.VALUES, TokenType.SELECT, TokenType.WITH)
    written = tree.this if isinstance(tree.this, exp.Schema) else None
    target = tree.this if written is None else written.this
    table = source.name(target)
    scope = Scope(source, qualifiers_of(source, target, table))
    columns = None if written is None else scope.columns(written.expressions)
    by_name = bool(tree.args.get("by_name"))
    if by_name and (columns is not None or not isinstance(tree.expression, exp.Query)):
        raise source.refusal(target, "BY NAME goes with a SELECT and without a list of columns")
    return Insert(
        table=table,
        rows=read_rows(source, tree.expression),
        columns=columns,
        replace=scope.condition(tree.args.get("where")),
        by_name=by_name,
    )
