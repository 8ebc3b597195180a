"""Expressions that give values, as one small typed tree.

They are what `UPDATE SET column = expression` and MERGE compute: functions of columns and constants, casts, and choices
between values by predicates. SQL's nulls hold: a function of a null is null, except where a function says otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import attrs

from tablespec.expr.nodes import Column, Literal, Predicate, columns_in
from tablespec.model.schema import DataType


class Function(enum.Enum):
    """What can be called; `if` and `CASE` are a Case.

    Division gives a double for integers, and null where the divisor is zero. The remainder has the sign of the
    dividend. COALESCE, GREATEST and LEAST skip nulls. TRIM takes spaces from both ends, LENGTH counts characters,
    positions in SUBSTRING start at 1 and count from the end when negative, and ROUND takes halves away from zero.
    """

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"
    CONCAT = "||"
    NEGATE = "negate"
    ABS = "abs"
    ROUND = "round"
    FLOOR = "floor"
    CEIL = "ceil"
    UPPER = "upper"
    LOWER = "lower"
    TRIM = "trim"
    LENGTH = "length"
    SUBSTRING = "substring"
    REPLACE = "replace"
    COALESCE = "coalesce"
    NULLIF = "nullif"
    GREATEST = "greatest"
    LEAST = "least"


@attrs.frozen
class Arity:
    """How many arguments a function takes; `most` is None for any number."""

    least: int
    most: int | None

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.least} or more arguments"
        return f"{self.least} arguments" if self.least == self.most else f"{self.least} to {self.most} arguments"

    def takes(self, count: int) -> bool:
        """Whether that many arguments will do."""
        return self.least <= count and (self.most is None or count <= self.most)


FUNCTIONS: dict[Function, Arity] = {
    Function.ADD: Arity(2, 2),
    Function.SUBTRACT: Arity(2, 2),
    Function.MULTIPLY: Arity(2, 2),
    Function.DIVIDE: Arity(2, 2),
    Function.REMAINDER: Arity(2, 2),
    Function.CONCAT: Arity(1, None),
    Function.NEGATE: Arity(1, 1),
    Function.ABS: Arity(1, 1),
    Function.ROUND: Arity(1, 2),
    Function.FLOOR: Arity(1, 1),
    Function.CEIL: Arity(1, 1),
    Function.UPPER: Arity(1, 1),
    Function.LOWER: Arity(1, 1),
    Function.TRIM: Arity(1, 1),
    Function.LENGTH: Arity(1, 1),
    Function.SUBSTRING: Arity(2, 3),
    Function.REPLACE: Arity(3, 3),
    Function.COALESCE: Arity(1, None),
    Function.NULLIF: Arity(2, 2),
    Function.GREATEST: Arity(2, None),
    Function.LEAST: Arity(2, None),
}


@attrs.frozen
class Call:
    """A function of values; `type` is None until bound."""

    function: Function
    arguments: tuple[Value, ...]
    type: DataType | None = None

    def __attrs_post_init__(self) -> None:
        if not FUNCTIONS[self.function].takes(len(self.arguments)):
            raise ValueError(f"{self.function.value} takes {FUNCTIONS[self.function]}, not {len(self.arguments)}")


@attrs.frozen
class Cast:
    """A value turned into another type.

    Decimals are rounded to the digits of the type, fractions are cut off on the way to integers. Text must write a value
    of the type exactly. What the type cannot hold is an error, never another value.
    """

    value: Value
    type: DataType


@attrs.frozen
class Case:
    """The value of the first branch whose predicate is true; only that one is computed. `type` is None until bound."""

    branches: tuple[tuple[Predicate, Value], ...]
    otherwise: Value
    type: DataType | None = None


Value = Column | Literal | Call | Cast | Case


def columns_of_value(value: Value) -> frozenset[tuple[str, ...]]:
    """The paths of all columns that a value is made of, those of its predicates included."""
    return frozenset(column.path for column in columns_in_value(value))


def columns_in_value(value: Value) -> Iterator[Column]:
    """All columns that a value is made of, those of its predicates included, as often as they stand there."""
    match value:
        case Column():
            yield value
        case Literal():
            return
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_in_value(argument)
        case Cast(inner, _):
            yield from columns_in_value(inner)
        case Case(branches, otherwise):
            for predicate, branch in branches:
                yield from columns_in(predicate)
                yield from columns_in_value(branch)
            yield from columns_in_value(otherwise)


def type_of(value: Value) -> DataType:
    """The type of a bound value."""
    if value.type is None:
        raise ValueError(f"{value} is not bound")
    return value.type
