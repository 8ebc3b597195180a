"""Statements on tables of a catalog, beside Spark's own."""

from __future__ import annotations

import pyarrow as pa
import pytest
import tablespec_spark

import tablespec
from tests.rows import assert_same_rows

pytestmark = pytest.mark.spark

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROWS = [(1, "sf", 10.0), (2, "la", 20.0), (3, "sf", 30.0)]


@pytest.fixture
def trips(spark, tmp_path):
    """The table db.trips of a catalog that the session knows as lake, and two views of Spark."""
    catalog = tablespec.Catalog(str(tmp_path / "lake"))
    made = catalog.create_table("db.trips", SCHEMA, partition_by=["city"], key=["id"])
    made.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in ROWS], SCHEMA))
    tablespec_spark.attach_catalog(spark, catalog, "lake")
    spark.createDataFrame([(1, 0.5), (9, 0.9)], "id long, tip double").createOrReplaceTempView("tips")
    return made


def _rows(frame):
    return [tuple(row) for row in frame.collect()]


def test_delete_and_update_name_a_table_of_the_catalog(spark, trips):
    deleted = tablespec_spark.sql(spark, "DELETE FROM lake.db.trips WHERE fare > 15 AND city = 'sf'")
    updated = tablespec_spark.sql(spark, "update lake.db.trips set fare = fare + 1 where id = 1;")

    assert (deleted.rows_deleted, updated.rows_updated) == (1, 1)
    assert_same_rows(trips.scan(), [(1, "sf", 11.0), (2, "la", 20.0)])


def test_merge_takes_any_query_of_spark_over_its_own_and_our_tables(spark, trips):
    result = tablespec_spark.sql(
        spark,
        """
        MERGE INTO lake.db.trips AS t
        USING (
            WITH more AS (SELECT id, max(tip) AS tip FROM tips GROUP BY id)
            SELECT more.id, coalesce(old.city, 'ny') AS city, coalesce(old.fare, 0) + tip AS fare
            FROM more LEFT JOIN lake.db.trips AS old ON more.id = old.id
        ) AS s
        ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET fare = s.fare
        WHEN NOT MATCHED THEN INSERT *
        """,
    )

    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert_same_rows(trips.scan(), [(1, "sf", 10.5), (2, "la", 20.0), (3, "sf", 30.0), (9, "ny", 0.9)])


def test_merge_takes_a_view_by_its_name(spark, trips):
    tablespec_spark.sql(
        spark, "MERGE INTO lake.db.trips USING tips ON trips.id = tips.id WHEN MATCHED THEN UPDATE SET fare = tips.tip"
    )

    assert_same_rows(trips.scan("id = 1"), [(1, "sf", 0.5)])


def test_replace_where_takes_a_query_whose_columns_go_in_order(spark, trips):
    result = tablespec_spark.sql(
        spark, "INSERT INTO lake.db.trips REPLACE WHERE city = 'sf' SELECT id + 100, 'sf', tip FROM tips"
    )

    assert (result.rows_deleted, result.rows_inserted) == (2, 2)
    assert_same_rows(trips.scan(), [(101, "sf", 0.5), (109, "sf", 0.9), (2, "la", 20.0)])


def test_rows_outside_of_the_predicate_are_refused(spark, trips):
    with pytest.raises(tablespec.TableSpecError, match="city"):
        tablespec_spark.sql(spark, "INSERT INTO lake.db.trips REPLACE WHERE city = 'sf' SELECT id, 'la', tip FROM tips")

    assert_same_rows(trips.scan(), ROWS)


def test_insert_takes_values_and_queries(spark, trips):
    tablespec_spark.sql(spark, "INSERT INTO lake.db.trips VALUES (4, 'ny', 4)")
    tablespec_spark.sql(spark, "INSERT INTO lake.db.trips BY NAME SELECT 'ny' AS city, 5L AS id, double(5) AS fare")
    tablespec_spark.sql(
        spark, "INSERT INTO lake.db.trips (fare, city, id) (SELECT tip, 'ny', id FROM tips WHERE id = 9)"
    )

    assert_same_rows(trips.scan("city = 'ny'"), [(4, "ny", 4.0), (5, "ny", 5.0), (9, "ny", 0.9)])


def test_queries_name_tables_of_the_catalog_beside_those_of_spark(spark, trips):
    trips.delete("id = 3")

    joined = "SELECT trips.id, tip FROM lake.db.trips JOIN tips ON lake.db.trips.id = tips.id"
    inner = "SELECT count(*) FROM tips WHERE id IN (SELECT id FROM lake.db.trips WHERE city = 'sf')"
    named = "WITH a AS (SELECT id FROM lake.db.trips) SELECT x.id FROM a x JOIN a y ON x.id = y.id"
    earlier = "SELECT id FROM lake.db.trips VERSION AS OF 1 EXCEPT SELECT id FROM lake.db.trips"

    assert _rows(tablespec_spark.sql(spark, joined)) == [(1, 0.5)]
    assert _rows(tablespec_spark.sql(spark, inner)) == [(1,)]
    assert_same_rows(_rows(tablespec_spark.sql(spark, named)), [(1,), (2,)])
    assert _rows(tablespec_spark.sql(spark, earlier)) == [(3,)]


def test_a_temporary_view_of_a_query_stays_on_the_state_that_it_was_made_on(spark, trips):
    for kind, name in (("TEMPORARY", "dear_trips"), ("GLOBAL TEMPORARY", "global_temp.dear_trips")):
        made = f"CREATE OR REPLACE {kind} VIEW dear_trips AS SELECT id FROM lake.db.trips WHERE fare > 15"
        tablespec_spark.sql(spark, made)
        tablespec_spark.sql(spark, "UPDATE lake.db.trips SET fare = fare + 1 WHERE id = 1")

        assert_same_rows(_rows(spark.sql(f"SELECT * FROM {name}")), [(2,), (3,)])
        assert_same_rows(_rows(tablespec_spark.sql(spark, f"SELECT count(*) FROM {name}")), [(2,)])


def test_a_view_that_spark_would_store_is_refused(spark, trips):
    with pytest.raises(tablespec.TableSpecError, match="make it a temporary view"):
        tablespec_spark.sql(spark, "CREATE VIEW stored AS SELECT * FROM tips JOIN lake.db.trips USING (id)")

    assert not spark.catalog.tableExists("stored")


def test_the_plan_of_a_query_is_explained(spark, trips):
    explained = tablespec_spark.sql(spark, "EXPLAIN EXTENDED SELECT id FROM lake.db.trips WHERE city = 'sf'")

    ((plan,),) = _rows(explained)
    assert "PartitionFilters: [isnotnull(city" in plan


def test_other_statements_are_sparks(spark, trips):
    tablespec_spark.sql(spark, "CREATE OR REPLACE TEMPORARY VIEW cheap AS SELECT 1 AS n")
    tablespec_spark.sql(spark, "CREATE TABLE default.own USING parquet AS SELECT id FROM lake.db.trips WHERE id < 3")
    tablespec_spark.sql(spark, "INSERT INTO default.own SELECT id FROM lake.db.trips WHERE id = 3")

    assert_same_rows(_rows(spark.table("default.own")), [(1,), (2,), (3,)])
    assert _rows(tablespec_spark.sql(spark, "SELECT n FROM cheap")) == [(1,)]
    tablespec_spark.sql(spark, "DROP TABLE default.own")


@pytest.mark.parametrize(
    "statement",
    [
        "WITH x AS (SELECT 9L id) INSERT INTO lake.db.trips BY NAME SELECT * FROM x",
        "FROM tips INSERT INTO lake.db.trips SELECT id, 'x', tip",
        "TRUNCATE TABLE lake.db.trips",
        "DROP TABLE lake.db.trips",
        "ALTER TABLE lake.db.trips RENAME TO others",
        "CREATE TABLE lake.db.others AS SELECT 1 AS id",
        "EXPLAIN DELETE FROM lake.db.trips WHERE id = 1",
    ],
)
def test_statements_that_spark_has_no_way_to_run_on_a_table_of_the_catalog_are_refused(spark, trips, statement):
    with pytest.raises(tablespec.UnsupportedByEngineError, match=r"^Spark cannot .* lake\.db\.(trips|others)"):
        tablespec_spark.sql(spark, statement)

    assert_same_rows(trips.scan(), ROWS)


def test_what_is_wrong_with_a_statement_is_told_by_name(spark, trips):
    with pytest.raises(tablespec.TableSpecError, match=r"there is no table at .*lake/db/nothing"):
        tablespec_spark.sql(spark, "SELECT * FROM lake.db.nothing")
    with pytest.raises(tablespec.TableSpecError, match=r"there is no table at .*lake/db/nothing"):
        tablespec_spark.sql(spark, "DELETE FROM lake.db.nothing WHERE id = 1")
    with pytest.raises(tablespec.TableSpecError):
        tablespec_spark.sql(spark, "DELETE FROM lake.db.trips")
    assert_same_rows(trips.scan(), ROWS)
