"""Bound predicates speak of the schema's columns in the schema's types."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tablespec.errors import ColumnNotFoundError, InvalidPredicateError, TypeMismatchError, UnsupportedOperatorError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import And, Column, Compare, In, IsNull, Literal, Match, Not, Op, Predicate, Scalar
from tablespec.expr.parse import parse
from tablespec.expr.render import render
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
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)

INNER = StructType((Field(name="City", type=STRING), Field(name="zip", type=INTEGER)))
SCHEMA = Schema(
    (
        Field(name="Month", type=INTEGER),
        Field(name="tiny", type=BYTE),
        Field(name="big", type=LONG),
        Field(name="single", type=FLOAT),
        Field(name="double", type=DOUBLE),
        Field(name="price", type=DecimalType(5, 2)),
        Field(name="name", type=STRING),
        Field(name="raw", type=BINARY),
        Field(name="flag", type=BOOLEAN),
        Field(name="day", type=DATE),
        Field(name="at", type=TIMESTAMP),
        Field(name="local", type=TIMESTAMP_NTZ),
        Field(name="address", type=INNER),
        Field(name="tags", type=ArrayType(STRING)),
        Field(name="props", type=MapType(STRING, STRING)),
        Field(name="json", type=VARIANT),
        Field(name="nothing", type=VOID),
    )
)


def bound(text: str) -> str:
    return render(bind(text, SCHEMA))


def test_columns_get_the_spelling_and_type_of_the_schema() -> None:
    assert bind("MONTH = 1", SCHEMA) == Compare(Op.EQ, Column(("Month",), INTEGER), Literal(1, INTEGER))
    assert bind("Address.CITY = 'x'", SCHEMA) == Compare(
        Op.EQ, Column(("address", "City"), STRING), Literal("x", STRING)
    )
    assert bind("MATCH(NAME, 'x')", SCHEMA) == Match((Column(("name",), STRING),), "x", "default")


@pytest.mark.parametrize(
    ("text", "near"),
    [("mnth = 1", ("Month",)), ("address.cty = 'x'", ("City",)), ("name.x = 1", ()), ("zzz IS NULL", ())],
)
def test_unknown_columns_are_named_with_their_neighbours(text: str, near: tuple[str, ...]) -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        bind(text, SCHEMA)

    assert caught.value.near == near


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("month < 9", "`Month` < 9"),
        ("month > 1.5", "`Month` > 1"),
        ("month >= 1.5", "`Month` > 1"),
        ("month < 1.5", "`Month` <= 1"),
        ("month <= -1.5", "`Month` <= -2"),
        ("month = 1.0", "`Month` = 1"),
        ("month = 1.5", "`Month` IS NULL AND NULL"),
        ("month != 1.5", "`Month` IS NOT NULL OR NULL"),
        ("month <=> 1.5", "FALSE"),
        ("tiny < 300", "`tiny` IS NOT NULL OR NULL"),
        ("tiny > 300", "`tiny` IS NULL AND NULL"),
        ("tiny >= -128", "`tiny` >= -128"),
        ("tiny < -129", "`tiny` IS NULL AND NULL"),
        ("tiny < -128.5", "`tiny` IS NULL AND NULL"),
        ("big < 9223372036854775807.5", "`big` IS NOT NULL OR NULL"),
        ("big = 1e999999999", "`big` IS NULL AND NULL"),
        ("big < 1e-999999999", "`big` <= 0"),
        ("big < CAST('NaN' AS DOUBLE)", "`big` IS NOT NULL OR NULL"),
        ("tiny IN (1, 1.0, 2.5, 300)", "`tiny` IN (1)"),
        ("tiny IN (2.5, 300)", "`tiny` IS NULL AND NULL"),
        ("tiny IN (1, NULL)", "`tiny` IN (1) OR NULL"),
        ("tiny IN (300, NULL)", "NULL"),
    ],
)
def test_integers_are_compared_with_any_number_without_rounding(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price = 1", "`price` = 1.00"),
        ("price < 1.005", "`price` <= 1.00"),
        ("price >= 1.005", "`price` > 1.00"),
        ("price > -1.005", "`price` > -1.01"),
        ("price = 1.005", "`price` IS NULL AND NULL"),
        ("price < 999.995", "`price` IS NOT NULL OR NULL"),
        ("price < 1e60", "`price` IS NOT NULL OR NULL"),
        ("price = CAST(0.1 AS DOUBLE)", "`price` = 0.10"),
    ],
)
def test_decimals_are_compared_with_numbers_of_more_digits_without_rounding(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("double = 0.1", "`double` = CAST('0.1' AS DOUBLE)"),
        ("double < 1e400", "`double` < CAST('inf' AS DOUBLE)"),
        ("double = CAST('NaN' AS DOUBLE)", "`double` = CAST('nan' AS DOUBLE)"),
        ("single = 0.5", "`single` = CAST('0.5' AS DOUBLE)"),
        ("single = 0.1", "`single` IS NULL AND NULL"),
        ("single = CAST(0.1 AS FLOAT)", "`single` = CAST('0.10000000149011612' AS DOUBLE)"),
        ("single < 0.1", "`single` <= CAST('0.09999999403953552' AS DOUBLE)"),
        ("single > -1e-50", "`single` > CAST('-1.401298464324817e-45' AS DOUBLE)"),
        ("single > -1e39", "`single` > CAST('-inf' AS DOUBLE)"),
    ],
)
def test_a_float_column_is_compared_as_a_double(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day = '2020-01-01'", "`day` = DATE '2020-01-01'"),
        ("day < TIMESTAMP '2020-01-01 12:00:00'", "`day` <= DATE '2020-01-01'"),
        ("day < TIMESTAMP '2020-01-01'", "`day` < DATE '2020-01-01'"),
        ("at = '2020-01-01 05:00:00'", "`at` = TIMESTAMP '2020-01-01 05:00:00+00:00'"),
        ("at = '2020-01-01T05:00:00+05:00'", "`at` = TIMESTAMP '2020-01-01 00:00:00+00:00'"),
        ("at = '2020-01-01 05:00:00.1234560Z'", "`at` = TIMESTAMP '2020-01-01 05:00:00.123456+00:00'"),
        ("at = DATE '2020-01-01'", "`at` = TIMESTAMP '2020-01-01 00:00:00+00:00'"),
        ("local = '2020-01-01 05:00'", "`local` = TIMESTAMP_NTZ '2020-01-01 05:00:00'"),
        ("local = TIMESTAMP '2020-01-01 05:00:00+05:00'", "`local` = TIMESTAMP_NTZ '2020-01-01 00:00:00'"),
    ],
)
def test_times_without_a_zone_are_in_utc(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("at", datetime(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=5))), datetime(2020, 1, 1, tzinfo=UTC)),
        ("at", datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        ("at", date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)),
        ("local", datetime(2020, 1, 1), datetime(2020, 1, 1)),
        ("day", date(2020, 1, 1), date(2020, 1, 1)),
        ("raw", b"\x00", b"\x00"),
        ("price", Decimal("1.5"), Decimal("1.50")),
        ("price", 1, Decimal("1.00")),
        ("big", 1.0, 1),
        ("double", 1, 1.0),
        ("flag", True, True),
    ],
)
def test_python_values_are_understood(column: str, value: Scalar, expected: Scalar) -> None:
    type_ = SCHEMA.field(column).type

    assert bind(Compare(Op.EQ, Literal(value), Column((column,))), SCHEMA) == Compare(
        Op.EQ, Column((column,), type_), Literal(expected, type_)
    )


@pytest.mark.parametrize(
    "text",
    [
        "month = '9'",
        "month = TRUE",
        "month = DATE '2020-01-01'",
        "name = 9",
        "name = DATE '2020-01-01'",
        "name = X'00'",
        "flag = 1",
        "flag = 'true'",
        "raw = 'x'",
        "day = 'yesterday'",
        "day = '2020-01-01 12:00:00'",
        "day = 20200101",
        "at = '2020-01-01 00:00:00.1234567'",
        "at = '2020-1-1'",
        "at = 0",
        "price = '1.00'",
        "month IN (1, 'x')",
        "tags = 'x'",
        "props = 'x'",
        "json = 1",
        "address = 1",
        "tags = NULL",
        "tags IN (NULL)",
        "tags = tags",
        "json = json",
        "month = name",
        "day = at",
        "month LIKE 'x%'",
        "MATCH(month, 'x')",
        "1 = 'x'",
    ],
)
def test_comparisons_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(TypeMismatchError):
        bind(text, SCHEMA)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(TypeMismatchError):
        bind(Compare(Op.EQ, Column(("name",)), Literal("\ud800")), SCHEMA)


@pytest.mark.parametrize(
    "text", ["month = price", "tiny < double", "single >= big", "name = address.city", "day = day"]
)
def test_columns_of_one_type_or_both_numbers_can_be_compared(text: str) -> None:
    assert isinstance(bind(text, SCHEMA), Compare)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("month = NULL", "NULL"),
        ("NOT month = NULL", "NULL"),
        ("month <=> NULL", "`Month` IS NULL"),
        ("nothing = 1", "NULL"),
        ("nothing <=> NULL", "TRUE"),
        ("nothing IN (1)", "NULL"),
        ("nothing IS NULL", "`nothing` IS NULL"),
        ("tags IS NOT NULL", "`tags` IS NOT NULL"),
        ("address IS NULL", "`address` IS NULL"),
        ("name LIKE '%'", "`name` IS NOT NULL OR NULL"),
    ],
)
def test_nulls_are_unknown(text: str, expected: str) -> None:
    assert bound(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 < 2.5", "TRUE"),
        ("'a' >= 'b'", "FALSE"),
        ("1 = NULL", "NULL"),
        ("NULL <=> NULL", "TRUE"),
        ("CAST('NaN' AS DOUBLE) > 1e300", "TRUE"),
        ("CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)", "TRUE"),
        ("DATE '2020-01-01' < TIMESTAMP '2020-01-01 00:00:01'", "TRUE"),
        ("1 = 1 AND month = 1", "`Month` = 1"),
        ("1 = 2 AND month = 1", "FALSE"),
    ],
)
def test_constants_among_themselves_are_settled(text: str, expected: str) -> None:
    assert bound(text) == expected


def test_an_empty_list_holds_nothing() -> None:
    assert render(bind(In(Column(("month",)), ()), SCHEMA)) == "`Month` IS NULL AND NULL"


def test_a_value_is_no_condition() -> None:
    with pytest.raises(UnsupportedOperatorError):
        bind(Literal(1), SCHEMA)


@pytest.mark.parametrize(
    "text", ["month < 9", "tiny IN (1, NULL)", "single < 0.1", "at = '2020-01-01'", "price > 1.005"]
)
def test_binding_twice_changes_nothing(text: str) -> None:
    once: Predicate = bind(text, SCHEMA)

    assert bind(once, SCHEMA) == once


def test_literals_of_different_kinds_differ_even_where_python_finds_them_equal() -> None:
    assert parse("a = 1") != parse("a = true")
    assert parse("a = 1") != parse("a = 1.0")
    assert Literal(math.nan) == Literal(float("nan"))
    assert hash(Literal(math.nan)) == hash(Literal(float("nan")))


@pytest.mark.parametrize("given", [5, ["x = 1"], {"x": 1}, object], ids=repr)
def test_what_is_no_predicate_is_refused_by_name(given):
    with pytest.raises(InvalidPredicateError, match="a predicate is text"):
        bind(given, SCHEMA)


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        (Compare(Column(("id",)), Op.EQ, Literal(1)), "a comparison begins with an Op"),
        (Compare("=", Column(("id",)), Literal(1)), "a comparison begins with an Op"),
        (Compare(Op.EQ, Column(("id",)), 1), "a value a Literal"),
        (Compare(Op.EQ, "id", Literal(1)), "a column is a Column"),
        (Compare(Op.EQ, Column("id"), Literal(1)), "the path of a column is a tuple of names"),
        (In(Column(("id",)), (1, 2)), "a value is a Literal"),
        (IsNull("id"), "a column is a Column"),
        (Not("id = 1"), "inside of a predicate"),
        (And(("id = 1", "id = 2")), "inside of a predicate"),
    ],
)
def test_what_no_predicate_is_made_of_is_refused_by_name(predicate, why):
    with pytest.raises(InvalidPredicateError, match=why):
        bind(predicate, Schema((Field(name="id", type=LONG),)))
