"""Which tables the names of columns are qualified by, in one statement."""

from __future__ import annotations

import attrs
from sqlglot import exp

from tablespec.expr.dialect import place_of
from tablespec.expr.nodes import Predicate
from tablespec.expr.parse import read_column, read_condition
from tablespec.expr.parse_value import read_value
from tablespec.expr.value import Value
from tablespec.sql.statement import Name
from tablespec.sql.syntax import Source


@attrs.frozen
class Qualifier:
    """A name, of one or more parts, that stands before columns of a table, and what stands there afterwards; empty for nothing."""

    parts: tuple[str, ...]
    becomes: str = ""

    def matches(self, path: tuple[str, ...]) -> bool:
        """Whether a path begins with this name, whatever its capitals, and goes on."""
        length = len(self.parts)
        return len(path) > length and [part.lower() for part in path[:length]] == [part.lower() for part in self.parts]


@attrs.frozen(eq=False)
class Scope:
    """Reads conditions, values and columns of a statement, with their qualifiers changed.

    A first name that is a table's means the table, even where the table has a column of that name.
    """

    source: Source
    qualifiers: tuple[Qualifier, ...]

    def condition(self, node: exp.Expr | None) -> Predicate | None:
        """The predicate that stands there, if any."""
        return None if node is None else read_condition(self._requalified(node), self.source.text)

    def where(self, tree: exp.Expr) -> Predicate | None:
        """The predicate of a WHERE, if there is one."""
        clause = tree.args.get("where")
        return None if clause is None else self.condition(clause.this)

    def assignments(self, nodes: list[exp.Expr], values: Scope) -> tuple[tuple[str, Value], ...]:
        """What `SET a = b, ...` sets, each column once; the values are read in a scope of their own."""
        found: dict[str, tuple[str, Value]] = {}
        for node in nodes:
            if not isinstance(node, exp.EQ):
                raise self.source.refusal(node, "an assignment must stand here, such as SET a = 1")
            name = self.column(node.this)
            if name.lower() in found:
                raise self.source.refusal(node, f"the column {name} is set twice")
            found[name.lower()] = name, values.value(node.expression)
        return tuple(found.values())

    def value(self, node: exp.Expr) -> Value:
        """The value that stands there."""
        for column in node.find_all(exp.Column, exp.Var):
            if column.name.upper() == "DEFAULT" and not (
                isinstance(column.this, exp.Identifier) and column.this.quoted
            ):
                raise self.source.refusal(column, "DEFAULT is not supported here")
        return read_value(self._requalified(node), self.source.text)

    def column(self, node: exp.Expr) -> str:
        """The name of the column that stands there, without its qualifier; fields of structs are refused."""
        if isinstance(node, exp.Identifier):
            return node.name
        if not isinstance(node, exp.Column | exp.Dot):
            raise self.source.refusal(node, "the name of a column must stand here")
        column = read_column(self._requalified(node), self.source.text)
        if len(column.path) > 1:
            raise self.source.refusal(
                node, f"{column.name} is a part of a column; only whole columns can be named here"
            )
        return column.path[0]

    def columns(self, nodes: list[exp.Expr]) -> tuple[str, ...]:
        """The names of the columns that stand there, each once."""
        names = tuple(map(self.column, nodes))
        for index, name in enumerate(names):
            if name.lower() in {other.lower() for other in names[:index]}:
                raise self.source.refusal(nodes[index], f"the column {name} is named twice")
        return names

    def _requalified(self, node: exp.Expr) -> exp.Expr:
        # A copy without its parent: sqlglot replaces nodes in their trees.
        copy = node.copy()
        for column in list(copy.find_all(exp.Column)):
            self._requalify(column)
        return copy

    def _requalify(self, column: exp.Column) -> None:
        column.meta["tables"] = self._tables
        parts = column.parts
        path = tuple(part.name for part in parts)
        found = next((qualifier for qualifier in self.qualifiers if qualifier.matches(path)), None)
        if found is not None:
            kept = [*([exp.to_identifier(found.becomes)] if found.becomes else []), *parts[len(found.parts) :]]
            # What is refused is pointed at where it begins, its qualifier included.
            kept[0].meta["start"] = place_of(column)
            for key, part in zip(("this", "table", "db", "catalog"), [*reversed(kept), None, None, None]):
                column.set(key, part)
        elif len(path) > 1 and path[0].lower() in {qualifier.becomes for qualifier in self.qualifiers}:
            spoken = [table for _, table in self._tables]
            names = " or ".join(f"{table}.{'.'.join(path)}" for table in spoken)
            why = f"it is not clear whose column this is; write {names}; the tables are called {' and '.join(spoken)}"
            raise self.source.refusal(column, why)

    @property
    def _tables(self) -> tuple[tuple[str, str], ...]:
        """What stands before columns afterwards, and the shortest name that the statement has for it."""
        named = {one.becomes: ".".join(one.parts) for one in self.qualifiers if one.becomes}
        return tuple(named.items())


def qualifiers_of(source: Source, table: exp.Expr, name: Name, becomes: str = "") -> tuple[Qualifier, ...]:
    """How columns of a table may be qualified: by its alias, or else by its name with or without the database."""
    if table.alias:
        if isinstance(table, exp.Table):
            source.only(table.args["alias"], "this")
        return (Qualifier((table.alias,), becomes),)
    every = (name.parts[index:] for index in range(len(name.parts)))
    return tuple(Qualifier(parts, becomes) for parts in every)
