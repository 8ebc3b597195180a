"""SQL text becomes predicates, or an error that names the reason."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tablespec.errors import InvalidPredicateError, TableSpecError, UnsupportedOperatorError
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
from tablespec.expr.parse import parse

A, B, C = Column(("a",)), Column(("b",)), Column(("c",))


def compare(op: Op, value: Scalar) -> Compare:
    return Compare(op, A, Literal(value))


def equal(value: Scalar) -> Compare:
    return compare(Op.EQ, value)


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("a = 1", Op.EQ),
        ("a == 1", Op.EQ),
        ("a != 1", Op.NE),
        ("a <> 1", Op.NE),
        ("a < 1", Op.LT),
        ("a <= 1", Op.LE),
        ("a > 1", Op.GT),
        ("a >= 1", Op.GE),
        ("a <=> 1", Op.NULL_SAFE_EQ),
        ("a IS NOT DISTINCT FROM 1", Op.NULL_SAFE_EQ),
        ("1 = a", Op.EQ),
        ("1 != a", Op.NE),
        ("1 > a", Op.LT),
        ("1 >= a", Op.LE),
        ("1 < a", Op.GT),
        ("1 <= a", Op.GE),
        ("(1) <=> (a)", Op.NULL_SAFE_EQ),
    ],
)
def test_comparisons_have_their_column_on_the_left(text: str, op: Op) -> None:
    assert parse(text) == compare(op, 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("- -5", 5),
        ("+5", 5),
        ("-9223372036854775808", -(2**63)),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.50", Decimal("1.50")),
        ("-12345678901234567890123456789012345.678", Decimal("-12345678901234567890123456789012345.678")),
        (".5", Decimal("0.5")),
        ("1e3", Decimal("1e3")),
        ("1.5E-3", Decimal("0.0015")),
        ("'it''s'", "it's"),
        (r"'C:\new'", r"C:\new"),
        ("'\n -- no comment'", "\n -- no comment"),
        ("''", ""),
        ("TRUE", True),
        ("false", False),
        ("NULL", None),
        ("X'00fF'", b"\x00\xff"),
        ("x''", b""),
        ("DATE '2020-02-29'", date(2020, 2, 29)),
        ("TIMESTAMP '2020-01-01 05:00:00'", datetime(2020, 1, 1, 5, tzinfo=UTC)),
        ("TIMESTAMP '2020-01-01T05:00:00.25+05:00'", datetime(2020, 1, 1, 0, 0, 0, 250_000, UTC)),
        ("TIMESTAMP '2020-01-01'", datetime(2020, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP_NTZ '2020-01-01 05:00:00'", datetime(2020, 1, 1, 5)),
        ("CAST('5' AS INT)", 5),
        ("CAST(5 AS STRING)", "5"),
        ("CAST(-5 AS BIGINT)", -5),
        ("CAST(1 AS DECIMAL(10, 2))", Decimal("1.00")),
        ("CAST(1.5 AS DOUBLE)", 1.5),
        ("CAST(0.1 AS FLOAT)", 0.10000000149011612),
        ("CAST('-Infinity' AS DOUBLE)", float("-inf")),
        ("CAST('NaN' AS DOUBLE)", float("nan")),
        ("CAST('2020-01-01' AS DATE)", date(2020, 1, 1)),
        ("CAST(DATE '2020-01-01' AS TIMESTAMP_NTZ)", datetime(2020, 1, 1)),
        ("CAST(NULL AS INT)", None),
        ("CAST('true' AS BOOLEAN)", True),
    ],
)
def test_constants_keep_their_exact_value_and_kind(text: str, value: Scalar) -> None:
    assert parse(f"a = {text}") == equal(value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a.b.c.d.e.f", ("a", "b", "c", "d", "e", "f")),
        ("`a.b`.c", ("a.b", "c")),
        ('"a b"."C"', ("a b", "C")),
        ("`a``b`", ("a`b",)),
        ('"a""b"', ('a"b',)),
        ("date", ("date",)),
        ("timestamp", ("timestamp",)),
        ("value", ("value",)),
        ("if", ("if",)),
        ("`select`", ("select",)),
        ("größe", ("größe",)),
    ],
)
def test_columns_are_written_plain_or_in_either_kind_of_quotes(text: str, path: tuple[str, ...]) -> None:
    assert parse(f"{text} = 1") == Compare(Op.EQ, Column(path), Literal(1))


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a", equal(True)),
        ("NOT a", Not(equal(True))),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a IS TRUE", compare(Op.NULL_SAFE_EQ, True)),
        ("a IS NOT FALSE", Not(compare(Op.NULL_SAFE_EQ, False))),
        ("a IS DISTINCT FROM 1", Not(compare(Op.NULL_SAFE_EQ, 1))),
        ("a IN (1, NULL, 'x')", In(A, (Literal(1), Literal(None), Literal("x")))),
        ("a NOT IN (1)", Not(In(A, (Literal(1),)))),
        ("a BETWEEN 1 AND 2", And((compare(Op.GE, 1), compare(Op.LE, 2)))),
        ("a NOT BETWEEN 1 AND 2", Not(And((compare(Op.GE, 1), compare(Op.LE, 2))))),
        ("a = b", Compare(Op.EQ, A, B)),
        ("starts_with(a, 'x')", Text(TextTest.STARTS_WITH, A, "x")),
        ("ends_with(a, 'x')", Text(TextTest.ENDS_WITH, A, "x")),
        ("contains(a, 'x')", Text(TextTest.CONTAINS, A, "x")),
        ("MATCH(a, 'two words')", Match((A,), "two words")),
        ("TRUE", Literal(True)),
        ("NULL", Literal(None)),
        ("1 IS NULL", Literal(False)),
        ("a = 1 -- why", equal(1)),
    ],
)
def test_conditions(text: str, predicate: Predicate) -> None:
    assert parse(text) == predicate


@pytest.mark.parametrize(
    ("pattern", "predicate"),
    [
        ("'x%'", Text(TextTest.STARTS_WITH, A, "x")),
        ("'%x'", Text(TextTest.ENDS_WITH, A, "x")),
        ("'%x y%%'", Text(TextTest.CONTAINS, A, "x y")),
        ("'x'", equal("x")),
        ("''", equal("")),
        ("'%'", Text(TextTest.STARTS_WITH, A, "")),
        ("'%%'", Text(TextTest.STARTS_WITH, A, "")),
        ("'50!%%' ESCAPE '!'", Text(TextTest.STARTS_WITH, A, "50%")),
        ("'a!_!!b' ESCAPE '!'", equal("a_!b")),
        (r"'\%%' ESCAPE '\'", Text(TextTest.STARTS_WITH, A, "%")),
    ],
)
def test_like_patterns_become_the_text_test_that_they_are(pattern: str, predicate: Predicate) -> None:
    assert parse(f"a LIKE {pattern}") == predicate
    assert parse(f"a NOT LIKE {pattern}") == Not(predicate)


@pytest.mark.parametrize(
    "pattern", ["'a_'", "'a%b'", r"'a\%'", "'a!b' ESCAPE '!'", "'a!' ESCAPE '!'", "'a' ESCAPE 'xy'"]
)
def test_other_like_patterns_are_not_supported(pattern: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match="LIKE"):
        parse(f"a LIKE {pattern}")


def test_and_binds_stronger_than_or_and_not_stronger_than_both() -> None:
    a, b, c = (Compare(Op.EQ, column, Literal(True)) for column in (A, B, C))

    assert parse("a OR b AND c") == Or((a, And((b, c))))
    assert parse("(a OR b) AND c") == And((Or((a, b)), c))
    assert parse("NOT a AND b") == And((Not(a), b))
    assert parse("NOT (a AND b)") == Not(And((a, b)))
    assert parse("a AND (b AND c)") == And((a, b, c))
    assert parse("NOT a = b") == Not(Compare(Op.EQ, A, B))


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("upper(a) = 'X'", "the function upper"),
        ("my_function(a) = 1", "the function my_function"),
        ("a + 1 = 2", "the operator +"),
        ("a = b || 'x'", "the operator ||"),
        ("CASE WHEN a THEN b END", "CASE"),
        ("a IN (SELECT 1)", "a subquery"),
        ("a = (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("upper(a) IN ('X')", "the function upper"),
        ("1 IN (1)", "a value where a column must stand"),
        ("contains('x', a)", "a value where a column must stand"),
        ("a IN (b)", "a column where a value must stand"),
        ("CAST(a AS INT) = 1", "a column where a value must stand"),
        ("CAST(1 AS DECIMAL) = a", "CAST to DECIMAL"),
        ("a = ?", "a parameter"),
        ("(a = 1) = TRUE", "a condition inside a comparison"),
        ("(a = 1) IS NULL", "a condition inside a comparison"),
        ("a RLIKE 'x'", "the function regexp_like"),
        ("a ILIKE 'x%'", "ILIKE"),
        ("a LIKE ANY ('x')", "ANY"),
        ("a IN ()", "IN without a list of values"),
        ("5", "a value where a condition must stand"),
        ("'x'", "a value where a condition must stand"),
        ("a[0] = 1", "BRACKET"),
        ("MATCH(a)", "the function match"),
    ],
)
def test_sql_beyond_predicates_is_refused_by_name(text: str, operator: str) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        parse(text)

    assert caught.value.operator.lower() == operator.lower()
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("b = 1 AND a + 1 = 2", "+"),
        ("a - -b = 2 - 1", "- -b"),
        ("id = 1 OR id IN (SELECT id FROM x)", "SELECT"),
        ("id = 1 AND EXISTS (SELECT 1)", "EXISTS"),
        ("b = 'CASE' AND a = CASE WHEN b THEN 1 END", "CASE WHEN"),
        ("`upper`.b = 1 AND upper(a) = 'X'", "upper(a)"),
        ("a = 1 AND a = now()", "now"),
        ("a = 1 AND a ILIKE 'x%'", "ILIKE"),
        ("a = 's_' OR a LIKE 's_'", "'s_'$"),
        ("a = 1 AND CAST(b AS INT) = 1", "b AS"),
        ("b = 1 AND a::int = 1", "a::"),
        ("a = 1 AND (a, b) IN ((1, 2))", "(a"),
        ("a = 1 AND a = ?", "?"),
        ("NULL = ?", "?"),
        ("a = 1 AND a = CURRENT_DATE", "CURRENT_DATE"),
        ("a = 1 AND a = b || c", "||"),
        ("a = 1 AND b IN ()", "b"),
        ("a = 1 AND 5", "5"),
        ("a = 1 AND\n  5 = ANY(b)", "b"),
        ("a = 1 AND MATCH(a, b)", "MATCH"),
        ("a = 1 AND CAST(2 AS UUID) = b", "CAST"),
    ],
)
def test_what_is_not_supported_is_told_with_its_place(text: str, marked: str) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        parse(text)

    place = text.rindex(marked[:-1]) if marked.endswith("$") else text.index(marked)
    assert caught.value.position == place


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("   ", 0),
        ("a = 1 b", 6),
        ("a = 1 AND", 6),
        ("a = 'x", 4),
        ("a = `b", 4),
        ("a = 1\nAND (b = 2", 15),
        ("a = 1; b = 2", 5),
        ("a = 1e", 4),
        ("a = X'0'", 4),
        ("a = X'0g'", 4),
        ("a = 0x1f", 4),
        ("a = 1)", 5),
        ("DROP TABLE t", 0),
        ("a = 'x' /* b", 8),
        ("a = '/*' AND b = \"/*\" /* c /* d */ e", 22),
        ("a = 1 -- /*\nAND b = 2 /* c */ /* d", 30),
        ("DATE '2020-13-01' = a", 5),
        ("CAST(1.5 AS INT) = a", 5),
        ("CAST(300 AS TINYINT) = a", 5),
        ("a300 = 1 AND a = CAST(300 AS TINYINT)", 22),
        ("a = '2020-13-01' OR a = DATE '2020-13-01'", 29),
        ("a = 'it''s' AND b = CAST('it''s' AS INT)", 25),
        ("a = 30000 AND b = CAST(-300 AS TINYINT)", 24),
        ("a = 'x' AND b = CAST((DATE '2020-01-01') AS INT)", 27),
        ("a = 'TRUE' AND b = CAST(TRUE AS DATE)", 24),
        ("a = 'TRUE' AND b = false::DATE", 19),
        ("a = 0.5 AND b = CAST(.5 AS INT)", 16),
        ("a = 0 AND b = CAST(X'00' AS INT)", 19),
        ("a = " + "9" * 5000, 4),
        ("a = 1e99999999999999999999", 4),
    ],
)
def test_text_that_is_no_condition_is_refused_with_the_place(text: str, position: int) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse(text)

    assert caught.value.position == position


@pytest.mark.parametrize("text", ["(" * 5000 + "a" + ")" * 5000, "NOT " * 5000 + "a", "a = " + "- " * 5000 + "1"])
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(InvalidPredicateError, match="nested"):
        parse(text)


def test_a_caller_close_to_the_end_of_the_stack_gets_an_error_of_ours() -> None:
    def deeper(left: int) -> Predicate:
        return parse("(" * 30 + "a" + ")" * 30) if left == 0 else deeper(left - 1)

    with pytest.raises(InvalidPredicateError, match="nested"):
        deeper(sys.getrecursionlimit() // 2)


def test_long_chains_are_no_nesting() -> None:
    found = parse(" OR ".join(f"a = {value}" for value in range(5000)))

    assert found == Or(tuple(equal(value) for value in range(5000)))


WORDS = """a b `c` "d" 'x' 1 -1 1.5 1e5 = <> < <=> ( ) , . ; ' ` " and or not in is null between like escape true date
timestamp cast( as int) x'00' case when then else end select from interval match( starts_with(a, % _ * - + / [ ] { } :
:: @ $ ? \\ -- /* */ if exists any all distinct é 😀 \0 0x1f N'x' decimal(5,2) array<int> struct -> || && ! ~"""


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join) | st.text(max_size=30))
@example("CAST(1 AS DECIMAL(x, y)) = a")
@example("CAST(1 AS DECIMAL(5)) = a")
@example("CAST(1 AS) = a")
@example("ELSE")
def test_any_text_gives_a_predicate_or_an_error_of_ours(text: str) -> None:
    try:
        parse(text)
    except TableSpecError as error:
        assert str(error)
