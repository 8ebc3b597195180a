"""Errors of predicates, values and statements."""

from __future__ import annotations

import attrs

from tablespec.errors.root import TableSpecError


@attrs.define
class ColumnNotFoundError(TableSpecError):
    """The schema has no such column."""

    column: str
    near: tuple[str, ...]
    where: str = "the table"

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
        return f"{self.where} has no column {self.column!r}{hint}"


@attrs.define
class AmbiguousColumnError(TableSpecError):
    """More than one table has a column of that name."""

    column: str
    candidates: tuple[str, ...]

    def __str__(self) -> str:
        return f"the column {self.column!r} is ambiguous; write {' or '.join(self.candidates)}"


@attrs.define
class InvalidPredicateError(TableSpecError):
    """The text is not a predicate; `position` is None where no part of a text is meant."""

    text: str
    position: int | None
    why: str

    def __str__(self) -> str:
        if self.position is None or not self.text:
            return f"cannot read the predicate{f' {self.text!r}' if self.text else ''}: {self.why}"
        return f"cannot read the predicate, {_place(self.text, self.position)}: {self.why}{_mark(self.text, self.position)}"


@attrs.define
class UnsupportedOperatorError(TableSpecError):
    """The predicate uses something outside of the supported grammar; `position` is None where no text was written."""

    text: str
    operator: str
    supported: str
    position: int | None = None

    def __str__(self) -> str:
        if self.position is None:
            return (
                f"the predicate {self.text!r} uses {self.operator}, which is not supported; there are {self.supported}"
            )
        return (
            f"the text uses {self.operator}, {_place(self.text, self.position)}, which is not supported; "
            f"there are {self.supported}{_mark(self.text, self.position)}"
        )


@attrs.define
class TypeMismatchError(TableSpecError):
    """A value cannot be compared with, or stored in, a column of that type."""

    column: str
    type: str
    value: str

    def __str__(self) -> str:
        return f"column {self.column} is of type {self.type}, which does not fit {self.value}"


@attrs.define
class ValueOverflowError(TableSpecError):
    """An expression gave a value that its type cannot hold."""

    expression: str
    type: str
    why: str

    def __str__(self) -> str:
        return f"{self.expression} gave a value that {self.type} cannot hold: {self.why}"


@attrs.define
class InvalidStatementError(TableSpecError):
    """The text is not an SQL statement that tablespec runs."""

    text: str
    position: int
    why: str

    def __str__(self) -> str:
        return (
            f"cannot run the statement, {_place(self.text, self.position)}: {self.why}{_mark(self.text, self.position)}"
        )


@attrs.define
class InvalidTextQueryError(TableSpecError):
    """The text is not a full-text query, or one that would be misread."""

    text: str
    position: int
    why: str

    def __str__(self) -> str:
        shown = "".join(" " if character.isspace() else character for character in self.text)
        return (
            f"cannot read the text query at position {self.position}: {self.why}\n  {shown}\n  {' ' * self.position}^"
        )


@attrs.define
class UnknownTokenizerError(TableSpecError):
    """There is no tokenizer of that name."""

    name: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"there is no tokenizer {self.name!r}; there are {', '.join(self.known)}"


def _place(text: str, position: int) -> str:
    """The line and the column of a position, both from 1 on."""
    return f"line {text.count(chr(10), 0, position) + 1} column {position - text.rfind(chr(10), 0, position)}"


def _mark(text: str, position: int) -> str:
    """The line that a position is in, and a caret below it."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0].rstrip()
    # The caret stands below its character only where each of them is as wide as a space.
    shown = "".join(" " if character.isspace() else character for character in line)
    return f"\n  {shown}\n  {' ' * (position - start)}^"
