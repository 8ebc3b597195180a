"""The filters of engines, and the WHERE texts that say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import UnsupportedOperatorError
from tablespec.expr.bind import bind
from tablespec.expr.filters import FILTERS, from_filter
from tablespec.expr.nodes import TRUE, Column, Compare, IsNull, Literal, Op, Predicate
from tablespec.expr.parse import parse
from tablespec.expr.render import render
from tablespec.model.schema import STRING, Field, Schema

ODD = "'\"`\\%_-;:?\n\t é😀"
NAMES = st.text(st.sampled_from("ab " + ODD), min_size=1, max_size=6)
TEXTS = st.text(st.sampled_from("ab" + ODD), max_size=8)
VALUES = st.none() | st.booleans() | st.integers() | TEXTS
COMPARED = {
    "EqualTo": "=",
    "LessThan": "<",
    "GreaterThan": ">",
    "LessThanOrEqual": "<=",
    "GreaterThanOrEqual": ">=",
}
PATTERNS = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}


def name_text(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def value_text(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value).upper()


def like_text(pattern: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"{value_text(pattern.format(escaped))} ESCAPE '\\'"


@st.composite
def leaves(draw: st.DrawFn) -> tuple[Predicate, str]:
    """A filter without others inside, and its WHERE text."""
    kind, name = draw(st.sampled_from(FILTERS[:-3])), draw(NAMES)
    if kind in COMPARED:
        value = draw(VALUES)
        return from_filter(kind, name, value), f"{name_text(name)} {COMPARED[kind]} {value_text(value)}"
    if kind in PATTERNS:
        text = draw(TEXTS.filter(bool))
        return from_filter(kind, name, text), f"{name_text(name)} LIKE {like_text(PATTERNS[kind], text)}"
    if kind == "In":
        values = draw(st.lists(VALUES, min_size=1, max_size=4))
        return from_filter(kind, name, values), f"{name_text(name)} IN ({','.join(map(value_text, values))})"
    return from_filter(kind, name), f"{name_text(name)} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL"


@st.composite
def connected(draw: st.DrawFn, inside: st.SearchStrategy[tuple[Predicate, str]]) -> tuple[Predicate, str]:
    left, right = draw(inside), draw(inside)
    kind = draw(st.sampled_from(["Not", "Or", "And"]))
    if kind == "Not":
        return from_filter("Not", left[0]), f"Not ({left[1]})"
    return from_filter(kind, left[0], right[0]), f"({left[1]}) {kind.upper()} ({right[1]})"


FILTERED = st.recursive(leaves(), connected, max_leaves=8)


@given(FILTERED)
def test_a_filter_is_what_its_where_text_is_read_as(filtered):
    predicate, text = filtered

    assert parse(text) == predicate


@given(FILTERED)
def test_a_rendered_filter_is_read_as_the_same_filter(filtered):
    predicate, _ = filtered

    assert parse(render(predicate)) == predicate


def test_there_are_fourteen_filters():
    assert FILTERS == (
        "EqualTo",
        "LessThan",
        "GreaterThan",
        "LessThanOrEqual",
        "GreaterThanOrEqual",
        "IsNull",
        "IsNotNull",
        "StringStartsWith",
        "StringEndsWith",
        "StringContains",
        "In",
        "Not",
        "Or",
        "And",
    )


def test_a_name_is_taken_literally_and_a_field_of_a_struct_is_a_tuple_of_names():
    assert from_filter("IsNull", "a.b") == IsNull(Column(("a.b",)))
    assert from_filter("EqualTo", ("a", "b"), 1) == Compare(Op.EQ, Column(("a", "b")), Literal(1))


def test_a_text_filter_of_nothing_holds_for_all_that_is_not_null():
    schema = Schema((Field(name="a", type=STRING),))

    assert bind(from_filter("StringContains", "a", ""), schema) == bind("a LIKE '%'", schema)


def test_no_value_is_one_of_none():
    schema = Schema((Field(name="a", type=STRING, nullable=False),))
    nothing = from_filter("In", "a", [])

    assert parse(render(nothing)) == nothing
    assert bind(nothing, schema) == bind("a IS NULL AND NULL", schema)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("EqualNullSafe", ("a", 1)),
        ("equalto", ("a", 1)),
        ("AlwaysTrue", ()),
        ("EqualTo", ("a",)),
        ("EqualTo", ("a", 1, 2)),
        ("EqualTo", (1, "a")),
        ("EqualTo", ("a", [1])),
        ("EqualTo", ("a", TRUE)),
        ("In", ("a", "text")),
        ("StringContains", ("a", 1)),
        ("Not", ("a",)),
        ("And", (TRUE,)),
        ("Or", (TRUE, "a = 1")),
    ],
)
def test_an_unknown_filter_or_one_with_other_arguments_is_an_error_and_never_dropped(kind, arguments):
    with pytest.raises(
        UnsupportedOperatorError, match=f"the filter {kind}, which is not supported; there are the filters Eq"
    ):
        from_filter(kind, *arguments)
