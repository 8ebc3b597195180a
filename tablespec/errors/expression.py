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
    """The text is not a predicate."""

    text: str
    position: int
    why: str

    def __str__(self) -> str:
        return f"cannot read the predicate at position {self.position}: {self.why}\n  {self.text}\n  {' ' * self.position}^"


@attrs.define
class UnsupportedOperatorError(TableSpecError):
    """The predicate uses something outside of the supported grammar."""

    text: str
    operator: str
    supported: str

    def __str__(self) -> str:
        return f"the predicate {self.text!r} uses {self.operator}, which is not supported; there are {self.supported}"


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
        line = self.text.count("\n", 0, self.position)
        column = self.position - (self.text.rfind("\n", 0, self.position) + 1)
        shown = self.text.split("\n")[line]
        return (
            f"cannot run the statement, line {line + 1} column {column + 1}: {self.why}\n  {shown}\n  {' ' * column}^"
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
