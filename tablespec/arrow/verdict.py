"""What bounds and null counts tell about a predicate, for many row sets at once.

Everything concluded here holds for all rows of a row set, never for some row of it. So it needs no more than outer
bounds, which stay true when rows are deleted, when text is cut short and when timestamps are rounded.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias, assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import Datum, aligned, listed, text_test
from tablespec.arrow.schema import arrow_type
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
)
from tablespec.expr.verdict import Outcomes
from tablespec.model.schema import VOID


@attrs.frozen(eq=False)
class ColumnBounds:
    """What is known of one column, one value for each row set; a null, or None for an array, means unknown.

    Every value that is neither null nor NaN lies within `min` and `max`, which have the column's type. `null_count`
    counts among the same rows as `rows` of a verdict does. NaN is known to be absent only where `nan_free` says so.
    `tight` tells whether rows attain the bounds; verdicts never depend on it.
    """

    min: pa.Array | None
    max: pa.Array | None
    null_count: pa.Array | None
    tight: pa.BooleanArray | None = None
    nan_free: pa.BooleanArray | None = None


_ZERO = pa.scalar(0, pa.int64())
_TRUE, _FALSE = pa.scalar(True, pa.bool_()), pa.scalar(False, pa.bool_())

BoundsOf: TypeAlias = Callable[[tuple[str, ...]], ColumnBounds | None]


@attrs.frozen(eq=False)
class ArrowMask:
    """A truth value, never null, for each row set."""

    values: pa.BooleanArray

    def __and__(self, other: ArrowMask) -> ArrowMask:
        return ArrowMask(pc.and_(self.values, other.values))

    def __or__(self, other: ArrowMask) -> ArrowMask:
        return ArrowMask(pc.or_(self.values, other.values))

    def __invert__(self) -> ArrowMask:
        return ArrowMask(pc.invert(self.values))


def verdicts(
    predicate: Predicate, bounds_of: BoundsOf, rows: pa.Array, length: int
) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    """For each row set whether some row may match a bound predicate, and whether it has rows and all of them match."""
    found = outcomes(predicate, bounds_of, rows, length)
    return found.true.values, (found.true & ~(found.false | found.null)).values


def outcomes(predicate: Predicate, bounds_of: BoundsOf, rows: pa.Array, length: int) -> Outcomes[ArrowMask]:
    """What a bound predicate may be for some row of each of `length` row sets.

    `rows` counts the rows that the bounds are about, deleted ones included; null is unknown. A row set without rows has
    no outcome.
    """
    found = _outcomes(predicate, _Facts(bounds_of, rows, length))
    inhabited = _possible(pc.greater(rows, _ZERO))
    return Outcomes(found.true & inhabited, found.false & inhabited, found.null & inhabited)


@attrs.frozen(eq=False)
class _Facts:
    bounds_of: BoundsOf
    rows: pa.Array
    length: int

    def all(self, value: bool) -> ArrowMask:
        return ArrowMask(pa.repeat(_TRUE if value else _FALSE, self.length))


@attrs.frozen(eq=False, kw_only=True)
class _Range:
    """What one side of a comparison may be: numbers, text and so on from `low` to `high`, NaN, or null."""

    low: Datum
    high: Datum
    nan: ArrowMask
    null: ArrowMask
    value: ArrowMask


def _outcomes(predicate: Predicate, facts: _Facts) -> Outcomes[ArrowMask]:
    match predicate:
        case Literal(value):
            return Outcomes(facts.all(value is True), facts.all(value is False), facts.all(value is None))
        case Compare(op, Column() as left, Column() as right):
            return _compare(op, _range(left, facts), _range(right, facts))
        case Compare(op, Column() as column, Literal(value)) if value is not None:
            return _compare_value(op, _range(column, facts), value, facts)
        case In(column, values) if all(value.value is not None for value in values):
            return _in(_range(column, facts), tuple(value.value for value in values))
        case IsNull(column):
            found = _range(column, facts)
            return Outcomes(found.null, found.value, facts.all(False))
        case Text(test, column, value):
            return _text(test, _range(column, facts), value)
        case And(operands):
            return functools.reduce(Outcomes.both, (_outcomes(operand, facts) for operand in operands))
        case Or(operands):
            return functools.reduce(Outcomes.either, (_outcomes(operand, facts) for operand in operands))
        case Not(operand):
            return _outcomes(operand, facts).negated()
        case Compare() | In() | Match():
            return Outcomes(facts.all(True), facts.all(True), facts.all(True))
        case _:
            assert_never(predicate)


def _range(column: Column, facts: _Facts) -> _Range:
    bounds = facts.bounds_of(column.path) or ColumnBounds(None, None, None)
    type_ = arrow_type(column.type or VOID)
    low, high = (_or_unknown(bound, type_, facts) for bound in (bounds.min, bounds.max))
    nan = facts.all(False)
    if pa.types.is_floating(type_):
        low, high = (pc.if_else(pc.is_nan(bound), pa.scalar(None, type_), bound) for bound in (low, high))
        nan = facts.all(True) if bounds.nan_free is None else ~_certain(bounds.nan_free)
    nulls = _or_unknown(bounds.null_count, pa.int64(), facts)
    null, value = _possible(pc.greater(nulls, _ZERO)), _possible(pc.less(nulls, facts.rows))
    return _Range(low=low, high=high, nan=nan, null=null, value=value)


def _or_unknown(bound: Datum | None, type_: Datum, facts: _Facts) -> Datum:
    return pa.nulls(facts.length, type_) if bound is None else bound


def _possible(condition: Datum) -> ArrowMask:
    """Where a condition is not known to be false."""
    return ArrowMask(pc.fill_null(condition, True))


def _certain(condition: Datum) -> ArrowMask:
    """Where a condition is known to be true."""
    return ArrowMask(pc.fill_null(condition, False))


def _compare_value(op: Op, left: _Range, value: Scalar, facts: _Facts) -> Outcomes[ArrowMask]:
    every, none = facts.all(True), facts.all(False)
    if _is_nan(value):
        orders = _Orders(less=every, equal=left.nan, greater=none)
        return _ordered(op, orders, left, _Range(low=None, high=None, nan=every, null=none, value=every))
    constant = pa.scalar(value, left.low.type)
    return _compare(op, left, _Range(low=constant, high=constant, nan=none, null=none, value=every))


@attrs.frozen(eq=False, kw_only=True)
class _Orders:
    """Whether the left value of a comparison may be less than, equal to, or greater than the right one."""

    less: ArrowMask
    equal: ArrowMask
    greater: ArrowMask


def _compare(op: Op, left: _Range, right: _Range) -> Outcomes[ArrowMask]:
    left_low, right_high = aligned(left.low, right.high)
    left_high, right_low = aligned(left.high, right.low)
    overlap = _possible(pc.less_equal(left_low, right_high)) & _possible(pc.greater_equal(left_high, right_low))
    orders = _Orders(
        less=_possible(pc.less(left_low, right_high)) | right.nan,
        equal=overlap | (left.nan & right.nan),
        greater=_possible(pc.greater(left_high, right_low)) | left.nan,
    )
    return _ordered(op, orders, left, right)


def _ordered(op: Op, orders: _Orders, left: _Range, right: _Range) -> Outcomes[ArrowMask]:
    values = left.value & right.value
    true, false = (mask & values for mask in _holds(op, orders))
    if op is not Op.NULL_SAFE_EQ:
        return Outcomes(true, false, left.null | right.null)
    one_null = (left.null & right.value) | (left.value & right.null)
    return Outcomes(true | (left.null & right.null), false | one_null, values & ~values)


def _holds(op: Op, orders: _Orders) -> tuple[ArrowMask, ArrowMask]:
    """Where a comparison of two values may be true, and where it may be false."""
    less, equal, greater = orders.less, orders.equal, orders.greater
    match op:
        case Op.EQ | Op.NULL_SAFE_EQ:
            return equal, less | greater
        case Op.NE:
            return less | greater, equal
        case Op.LT:
            return less, equal | greater
        case Op.LE:
            return less | equal, greater
        case Op.GT:
            return greater, less | equal
        case Op.GE:
            return greater | equal, less
        case _:
            assert_never(op)


def _in(left: _Range, constants: tuple[Scalar, ...]) -> Outcomes[ArrowMask]:
    has_nan = any(_is_nan(constant) for constant in constants)
    numbers = pa.array([constant for constant in constants if not _is_nan(constant)], left.low.type)
    within = _possible(_some_between(numbers, left.low, left.high))
    all_listed = _certain(pc.and_(pc.equal(left.low, left.high), listed(left.low, numbers)))
    true, false = (within | left.nan, ~all_listed) if has_nan else (within, ~all_listed | left.nan)
    return Outcomes(true & left.value, false & left.value, left.null)


def _is_nan(value: Scalar) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _some_between(constants: Datum, low: Datum, high: Datum) -> Datum:
    """Whether one of the constants lies from `low` to `high`: a binary search for all bounds at once."""
    if len(constants) == 0:
        return pa.repeat(False, len(low))
    steps = len(constants).bit_length()
    ascending = constants.take(pc.array_sort_indices(constants))
    padded = pa.concat_arrays([ascending, ascending[-1:].take(pa.repeat(0, 2**steps - len(constants)))])
    smaller = pa.repeat(pa.scalar(0, pa.int32()), len(low))
    for step in (2**power for power in reversed(range(steps))):
        probe = padded.take(pc.add(smaller, pa.scalar(step - 1, pa.int32())))
        ahead = pc.if_else(pc.less(probe, low), pa.scalar(step, pa.int32()), pa.scalar(0, pa.int32()))
        smaller = pc.add(smaller, ahead)
    first = padded.take(smaller)
    reached = pc.and_kleene(pc.less_equal(low, first), pc.less_equal(first, high))
    return pc.and_kleene(reached, pc.less_equal(ascending[0], high))


def _text(test: TextTest, left: _Range, text: str) -> Outcomes[ArrowMask]:
    if test is TextTest.STARTS_WITH:
        after = _after_prefix(text)
        true = _possible(pc.greater_equal(left.high, pa.scalar(text)))
        if after is not None:
            true = true & _possible(pc.less(left.low, pa.scalar(after)))
        all_start = pc.and_(text_test(test, left.low, text), text_test(test, left.high, text))
        false = _possible(pc.invert(all_start))
    else:
        single = _certain(pc.equal(left.low, left.high))
        holds = text_test(test, left.low, text)
        true, false = ~single | _possible(holds), ~single | _possible(pc.invert(holds))
    return Outcomes(true & left.value, false & left.value, left.null)


def _after_prefix(prefix: str) -> str | None:
    """The smallest text that is greater than all that start with the prefix; None when there is none."""
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    # The code points from U+D800 to U+DFFF belong to UTF-16 and are no characters.
    return kept[:-1] + ("\ue000" if kept[-1] == "\ud7ff" else chr(ord(kept[-1]) + 1))
