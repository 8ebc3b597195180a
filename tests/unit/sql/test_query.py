"""What an engine must know of a statement before it is read."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import InvalidStatementError
from tablespec.sql.parse import parse_statement
from tablespec.sql.query import altered_tables, changed_table, names_in
from tests.rows import assert_same_rows


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("DELETE FROM lake.db.t WHERE a = 1", ("lake", "db", "t")),
        ("-- gone\n delete from `a b`.t", ("a b", "t")),
        ("UPDATE db.t SET a = 1", ("db", "t")),
        ("INSERT INTO t VALUES (1)", ("t",)),
        ("INSERT INTO TABLE db.t SELECT 1", ("db", "t")),
        ("INSERT OVERWRITE TABLE db.t SELECT 1", ("db", "t")),
        ("INSERT INTO table.t SELECT 1", ("table", "t")),
        ('MERGE INTO "lake".db.t AS x USING s ON x.a = s.a', ("lake", "db", "t")),
        ("SELECT * FROM t", None),
        ("WITH d AS (SELECT 1) INSERT INTO t SELECT * FROM d", None),
        ("CREATE TABLE t (a INT)", None),
        ("EXPLAIN DELETE FROM t", None),
        ("DELETE", None),
        ("DELETE FROM t; SELECT 1", None),
        ("SELECT 'it\\'s'", None),
        ("", None),
    ],
)
def test_the_table_that_a_statement_changes_is_told_by_its_first_words(text, name):
    assert changed_table(text) == name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("WITH x AS (SELECT (1)), y (a) AS (SELECT 2) INSERT INTO lake.db.t SELECT * FROM x", [("lake", "db", "t")]),
        ("WITH x AS (SELECT 1) DELETE FROM lake.db.t", [("lake", "db", "t")]),
        ("INSERT OR REPLACE INTO lake.db.t VALUES (1)", [("lake", "db", "t")]),
        ("truncate lake.db.t", [("lake", "db", "t")]),
        ("TRUNCATE TABLE table.db.t", [("table", "db", "t")]),
        ("DROP TABLE IF EXISTS lake.db.t", [("lake", "db", "t")]),
        ("DROP VIEW `lake`.db.t;", [("lake", "db", "t")]),
        ("ALTER TABLE lake.db.t RENAME TO u", [("lake", "db", "t")]),
        ("CREATE TABLE IF NOT EXISTS lake.db.t AS SELECT 1", [("lake", "db", "t")]),
        ("CREATE OR REPLACE VIEW lake.db.t AS SELECT 1", [("lake", "db", "t")]),
        ("COPY lake.db.t (a, b) FROM 'x.csv'", [("lake", "db", "t")]),
        ("COPY lake.db.t TO 'x.csv'", []),
        ("COPY (SELECT * FROM lake.db.t) TO 'x.csv'", []),
        ("CREATE TEMP VIEW v AS SELECT * FROM lake.db.t", [("v",)]),
        ("INSERT INTO own SELECT * FROM lake.db.t", [("own",)]),
        ("WITH x AS (SELECT 1) SELECT * FROM lake.db.t", []),
        ("SELECT * FROM lake.db.t", []),
        ("DROP TABLE own, lake.db.t, `lake`.db.u", [("own",), ("lake", "db", "t"), ("lake", "db", "u")]),
        ("CREATE SCHEMA lake.db", [("lake", "db")]),
        ("REPLACE TABLE lake.db.t AS SELECT 1", [("lake", "db", "t")]),
        ("COMMENT ON TABLE lake.db.t IS 'x'", [("lake", "db", "t")]),
        (
            "FROM x INSERT INTO a.b SELECT 1 INSERT OVERWRITE TABLE lake.db.t SELECT 2",
            [("a", "b"), ("lake", "db", "t")],
        ),
        ("WITH y AS (SELECT 1) FROM y INSERT INTO lake.db.t SELECT *", [("lake", "db", "t")]),
        ("FROM lake.db.t SELECT x", []),
        ("explain delete from lake.db.t", [("lake", "db", "t")]),
        ("EXPLAIN (FORMAT json) INSERT INTO own SELECT * FROM lake.db.t", [("own",)]),
        ("EXPLAIN EXTENDED SELECT * FROM lake.db.t", []),
        ("SELECT 1; DROP TABLE own; EXPLAIN ANALYZE DELETE FROM lake.db.t;", [("own",), ("lake", "db", "t")]),
        ("EXPLAIN", []),
        ("DROP", []),
        ("WITH", []),
        ("SELECT 'open", []),
        ("", []),
    ],
)
def test_the_tables_that_statements_of_any_kind_alter_are_told_by_their_first_words(text, names):
    assert altered_tables(text) == tuple(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('SELECT a.b.c.d, 1.5 FROM "a".b.c JOIN x ON x.i = 1', {("a", "b", "c", "d"), ("a", "b", "c"), ("x", "i")}),
        ("SELECT 'a.b.c' -- a.b.c", set()),
        ("a.b", {("a", "b")}),
        ("EXPLAIN SELECT * FROM a.b.c; SELECT 1", {("a", "b", "c")}),
        ("SELECT 'open", set()),
    ],
)
def test_all_names_of_several_parts_in_a_statement_are_found(text, names):
    assert set(names_in(text)) == names


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("INSERT INTO t SELECT a, f(b) FROM x JOIN y USING (k)", "SELECT a, f(b) FROM x JOIN y USING (k)"),
        ("INSERT INTO t (a, b) WITH w AS (SELECT 1) SELECT * FROM w;", "WITH w AS (SELECT 1) SELECT * FROM w"),
        ("INSERT INTO t REPLACE WHERE p IN (1, 2) SELECT * FROM x", "SELECT * FROM x"),
        ("INSERT INTO t BY NAME (SELECT 1 AS a)", "(SELECT 1 AS a)"),
        ("INSERT INTO t (a) (SELECT 1 AS a)", "(SELECT 1 AS a)"),
        (
            "MERGE INTO t USING (SELECT a, max(b) AS b FROM x GROUP BY a) AS s ON t.a = s.a WHEN MATCHED THEN DELETE",
            None,
        ),
        ("MERGE INTO t USING other.`x y` s ON t.a = s.a WHEN MATCHED THEN DELETE", "SELECT * FROM other.`x y`"),
    ],
)
def test_the_query_that_rows_come_from_is_left_to_the_engine(text, query):
    read = parse_statement(text, cut_query=True)

    rows = read.source if "MERGE" in text else read.rows
    assert rows.text == query or rows.text == "SELECT a, max(b) AS b FROM x GROUP BY a"


@pytest.mark.parametrize("text", ["INSERT INTO t VALUES (1)", "DELETE FROM t WHERE a = 1"])
def test_a_statement_without_a_query_is_read_as_ever(text):
    assert parse_statement(text, cut_query=True) == parse_statement(text)


def test_a_predicate_with_a_query_in_it_is_refused(tmp_path):
    with pytest.raises(tablespec.TableSpecError):
        parse_statement("INSERT INTO t REPLACE WHERE a IN (SELECT 1) SELECT * FROM x", cut_query=True)
    with pytest.raises(tablespec.TableSpecError):
        parse_statement("DELETE FROM t WHERE a IN (SELECT 1)", cut_query=True)


class Numbers:
    """An engine that answers everything with the same rows."""

    names = ("x", "y")

    def rows(self, names):
        return pa.table([[1, 2], [10, 20]], names=list(names))


@pytest.fixture
def lake(tmp_path):
    """A catalog with one table, under the name lake."""
    catalog = tablespec.Catalog(str(tmp_path))
    catalog.create_table("db.t", pa.schema({"a": pa.int64(), "b": pa.int64()}))
    return tablespec.Catalogs().with_catalog("lake", catalog)


def test_rows_of_an_engine_go_into_the_columns_in_order(lake):
    tablespec.sql("INSERT INTO lake.db.t (b, a) SELECT whatever", lake, queries=lambda text: Numbers())

    assert_same_rows(lake.load("lake.db.t").scan(), [(10, 1), (20, 2)])


def test_too_many_columns_of_an_engine_are_refused(lake):
    with pytest.raises(InvalidStatementError, match="2 values for 1 columns"):
        tablespec.sql("INSERT INTO lake.db.t (b) SELECT whatever", lake, queries=lambda text: Numbers())


def test_a_name_without_a_catalog_is_refused(lake):
    with pytest.raises(tablespec.TableSpecError, match="other"):
        tablespec.sql("DELETE FROM other.db.t WHERE a = 1", lake)
