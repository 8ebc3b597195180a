"""Rendered predicates are read as the same predicates."""

from __future__ import annotations

import string
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.expr.bind import bind
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
    Text,
    TextTest,
)
from tablespec.expr.parse import parse
from tablespec.expr.render import render
from tests.unit.expr.random_predicates import SCHEMA, predicates

TEXTS = st.text(st.sampled_from(string.ascii_letters + "'\"`\\%_-;\n\t é😀") | st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.binary(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
)
LITERALS = st.builds(Literal, VALUES)
COLUMNS = st.builds(Column, st.lists(TEXTS.filter(bool), min_size=1, max_size=6).map(tuple))
LEAVES = st.one_of(
    st.sampled_from([Literal(True), Literal(False), Literal(None)]),
    st.builds(Compare, st.sampled_from(Op), COLUMNS, COLUMNS | LITERALS),
    st.builds(Compare, st.sampled_from(Op), LITERALS, LITERALS),
    st.builds(In, COLUMNS, st.lists(LITERALS, min_size=1, max_size=4).map(tuple)),
    st.builds(IsNull, COLUMNS),
    st.builds(Text, st.sampled_from(TextTest), COLUMNS, TEXTS),
    st.builds(Match, st.lists(COLUMNS, min_size=1, max_size=3).map(tuple), TEXTS, st.sampled_from(["", "raw"])),
)


def grown(inside: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    """The trees that parsing can give: no AND right below an AND, no OR right below an OR."""
    several = [
        st.lists(inside.filter(lambda one, kind=kind: not isinstance(one, kind)), min_size=2, max_size=3)
        .map(tuple)
        .map(kind)
        for kind in (And, Or)
    ]
    return st.one_of(*several, st.builds(Not, inside))


@settings(max_examples=500, deadline=None)
@given(st.recursive(LEAVES, grown, max_leaves=6))
def test_reading_a_rendered_predicate_gives_it_back(predicate: Predicate) -> None:
    assert parse(render(predicate)) == predicate


@settings(max_examples=300, deadline=None)
@given(predicates())
def test_binding_a_rendered_bound_predicate_gives_it_back(predicate: Predicate) -> None:
    bound = bind(predicate, SCHEMA)

    assert bind(render(bound), SCHEMA) == bound


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("month < 9 and day = date '2020-01-01'", "`month` < 9 AND `day` = DATE '2020-01-01'"),
        ("a in (1, 2.50) or not b", "`a` IN (1, 2.50) OR NOT `b` = TRUE"),
        ("(a or b) and c is not null", "(`a` = TRUE OR `b` = TRUE) AND `c` IS NOT NULL"),
        ('"it""s"."x`y" like \'it\'\'s%\'', "starts_with(`it\"s`.`x``y`, 'it''s')"),
        ("a = x'0aff' or b = cast(1.5 as double)", "`a` = X'0aff' OR `b` = CAST('1.5' AS DOUBLE)"),
        (
            "t = timestamp '2020-01-01 02:00:00+02:00' and n = timestamp_ntz '2020-01-01'",
            "`t` = TIMESTAMP '2020-01-01 00:00:00+00:00' AND `n` = TIMESTAMP_NTZ '2020-01-01 00:00:00'",
        ),
    ],
)
def test_rendered_text_is_plain_sql(text: str, rendered: str) -> None:
    assert render(parse(text)) == rendered
