"""Values that stand for all others: every row there can be is judged by a predicate as one of the samples is.

The values that a predicate names part those of a type into stretches, in each of which its comparisons come out alike. The least value,
every named one, and the next one after each reach all stretches. Of columns that are compared with one another each has the values of
all, and so many that every order of them is among the rows. Whether a text ends with another or contains it is left open, but for the
texts that are named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product

import attrs

from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Or,
    Predicate,
    Scalar,
    Text,
    TextTest,
    columns_of,
)
from tablespec.expr.place import At, JustAbove, place
from tablespec.expr.successor import after_prefix, counted, least, successor
from tablespec.expr.value_type import is_number
from tablespec.model.schema import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    VARIANT,
    VOID,
    DataType,
    DecimalType,
    Primitive,
    Schema,
)

MOST_ROWS = 50_000
_Path = tuple[str, ...]


@attrs.frozen(kw_only=True)
class Samples:
    """Rows of some columns, and the predicate about them that they were made for.

    The columns have names of their own, and no members. Days and times are counted from 1970, in days and microseconds.
    """

    predicate: Predicate
    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


def samples(predicate: Predicate, schema: Schema) -> Samples | None:
    """Rows that stand for all that the schema allows, for a predicate bound to it.

    None where these would be too many, or where nobody can tell: of full-text queries, and of columns of floating point that are compared
    with others.
    """
    tests = tuple(_tests(predicate))
    if any(_is_unclear(test) for test in tests):
        return None
    columns = tuple(_Sampled.of(path, tests, schema) for path in sorted(columns_of(predicate)))
    if math.prod(column.least_choices for column in columns) > MOST_ROWS:
        return None
    values = _values(columns, tests)
    if values is None or math.prod(column.choices(len(values[column.path])) for column in columns) > MOST_ROWS:
        return None
    rows = (sum(parts, ()) for parts in product(*(column.rows(values[column.path]) for column in columns)))
    names = {name: str(number) for number, name in enumerate(name for column in columns for name in column.names)}
    return Samples(
        predicate=_renamed(predicate, names),
        columns=tuple(Column((names[name],), type_) for column in columns for name, type_ in column.types),
        rows=tuple(row for row in rows if not _has_orphan(row, columns)),
    )


_Name = _Path | Text


@attrs.frozen(kw_only=True)
class _Sampled:
    """A column of which samples are taken; `open` are the tests of its texts that no stretch decides, each a column of its own."""

    path: _Path
    type: DataType
    nullable: bool
    points: tuple[Scalar, ...]
    prefixes: tuple[Text, ...] = ()
    open: tuple[Text, ...] = ()

    @staticmethod
    def of(path: _Path, tests: Sequence[Predicate], schema: Schema) -> _Sampled:
        """The column with what the tests ask of it."""
        fields = [schema.field(*path[: depth + 1]) for depth in range(len(path))]
        asked = [test for test in tests if path in columns_of(test)]
        texts = tuple(dict.fromkeys(test for test in asked if isinstance(test, Text)))
        prefixes = tuple(text for text in texts if text.test is TextTest.STARTS_WITH)
        type_ = fields[-1].type
        plain = isinstance(type_, DecimalType | Primitive) and type_ != VARIANT
        return _Sampled(
            path=path,
            # Of other types only nulls can be asked for.
            type=type_ if plain else BOOLEAN,
            nullable=any(field.nullable for field in fields) or type_ == VOID,
            points=tuple(dict.fromkeys(_points(asked, prefixes, type_))),
            prefixes=prefixes,
            open=tuple(text for text in texts if text not in prefixes),
        )

    @property
    def names(self) -> tuple[_Name, ...]:
        """What the columns of the samples are for."""
        return (self.path, *self.open)

    @property
    def types(self) -> tuple[tuple[_Name, DataType], ...]:
        """What the columns of the samples are for, with their types."""
        return ((self.path, self.type), *((text, BOOLEAN) for text in self.open))

    @property
    def least_choices(self) -> int:
        """A number of rows that there are at least, known before values are looked for."""
        return max(1, len(self.points)) << min(len(self.open), MOST_ROWS.bit_length())

    def choices(self, values: int) -> int:
        """How many rows that many values make at most."""
        return (values << len(self.open)) + 1

    def rows(self, values: Sequence[Scalar]) -> tuple[tuple[Scalar, ...], ...]:
        """The values, each with what its tests can be; null where there may be one."""
        found = [(value, *flags) for value in values for flags in self._flags(value)]
        return (*found, (None,) * len(self.names)) if self.nullable else tuple(found)

    def _flags(self, value: Scalar) -> Iterator[tuple[bool, ...]]:
        """What the tests can be for a value and those that it stands for."""
        if value in self.points and isinstance(value, str):
            # It stands for itself alone.
            yield tuple(_holds(text, value) for text in self.open)
            return
        given = [text for text in self.prefixes if isinstance(value, str) and _holds(text, value)]
        for flags in product((True, False), repeat=len(self.open)):
            held = [*given, *(text for text, flag in zip(self.open, flags) if flag)]
            if all(flag or not any(_implies(one, text) for one in held) for text, flag in zip(self.open, flags)):
                yield flags


def _tests(predicate: Predicate) -> Iterator[Predicate]:
    """The parts of a predicate that look at columns."""
    match predicate:
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _tests(operand)
        case Not(operand):
            yield from _tests(operand)
        case Literal():
            return
        case _:
            yield predicate


def _is_unclear(test: Predicate) -> bool:
    match test:
        case Match():
            return True
        case Compare(_, Column(_, left), Column(_, right)):
            # Several whole numbers equal the same double then.
            return (left in (FLOAT, DOUBLE)) != (right in (FLOAT, DOUBLE))
        case _:
            return False


def _points(tests: Sequence[Predicate], prefixes: Sequence[Text], type_: DataType) -> Iterator[Scalar]:
    """The values at which a stretch begins, beside the least of the type."""
    for test in tests:
        match test:
            case Compare(_, Column(), Literal(value)):
                yield counted(value)
            case In(_, values):
                yield from (counted(value.value) for value in values)
    for prefix in prefixes:
        yield prefix.value
        above = after_prefix(prefix.value)
        if above is not None:
            yield above
    if type_ == STRING:
        yield ""


def _values(columns: Sequence[_Sampled], tests: Sequence[Predicate]) -> Mapping[_Path, Sequence[Scalar]] | None:
    """Values of each column; None for too many."""
    found: dict[_Path, Sequence[Scalar]] = {}
    for group in _compared(columns, tests):
        values = {column.path: list(column.points) for column in group}
        # Whatever order the values of the columns have, one after the other can be moved down to a sample without changing it.
        for _ in group:
            together = [value for each in values.values() for value in each]
            values = {column.path: _steps(column.type, together) for column in group}
            if sum(map(len, values.values())) > MOST_ROWS:
                return None
        found |= values
    return found


def _compared(columns: Sequence[_Sampled], tests: Sequence[Predicate]) -> list[list[_Sampled]]:
    """The columns in groups: those that are compared with one another are together."""
    groups = [[column] for column in columns]
    for test in tests:
        if isinstance(test, Compare) and isinstance(test.right, Column):
            paths = columns_of(test)
            together = [group for group in groups if any(column.path in paths for column in group)]
            groups = [group for group in groups if group not in together] + [list(chain.from_iterable(together))]
    return groups


def _steps(type_: DataType, values: Sequence[Scalar]) -> list[Scalar]:
    """The least value of a type, those of some values that it holds or the largest ones below them, and the next after each."""
    if type_ == VOID:
        return []
    starts: dict[Scalar, None] = {least(type_): None}
    for value in values:
        match place(value, type_) if is_number(type_) else At(value):
            case At(held) | JustAbove(held):
                starts[held] = None
    steps = dict(starts)
    for start in starts:
        above = successor(start, type_)
        if above is not None:
            steps[above] = None
    return list(steps)


def _holds(text: Text, value: str) -> bool:
    match text.test:
        case TextTest.STARTS_WITH:
            return value.startswith(text.value)
        case TextTest.ENDS_WITH:
            return value.endswith(text.value)
        case TextTest.CONTAINS:
            return text.value in value


def _implies(one: Text, other: Text) -> bool:
    """Whether the other test of the same text holds wherever the one does."""
    if other.test is TextTest.CONTAINS:
        return other.value in one.value
    return one.test is other.test and _holds(other, one.value)


def _has_orphan(row: tuple[Scalar, ...], columns: Sequence[_Sampled]) -> bool:
    """Whether a member of a struct that is null has a value."""
    nulls: list[_Path] = []
    others: list[_Path] = []
    start = 0
    for column in columns:
        (nulls if row[start] is None else others).append(column.path)
        start += len(column.names)
    return any(path[: len(parent)] == parent for parent in nulls for path in others)


def _renamed(predicate: Predicate, names: Mapping[_Name, str]) -> Predicate:
    """The predicate about the columns of samples."""
    match predicate:
        case And(operands) | Or(operands):
            return type(predicate)(tuple(_renamed(operand, names) for operand in operands))
        case Not(operand):
            return Not(_renamed(operand, names))
        case Compare(op, Column(path, type_), Column(other, other_type)):
            return Compare(op, Column((names[path],), type_), Column((names[other],), other_type))
        case Compare(op, Column(path, type_), right):
            return Compare(op, Column((names[path],), type_), right)
        case In(Column(path, type_), values):
            return In(Column((names[path],), type_), values)
        case IsNull(Column(path, type_)):
            return IsNull(Column((names[path],), type_))
        case Text() if predicate in names:
            return Compare(Op.EQ, Column((names[predicate],), BOOLEAN), Literal(True, BOOLEAN))
        case Text(test, Column(path, type_), value):
            return Text(test, Column((names[path],), type_), value)
        case _:
            return predicate
