"""SQL text becomes values, or an error that names the reason."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.errors import InvalidPredicateError, TableSpecError, UnsupportedOperatorError
from tablespec.expr.nodes import FALSE, TRUE, Column, Compare, IsNull, Literal, Not, Op
from tablespec.expr.parse_value import parse_value
from tablespec.expr.render_value import render_value
from tablespec.expr.value import FUNCTIONS, Call, Case, Cast, Function, Value, columns_of_value, type_of
from tablespec.model.schema import FLOAT, INTEGER, LONG, STRING, DecimalType

A, B, C = Column(("a",)), Column(("b",)), Column(("c",))
ONE, NULL = Literal(1), Literal(None)
POSITIVE = Compare(Op.GT, A, Literal(0))


def call(function: Function, *arguments: Value) -> Call:
    return Call(function, arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", A),
        ("t.a", Column(("t", "a"))),
        ("`odd name`.x", Column(("odd name", "x"))),
        ("(a)", A),
        ("+a", A),
        ("a + 1", call(Function.ADD, A, ONE)),
        ("a - 1 - b", call(Function.SUBTRACT, call(Function.SUBTRACT, A, ONE), B)),
        ("a + b * c", call(Function.ADD, A, call(Function.MULTIPLY, B, C))),
        ("(a + b) * c", call(Function.MULTIPLY, call(Function.ADD, A, B), C)),
        ("a / b", call(Function.DIVIDE, A, B)),
        ("a % b", call(Function.REMAINDER, A, B)),
        ("mod(a, b)", call(Function.REMAINDER, A, B)),
        ("-a", call(Function.NEGATE, A)),
        ("-(-a)", call(Function.NEGATE, call(Function.NEGATE, A))),
        ("a || 'x' || b", call(Function.CONCAT, A, Literal("x"), B)),
        ("concat(a, 'x', b)", call(Function.CONCAT, A, Literal("x"), B)),
        ("upper(a)", call(Function.UPPER, A)),
        ("Lower(a)", call(Function.LOWER, A)),
        ("trim(a)", call(Function.TRIM, A)),
        ("length(a)", call(Function.LENGTH, A)),
        ("abs(a)", call(Function.ABS, A)),
        ("round(a)", call(Function.ROUND, A)),
        ("round(a, -2)", call(Function.ROUND, A, Literal(-2))),
        ("floor(a)", call(Function.FLOOR, A)),
        ("ceil(a)", call(Function.CEIL, A)),
        ("ceiling(a)", call(Function.CEIL, A)),
        ("substring(a, 2)", call(Function.SUBSTRING, A, Literal(2))),
        ("substr(a, 2, 3)", call(Function.SUBSTRING, A, Literal(2), Literal(3))),
        ("substring(a FROM 2 FOR 3)", call(Function.SUBSTRING, A, Literal(2), Literal(3))),
        ("replace(a, 'x', 'y')", call(Function.REPLACE, A, Literal("x"), Literal("y"))),
        ("coalesce(a, b, 1)", call(Function.COALESCE, A, B, ONE)),
        ("nvl(a, b)", call(Function.COALESCE, A, B)),
        ("nullif(a, b)", call(Function.NULLIF, A, B)),
        ("greatest(a, b, c)", call(Function.GREATEST, A, B, C)),
        ("least(a, b)", call(Function.LEAST, A, B)),
    ],
)
def test_operators_and_functions_become_calls(text: str, expected: Value) -> None:
    assert parse_value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        ("-5", -5),
        ("- -5", 5),
        ("1.50", Decimal("1.50")),
        ("-1.50", Decimal("-1.50")),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("'it''s'", "it's"),
        ("TRUE", True),
        ("NULL", None),
        ("X'00ff'", b"\x00\xff"),
        ("DATE '2020-02-29'", date(2020, 2, 29)),
        ("TIMESTAMP '2020-01-01 05:00:00'", datetime(2020, 1, 1, 5, tzinfo=UTC)),
        ("TIMESTAMP_NTZ '2020-01-01 05:00:00'", datetime(2020, 1, 1, 5)),
        ("CAST('NaN' AS DOUBLE)", float("nan")),
        ("CAST('7' AS INT)", 7),
        ("CAST(7 AS STRING)", "7"),
    ],
)
def test_constants_are_kept_exactly_and_those_with_an_exponent_are_doubles(text: str, expected: object) -> None:
    assert parse_value(text) == Literal(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST(a AS BIGINT)", Cast(A, LONG)),
        ("a::STRING", Cast(A, STRING)),
        ("CAST(a + 1 AS DECIMAL(10, 2))", Cast(call(Function.ADD, A, ONE), DecimalType(10, 2))),
        ("CAST(7 AS BIGINT)", Cast(Literal(7), LONG)),
        ("CAST(0.1 AS FLOAT)", Cast(Literal(Decimal("0.1")), FLOAT)),
        ("CAST(1.5 AS INT)", Cast(Literal(Decimal("1.5")), INTEGER)),
        ("CAST(NULL AS INT)", Cast(NULL, INTEGER)),
    ],
)
def test_casts_are_kept_where_they_change_the_type(text: str, expected: Value) -> None:
    assert parse_value(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN a > 0 THEN 'x' ELSE b END", Case(((POSITIVE, Literal("x")),), B)),
        ("CASE WHEN a > 0 THEN b END", Case(((POSITIVE, B),), NULL)),
        ("CASE a WHEN 1 THEN b WHEN 2 THEN c END",
         Case(((Compare(Op.EQ, A, ONE), B), (Compare(Op.EQ, A, Literal(2)), C)), NULL)),
        ("if(a > 0, b, c)", Case(((POSITIVE, B),), C)),
        ("if(a IS NULL, 1)", Case(((IsNull(A), ONE),), NULL)),
        ("CASE WHEN a THEN 1 END", Case(((Compare(Op.EQ, A, TRUE), ONE),), NULL)),
    ],
)  # fmt: skip
def test_choices_become_a_case(text: str, expected: Value) -> None:
    assert parse_value(text) == expected


@pytest.mark.parametrize("text", ["a > 0", "(a > 0)"])
def test_a_condition_is_true_false_or_null(text: str) -> None:
    assert parse_value(text) == Case(((POSITIVE, TRUE), (Not(POSITIVE), FALSE)), NULL)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("current_timestamp", "the function current_timestamp"),
        ("current_timestamp()", "the function current_timestamp"),
        ("current_date + 1", "the function current_date"),
        ("now()", "the function now"),
        ("a + rand()", "the function rand"),
        ("upper(uuid())", "the function uuid"),
        ("foo(a)", "the function foo"),
        ("sum(a)", "the function sum"),
        ("sum(a) OVER ()", "WINDOW"),
        ("a + (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("CASE WHEN a IN (SELECT 1) THEN 1 END", "a subquery"),
        ("CASE WHEN a + 1 > 2 THEN 1 END", "the operator +"),
        ("if(upper(a) = 'X', 1, 2)", "the function upper"),
        ("try_cast(a AS INT)", "the function try_cast"),
        ("CAST(a AS ARRAY<INT>)", "CAST to ARRAY<INT>"),
        ("trim(BOTH 'x' FROM a)", "the function trim with"),
        ("ltrim(a)", "the function trim with"),
        ("floor(a, 2)", "the function floor with"),
        ("a & b", "BITWISEAND"),
        ("a[0]", "BRACKET"),
        ("?", "a parameter"),
        ("*", "*"),
    ],
)
def test_what_values_cannot_say_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        parse_value(text)

    assert caught.value.operator.startswith(named)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a + now()", "now"),
        ("a * (SELECT b FROM o)", "SELECT"),
        ("CASE WHEN a + 1 > 2 THEN 1 END", "+"),
        ("if(upper(a) = 'X', 1, 2)", "upper"),
        ("1 + floor(a, 2)", "floor"),
        ("a + ?", "?"),
        ("a || b[0]", "b"),
        ("a + CAST(b AS ARRAY<INT>)", "CAST"),
    ],
)
def test_what_values_cannot_say_is_told_with_its_place(text: str, marked: str) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        parse_value(text)

    assert caught.value.position == text.index(marked)


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("", 0, "there is no condition"),
        ("a +", 2, "missing"),
        ("a b", 2, "unexpected"),
        ("(a", 1, "expected"),
        ("a; b", 1, "';'"),
        ("upper()", 6, "missing"),
        ("substring(a)", 0, "substring takes 2 to 3 arguments, not 1"),
        ("1 + greatest(a)", 4, "greatest takes 2 or more arguments, not 1"),
        ("substring(a, 1) || substring(a)", 19, "substring takes 2 to 3 arguments, not 1"),
        ("`least`.a + Least(a)", 12, "least takes 2 or more arguments, not 1"),
        ("greatest(a, greatest(b))", 12, "greatest takes 2 or more arguments, not 1"),
        ("replace(a, 'x')", 0, "replace takes 3 arguments, not 2"),
        ("DATE '2020-02-30'", 5, "cannot be cast to date"),
        ("CAST('x' AS INT)", 5, "cannot be cast to integer"),
        ("x || CAST('x' AS INT)", 10, "cannot be cast to integer"),
        ("CASE x1 WHEN 1 THEN CAST('x1' AS INT) END", 25, "cannot be cast to integer"),
        ("+".join(["a"] * 300), 0, "nested too deeply"),
        ("+".join(["a"] * 20000), 0, "nested too deeply"),
        ("-" + "(" * 40 + "a" + ")" * 40, 33, "nested more than"),
    ],
)
def test_text_that_is_no_expression_is_pointed_at(text: str, position: int, why: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse_value(text)

    assert why in caught.value.why
    assert caught.value.position == position


def test_long_chains_of_text_are_one_call() -> None:
    assert parse_value(" || ".join(["a"] * 2000)) == Call(Function.CONCAT, (A,) * 2000)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab1.e'`\"()+-*/%|,<=>! \nCASEWHNTLDORIFX", max_size=30))
def test_any_text_is_a_value_or_an_error_of_ours(text: str) -> None:
    try:
        parse_value(text)
    except TableSpecError as error:
        assert str(error)


def test_the_columns_of_a_value_include_those_of_its_conditions() -> None:
    value = parse_value("CASE WHEN a > 0 THEN coalesce(s.b, 1) ELSE CAST(c AS INT) END || 'x'")

    assert columns_of_value(value) == {("a",), ("s", "b"), ("c",)}


def test_every_function_has_an_arity_that_calls_keep() -> None:
    assert set(FUNCTIONS) == set(Function)
    with pytest.raises(ValueError, match=r"\+ takes 2 arguments, not 1"):
        Call(Function.ADD, (A,))


def test_values_have_no_type_before_they_are_bound() -> None:
    with pytest.raises(ValueError, match="not bound"):
        type_of(A)


def test_many_signs_are_read_in_no_time() -> None:
    assert render_value(parse_value("-(" * 30 + "a" + ")" * 30)).count("-") == 30


@pytest.mark.parametrize(("text", "position"), [("1e400", 0), ("fare + 1e400", 7), ("-1e400", 1)])
def test_a_number_that_no_double_holds_is_refused_at_its_place(text, position):
    with pytest.raises(InvalidPredicateError, match="no double is as large as 1e400") as caught:
        parse_value(text)

    assert caught.value.position == position
