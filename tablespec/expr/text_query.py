"""The language of full-text queries: text into a tree, or an error that says where and what to write instead."""

from __future__ import annotations

import re

import attrs

from tablespec.errors import InvalidTextQueryError

FARTHEST = 2
_MOST_NESTED = 100
_SPECIAL = frozenset(' \t\r\n()"')
_FIELD = re.compile(r"[A-Za-z_][\w.]*")
_SUFFIX = re.compile(r"(?P<mark>~\d*|\*)?(?:\^(?P<boost>\d+(?:\.\d+)?))?$")
_LOOKALIKES = {"&&": "AND", "||": "OR", "!": "NOT"}


@attrs.frozen
class Words:
    """Text whose words stand one after the other, at most `slop` places out of order; the last may be a beginning only."""

    text: str
    slop: int = 0
    prefix: bool = False


@attrs.frozen
class Fuzzy:
    """A word with at most `distance` letters changed, added, left out or swapped."""

    text: str
    distance: int


@attrs.frozen
class Anything:
    """Whatever is not null."""


@attrs.frozen
class In:
    """The operand, in one column."""

    column: str
    operand: TextQuery


@attrs.frozen
class Boosted:
    """The operand, counted so many times when rows are ranked."""

    operand: TextQuery
    factor: float


@attrs.frozen
class Clauses:
    """All of `must`, none of `must_not`, and where nothing must be there at least one of `should`."""

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()


TextQuery = Words | Fuzzy | Anything | In | Boosted | Clauses


def parse_text_query(text: str, columns: tuple[str, ...]) -> TextQuery:
    """The tree of a query over some columns; raises InvalidTextQueryError, which names the position.

    Clauses that stand side by side are alternatives, `+` and `-` mark those that must and must not match. AND, OR and NOT join them;
    AND binds closer. A word may end in `*` (any ending) or `~1`, `~2` (so many letters differ), a phrase in `~n` (so many places apart)
    or `*`. `column:` before a clause chooses a column, `^2` after it makes it count more.
    """
    reading = _Reading(text, columns)
    found = reading.sequence(0)
    if reading.rest():
        raise reading.error("this parenthesis was never opened")
    return found


@attrs.define
class _Reading:
    """How far a query has been read."""

    text: str
    columns: tuple[str, ...]
    at: int = 0

    def error(self, why: str, at: int | None = None) -> InvalidTextQueryError:
        return InvalidTextQueryError(self.text, self.at if at is None else at, why)

    def rest(self) -> bool:
        """Whether more follows, once white space is passed over."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.at < len(self.text)

    def sequence(self, depth: int) -> TextQuery:
        """Clauses up to the end or a closing parenthesis."""
        if depth > _MOST_NESTED:
            raise self.error(f"parentheses are nested more than {_MOST_NESTED} deep")
        start = self.at
        found: list[tuple[str, TextQuery]] = []
        while self.rest() and self.text[self.at] != ")":
            found.append(self._alternatives(depth))
        if not found:
            raise self.error("there is no word to look for", start)
        return _joined(found)

    def _alternatives(self, depth: int) -> tuple[str, TextQuery]:
        signed = [self._all(depth)]
        while self._keyword("OR"):
            signed.append(self._all(depth))
        if len(signed) == 1:
            return signed[0]
        # "a OR NOT b" asks for rows without b too, so that the negation belongs to its clause alone.
        return "", Clauses(should=tuple(_alone(sign, query) for sign, query in signed))

    def _all(self, depth: int) -> tuple[str, TextQuery]:
        signed = [self._clause(depth)]
        while self._keyword("AND"):
            signed.append(self._clause(depth))
        if len(signed) == 1:
            return signed[0]
        must = tuple(query for sign, query in signed if sign != "-")
        return "", Clauses(must=must, must_not=tuple(query for sign, query in signed if sign == "-"))

    def _keyword(self, word: str) -> bool:
        before = self.at
        if self.rest() and self._peek_word() == word:
            self.at += len(word)
            return True
        self.at = before
        return False

    def _peek_word(self) -> str:
        end = self.at
        while end < len(self.text) and self.text[end] not in _SPECIAL:
            end += 1
        return self.text[self.at : end]

    def _clause(self, depth: int) -> tuple[str, TextQuery]:
        if not self.rest() or self.text[self.at] == ")":
            raise self.error("a word, a phrase or a parenthesis must follow")
        sign = ""
        if self._peek_word() == "NOT":
            self.at += 3
            sign = "-"
            if not self.rest():
                raise self.error("a word, a phrase or a parenthesis must follow NOT")
        elif self.text[self.at] in "+-":
            sign = self.text[self.at]
            self.at += 1
            if self.at == len(self.text) or self.text[self.at].isspace() or self.text[self.at] == ")":
                raise self.error(
                    f"a word must follow {sign} without a space; to look for the sign itself put it in quotes"
                )
        return sign, self._atom(depth)

    def _atom(self, depth: int) -> TextQuery:
        start = self.at
        if self.text[start] == "(":
            self.at += 1
            inner = self.sequence(depth + 1)
            if not self.rest():
                raise self.error("this parenthesis is never closed", start)
            self.at += 1
            return self._suffixed(inner, start, "a parenthesis")
        if self.text[start] == '"':
            return self._phrase(start)
        word = self._word()
        if word in ("AND", "OR", "NOT"):
            raise self.error(f"{word} joins clauses; to look for the word write it in small letters", start)
        if word in _LOOKALIKES:
            raise self.error(f"write {_LOOKALIKES[word]} instead of {word}", start)
        column = self._column(word, start)
        if column is not None:
            self.at = start + len(column) + 1
            if self.at == len(self.text) or self.text[self.at].isspace() or self.text[self.at] == ")":
                raise self.error(f"a word must follow {column}: without a space")
            return In(self._known(column, start), self._atom(depth))
        return self._read_word(word, start)

    def _word(self) -> str:
        """The characters up to the next space, quote or parenthesis; a backslash takes the next one as it is."""
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _SPECIAL:
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at = min(self.at, len(self.text))
        return self.text[start : self.at]

    def _column(self, word: str, start: int) -> str | None:
        found = _FIELD.match(word)
        if found is None or not word[found.end() :].startswith(":"):
            return None
        return found[0]

    def _known(self, column: str, start: int) -> str:
        known = [name for name in self.columns if name.lower() == column.lower()]
        if not known:
            names = ", ".join(self.columns)
            raise self.error(
                f"{column} is none of the columns {names}; to look for the text itself put it in quotes", start
            )
        return known[0]

    def _read_word(self, word: str, start: int) -> TextQuery:
        if word == "*":
            return Anything()
        plain = re.sub(r"\\.", lambda escaped: "\0" * len(escaped[0]), word)
        suffix = _SUFFIX.search(plain)
        assert suffix is not None
        body, mark, boost = word[: suffix.start()], suffix["mark"] or "", suffix["boost"]
        self._refuse_lookalikes(plain[: suffix.start()], start)
        text = re.sub(r"\\(.)", r"\1", body)
        if mark == "~":
            raise self.error(f"write {body}~1 or {body}~2: how many letters may differ", start)
        if mark.startswith("~") and not 1 <= int(mark[1:]) <= FARTHEST:
            raise self.error(f"no more than {FARTHEST} letters may differ: write {body}~1 or {body}~2", start)
        if mark and not body:
            raise self.error("a word must stand before it", start)
        found = Words(text, prefix=True) if mark == "*" else Fuzzy(text, int(mark[1:])) if mark else Words(text)
        return found if boost is None else Boosted(found, float(boost))

    def _refuse_lookalikes(self, plain: str, start: int) -> None:
        """Raise for what other languages mean something by that this one would take for letters or drop."""
        quoted = "to look for the character itself put a backslash before it"
        if (star := plain.find("*")) >= 0:
            raise self.error(f"* stands only at the end of a word; {quoted}", start + star)
        if inner := re.search(r"\w\?(?=\w)", plain):
            raise self.error(f"? stands for no character here; {quoted}", start + inner.start() + 1)
        if tilde := re.search(r"~\d*", plain):
            raise self.error(f"~ stands only at the end of a word; {quoted}", start + tilde.start())
        if (bracket := re.search(r"[\[\]{}]", plain)) is not None:
            why = "ranges and lists are no part of a text query: compare the column instead"
            raise self.error(f"{why}; {quoted}", start + bracket.start())
        if len(plain) > 2 and plain.startswith("/") and plain.endswith("/"):
            raise self.error(f"regular expressions are no part of a text query; {quoted}", start)

    def _phrase(self, start: int) -> TextQuery:
        end = start + 1
        while end < len(self.text) and self.text[end] != '"':
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise self.error("this quote is never closed", start)
        body = re.sub(r"\\(.)", r"\1", self.text[start + 1 : end])
        self.at = end + 1
        return self._suffixed(Words(body), start, "a phrase")

    def _suffixed(self, found: TextQuery, start: int, what: str) -> TextQuery:
        """What stands right after a phrase or parenthesis belongs to it."""
        at = self.at
        suffix = _SUFFIX.fullmatch(self._word())
        if suffix is None:
            raise self.error(f"a space must follow {what}", at)
        mark, boost = suffix["mark"], suffix["boost"]
        if mark is not None:
            if not isinstance(found, Words):
                raise self.error(f"{mark} follows a word or a phrase", at)
            if mark == "~":
                raise self.error("write ~ with a number: how many places the words may be apart", at)
            found = attrs.evolve(found, prefix=True) if mark == "*" else attrs.evolve(found, slop=int(mark[1:]))
        return found if boost is None else Boosted(found, float(boost))


def _joined(signed: list[tuple[str, TextQuery]]) -> TextQuery:
    """Clauses side by side."""
    if len(signed) == 1:
        return _alone(*signed[0])
    return Clauses(
        must=tuple(query for sign, query in signed if sign == "+"),
        should=tuple(query for sign, query in signed if not sign),
        must_not=tuple(query for sign, query in signed if sign == "-"),
    )


def _alone(sign: str, query: TextQuery) -> TextQuery:
    return Clauses(must_not=(query,)) if sign == "-" else query
