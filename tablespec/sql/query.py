"""What an engine must know of a statement before it is read: the table that it changes, and the query that its rows come from."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from sqlglot.tokenizer_core import Token, TokenType

from tablespec.errors import InvalidStatementError
from tablespec.expr.dialect import statement_tokens, text_tokens

_BEFORE_NAMES = {"DELETE": ("FROM",), "UPDATE": (), "INSERT": ("INTO", "OVERWRITE", "TABLE"), "MERGE": ("INTO",)}
_OTHER_VERBS = ("ALTER", "COMMENT", "COPY", "CREATE", "DROP", "REPLACE", "TRUNCATE")
# These take several names.
_LISTING_VERBS = ("DROP", "TRUNCATE")
# What may stand between the verb of any statement and the name of the table that it is about.
_BEFORE_ALL_NAMES = {
    *(
        "COLUMN",
        "DATABASE",
        "EXISTS",
        "EXTERNAL",
        "FROM",
        "GLOBAL",
        "IF",
        "IGNORE",
        "INTO",
        "MATERIALIZED",
        "NAMESPACE",
        "NOT",
    ),
    *("ON", "OR", "OVERWRITE", "REPLACE", "SCHEMA", "TABLE", "TEMP", "TEMPORARY", "VIEW"),
}
_QUERIES = ("SELECT", "WITH", "FROM", "TABLE", "MAP", "REDUCE")
_BEGINNINGS = (*_BEFORE_NAMES, *_OTHER_VERBS, *_QUERIES)


@attrs.frozen
class Query:
    """A query that an engine answers, and where in the statement it stands."""

    text: str
    position: int = attrs.field(eq=False)


def changed_table(text: str) -> tuple[str, ...] | None:
    """The name, in parts, of the table that a DELETE, UPDATE, INSERT or MERGE changes; None for every other text."""
    try:
        tokens = statement_tokens(text)
    except InvalidStatementError:
        return None
    first = _word(tokens, 0)
    if first not in _BEFORE_NAMES:
        return None
    start = 1
    while _word(tokens, start) in _BEFORE_NAMES[first] and _word(tokens, start + 1) != ".":
        start += 1
    return _name(tokens, start) or None


def altered_tables(text: str) -> tuple[tuple[str, ...], ...]:
    """The names, in parts, of the tables that the statements of a text make, change or remove, or would if they were not explained."""
    return tuple(name for tokens in _statements(text) for name in _altered(tokens))


def names_in(text: str) -> tuple[tuple[str, ...], ...]:
    """Every name of several parts that stands in a text, whatever it is the name of; none where it cannot be read."""
    found = list[tuple[str, ...]]()
    for tokens in _statements(text):
        starts = [start for start in range(len(tokens)) if not start or _word(tokens, start - 1) != "."]
        found += [_name(tokens, start) for start in starts]
    return tuple(name for name in found if len(name) > 1)


@attrs.frozen
class CutQuery:
    """The query of a statement, and the tokens `first` to `last` that it stands in, without the last."""

    query: Query
    first: int
    last: int

    @classmethod
    def of(cls, text: str, tokens: Sequence[Token]) -> CutQuery | None:
        """The query that an INSERT or a MERGE takes its rows from; None where they are written out."""
        match _word(tokens, 0):
            case "INSERT":
                first = _first_of_insert(tokens)
                return None if first is None else cls._between(text, tokens, first, len(tokens))
            case "MERGE":
                using = next((index for index in range(len(tokens)) if _word(tokens, index) == "USING"), None)
                if using is None or _word(tokens, using + 1) == "VALUES":
                    return None
                if _word(tokens, using + 1) != "(":
                    return cls._of_name(text, tokens, using + 1)
                last = _closing(tokens, using + 1)
                is_written_out = _word(tokens, using + 2) == "VALUES"
                return None if is_written_out else cls._between(text, tokens, using + 2, last)
            case _:
                return None

    @classmethod
    def _between(cls, text: str, tokens: Sequence[Token], first: int, last: int) -> CutQuery | None:
        if first >= last:
            return None
        start, end = tokens[first].start, tokens[last - 1].end + 1
        return cls(Query(text[start:end], start), first, last)

    @classmethod
    def _of_name(cls, text: str, tokens: Sequence[Token], first: int) -> CutQuery | None:
        end = _end_of_name(tokens, first)
        if end == first:
            return None
        written = text[tokens[first].start : tokens[end - 1].end + 1]
        return cls(Query(f"SELECT * FROM {written}", tokens[first].start), first, first)


def _first_of_insert(tokens: Sequence[Token]) -> int | None:
    """Where the query of an INSERT begins: outside of all brackets, or with the bracket that ends the statement."""
    depth, start = 0, 1
    while _word(tokens, start) in _BEFORE_NAMES["INSERT"] and _word(tokens, start + 1) != ".":
        start += 1
    for index in range(_end_of_name(tokens, start), len(tokens)):
        word = _word(tokens, index)
        if depth == 0 and (word in _QUERIES or (word == "(" and _closing(tokens, index) == len(tokens) - 1)):
            return index
        if depth == 0 and word == "VALUES":
            return None
        depth += (word == "(") - (word == ")")
    return None


def _statements(text: str) -> list[list[Token]]:
    """The tokens of each statement of a text, of one that is explained without that; none where it cannot be read."""
    found: list[list[Token]] = [[]]
    try:
        tokens = text_tokens(text)
    except InvalidStatementError:
        return []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [statement for one in found for statement in _unexplained(one)]


def _unexplained(tokens: list[Token]) -> list[list[Token]]:
    if _word(tokens, 0) != "EXPLAIN" or len(tokens) < 2:
        return [tokens]
    # What follows is one token, like a text: options and a statement.
    return [
        inner[next((index for index in range(len(inner)) if _word(inner, index) in _BEGINNINGS), len(inner)) :]
        for inner in _statements(tokens[1].text)
    ]


def _altered(tokens: Sequence[Token]) -> list[tuple[str, ...]]:
    """The names of the tables that one statement alters."""
    first = _after_with(tokens) if _word(tokens, 0) == "WITH" else 0
    if _word(tokens, first) == "FROM":
        # Spark can write the query first.
        verbs = [index for index in range(first, len(tokens)) if _word(tokens, index) == "INSERT"]
        return [name for verb in verbs for name in _altered(tokens[verb:])]
    verb = _word(tokens, first)
    if verb not in (*_BEFORE_NAMES, *_OTHER_VERBS):
        return []
    start = first + 1
    while _word(tokens, start) in _BEFORE_ALL_NAMES and _word(tokens, start + 1) != ".":
        start += 1
    if verb == "COPY" and not _is_filled(tokens, _end_of_name(tokens, start)):
        return []
    names = [_name(tokens, start)]
    while verb in _LISTING_VERBS and _word(tokens, end := _end_of_name(tokens, start)) == ",":
        start = end + 1
        names.append(_name(tokens, start))
    return [name for name in names if name]


def _after_with(tokens: Sequence[Token]) -> int:
    """Where the statement begins to which WITH gives names of queries."""
    depth = 0
    for index in range(1, len(tokens)):
        word = _word(tokens, index)
        if depth == 0 and (word in _BEFORE_NAMES or word in _QUERIES) and _word(tokens, index - 1) == ")":
            return index
        depth += (word == "(") - (word == ")")
    return len(tokens)


def _is_filled(tokens: Sequence[Token], end: int) -> bool:
    """Whether COPY reads a file into the table whose name ends there, and does not write its rows into one."""
    after = _closing(tokens, end) + 1 if _word(tokens, end) == "(" else end
    return _word(tokens, after) == "FROM"


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """The token that closes a bracket; past the end where there is none."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (_word(tokens, index) == "(") - (_word(tokens, index) == ")")
        if depth == 0:
            return index
    return len(tokens)


def _name(tokens: Sequence[Token], start: int) -> tuple[str, ...]:
    """The name that begins there, in parts; empty where none does."""
    return tuple(token.text for token in tokens[start : _end_of_name(tokens, start) : 2])


def _end_of_name(tokens: Sequence[Token], start: int) -> int:
    """The token after a name in parts."""
    end = start
    while end < len(tokens) and _is_part(tokens[end]):
        if _word(tokens, end + 1) != ".":
            return end + 1
        end += 2
    return end


def _is_part(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or token.text.isidentifier()


def _word(tokens: Sequence[Token], index: int) -> str:
    """A keyword or sign; empty for text and names in quotes, and where there is nothing."""
    if index >= len(tokens) or tokens[index].token_type in (TokenType.IDENTIFIER, TokenType.STRING):
        return ""
    return tokens[index].text.upper()
