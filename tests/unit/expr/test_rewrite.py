"""Rewriting keeps what a predicate says, nulls included."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.expr.nodes import And, Not, Predicate, columns_of
from tablespec.expr.parse import parse
from tablespec.expr.render import render
from tablespec.expr.rewrite import push_not, simplify, split
from tests.unit.expr.random_predicates import SCHEMA, Row, predicates, rows, truth

PATHS = st.frozensets(st.sampled_from([path for path, _ in SCHEMA.leaves()]))


@settings(max_examples=300, deadline=None)
@given(predicates(), rows())
def test_simplifying_keeps_true_false_and_null(predicate: Predicate, row: Row) -> None:
    assert truth(simplify(predicate), row) is truth(predicate, row)


@settings(max_examples=300, deadline=None)
@given(predicates(), rows())
def test_pushing_not_down_keeps_true_false_and_null(predicate: Predicate, row: Row) -> None:
    assert truth(push_not(predicate), row) is truth(predicate, row)
    assert truth(push_not(Not(predicate)), row) is truth(Not(predicate), row)


@settings(max_examples=300, deadline=None)
@given(predicates(), rows(), PATHS)
def test_the_two_parts_of_a_split_together_say_the_same(
    predicate: Predicate, row: Row, known: frozenset[tuple[str, ...]]
) -> None:
    inside, outside = split(predicate, known.__contains__)

    assert columns_of(inside) <= known
    assert truth(And((inside, outside)), row) is truth(predicate, row)


@settings(max_examples=200, deadline=None)
@given(predicates())
def test_a_simple_predicate_stays_as_it_is(predicate: Predicate) -> None:
    assert simplify(simplify(predicate)) == simplify(predicate)
    assert push_not(push_not(predicate)) == push_not(predicate)


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("a = 1 AND TRUE", "a = 1"),
        ("a = 1 AND FALSE", "FALSE"),
        ("a = 1 OR TRUE", "TRUE"),
        ("a = 1 OR FALSE", "a = 1"),
        ("a = 1 AND NULL", "a = 1 AND NULL"),
        ("NULL OR FALSE", "NULL"),
        ("NOT NULL", "NULL"),
        ("NOT NOT a = 1", "a = 1"),
        ("a = 1 AND (b = 2 AND a = 1)", "a = 1 AND b = 2"),
        ("TRUE AND TRUE", "TRUE"),
        ("NOT (a = 1 AND FALSE)", "TRUE"),
        ("a IS NULL OR b = 1 OR a IS NOT NULL", "TRUE"),
        ("a IS NULL AND a IS NOT NULL", "FALSE"),
        ("a IS NULL OR b IS NOT NULL", "a IS NULL OR b IS NOT NULL"),
    ],
)
def test_constants_and_repetitions_disappear(text: str, simple: str) -> None:
    assert simplify(parse(text)) == parse(simple)


@pytest.mark.parametrize(
    ("text", "pushed"),
    [
        ("NOT (a < 1 OR b = 2)", "a >= 1 AND b != 2"),
        ("NOT (a <= 1 AND NOT b > 2)", "a > 1 OR b > 2"),
        ("NOT a <=> 1", "NOT a <=> 1"),
        ("NOT (a IN (1) OR a IS NULL)", "NOT a IN (1) AND a IS NOT NULL"),
    ],
)
def test_not_stays_only_where_no_comparison_can_say_it(text: str, pushed: str) -> None:
    assert push_not(parse(text)) == parse(pushed)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("p = 1 AND a = 2", "p = 1", "a = 2"),
        ("p = 1 OR a = 2", "TRUE", "p = 1 OR a = 2"),
        ("NOT (p = 1 AND a = 2)", "TRUE", "p != 1 OR a != 2"),
        ("NOT (p = 1 OR a = 2)", "p != 1", "a != 2"),
        ("p = 1 AND (p > 0 OR FALSE)", "p = 1 AND p > 0", "TRUE"),
        ("a = p", "TRUE", "a = p"),
    ],
)
def test_a_part_is_taken_out_only_when_it_must_hold(text: str, inside: str, outside: str) -> None:
    found = split(parse(text), lambda path: path == ("p",))

    assert [render(part) for part in found] == [render(parse(inside)), render(parse(outside))]
