"""The text of one statement, its syntax tree, and what is refused in it and where."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tablespec.errors import InvalidStatementError
from tablespec.expr.dialect import place_of, statement_tokens, statement_tree
from tablespec.sql.query import CutQuery, Query
from tablespec.sql.statement import Name

ENGINES = "run the query with an engine, and hand its result to append, replace_where or merge"
STATEMENTS = "DELETE FROM, UPDATE, INSERT INTO and MERGE INTO"

_VERBS = ("DELETE", "UPDATE", "INSERT", "MERGE")
# What a person calls a part of a statement that sqlglot names otherwise.
_KEYWORDS = {
    "tables": "DELETE without FROM",
    "from_": "FROM",
    "with_": "WITH",
    "order": "ORDER BY",
    "group": "GROUP BY",
    "joins": "JOIN",
    "laterals": "LATERAL",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "conflict": "ON CONFLICT",
    "source": "TABLE",
    "default": "DEFAULT VALUES",
    "alternative": "OR",
    "except_": "EXCEPT",
    "columns": "names of columns",
    "expressions": "a list",
}


@attrs.frozen(eq=False)
class Source:
    """A statement as it was written; make it with `Source.read`."""

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Expr
    query: Query | None = None

    @classmethod
    def read(cls, text: str, *, cut_query: bool = False) -> Source:
        """The statement in the text; raises InvalidStatementError for anything but one that changes rows.

        With `cut_query` the query that its rows come from is not looked into.
        """
        tokens = statement_tokens(text)
        first = tokens[0].text.upper() if tokens else ""
        if first not in _VERBS:
            raise InvalidStatementError(text, tokens[0].start if tokens else 0, _why_none(tokens))
        _allow_table_as_a_name(tokens)
        cut = CutQuery.of(text, tokens) if cut_query else None
        if cut is not None and cut.first < cut.last:
            tokens = [*tokens[: cut.first], *statement_tokens("SELECT *"), *tokens[cut.last :]]
        return cls(text, tuple(tokens), statement_tree(tokens, text), None if cut is None else cut.query)

    def refusal(self, node: exp.Expr, why: str) -> InvalidStatementError:
        """The error that names the place of a part of the statement."""
        return InvalidStatementError(self.text, self.position(node), why)

    def position(self, node: exp.Expr) -> int:
        """Where the first name or constant of a part stands; the beginning where it has none."""
        return place_of(node) or 0

    def only(self, node: exp.Expr, *parts: str) -> None:
        """Refuse everything that a part of the statement has besides these: nothing is ever left out silently."""
        for part, value in node.args.items():
            if value and part not in parts:
                keyword = _KEYWORDS.get(part, part.strip("_").replace("_", " ").upper())
                why = f"{keyword} is not supported here"
                hint = f"; {ENGINES}" if isinstance(node, exp.Query) else ""
                raise InvalidStatementError(self.text, self._place(keyword, node, value), why + hint)

    def name(self, table: exp.Expr | None, *parts: str) -> Name:
        """The name of a table that stands without anything but an alias and the given parts."""
        if not isinstance(table, exp.Table) or not all(isinstance(part, exp.Identifier) for part in table.parts):
            raise self.refusal(table or self.tree, "a name of a table must stand here")
        self.only(table, "this", "db", "catalog", "alias", *parts)
        return Name(tuple(part.name for part in table.parts), self.position(table.parts[0]))

    def refuse_empty(self, keyword: TokenType, *following: TokenType) -> None:
        """Refuse a keyword right before one of the following: sqlglot leaves the condition between them out, and every row is meant."""
        for before, one, after in zip(self.tokens, self.tokens[1:], self.tokens[2:]):
            named = before.token_type in (TokenType.INTO, TokenType.TABLE, TokenType.DOT)
            if one.token_type == keyword and after.token_type in following and not named:
                raise InvalidStatementError(self.text, one.start, f"a condition is missing after {one.text.upper()}")

    def when_positions(self) -> list[int]:
        """Where the clauses of a MERGE begin; unlike names and constants, keywords have no place in sqlglot's tree."""
        words = [token.text.upper() for token in self.tokens]
        places, cases = list[int](), 0
        for index, token in enumerate(self.tokens):
            # CASE WHEN matched THEN tests a column.
            cases += (token.token_type == TokenType.CASE) - (cases > 0 and token.token_type == TokenType.END)
            following = words[index : index + 3]
            if not cases and (following[:2] == ["WHEN", "MATCHED"] or following == ["WHEN", "NOT", "MATCHED"]):
                places.append(token.start)
        return places

    def _place(self, keyword: str, node: exp.Expr, value: object) -> int:
        """Where a keyword stands: the last one before what belongs to it, or else the one next to the names of the part."""
        inner = [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, exp.Expr)]
        known = min((place for place in map(place_of, inner) if place is not None), default=None)
        border = self.position(node) if known is None else known
        word = keyword.split(" ")[0]
        places = [
            token.start
            for token in self.tokens
            if token.text.upper().split()[:1] == [word]
            and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        ]
        before = [place for place in places if place < border]
        after = [place for place in places if place > border and known is None]
        return before[-1] if before else after[0] if after else border


def _why_none(tokens: Sequence[Token]) -> str:
    """Why text is no statement that changes rows, by how it begins."""
    words = [token.text.upper() for token in tokens]
    first = words[0] if words else "nothing"
    changing = next((word for word in words if word in _VERBS), None)
    if first == "WITH" and changing is not None:
        return f"WITH begins a query, which is not supported before {changing}; {ENGINES}"
    if first in ("SELECT", "WITH", "FROM", "("):
        return f"{first} begins a query; queries are the engines' matter"
    return f"{first} is not one of {STATEMENTS}"


def _allow_table_as_a_name(tokens: list[Token]) -> None:
    """Let `INSERT INTO table VALUES` name a table called `table`; elsewhere sqlglot does by itself."""
    words = [token.text.upper() for token in tokens[:4]]
    if (
        words[:3] == ["INSERT", "INTO", "TABLE"]
        and words[3:]
        and words[3] in ("VALUES", "SELECT", "REPLACE", "BY", "(")
    ):
        tokens[2].token_type = TokenType.VAR
