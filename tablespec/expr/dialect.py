"""The SQL that predicates and statements are written in, taken apart by sqlglot."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from tablespec.errors import InvalidPredicateError, InvalidStatementError
from tablespec.expr.literal import number

MAX_NESTING = 32
"""How many brackets may stand inside each other, and how many NOTs or signs in a row."""

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_PREFIXES = (TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE)
_OUTSIDE_COMMENTS = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\r\n]*|/\*""")
_INSIDE_COMMENTS = re.compile(r"/\*|\*/")


def _placed(read: Callable[[parser.Parser], exp.Expr | None]) -> Callable[[parser.Parser], exp.Expr | None]:
    """Reads a function and keeps its place, as sqlglot does for those that it has no reader for."""

    def read_placed(reader: parser.Parser) -> exp.Expr | None:
        # The name and its opening bracket were just passed.
        name = reader._tokens[reader._index - 2]
        found = read(reader)
        return None if found is None else found.update_positions(name)

    return read_placed


class PredicateSql(Dialect):
    """The SQL that people of Spark and of DuckDB have in common.

    Names may stand in back-quotes or in double quotes, text only in single quotes. A quote inside is doubled, and a
    backslash is a plain character.
    """

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS = ["`", '"']  # noqa: RUF012 - sqlglot's classes are configured so
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012

    class Parser(parser.Parser):
        # MATCH(column, 'query') is an ordinary function here, not MySQL's MATCH (column) AGAINST ('query').
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: _placed(read) for name, read in parser.Parser.FUNCTION_PARSERS.items() if name != "MATCH"
        }
        PRIMARY_PARSERS = {  # noqa: RUF012
            **parser.Parser.PRIMARY_PARSERS,
            TokenType.TRUE: lambda reader, token: reader.expression(exp.Boolean(this=True), token),
            TokenType.FALSE: lambda reader, token: reader.expression(exp.Boolean(this=False), token),
        }
        # IF is a function like others, not the start of a statement.
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: read for name, read in parser.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name != "IF"
        }


_DIALECT = PredicateSql()

# What the parts of a syntax tree are written with that have no place of their own.
_WORDS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.ILike: "ILIKE",
    exp.RegexpLike: "RLIKE",
    exp.Case: "CASE",
    exp.Exists: "EXISTS",
    exp.Select: "SELECT",
    exp.Subquery: "SELECT",
    exp.Tuple: "(",
    exp.Placeholder: "?",
    exp.CurrentDate: "CURRENT_DATE",
    exp.CurrentTimestamp: "CURRENT_TIMESTAMP",
}

_Invalid = type[InvalidPredicateError | InvalidStatementError]


def syntax_tree(text: str) -> exp.Expr:
    """What sqlglot makes of the text of one condition; raises InvalidPredicateError where it is none."""
    found = _tokens(text, InvalidPredicateError)
    for token in found:
        if token.token_type == TokenType.SEMICOLON:
            raise InvalidPredicateError(text, token.start, "a predicate is one condition, without ';'")
    reader = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=len(text))
    try:
        trees = reader.parse_into(exp.Condition, found, text)
    except ParseError as error:
        raise InvalidPredicateError(text, *_parse_problem(error)) from None
    if not trees or trees[0] is None:
        raise InvalidPredicateError(text, 0, "there is no condition in it")
    return trees[0]


def place_of(node: exp.Expr) -> int | None:
    """Where the first name or constant of a part of a syntax tree begins; None where it has none."""
    return min((one.meta["start"] for one in node.walk() if "start" in one.meta), default=None)


def place_in(text: str, node: exp.Expr) -> int | None:
    """Where the sign or keyword of a part of the syntax tree of `text` stands, or else the part, or what it is in."""
    here, around = place_of(node), _place_around(node)
    places = _places_of_word(text, _WORDS.get(type(node), ""))
    left = _last_place(node.this) if isinstance(node, exp.Binary) else None
    if left is not None or here is None:
        # What nothing has a place around is the first of its kind.
        start = left if left is not None else -1 if around is None else around
        fallback = around if here is None else here
        return min((place for place in places if place > start), default=fallback)
    return max((place for place in places if place < here), default=here)


def _place_around(node: exp.Expr) -> int | None:
    """The place of the nearest part around a part that has one."""
    around = node.parent
    while around is not None and place_of(around) is None:
        around = around.parent
    return None if around is None else place_of(around)


def _last_place(node: exp.Expr) -> int | None:
    """Where the last name or constant of a part begins; None where it has none."""
    return max((one.meta["start"] for one in node.walk() if "start" in one.meta), default=None)


def _places_of_word(text: str, word: str) -> list[int]:
    """Where a sign or keyword stands in a text."""
    return [
        token.start
        for token in (_known_tokens(text) if word else ())
        if token.text.upper() == word and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
    ]


def _known_tokens(text: str) -> list[Token]:
    """The tokens of a text; none where the query in it is an engine's, whose signs are not known here."""
    try:
        return _DIALECT.tokenize(text)
    except TokenError:
        return []


def statement_tree(found: list[Token], text: str) -> exp.Expr:
    """What sqlglot makes of the tokens of one statement; raises InvalidStatementError where it is none."""
    reader = _DIALECT.parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=len(text))
    try:
        trees = reader.parse(found, text)
    except ParseError as error:
        raise InvalidStatementError(text, *_parse_problem(error)) from None
    if not trees or trees[0] is None:
        raise InvalidStatementError(text, 0, "there is no statement in it")
    return trees[0]


def statement_tokens(text: str) -> list[Token]:
    """The tokens of one statement, without a semicolon at its end; raises InvalidStatementError for more than one."""
    found = text_tokens(text)
    while found and found[-1].token_type == TokenType.SEMICOLON:
        found.pop()
    for token in found:
        if token.token_type == TokenType.SEMICOLON:
            raise InvalidStatementError(text, token.start, "one statement is run at a time")
    return found


def text_tokens(text: str) -> list[Token]:
    """The tokens of a text of any number of statements."""
    return _tokens(text, InvalidStatementError)


def _tokens(text: str, invalid: _Invalid) -> list[Token]:
    try:
        found = _DIALECT.tokenize(text)
    except TokenError as error:
        raise invalid(text, *_token_problem(error, text)) from None
    _check(text, found, invalid)
    return found


def _check(text: str, found: list[Token], invalid: _Invalid) -> None:
    depth = prefixes = 0
    for token in found:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if max(depth, prefixes) > MAX_NESTING:
            raise invalid(text, token.start, f"it is nested more than {MAX_NESTING} deep")
        if kind == TokenType.NUMBER and number(token.text) is None:
            raise invalid(text, token.start, f"{token.text[:40]!r} is not a number")
        if kind == TokenType.HEX_STRING and text[token.start] not in "xX":
            raise invalid(text, token.start, "bytes are written X'00ff'")
        if kind == TokenType.HEX_STRING and len(token.text) % 2:
            raise invalid(text, token.start, "bytes have two hexadecimal digits each")


def _token_problem(error: TokenError, text: str) -> tuple[int, str]:
    """Where a piece of text has no end, and what is the matter; sqlglot writes "Missing ' from line:offset"."""
    cause = str(error.__cause__ or error)
    what, _, offset = cause.rpartition(":")
    if "Missing" in what:
        missing = what.removeprefix("Missing ").split(" ")[0]
        return int(offset) if offset.isdecimal() else 0, f"the closing {missing} is missing"
    if (comment := _open_comment(text)) is not None:
        return comment, "the closing */ is missing"
    return int(offset) if offset.isdecimal() else 0, "these characters mean nothing"


def _open_comment(text: str) -> int | None:
    """Where a comment begins that has no end, of which sqlglot tells nothing; comments nest."""
    opened: list[int] = []
    found = _OUTSIDE_COMMENTS.search(text)
    while found is not None:
        if found[0] == "/*":
            opened.append(found.start())
        elif opened:
            opened.pop()
        found = (_INSIDE_COMMENTS if opened else _OUTSIDE_COMMENTS).search(text, found.end())
    return opened[0] if opened else None


def _parse_problem(error: ParseError) -> tuple[int, str]:
    problem = error.errors[0]
    position, near = len(problem["start_context"]), problem["highlight"]
    what = str(problem["description"])
    if what.startswith("Expecting"):
        return position, f"expected {what.removeprefix('Expecting ')} after {near!r}"
    if what.startswith("Required keyword"):
        return position, f"something is missing around {near!r}"
    return position, f"unexpected {near!r}"
