"""Predicates that are true for every row there can be are found out, and no others."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.arrow.evaluate import matching
from tablespec.arrow.schema import arrow_schema
from tablespec.arrow.tautology import is_always_true
from tablespec.expr.bind import bind
from tablespec.expr.nodes import And, Column, Compare, In, IsNull, Literal, Not, Op, Or, Predicate, Text, TextTest
from tablespec.expr.parse import parse
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    VOID,
    DecimalType,
    Field,
    Schema,
    StructType,
)
from tests.unit.expr.random_predicates import SCHEMA as MANY
from tests.unit.expr.random_predicates import Row, predicates, rows

TYPES = {
    "p": STRING,
    "q": STRING,
    "raw": BINARY,
    "b": BYTE,
    "big": LONG,
    "x": DecimalType(5, 2),
    "f": FLOAT,
    "g": DOUBLE,
    "bo": BOOLEAN,
    "d": DATE,
    "t": TIMESTAMP,
    "v": VOID,
    "s": StructType((Field(name="c", type=INTEGER),)),
}
SCHEMA = Schema(
    (
        *(Field(name=name, type=type_) for name, type_ in TYPES.items()),
        Field(name="there", type=STRING, nullable=False),
        Field(name="whole", type=StructType((Field(name="c", type=INTEGER, nullable=False),)), nullable=False),
    )
)


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "p <=> p",
        "p = p or p is null",
        "p in ('a') or p not in ('a') or p is null",
        "p = 'a' or p <> 'a' or p is null",
        "p < 'b' or p >= 'b' or p is null",
        "not (p <=> 'a') or p = 'a'",
        "p >= '' or p is null",
        "p > '' or p = '' or p is null",
        "raw >= X'' or raw is null",
        "b >= -128 or b is null",
        "b < 300 or b is null",
        "b <= 1 or b > 1.5 or b is null",
        "x > 0.01 or x < 0.02 or x is null",
        "f < 1 or f >= 1 or f is null",
        "bo or not bo or bo is null",
        "d <= '2020-01-01' or d >= '2020-01-02' or d is null",
        "t < '2020-01-01' or t > '2019-12-31' or t is null",
        "there is not null",
        "whole.c is not null",
        "v is null",
        "s is not null or s.c is null",
        "p like 'a%' or p < 'b' or p >= 'b' or p is null",
        "p like '%a' or not p like '%a' or p is null",
        "not p like '%ab%' or p like '%b%' or p is null",
        "not p like 'ab%' or p like '%b%' or p is null",
        "p != 'ab' or p like '%a%' or p is null",
        "p <= q or p > q or p is null or q is null",
        "b < big or big <= 127 or b is null or big is null",
        "b <= x or b > x or b is null or x is null",
        "(p = 'a' or q = 'a') or not (p = 'a' or q = 'a') or p is null or q is null",
    ],
)
def test_a_predicate_that_every_row_satisfies_is_always_true(text):
    assert is_always_true(bind(text, SCHEMA), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "p = p",
        "p >= ''",
        "p > '' or p is null",
        "p <= 'a' or p > 'a\0' or p is null",
        "p < 'ab' or p like 'ab%' or p is null",
        "p <= 'ab' or p like '%a%' or p is null",
        "p like '%a' or p like '%b' or p is null",
        "b > -128 or b is null",
        "b <= 126 or b is null",
        "x > 0.01 or x < 0.01 or x is null",
        "f < 3.5e38 or f is null",
        "f <= 1e38 or f is null",
        "d >= '0001-01-01' or d is null",
        "t >= '0001-01-01' or t is null",
        "whole.c > 0",
        "there > ''",
        "s is null or s.c > 0",
        "p < q or p > q or p is null or q is null",
        "b < big or big <= 126 or b is null or big is null",
        "b < x or b >= big or x is null or b is null or big is null",
    ],
)
def test_a_predicate_that_some_row_would_not_satisfy_is_not_always_true(text):
    assert not is_always_true(bind(text, SCHEMA), SCHEMA)


@pytest.mark.parametrize(
    "predicate",
    [
        parse("match(p, 'a') or not match(p, 'a') or p is null"),
        parse("big < g or big >= g or big is null or g is null"),
        Or(
            tuple(
                Compare(Op.GE, Column((name,)), Literal(number)) for number in range(400) for name in ("b", "big", "x")
            )
        ),
        In(Column(("big",)), tuple(Literal(number) for number in range(100_000))),
    ],
    ids=["full text", "whole numbers beside floating point", "many values of several columns", "many values"],
)
def test_what_nobody_can_tell_is_not_always_true(predicate):
    assert not is_always_true(bind(predicate, SCHEMA), SCHEMA)


# --- random predicates, held against all rows of a small world ---

WORLD = Schema(
    (
        Field(name="tiny", type=BYTE),
        Field(name="less", type=BYTE, nullable=False),
        Field(name="flag", type=BOOLEAN),
    )
)
_BYTES = range(-128, 128)
EVERY_ROW = pa.RecordBatch.from_arrays(
    [pa.array(values) for values in zip(*product([None, *_BYTES], _BYTES, [None, False, True]))],
    schema=arrow_schema(WORLD),
)
_NUMBERS = st.sampled_from([Column(("tiny",)), Column(("less",))])
_CONSTANTS = st.sampled_from([None, -129, -128, -127, 0, 1, 1.5, 2, 126, 127, 128]).map(Literal)
_LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from(Op), _NUMBERS, _CONSTANTS | _NUMBERS),
    st.builds(In, _NUMBERS, st.lists(_CONSTANTS, max_size=3).map(tuple)),
    st.builds(IsNull, st.sampled_from([Column((name,)) for name in WORLD.names])),
    st.builds(Compare, st.sampled_from(Op), st.just(Column(("flag",))), st.booleans().map(Literal)),
)


def _grown(inside):
    several = st.lists(inside, min_size=2, max_size=4).map(tuple)
    return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, inside)


def _covering(predicate):
    """What holds for each row of which the predicate is not null, and for those with a null."""
    return Or((predicate, Not(predicate), IsNull(Column(("tiny",))), IsNull(Column(("flag",)))))


_ABOUT_THE_WORLD = st.recursive(_LEAVES, _grown, max_leaves=5)


@settings(max_examples=150, deadline=None)
@given(_ABOUT_THE_WORLD | st.lists(_LEAVES, min_size=2, max_size=5).map(tuple).map(Or) | _LEAVES.map(_covering))
def test_the_samples_tell_what_all_rows_tell(predicate: Predicate):
    bound = bind(predicate, WORLD)

    assert is_always_true(bound, WORLD) == pc.all(matching(bound, EVERY_ROW)).as_py()


TEXTS = Schema((Field(name="p", type=STRING), Field(name="q", type=STRING)))
_FEW = [None, *("".join(letters) for length in range(4) for letters in product("\0ab", repeat=length)), "b\U0010ffff"]
PAIRS = pa.RecordBatch.from_arrays(
    [pa.array(values) for values in zip(*product(_FEW, _FEW))], schema=arrow_schema(TEXTS)
)
_P, _Q = Column(("p",)), Column(("q",))
_TEXT_LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from(Op), st.just(_P), st.sampled_from(["", "a", "ab", "b"]).map(Literal)),
    st.builds(Compare, st.sampled_from(Op), st.just(_P), st.just(_Q)),
    st.builds(Text, st.sampled_from(TextTest), st.sampled_from([_P, _Q]), st.sampled_from(["a", "ab", "b"])),
    st.builds(IsNull, st.sampled_from([_P, _Q])),
)


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(_TEXT_LEAVES, _grown, max_leaves=5) | st.lists(_TEXT_LEAVES, min_size=3, max_size=6).map(tuple).map(Or)
)
def test_no_text_escapes_a_predicate_that_is_always_true(predicate: Predicate):
    bound = bind(predicate, TEXTS)

    assert not is_always_true(bound, TEXTS) or pc.all(matching(bound, PAIRS)).as_py()


@settings(max_examples=300, deadline=None)
@given(predicates(), st.lists(rows(), min_size=1, max_size=20), st.booleans())
def test_no_row_of_any_type_escapes_a_predicate_that_is_always_true(predicate: Predicate, data: list[Row], wide: bool):
    bound = bind(Or((predicate, Not(predicate))) if wide else predicate, MANY)
    batch = pa.RecordBatch.from_pylist(data, schema=arrow_schema(MANY))

    assert not is_always_true(bound, MANY) or pc.all(matching(bound, batch)).as_py()
