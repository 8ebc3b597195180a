"""Predicates as values: one small typed tree.

Comparisons follow SQL's three-valued logic: a comparison with a null is null, and only rows for which a predicate is
true match it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal

import attrs

from tablespec.model.schema import DataType

Scalar = bool | int | float | str | bytes | Decimal | date | datetime | None


def _identity(value: Scalar) -> tuple[type, Scalar]:
    # Python finds 1 equal to True and to 1.0, and NaN not equal to itself.
    return type(value), "NaN" if isinstance(value, float) and math.isnan(value) else value


class Op(enum.Enum):
    """How two values are compared; NULL_SAFE_EQ is never null and holds for two nulls."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    NULL_SAFE_EQ = "<=>"

    @property
    def mirrored(self) -> Op:
        """The comparison that says the same with the operands swapped."""
        return _MIRRORED.get(self, self)

    @property
    def negated(self) -> Op | None:
        """The comparison that is true where this one is false; null-safe equality has none."""
        return _NEGATED.get(self)


_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.LE: Op.GT, Op.GT: Op.LE}


@attrs.frozen
class Written:
    """Where in SQL text a column stands.

    `tables` are the tables that the text is about: what a path begins with, and what the text calls it.
    """

    text: str
    position: int | None
    tables: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class Column:
    """A column, or a field of a struct column; `type` is None until bound.

    `written` is for what errors say: columns are the same wherever they are written.
    """

    path: tuple[str, ...]
    type: DataType | None = None
    written: Written | None = attrs.field(default=None, eq=False, repr=False)

    @property
    def name(self) -> str:
        """The path joined by dots."""
        return ".".join(self.path)

    @property
    def spoken_path(self) -> tuple[str, ...]:
        """The path from the table on, which has the name that the text gives it."""
        return (self.spoken_table(self.path[0]), *self.path[1:])

    @property
    def spoken_name(self) -> str:
        """The spoken path joined by dots."""
        return ".".join(self.spoken_path)

    def spoken_table(self, table: str) -> str:
        """What the text calls a table."""
        tables = () if self.written is None else self.written.tables
        return next((spoken for name, spoken in tables if name == table.lower()), table)


@attrs.frozen
class Literal:
    """A constant; `type` is None until bound. As a predicate it is true, false or null."""

    value: Scalar = attrs.field(eq=_identity)
    type: DataType | None = None


Operand = Column | Literal


@attrs.frozen
class Compare:
    """Two operands compared."""

    op: Op
    left: Operand
    right: Operand


@attrs.frozen
class In:
    """Whether a column equals one of the values; null when it does not and one of them, or the column, is null."""

    column: Column
    values: tuple[Literal, ...]


@attrs.frozen
class IsNull:
    """Whether a column is null; never null itself."""

    column: Column


class TextTest(enum.Enum):
    """Where in a string a piece of text must stand."""

    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"


@attrs.frozen
class Text:
    """Whether a string column starts with, ends with or contains `value`, character by character."""

    test: TextTest
    column: Column
    value: str


@attrs.frozen
class Match:
    """Whether a full-text query matches the words of some columns, which a tokenizer tells; null where all of them are null.

    Without a tokenizer it is the one that the schema names for the columns, see `TOKENIZER`.
    """

    columns: tuple[Column, ...]
    query: str
    tokenizer: str = ""


@attrs.frozen
class And:
    """All operands hold; at least two of them."""

    operands: tuple[Predicate, ...]


@attrs.frozen
class Or:
    """At least one of the operands holds; at least two of them."""

    operands: tuple[Predicate, ...]


@attrs.frozen
class Not:
    """The operand is false."""

    operand: Predicate


Predicate = Literal | Compare | In | IsNull | Text | Match | And | Or | Not

TRUE = Literal(True)
FALSE = Literal(False)


def columns_of(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """The paths of all columns that a predicate looks at."""
    return frozenset(column.path for column in columns_in(predicate))


def columns_in(predicate: Predicate) -> Iterator[Column]:
    """All columns that a predicate looks at, as often as it does."""
    match predicate:
        case Literal():
            return
        case Compare(_, left, right):
            yield from (operand for operand in (left, right) if isinstance(operand, Column))
        case In(column, _) | IsNull(column) | Text(_, column, _):
            yield column
        case Match(columns):
            yield from columns
        case And(operands) | Or(operands):
            for operand in operands:
                yield from columns_in(operand)
        case Not(operand):
            yield from columns_in(operand)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """The parts of a predicate that must all hold."""
    if isinstance(predicate, And):
        return tuple(part for operand in predicate.operands for part in conjuncts(operand))
    return (predicate,)


def all_of(predicates: tuple[Predicate, ...]) -> Predicate:
    """The conjunction of any number of predicates; true for none."""
    parts = tuple(part for predicate in predicates for part in conjuncts(predicate) if part != TRUE)
    if not parts:
        return TRUE
    return parts[0] if len(parts) == 1 else And(parts)


def asks_for_nulls(predicate: Predicate) -> bool:
    """Whether a predicate can be true because a column is null."""
    match predicate:
        case IsNull():
            return True
        case Compare(op, _, _):
            return op is Op.NULL_SAFE_EQ
        case And(operands) | Or(operands):
            return any(asks_for_nulls(operand) for operand in operands)
        case Not(operand):
            return asks_for_nulls(operand)
        case _:
            return False
