"""Random rows, random predicates about them, and what SQL says the predicates are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import assert_never

from hypothesis import strategies as st

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
    Operand,
    Or,
    Predicate,
    Scalar,
    Text,
    TextTest,
)
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    Field,
    Schema,
    StructType,
)

Row = Mapping[str, object]

_PRICE, _RATE, _HUGE = DecimalType(5, 2), DecimalType(38, 38), DecimalType(38, 0)
_TYPES: dict[str, DataType] = {
    "flag": BOOLEAN,
    "tiny": BYTE,
    "small": SHORT,
    "number": INTEGER,
    "big": LONG,
    "other": LONG,
    "ratio": FLOAT,
    "measure": DOUBLE,
    "weight": DOUBLE,
    "price": _PRICE,
    "rate": _RATE,
    "huge": _HUGE,
    "name": STRING,
    "city": STRING,
    "raw": BINARY,
    "day": DATE,
    "at": TIMESTAMP,
    "local": TIMESTAMP_NTZ,
}
_INNER = StructType((Field(name="count", type=INTEGER), Field(name="label", type=STRING)))
SCHEMA = Schema((*(Field(name=name, type=type_) for name, type_ in _TYPES.items()), Field(name="inner", type=_INNER)))

_F = 0.10000000149011612  # the number of 32 bits next to 0.1
_FLOATS = [0.0, -0.0, 0.5, 1.0, -1.5, 5.0, math.nan, math.inf, -math.inf]
_TEXTS = ["", "a", "ab", "abc", "b", "Z", "é", "ab\uffff", "ab😀", "😀", "ab\U0010ffff", "it's", "\\", "%", "_"]
_MOMENTS = [
    datetime(1, 1, 1),
    datetime(2020, 1, 1),
    datetime(2020, 1, 1, 0, 0, 0, 1),
    datetime(2020, 2, 29, 23, 59, 59),
]
_VALUES: dict[DataType, list[Scalar]] = {
    BOOLEAN: [True, False],
    BYTE: [-128, -1, 0, 1, 5, 127],
    SHORT: [-(2**15), 0, 1, 2, 5, 2**15 - 1],
    INTEGER: [-(2**31), -1, 0, 1, 2, 5, 2**31 - 1],
    LONG: [-(2**63), -1, 0, 1, 5, 2**53, 2**53 + 1, 2**63 - 1],
    FLOAT: [*_FLOATS, _F, 3.4028234663852886e38, 1.401298464324817e-45],
    DOUBLE: [*_FLOATS, 0.1, 1e308, 5e-324, float(2**53)],
    _PRICE: [Decimal(text) for text in ("-999.99", "-0.01", "0.00", "0.10", "1.00", "5.00", "999.99")],
    _RATE: [Decimal(0), Decimal("0.1"), Decimal("0." + "9" * 38), Decimal("-1e-38")],
    _HUGE: [Decimal(0), Decimal(5), Decimal("9" * 38), Decimal(2**53 + 1)],
    STRING: list(_TEXTS),
    BINARY: [b"", b"\x00", b"ab", b"ab\xff", b"\xff"],
    DATE: [date(1, 1, 1), date(2019, 12, 31), date(2020, 1, 1), date(2020, 2, 29), date(9999, 12, 31)],
    TIMESTAMP: [moment.replace(tzinfo=UTC) for moment in _MOMENTS],
    TIMESTAMP_NTZ: list(_MOMENTS),
}
_NUMBERS: list[Scalar] = [
    *(-1, 0, 1, 2, 5, 127, 128, 300, -129, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**38),
    *(
        Decimal(text)
        for text in ("0.1", "0.005", "1.5", "-0.5", "4.999", "1e-50", "1e60", "-1e60", "999.99", "999.995")
    ),
    *(0.1, _F, 1.5, 0.0, -0.0, 1e39, -1e39, 2.0**53, 2.0**63, math.nan, math.inf, -math.inf, 1e-46),
]
_TIMES: list[Scalar] = [
    *(
        date(2020, 1, 1),
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, 12),
        datetime(2020, 1, 1, tzinfo=UTC),
        date(1, 1, 1),
    ),
]
_OTHERS: dict[DataType, list[Scalar]] = {
    DATE: [*_TIMES, "2020-01-01"],
    TIMESTAMP: [*_TIMES, "2020-01-01", "2020-01-01T00:00:00.000001", "2020-01-01 01:00:00+01:00"],
    TIMESTAMP_NTZ: [*_TIMES, "2020-01-01", "2020-01-01 00:00:00.000001"],
}
_NUMERIC = ("tiny", "small", "number", "big", "other", "ratio", "measure", "weight", "price", "rate", "huge")
_ALIKE = [("name", "city"), ("measure", "weight"), ("big", "other")]


def _values(type_: DataType) -> st.SearchStrategy[object]:
    if isinstance(type_, StructType):
        return st.none() | st.fixed_dictionaries({field.name: _values(field.type) for field in type_.fields})
    return st.sampled_from([None, *_VALUES[type_]])


def rows() -> st.SearchStrategy[Row]:
    """One row of the schema."""
    return st.fixed_dictionaries({field.name: _values(field.type) for field in SCHEMA})


def _columns() -> st.SearchStrategy[tuple[Column, DataType]]:
    return st.sampled_from([(Column(path), field.type) for path, field in SCHEMA.leaves()])


def _constants(type_: DataType) -> st.SearchStrategy[Literal]:
    numeric = isinstance(type_, DecimalType) or type_ in (BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE)
    values = [*_VALUES[type_], *(_NUMBERS if numeric else _OTHERS.get(type_, []))]
    return st.sampled_from([None, *values]).map(Literal)


@st.composite
def _comparisons(draw: st.DrawFn) -> Predicate:
    op = draw(st.sampled_from(Op))
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.sampled_from(_ALIKE) | st.tuples(st.sampled_from(_NUMERIC), st.sampled_from(_NUMERIC)))
        return Compare(op, Column((names[0],)), Column((names[1],)))
    column, type_ = draw(_columns())
    constant = draw(_constants(type_))
    return Compare(op, column, constant) if draw(st.booleans()) else Compare(op, constant, column)


@st.composite
def _lists(draw: st.DrawFn) -> Predicate:
    column, type_ = draw(_columns())
    return In(column, tuple(draw(st.lists(_constants(type_), max_size=6))))


_TEXT_COLUMNS = st.sampled_from([Column(("name",)), Column(("inner", "label"))])
_LEAVES = st.one_of(
    _comparisons(),
    _comparisons(),
    _lists(),
    st.builds(IsNull, _columns().map(lambda found: found[0]) | st.just(Column(("inner",)))),
    st.builds(Text, st.sampled_from(TextTest), _TEXT_COLUMNS, st.sampled_from(_TEXTS)),
    st.sampled_from([Literal(True), Literal(False), Literal(None)]),
)


def predicates() -> st.SearchStrategy[Predicate]:
    """Predicates about the schema, not bound to it."""

    def grown(inside: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
        several = st.lists(inside, min_size=2, max_size=3).map(tuple)
        return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, inside)

    return st.recursive(_LEAVES, grown, max_leaves=6)


def truth(predicate: Predicate, row: Row) -> bool | None:
    """What the predicate is for the row, by the book."""
    match predicate:
        case Literal(value):
            assert value is None or isinstance(value, bool)
            return value
        case Compare(op, left, right):
            return _compared(op, left, right, row)
        case In(column, values):
            found = [_compared(Op.EQ, column, value, row) for value in values] or [_value(column, row) and False]
            return True if True in found else None if None in found or _value(column, row) is None else False
        case IsNull(column):
            return _value(column, row) is None
        case Text(test, column, text):
            return _tested(test, _value(column, row), text)
        case And(operands):
            parts = [truth(operand, row) for operand in operands]
            return False if False in parts else None if None in parts else True
        case Or(operands):
            parts = [truth(operand, row) for operand in operands]
            return True if True in parts else None if None in parts else False
        case Not(operand):
            inner = truth(operand, row)
            return None if inner is None else not inner
        case Match():
            raise AssertionError("rows alone cannot tell")
        case _:
            assert_never(predicate)


def _value(operand: Operand, row: Row) -> object:
    if isinstance(operand, Literal):
        return operand.value
    value: object = row
    for name in operand.path:
        value = value[name] if isinstance(value, Mapping) else None
    return value


def _compared(op: Op, left: Operand, right: Operand, row: Row) -> bool | None:
    values = _value(left, row), _value(right, row)
    if None in values:
        return values == (None, None) if op is Op.NULL_SAFE_EQ else None
    types = _type(left), _type(right)
    a, b = (_key(value, *types) for value in values)
    match op:
        case Op.EQ | Op.NULL_SAFE_EQ:
            return a == b
        case Op.NE:
            return a != b
        case Op.LT:
            return a < b
        case Op.LE:
            return a <= b
        case Op.GT:
            return a > b
        case Op.GE:
            return a >= b


def _type(operand: Operand) -> DataType | None:
    return SCHEMA.field(*operand.path).type if isinstance(operand, Column) else None


def _key(value: object, *types: DataType | None) -> tuple[bool, object]:
    """A value as something that Python compares as SQL does, given the types of the columns in the comparison."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        if FLOAT in types or DOUBLE in types:
            value = _double(value)
        elif (
            isinstance(value, float)
            and not math.isnan(value)
            and any(isinstance(type_, DecimalType) for type_ in types)
        ):
            value = Decimal(repr(value))
        return (True, 0) if math.isnan(value) else (False, value)
    if isinstance(value, str) and STRING not in types:
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return False, value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return False, datetime.combine(value, time(), UTC)
    return False, value.encode() if isinstance(value, str) else value


def _double(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _tested(test: TextTest, value: object, text: str) -> bool | None:
    if not isinstance(value, str):
        return None
    match test:
        case TextTest.STARTS_WITH:
            return value.startswith(text)
        case TextTest.ENDS_WITH:
            return value.endswith(text)
        case TextTest.CONTAINS:
            return text in value
