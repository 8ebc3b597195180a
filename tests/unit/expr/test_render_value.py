"""Values as text are read back as the same values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings

from tablespec.expr.bind_value import bind_value
from tablespec.expr.nodes import Literal, Scalar
from tablespec.expr.parse_value import parse_value
from tablespec.expr.render_value import render_value
from tablespec.expr.value import Value
from tests.unit.expr.random_predicates import SCHEMA, Row, rows
from tests.unit.expr.random_values import Overflow, numbers, outcome, texts


def given_by(value: Value | str, row: Row) -> object:
    try:
        found = outcome(bind_value(value, SCHEMA), row)
    except Overflow:
        return "overflow"
    return repr(found)


@settings(max_examples=300, deadline=None)
@given(numbers() | texts(), rows())
def test_rendered_text_gives_what_the_value_gives(value: Value, row: Row) -> None:
    text = render_value(value)
    assume(" IN ()" not in text)

    assert given_by(text, row) == given_by(value, row)


@settings(max_examples=300, deadline=None)
@given(numbers() | texts())
def test_reading_a_rendered_value_gives_it_back(value: Value) -> None:
    text = render_value(value)
    assume(" IN ()" not in text)
    read = parse_value(text)

    assert parse_value(render_value(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        "`a` + 1",
        "(`a` + 1) * 2",
        "`a` + (1 * 2)",
        "-(`a` + 1)",
        "-(-(`a`))",
        "`a` - -1",
        "`a` || 'x' || upper(`b`)",
        "concat(`a`)",
        "round(`t`.`a`, -2)",
        "CAST(`a` AS TINYINT)",
        "CAST(`a` AS SMALLINT)",
        "CAST(`a` AS BIGINT)",
        "CAST(`a` AS DECIMAL(10,2))",
        "CAST(5 AS DECIMAL(1,0))",
        "CAST(5 AS DECIMAL(7,0))",
        "CASE WHEN `a` > 0 AND `b` IS NULL THEN 1 WHEN `a` = 2 THEN 1.50 ELSE NULL END",
        "`odd ``name` % 2",
    ],
)
def test_operators_keep_their_brackets_and_casts_their_names(text: str) -> None:
    assert render_value(parse_value(text)) == text


@pytest.mark.parametrize(
    "value",
    [
        -5,
        Decimal("1.50"),
        Decimal("5"),
        Decimal("1e20"),
        Decimal("0.00000001"),
        1e300,
        0.1,
        "it's",
        b"\x00",
        True,
        None,
        date(2020, 1, 1),
        datetime(2020, 1, 1, 5),
        datetime(2020, 1, 1, 5, tzinfo=UTC),
    ],
)
def test_constants_are_read_back_with_their_kind(value: Scalar) -> None:
    assert parse_value(render_value(Literal(value))) == Literal(value)
