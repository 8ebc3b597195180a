"""Tables as DuckDB relations."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import tablespec_duckdb
from duckdb.sqltypes import DuckDBPyType
from tablespec_duckdb.expressions import type_name

import tablespec
from tests.rows import assert_same_rows
from tests.unit.engines.spark.types import EVERY_TYPE, NESTED

TRIPS = pa.table({"id": [1, 2, 3], "city": ["sf", "o'la", None], "fare": [10.0, 20.0, 30.0]})


@pytest.fixture
def con():
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def table(tmp_path) -> tablespec.Table:
    made = tablespec.create_table(str(tmp_path / "trips"), TRIPS.schema, partition_by=["city"], key=["id"])
    made.append(TRIPS)
    return made


def _reads_files(relation: duckdb.DuckDBPyRelation) -> bool:
    plan = relation.explain()
    return "READ_PARQUET" in plan or "PARQUET_SCAN" in plan


def test_files_are_read_by_duckdb_itself(con, table):
    assert _reads_files(tablespec_duckdb.scan(con, table))


@pytest.mark.parametrize("name", ["file_index", "FILE_INDEX", "file_row_number", "filename"])
def test_columns_with_names_that_duckdb_gives_are_not_taken_for_its_own(con, tmp_path, name):
    rows = pa.table({"id": [1, 2, 3, 4], name: [7, 7, 7, 7], "p": ["a", "a", "b", "b"]})
    table = tablespec.create_table(str(tmp_path), rows.schema, partition_by=["p"])
    table.append(rows)
    table.delete("id = 3")
    left = [(1, "a"), (2, "a"), (4, "b")]

    assert_same_rows(tablespec_duckdb.scan(con, table, columns=["id", "p"]).fetchall(), left)
    assert_same_rows(tablespec_duckdb.scan(con, table).query("t", "SELECT id, p FROM t").fetchall(), left)


def test_files_that_the_log_tells_to_be_alike_are_not_opened_to_make_a_relation(con, table):
    for other in table.scan().slices[1:]:
        Path(table.url.removeprefix("file://"), other.slice.base.path).write_bytes(b"no Parquet file")

    assert tablespec_duckdb.scan(con, table).columns == ["id", "city", "fare"]


def test_columns_of_files_have_the_types_that_their_form_promises(con, tmp_path):
    data = pa.table({**dict(zip(EVERY_TYPE.column_names, EVERY_TYPE.columns)), **NESTED})
    table = tablespec.create_table(str(tmp_path), data.schema)
    table.append(data)
    (file,) = [str(tmp_path / one.slice.base.path) for one in table.scan().slices]

    stored = con.read_parquet(file)

    fields = table.scan().schema
    assert {name: str(kind) for name, kind in zip(stored.columns, stored.types)} == {
        field.name: str(DuckDBPyType(type_name(field.type))) for field in fields
    }


@pytest.mark.parametrize("name", ["tablespec file", "Tablespec Row", "tablespec kept"])
def test_columns_with_names_that_say_where_a_row_lies_are_not_taken_for_those(con, tmp_path, name):
    table = tablespec.create_table(str(tmp_path), pa.schema({name: pa.int64(), "n": pa.int64()}))
    table.append(pa.table({name: [7, 8, 9], "n": [1, 2, 3]}))
    table.delete("n = 2")

    assert_same_rows(tablespec_duckdb.scan(con, table).to_arrow_table(), [(7, 1), (9, 3)])
    assert_same_rows(tablespec_duckdb.scan(con, table, columns=[name]).to_arrow_table(), [(7,), (9,)])


@pytest.mark.parametrize("values", ["every value is null", "few digits"])
def test_partition_columns_have_their_types_whatever_values_are_in_them(con, tmp_path, values):
    kinds = {field.name: field.type for field in EVERY_TYPE.schema}
    small = {"decimal": [Decimal("0.50")], "string": ["x"]} if values == "few digits" else {}
    columns = {name: pa.array(small.get(name, [None]), kind) for name, kind in kinds.items()}
    table = tablespec.create_table(str(tmp_path), pa.schema({**kinds, "n": pa.int64()}), partition_by=list(kinds))
    table.append(pa.table({**columns, "n": [1]}))

    found = tablespec_duckdb.scan(con, table)

    assert _reads_files(found)
    assert [str(kind) for kind in found.types] == [
        str(DuckDBPyType(type_name(field.type))) for field in table.scan().schema
    ]
    assert_same_rows(found.to_arrow_table(), table.scan())


def test_the_rows_to_expect_are_known_to_the_planner(con, table):
    assert "~3 rows" in tablespec_duckdb.scan(con, table).explain()


def test_a_filter_on_a_partition_column_reads_only_its_files(con, tmp_path):
    table = tablespec.create_table(
        str(tmp_path / "days"), pa.schema({"day": pa.int32(), "n": pa.int64()}), partition_by=["day"]
    )
    table.append(pa.table({"day": pa.array(range(20), pa.int32()), "n": range(20)}))

    found = tablespec_duckdb.scan(con, table).filter("day = 7").select("n")

    files = re.search(r"Total Files Read: (\d+)", found.explain("analyze"))
    assert files is not None
    assert int(files[1]) <= 2
    assert found.fetchall() == [(7,)]


def test_files_that_the_predicate_excludes_are_not_named(con, table):
    found = tablespec_duckdb.scan(con, table, where="city = 'o''la'")

    assert_same_rows(found.to_arrow_table(), [(2, "o'la", 20.0)])
    assert "city=sf" not in found.sql_query()


def test_a_comparison_that_duckdb_makes_otherwise_is_made_by_the_table(con, table):
    found = tablespec_duckdb.scan(con, table, where="id < fare")

    assert not _reads_files(found)
    assert found.to_arrow_table().num_rows == 3


def test_a_relation_stays_on_the_state_it_was_made_on(con, table):
    found = tablespec_duckdb.scan(con, table)
    table.delete("id = 1")
    table.append(TRIPS)

    assert_same_rows(found.to_arrow_table(), TRIPS)


def test_two_scans_can_be_joined_and_united(con, table):
    now = tablespec_duckdb.scan(con, table)
    table.delete("id = 1")
    later = tablespec_duckdb.scan(con, table)

    assert_same_rows(now.except_(later).to_arrow_table(), [(1, "sf", 10.0)])
    assert now.set_alias("a").join(later.set_alias("b"), "id").to_arrow_table().num_rows == 2


def test_a_view_stays_on_its_state_until_it_is_refreshed(con, table):
    tablespec_duckdb.attach(con, table, 'my "trips"')
    table.delete("id = 1")
    query = 'SELECT id FROM "my ""trips""" ORDER BY id'

    assert con.sql(query).fetchall() == [(1,), (2,), (3,)]
    tablespec_duckdb.refresh(con, table, 'my "trips"')
    assert con.sql(query).fetchall() == [(2,), (3,)]


def test_views_are_not_stored_in_the_file_of_a_database(lake, tmp_path):
    table = lake.load("db.trips")
    with duckdb.connect(tmp_path / "own.db") as con:
        tablespec_duckdb.attach_catalog(con, lake, "lake")
        for gone in (0, 1):
            table.delete(f"id = {gone}")
            tablespec_duckdb.attach(con, table, "trips")
            kept = table.scan(columns=["id"])

            assert_same_rows(con.sql("SELECT id FROM trips WHERE id > ?", params=[0]).fetchall(), kept)
            assert_same_rows(tablespec_duckdb.sql(con, "SELECT id FROM lake.db.trips").fetchall(), kept)

    with duckdb.connect(tmp_path / "own.db", read_only=True) as con:
        assert con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []
        tablespec_duckdb.attach(con, table, "trips")
        assert con.sql("SELECT count(*) FROM trips").fetchall() == [(2,)]


def test_rows_to_write_are_named_by_a_query(con, table):
    con.execute("CREATE TABLE staged AS SELECT 4::BIGINT AS id, 'ny' AS city, 40.0::DOUBLE AS fare")

    tablespec_duckdb.append(con, table, "FROM staged")

    assert_same_rows(table.scan("id = 4"), [(4, "ny", 40.0)])


def test_a_table_can_be_rewritten_from_itself(con, table):
    doubled = tablespec_duckdb.scan(con, table).select("id, city, fare * 2 AS fare")

    tablespec_duckdb.upsert(con, table, doubled)

    assert_same_rows(table.scan(), [(1, "sf", 20.0), (2, "o'la", 40.0), (3, None, 60.0)])


def test_a_table_in_memory_comes_through_arrow(con):
    made = tablespec.create_table("memory://duckdb-adapter/trips", TRIPS.schema)
    made.append(TRIPS)

    assert_same_rows(tablespec_duckdb.scan(con, made).to_arrow_table(), TRIPS)


def test_hidden_columns_are_read_when_named(con, table):
    found = tablespec_duckdb.scan(con, table, columns=["id", "_row_id"]).to_arrow_table()

    assert sorted(found.column("_row_id").to_pylist()) == [0, 1, 2]
    assert_same_rows(tablespec_duckdb.scan(con, table, "_row_id >= 0 AND id = 2", ["id"]).to_arrow_table(), [(2,)])


@pytest.mark.parametrize("rows", [9, 64, 65])
def test_deleted_rows_are_left_out_wherever_they_lie_in_their_file(con, tmp_path, rows):
    table = tablespec.create_table(str(tmp_path / "numbers"), pa.schema({"n": pa.int64()}))
    table.append(pa.table({"n": range(rows)}))
    gone = {0, 1, 7, 8, 9, 62, 63, 64}
    table.delete(f"n in ({', '.join(map(str, gone))})")

    found = tablespec_duckdb.scan(con, table)

    assert_same_rows(found.fetchall(), [(n,) for n in range(rows) if n not in gone])
    assert _reads_files(found)


@pytest.fixture
def lake(con, tmp_path) -> tablespec.Catalog:
    """A catalog that the connection knows as lake, with the table db.trips."""
    made = tablespec.Catalog(str(tmp_path / "lake"))
    made.create_table("db.trips", TRIPS.schema, partition_by=["city"], key=["id"]).append(TRIPS)
    tablespec_duckdb.attach_catalog(con, made, "lake")
    return made


def test_statements_that_change_rows_go_to_the_catalog_and_others_to_duckdb(con, lake):
    deleted = tablespec_duckdb.sql(con, " delete from lake.db.trips where id = 1")
    tablespec_duckdb.sql(con, "CREATE TABLE own AS SELECT 1 AS n")
    tablespec_duckdb.sql(con, "INSERT INTO own VALUES (2)")
    counted = tablespec_duckdb.sql(con, "SELECT sum(n) FROM own")

    assert deleted.rows_deleted == 1
    assert_same_rows(lake.load("db.trips").scan(columns=["id"]), [(2,), (3,)])
    assert counted.fetchall() == [(3,)]


def test_tables_of_a_catalog_are_named_in_queries_of_duckdb(con, lake):
    con.execute("CREATE TABLE cities AS SELECT 'sf' AS city, 'São Francisco — lake.db.trips' AS name")
    query = (
        "SELECT 'é' AS e, /* lake.db.trips */ lake.db.trips.id, $$lake.db.trips$$ AS text, name -- lake.db.trips\n"
        """FROM cities JOIN "lake".db . trips ON lake.db.trips.city = cities.city ORDER BY id"""
    )

    found = tablespec_duckdb.sql(con, query)

    assert found.fetchall() == [("é", 1, "lake.db.trips", "São Francisco — lake.db.trips")]


def test_a_query_of_catalog_tables_stays_on_the_state_that_it_was_made_on(con, lake):
    before = tablespec_duckdb.sql(con, "SELECT id FROM lake.db.trips ORDER BY id")
    tablespec_duckdb.sql(con, "DELETE FROM lake.db.trips WHERE id = 1")
    after = tablespec_duckdb.sql(con, "SELECT id FROM lake.db.trips ORDER BY id")

    assert before.fetchall() == [(1,), (2,), (3,)]
    assert after.fetchall() == [(2,), (3,)]


def test_a_change_takes_its_rows_from_a_table_of_the_catalog(con, lake):
    lake.create_table("db.copies", TRIPS.schema)

    tablespec_duckdb.sql(con, "INSERT INTO lake.db.copies SELECT * FROM lake.db.trips WHERE id > 1")

    assert_same_rows(lake.load("db.copies").scan(columns=["id"]), [(2,), (3,)])


def test_a_name_that_no_catalog_has_is_left_to_duckdb(con, lake):
    with pytest.raises(duckdb.Error, match="gone"):
        tablespec_duckdb.sql(con, "SELECT * FROM lake.db.gone")


def test_statements_take_their_rows_from_queries_of_duckdb(con, lake):
    con.execute("CREATE TABLE staged AS SELECT 1::BIGINT AS id, 'sf' AS city, 99.0::DOUBLE AS fare")

    tablespec_duckdb.sql(
        con,
        "MERGE INTO lake.db.trips t USING (SELECT id, max(fare) AS fare FROM staged GROUP BY id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET fare = s.fare",
    )
    tablespec_duckdb.sql(
        con, "INSERT INTO lake.db.trips REPLACE WHERE city = 'o''la' SELECT 7, 'o''la', fare + 1 FROM staged"
    )

    assert_same_rows(lake.load("db.trips").scan(), [(1, "sf", 99.0), (7, "o'la", 100.0), (3, None, 30.0)])


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (SELECT 9 AS id) INSERT INTO lake.db.trips BY NAME SELECT * FROM x",
        "INSERT OR REPLACE INTO lake.db.trips VALUES (1, 'x', 1.0)",
        "TRUNCATE lake.db.trips",
        "DROP VIEW lake.db.trips",
        "ALTER TABLE lake.db.trips RENAME TO others",
        "CREATE OR REPLACE VIEW lake.db.trips AS SELECT 1 AS id",
        "CREATE TABLE lake.db.others AS SELECT 1 AS id",
        "EXPLAIN DELETE FROM lake.db.trips",
        "CREATE TABLE own (id INTEGER); DELETE FROM lake.db.trips WHERE id = 1",
        "DROP TABLE IF EXISTS own, lake.db.trips",
    ],
)
def test_statements_that_would_alter_what_stands_for_a_catalog_table_are_refused(con, lake, statement):
    found = tablespec_duckdb.sql(con, "SELECT * FROM lake.db.trips")

    with pytest.raises(tablespec.UnsupportedByEngineError, match=r"lake\.db\.(trips|others)"):
        tablespec_duckdb.sql(con, statement)

    assert not con.sql("FROM duckdb_tables() WHERE table_name = 'own'").fetchall()
    assert_same_rows(found.to_arrow_table(), TRIPS)
    assert_same_rows(lake.load("db.trips").scan(), TRIPS)


def test_columns_of_a_query_are_taken_by_their_places_though_two_have_one_name(con, lake):
    lake.create_table("db.pairs", pa.schema({"one": pa.int64(), "other": pa.int64()}))

    tablespec_duckdb.sql(
        con, "INSERT INTO lake.db.pairs SELECT a.id, b.id FROM lake.db.trips a JOIN lake.db.trips b ON a.id = b.id - 1"
    )

    assert_same_rows(lake.load("db.pairs").scan(), [(1, 2), (2, 3)])


def test_a_view_that_follows_is_refused(con, table):
    with pytest.raises(tablespec.TableSpecError, match="refresh"):
        tablespec_duckdb.attach(con, table, "trips", follow=True)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("SELECT 1::BIGINT AS id, 'x' AS city, 1.0::DOUBLE AS fare, 2 AS more", "the column more is not in the table"),
        ("SELECT 1::BIGINT AS id, 2::BIGINT AS ID, 'x' AS city, 1.0::DOUBLE AS fare", "stands more than once"),
        ("SELECT INTERVAL 1 DAY AS id, 'x' AS city, 1.0::DOUBLE AS fare", "id"),
        ("SELECT 'one' AS id, 'x' AS city, 1.0::DOUBLE AS fare", "id"),
    ],
    ids=["unknown column", "column twice", "unsupported type", "wrong type"],
)
def test_rows_that_do_not_fit_are_refused_by_name_and_nothing_is_written(con, table, rows, problem):
    with pytest.raises(tablespec.TableSpecError, match=problem):
        tablespec_duckdb.append(con, table, rows)

    assert_same_rows(table.scan(), TRIPS)


@pytest.mark.parametrize("verb", ["append", "upsert"])
@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            "SELECT i AS id, 'sf' AS city, (CASE i WHEN 200000 THEN 'x' END)::DOUBLE AS fare FROM range(200001) t(i)",
            "'x'",
        ),
        ("SELECT id FROM nothing", "SELECT id FROM nothing.*does not exist"),
        ("SELECT FROM WHERE", "syntax error"),
    ],
    ids=["a value that cannot be cast", "unknown table", "no query"],
)
def test_a_query_that_fails_is_told_by_its_text_and_nothing_is_written(con, table, verb, rows, problem):
    files = set(Path(table.url.removeprefix("file://")).rglob("*"))

    with pytest.raises(tablespec.SourceFailedError, match=problem):
        getattr(tablespec_duckdb, verb)(con, table, rows)

    assert set(Path(table.url.removeprefix("file://")).rglob("*")) == files


def test_a_relation_that_fails_is_told_of_and_nothing_is_written(con, table):
    rows = con.sql("SELECT 7::BIGINT AS id, 'sf' AS city, error('torn')::DOUBLE AS fare")

    with pytest.raises(tablespec.SourceFailedError, match=r"the relation of DuckDB.*torn"):
        tablespec_duckdb.append(con, table, rows)

    assert_same_rows(table.scan(), TRIPS)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1::UHUGEINT", "the column n of type UHUGEINT"),
        ("[1::UHUGEINT]", "UHUGEINT"),
        ("{'a': '101'::BIT}", "the column n.a of type BIT"),
        ("170141183460469231731687303715884105727::HUGEINT", "precision"),
    ],
)
def test_numbers_and_bits_that_come_as_others_out_of_duckdb_are_refused(con, tmp_path, value, problem):
    kind = {"[": pa.list_(pa.decimal128(38, 0)), "{": pa.struct({"a": pa.binary()})}.get(value[0], pa.decimal128(38, 0))
    table = tablespec.create_table(str(tmp_path), pa.schema({"n": kind}))

    with pytest.raises(tablespec.TableSpecError, match=problem):
        tablespec_duckdb.append(con, table, f"SELECT {value} AS n")

    assert table.scan().count() == 0


def test_sums_of_duckdb_are_written_as_decimals(con, tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"n": pa.decimal128(38, 0)}))

    tablespec_duckdb.append(con, table, "SELECT sum(n) AS n FROM (VALUES (1::BIGINT), (9223372036854775807)) t(n)")

    assert_same_rows(table.scan(), [(Decimal(9223372036854775808),)])


def test_a_query_in_a_statement_that_fails_is_told_by_its_text(con, lake):
    with pytest.raises(tablespec.SourceFailedError, match="SELECT \\* FROM nothing"):
        tablespec_duckdb.sql(con, "INSERT INTO lake.db.trips SELECT * FROM nothing")


def test_rows_without_columns_are_refused(con, table):
    for read in (tablespec_duckdb.scan, tablespec_duckdb.read_optimized):
        with pytest.raises(tablespec.UnsupportedByEngineError, match="rows without columns"):
            read(con, table, columns=[])
    for read in (tablespec_duckdb.incremental, tablespec_duckdb.changes):
        with pytest.raises(tablespec.UnsupportedByEngineError, match="rows without columns"):
            read(con, table, 0, columns=[])


@pytest.mark.parametrize("text", ["", "-- nothing"])
def test_a_text_that_asks_for_nothing_is_refused(con, table, text):
    with pytest.raises(tablespec.TableSpecError, match="the text of a query"):
        tablespec_duckdb.append(con, table, text)


def test_columns_that_are_missing_become_null_unless_they_tell_the_partition(con, table):
    tablespec_duckdb.append(con, table, "SELECT 9::BIGINT AS id, 'sf' AS city")
    with pytest.raises(tablespec.TableSpecError, match="the partition column city is missing"):
        tablespec_duckdb.append(con, table, "SELECT 8::BIGINT AS id")

    assert_same_rows(table.scan("id > 7"), [(9, "sf", None)])


def test_a_predicate_that_tables_do_not_know_is_refused_for_writes_and_applied_by_duckdb_for_reads(con, table):
    with pytest.raises(tablespec.TableSpecError):
        tablespec_duckdb.delete(con, table, "length(city) = 2")

    found = tablespec_duckdb.scan(con, table).filter("length(city) = 2")
    assert_same_rows(found.to_arrow_table(), [(1, "sf", 10.0)])
    assert_same_rows(table.scan(), TRIPS)


@pytest.mark.parametrize("partition_by", [["p"], []], ids=["partitioned", "unpartitioned"])
def test_rows_that_vectors_delete_are_left_out_of_every_query(con, tmp_path, partition_by):
    rows = pa.table({"id": range(300), "p": [number // 100 for number in range(300)]})
    made = tablespec.create_table(str(tmp_path / "t"), rows.schema, partition_by=partition_by)
    made.append(rows.slice(0, 150))
    made.append(rows.slice(150))
    gone = {0, 7, 8, 9, 99, *range(100, 140), 299}
    made.delete(f"id in ({', '.join(map(str, gone))})")
    left = [(number, number // 100) for number in range(300) if number not in gone]
    found = tablespec_duckdb.scan(con, made)

    assert _reads_files(found)
    assert_same_rows(found.fetchall(), left)
    assert found.count("*").fetchall() == [(len(left),)]
    assert_same_rows(found.filter("p = 1").select("id").fetchall(), [(number,) for number in range(140, 200)])
    assert_same_rows(
        tablespec_duckdb.scan(con, made, where="id < 11", columns=["id"]).fetchall(),
        [(n,) for n in (1, 2, 3, 4, 5, 6, 10)],
    )
    assert_same_rows(tablespec_duckdb.read_optimized(con, made).fetchall(), list(zip(*rows.to_pydict().values())))
