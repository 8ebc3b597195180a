"""What is not a statement of ours is refused by name, and its place is told."""

from __future__ import annotations

import pytest
from hypothesis import given

from tablespec.errors import InvalidPredicateError, InvalidStatementError, UnsupportedOperatorError
from tablespec.expr.parse import parse
from tablespec.expr.parse_value import parse_value
from tablespec.expr.render import render
from tablespec.sql.parse import parse_statement
from tablespec.sql.statement import Delete, Name, Selected, Update
from tests.unit.expr.test_filters import FILTERED


def test_conditions_and_values_are_read_as_everywhere_else():
    condition, value = "a IN (1, 2) OR b LIKE 'x%' AND NOT c <=> d.e", "CASE WHEN a > 1 THEN b ELSE -c END"

    assert parse_statement(f"DELETE FROM t WHERE {condition}") == Delete(Name(("t",), 0), parse(condition))
    assert parse_statement(f"UPDATE t SET z = {value} WHERE {condition}") == Update(
        Name(("t",), 0), (("z", parse_value(value)),), parse(condition)
    )


@given(FILTERED)
def test_any_condition_is_read_in_a_statement_as_by_itself(filtered):
    predicate, text = filtered

    assert parse_statement(f"DELETE FROM `the table` WHERE {text}").where == predicate
    assert parse_statement(f"DELETE FROM `the table` WHERE {render(predicate)}").where == predicate


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO replace VALUES (1)",
        "INSERT INTO db.replace SELECT a FROM o",
        "INSERT INTO t SELECT a AS replace FROM replace",
        "INSERT INTO t REPLACE WHERE values = 1 VALUES (1)",
        "MERGE INTO t USING s ON t.a = 'ON' WHEN MATCHED AND s.a = 'AND' THEN DELETE",
    ],
)
def test_keywords_may_be_names_and_values(statement):
    parse_statement(statement)


def test_a_condition_can_be_assigned():
    expected = Update(Name(("t",), 0), (("a", parse_value("(b = 1 OR c)")),), None)

    assert parse_statement("UPDATE t SET a = (b = 1 OR c)") == expected
    assert parse_statement("UPDATE t SET a = b = 1 OR c") == expected


@pytest.mark.parametrize(
    ("written", "at"), [("VERSION AS OF 3", 3), ("TIMESTAMP AS OF '2026-01-31T12:00:00Z'", "2026-01-31T12:00:00Z")]
)
def test_a_select_may_ask_for_an_older_state(written, at):
    statement = parse_statement(f"INSERT INTO t SELECT q.a FROM o {written} AS q")

    assert statement.rows == Selected(table=Name(("o",), 0), columns=(("a", "a"),), at=at)


@pytest.mark.parametrize(
    ("statement", "marked", "why"),
    [
        ("", 0, "nothing is not one of DELETE FROM, UPDATE, INSERT INTO and MERGE INTO"),
        (" SELECT * FROM t", 1, "SELECT begins a query; queries are the engines' matter"),
        ("WITH q AS (SELECT 1) DELETE FROM t WHERE a", 0, "WITH begins a query"),
        ("TRUNCATE TABLE t", 0, "TRUNCATE is not one of"),
        ("DROP TABLE t", 0, "DROP is not one of"),
        ("DELETE FROM t WHERE a = 1; DELETE FROM t WHERE a = 2", 25, "one statement is run at a time"),
        ("DELETE FROM t WHERE a = 'x", 24, "the closing ' is missing"),
        ("DELETE FROM t WHERE a = 1 LIMIT 3", "LIMIT", "LIMIT is not supported here"),
        ("DELETE FROM t WHERE a = 1 ORDER BY b", "ORDER", "ORDER BY is not supported here"),
        ("DELETE FROM t USING o WHERE t.a = o.a", "USING", "USING is not supported here"),
        ("DELETE FROM t WHERE a RETURNING *", "RETURNING", "RETURNING is not supported here"),
        ("DELETE t WHERE a = 1", 0, "DELETE without FROM is not supported here"),
        ("DELETE FROM t VERSION AS OF 3 WHERE a", "VERSION", "VERSION is not supported here"),
        ("DELETE FROM t TABLESAMPLE (1) WHERE a", "TABLESAMPLE", "TABLESAMPLE is not supported here"),
        ("DELETE FROM f(1) WHERE a", "f(1)", "a name of a table must stand here"),
        ("DELETE FROM (SELECT b FROM t) WHERE a", "b FROM", "a name of a table must stand here"),
        ("DELETE FROM t AS x(a, b) WHERE a", "a, b", "names of columns is not supported here"),
        ("UPDATE t SET a = 1 FROM o WHERE b", "FROM", "FROM is not supported here"),
        ("UPDATE t SET a.b = 1 WHERE c", "a.b", "a.b is a part of a column; only whole columns can be named here"),
        ("UPDATE t SET (a, b) = (1, 2) WHERE c", "a, b", "the name of a column must stand here"),
        ("UPDATE t SET a = 1, b WHERE c", "b WHERE", "an assignment must stand here"),
        ("UPDATE t SET a = 1, A = 2 WHERE c", "A = 2", "the column A is set twice"),
        ("UPDATE t SET a = DEFAULT WHERE c", "DEFAULT", "DEFAULT is not supported here"),
        ("INSERT OVERWRITE t VALUES (1)", "OVERWRITE", "OVERWRITE is not supported here"),
        ("INSERT INTO t PARTITION (a = 1) VALUES (1)", "PARTITION", "PARTITION is not supported here"),
        ("INSERT INTO t DEFAULT VALUES", "DEFAULT", "DEFAULT VALUES is not supported here"),
        ("INSERT INTO t TABLE o", "TABLE", "TABLE is not supported here"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "ON", "ON CONFLICT is not supported here"),
        ("INSERT INTO t REPLACE USING (a) VALUES (1)", "USING", "USING is not supported here"),
        ("INSERT INTO t REPLACE WHERE VALUES (1)", "WHERE", "a condition is missing after WHERE"),
        ("INSERT INTO t (a) REPLACE WHERE SELECT a FROM o", "WHERE", "a condition is missing after WHERE"),
        ("INSERT INTO t REPLACE VALUES (1)", "REPLACE", "a condition is missing after REPLACE"),
        ("INSERT INTO t (a INT) VALUES (1)", "a INT", "the name of a column must stand here"),
        ("INSERT INTO t (a, A) VALUES (1, 2)", "A)", "the column A is named twice"),
        ("INSERT INTO t BY NAME VALUES (1)", "t BY", "BY NAME goes with a SELECT"),
        ("INSERT INTO t SELECT 1", "1", "SELECT without FROM is not supported"),
        (
            "INSERT INTO t SELECT a + 1 FROM o",
            "a +",
            "the operator + in SELECT is not supported; run the query with an engine",
        ),
        ("INSERT INTO t SELECT count(*) FROM o", "count", "the function count in SELECT is not supported"),
        ("INSERT INTO t SELECT *, a FROM o", "*", "* in SELECT is not supported"),
        ("INSERT INTO t SELECT * EXCEPT (a) FROM o", "EXCEPT", "EXCEPT is not supported here"),
        ("INSERT INTO t SELECT DISTINCT a FROM o", "DISTINCT", "DISTINCT is not supported here; run the query with"),
        (
            "INSERT INTO t SELECT DISTINCT a FROM o WHERE a IS DISTINCT FROM 1",
            "DISTINCT a",
            "DISTINCT is not supported here",
        ),
        ("INSERT INTO t SELECT a FROM o ORDER BY 'order'", "ORDER", "ORDER BY is not supported here"),
        ("INSERT INTO default DEFAULT VALUES", "DEFAULT", "DEFAULT VALUES is not supported here"),
        ("DELETE FROM t WHERE a = '*/' /* b", 29, "the closing */ is missing"),
        ("INSERT INTO t SELECT a FROM o JOIN p ON o.a = p.a", "JOIN", "JOIN is not supported here"),
        ("INSERT INTO t SELECT a FROM o, p", "p", "JOIN is not supported here"),
        ("INSERT INTO t SELECT a FROM o GROUP BY a", "GROUP", "GROUP BY is not supported here"),
        ("INSERT INTO t SELECT a FROM o ORDER BY a LIMIT 1", "LIMIT", "LIMIT is not supported here"),
        ("INSERT INTO t SELECT a FROM o UNION SELECT a FROM p", "a FROM o", "UNION is not supported here"),
        ("INSERT INTO t SELECT a FROM (SELECT a FROM o)", "a FROM o", "a name of a table must stand here"),
        ("INSERT INTO t SELECT a FROM o VERSION AS OF '3'", "'3'", "only VERSION AS OF a number"),
        ("MERGE INTO t USING s ON WHEN MATCHED THEN DELETE", "ON", "a condition is missing after ON"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "t USING", "ON is missing"),
        (
            "MERGE INTO t USING s ON t.a = 'AND' WHEN MATCHED AND THEN DELETE",
            "AND THEN",
            "a condition is missing after AND",
        ),
        ("WITH q AS (SELECT 1) INSERT INTO t SELECT a FROM q", 0, "not supported before INSERT; run the query with"),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN UPDATE", "WHEN", "UPDATE sets nothing; write UPDATE SET *"),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN UPDATE SET", "WHEN", "UPDATE sets nothing"),
        (
            "MERGE INTO t USING s ON a = b WHEN MATCHED AND c THEN UPDATE SET a = CASE WHEN matched THEN 1 END "
            "WHEN MATCHED THEN UPDATE",
            "WHEN MATCHED THEN UPDATE",
            "UPDATE sets nothing",
        ),
        ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT", "WHEN", "INSERT has no values; write INSERT *"),
        ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a)", "WHEN", "INSERT has no values"),
        ("INSERT INTO t VALUES (1, 2), (3)", "3", "a row has 1 values, and the first one has 2"),
        ("INSERT INTO t VALUES (1, b)", "b)", "a column where a constant must stand"),
    ],
)
def test_what_is_not_supported_is_named_with_its_place(statement, marked, why):
    with pytest.raises(InvalidStatementError) as caught:
        parse_statement(statement)

    assert why in str(caught.value)
    assert caught.value.position == (statement.index(marked) if isinstance(marked, str) else marked)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM t WHERE a + 1 = 2", UnsupportedOperatorError),
        ("DELETE FROM t WHERE a IN (SELECT a FROM o)", UnsupportedOperatorError),
        ("DELETE FROM t WHERE EXISTS (SELECT a FROM o)", UnsupportedOperatorError),
        ("DELETE FROM t WHERE 1", UnsupportedOperatorError),
        ("UPDATE t SET a = now() WHERE b", UnsupportedOperatorError),
        ("UPDATE t SET a = (SELECT b FROM o) WHERE b", UnsupportedOperatorError),
        ("DELETE FROM t WHERE", InvalidStatementError),
        ("DELETE FROM", InvalidStatementError),
        ("DELETE FROM t WHERE a = ", InvalidStatementError),
        ("MERGE INTO t USING s ON t.a = s.a", InvalidStatementError),
        ("DELETE FROM t WHERE a = DATE 'never'", InvalidPredicateError),
        (f"DELETE FROM t WHERE {'(' * 99}a{')' * 99}", InvalidStatementError),
        (f"UPDATE t SET a = {'+'.join(['a'] * 9999)} WHERE b", (InvalidStatementError, InvalidPredicateError)),
    ],
)
def test_conditions_and_values_are_refused_as_everywhere_else(statement, error):
    with pytest.raises(error):
        parse_statement(statement)


def test_the_place_of_a_problem_is_shown_below_its_line():
    with pytest.raises(InvalidStatementError) as caught:
        parse_statement("DELETE FROM t\nWHERE a = 1\n  LIMIT 3")

    assert str(caught.value) == (
        "cannot run the statement, line 3 column 3: LIMIT is not supported here\n    LIMIT 3\n    ^"
    )


@pytest.mark.parametrize(
    ("statement", "marked"),
    [
        ("DELETE FROM trips\nWHERE id IN (SELECT id FROM x)", "SELECT"),
        ("DELETE FROM trips\nWHERE EXISTS (SELECT 1)", "EXISTS"),
        ("UPDATE t SET a = 1,\n  b = trips(a) WHERE c", "trips"),
        ("DELETE FROM t WHERE a = 's_' OR\n t.b LIKE 's_'", "'s_'"),
        ("UPDATE t SET b = 1 WHERE\n CAST(t.b AS INT) = 1", "t.b"),
        ("INSERT INTO t VALUES (1),\n (now())", "now"),
        ("MERGE INTO t USING s ON t.a = s.a\nWHEN MATCHED AND\n  t.a + 1 = s.b THEN DELETE", "+"),
    ],
)
def test_what_predicates_and_values_cannot_say_is_told_with_its_place(statement, marked):
    with pytest.raises(UnsupportedOperatorError) as caught:
        parse_statement(statement)

    place = statement.rindex(marked)
    line = statement.count("\n", 0, place)
    column = place - statement.rfind("\n", 0, place)
    assert caught.value.position == place
    assert f"line {line + 1} column {column}" in str(caught.value)
    assert str(caught.value).endswith(f"\n  {statement.splitlines()[line]}\n  {' ' * (column - 1)}^")
