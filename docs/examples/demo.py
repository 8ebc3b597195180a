"""A pipeline on Spark, from raw trips to a small gold table, whose tables DuckDB, Polars and deltalake open afterwards.

Run it by `make demo`, or with a folder that keeps the tables: `python docs/examples/demo.py /tmp/demo --trips 100000`.
Without Java it runs a smaller one on DuckDB.
"""
# ruff: noqa: T201 - a demo talks

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import tablespec_duckdb
import tablespec_polars
import tablespec_spark
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import tablespec
from tablespec import Strategy, Table

DAYS = 5
BACKFILLED = "2026-01-03"
FORGOTTEN_RIDER = 7
WITHOUT_JAVA = (
    "Spark does not start here. It needs Java 17 or newer: `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu),\n"
    "`dnf install java-17-openjdk-headless` (Fedora) or `brew install openjdk@17` (macOS). What follows needs none."
)
MONEY = pa.decimal128(18, 2)
RAW = pa.schema(
    {
        "trip": pa.int64(),
        "sent": pa.int32(),
        "rider": pa.int64(),
        "day": pa.date32(),
        "city": pa.string(),
        "kilometres": pa.float64(),
        "fare": pa.string(),
    }
)
TRIPS = pa.schema([RAW.field(name) for name in RAW.names[:-1]]).append(pa.field("fare", MONEY))
GOLD = pa.schema({"day": pa.date32(), "city": pa.string(), "trips": pa.int64(), "fares": MONEY})
# The text of a fare.
FARE = "CAST(CAST(3 + 2 * distance AS DECIMAL(9, 2)) AS STRING)"
TOTALS = "SELECT city, count(*) AS trips, sum(fare) AS fares FROM silver GROUP BY city ORDER BY city"


def main() -> None:
    """Run every step in the folder that is named, or in one that is removed afterwards."""
    parser = argparse.ArgumentParser(description="Run a pipeline and open its tables with other engines.")
    parser.add_argument("folder", nargs="?", help="where the tables are written and kept")
    parser.add_argument("--trips", type=int, default=1_000_000)
    given = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or temporary
        spark = started(temporary)
        if spark is None:
            print(WITHOUT_JAVA)
            silver = duckdb_pipeline(folder, given.trips // 5)
            ask_all(silver, expected=None)
        else:
            silver, gold = spark_pipeline(spark, folder, given.trips)
            ask_all(silver, totals(tablespec_polars.scan(gold)))
            spark.stop()
    print(f"• done in {time.perf_counter() - start:.0f} s")


def started(folder: str) -> SparkSession | None:
    """A Spark of two cores in this process, or None where it cannot start."""
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("trips")
    for name, value in {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={folder}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError:
        return None
    session.sparkContext.setLogLevel("ERROR")
    return session


# --- on Spark ---------------------------------------------------------------------------------------------------------


def spark_pipeline(spark: SparkSession, folder: str, trips: int) -> tuple[Table, Table]:
    """Bronze keeps what was sent, silver one clean row a trip, gold the totals; gives silver and gold."""
    bronze = tablespec.create_table(f"{folder}/bronze", RAW, partition_by=["day"])
    silver = tablespec.create_table(
        f"{folder}/silver",
        TRIPS,
        partition_by=["day"],
        key=["trip", "day"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    gold = tablespec.create_table(f"{folder}/gold", GOLD, key=["day", "city"])
    last_day = trips * (DAYS - 1) // DAYS
    with step("append the raw trips of four days to bronze"):
        print(f"   {told(tablespec_spark.append(spark, bronze, raw_trips(spark, 0, last_day, trips)))}")
    into_silver(spark, bronze, silver, after=0)
    into_gold(spark, silver, gold, after=0)
    with step("append the fifth day, and corrections of earlier trips that come late"):
        late = raw_trips(spark, last_day, trips, trips).union(corrections(spark, last_day, trips))
        print(f"   {told(tablespec_spark.append(spark, bronze, late))}")
    carried = silver.instant().version
    into_silver(spark, bronze, silver, after=1)
    with step(f"replace {BACKFILLED} in silver: its meters ran a tenth too low"):
        day = cleaned(tablespec_spark.scan(spark, bronze, where=f"day = '{BACKFILLED}'"))
        backfill = newest(day).withColumn("fare", f.expr("CAST(fare * 1.1 AS DECIMAL(18, 2))"))
        done = tablespec_spark.replace_where(spark, silver, f"day = '{BACKFILLED}'", backfill)
        print(f"   {told(done)}")
    with step(f"forget rider {FORGOTTEN_RIDER} everywhere, without rewriting a file"):
        for table in (bronze, silver):
            print(f"   {told(tablespec_spark.delete(spark, table, f'rider = {FORGOTTEN_RIDER}'))}")
    into_gold(spark, silver, gold, after=carried)
    return silver, gold


def into_silver(spark: SparkSession, bronze: Table, silver: Table, after: int) -> None:
    """Clean what bronze got after a version, and upsert it by the key of the trips."""
    with step(f"read what is new in bronze after version {after}, clean it, and upsert it into silver"):
        new = tablespec_spark.incremental(spark, bronze, after)
        print(
            f"   {told(tablespec_spark.upsert(spark, silver, newest(cleaned(new)), strategy=Strategy.MERGE_ON_READ))}"
        )


def into_gold(spark: SparkSession, silver: Table, gold: Table, after: int) -> None:
    """Carry the changes of silver after a version over to the totals."""
    with step(f"carry the changes of silver after version {after} over to gold"):
        changes = tablespec_spark.changes(spark, silver, after, columns=["day", "city", "fare", "_change_type"])
        sign = f.when(f.col("_change_type").isin("insert", "update_postimage"), 1).otherwise(-1)
        by_group = changes.groupBy("day", "city").agg(
            f.sum(sign).alias("trips"), f.sum(sign * f.col("fare")).cast("decimal(18,2)").alias("fares")
        )
        added = {"trips": "t.trips + s.trips", "fares": "t.fares + s.fares"}
        done = tablespec_spark.merge(
            spark,
            gold,
            by_group,
            "t.day = s.day and t.city = s.city",
            tablespec.when_matched_update(added),
            tablespec.when_not_matched_insert(),
        )
        print(f"   {changes.count()} changes; {told(done)}")


def raw_trips(spark: SparkSession, first: int, last: int, trips: int) -> DataFrame:
    """Trips as they are sent: most of them in one city, some twice, some unreadable; the same on every run."""
    dice = "pmod(xxhash64(trip, {}), {})".format
    numbered = spark.range(first, last, 1, 2).selectExpr(
        "id AS trip",
        f"CASE WHEN {dice(1, 100)} < 60 THEN 'new_york' WHEN {dice(1, 100)} < 85 THEN 'chicago' ELSE 'los_angeles' END AS town",
        f"round(-8 * ln(({dice(2, 100000)} + 1) / 100000), 2) AS distance",
    )
    sent = numbered.selectExpr(
        "trip",
        "1 AS sent",
        f"CAST(2000 * pow({dice(3, 1000)} / 1000, 2) AS BIGINT) AS rider",
        f"date_add(DATE '2026-01-01', CAST(trip * {DAYS} DIV {trips} AS INT)) AS day",
        f"CASE WHEN {dice(5, 40)} = 0 THEN '  ' || upper(town) WHEN {dice(6, 200)} > 0 THEN town END AS city",
        f"IF({dice(7, 150)} = 0, -1D, distance) AS kilometres",
        f"CASE {dice(8, 100)} WHEN 0 THEN 'n/a' WHEN 1 THEN '$' || {FARE} ELSE {FARE} END AS fare",
    )
    return sent.union(sent.where(f"{dice(9, 50)} = 0"))


def corrections(spark: SparkSession, before: int, trips: int) -> DataFrame:
    """One in fifty of the trips before a number, sent again with another fare."""
    again = raw_trips(spark, 0, before, trips).where("trip % 50 = 0 AND fare LIKE '%.%'")
    return again.selectExpr("trip", "2 AS sent", "rider", "day", "city", "kilometres", "'99.50' AS fare")


def cleaned(raw: DataFrame) -> DataFrame:
    """The trips that can be read, under one name a city."""
    return raw.selectExpr(
        "trip",
        "sent",
        "rider",
        "day",
        "coalesce(lower(trim(city)), 'unknown') AS city",
        "kilometres",
        "try_cast(ltrim('$', fare) AS DECIMAL(18, 2)) AS fare",
    ).where("kilometres >= 0 AND fare IS NOT NULL")


def newest(trips: DataFrame) -> DataFrame:
    """One row a trip: the one that was sent last."""
    names = ", ".join(trips.columns)
    return trips.groupBy("trip", "day").agg(f.expr(f"max_by(struct({names}), sent) AS row")).select("row.*")


# --- without Spark ----------------------------------------------------------------------------------------------------


def duckdb_pipeline(folder: str, trips: int) -> Table:
    """One table, written by DuckDB alone."""
    silver = tablespec.create_table(f"{folder}/silver", TRIPS, partition_by=["day"], key=["trip", "day"])
    with duckdb.connect() as con:
        for day in range(DAYS):
            with step(f"append the trips of day {day + 1}"):
                print(f"   {told(tablespec_duckdb.append(con, silver, made_by_duckdb(day, trips // DAYS)))}")
        with step("upsert corrected fares"):
            corrected = "SELECT * REPLACE (2::INT AS sent, 99.50 AS fare) FROM trips WHERE trip % 50 = 0"
            rows = tablespec_duckdb.scan(con, silver).query("trips", corrected)
            print(f"   {told(tablespec_duckdb.upsert(con, silver, rows))}")
        with step(f"forget rider {FORGOTTEN_RIDER}, without rewriting a file"):
            print(f"   {told(tablespec_duckdb.delete(con, silver, f'rider = {FORGOTTEN_RIDER}'))}")
        with step("travel to version 2"):
            print(f"   {silver.scan(at=2).count()} trips then, {silver.scan().count()} now")
    return silver


def made_by_duckdb(day: int, trips: int) -> str:
    """The query that makes the trips of a day; the same on every run."""
    return f"""
        SELECT i AS trip, 1::INT AS sent, (hash(i) % 2000)::BIGINT AS rider, DATE '2026-01-01' + {day} AS day,
            CASE WHEN hash(i, 1) % 100 < 60 THEN 'new_york' ELSE 'chicago' END AS city,
            (hash(i, 2) % 4000 / 100)::DOUBLE AS kilometres, (3 + hash(i, 2) % 4000 / 50)::DECIMAL(18, 2) AS fare
        FROM range({day * trips}, {(day + 1) * trips}) t(i)
    """


# --- the same tables elsewhere ----------------------------------------------------------------------------------------


def ask_all(silver: Table, expected: list[tuple[Any, ...]] | None) -> None:
    """Ask every engine for the same totals; all must say the same, and what the gold table says where there is one."""
    path = silver.url.removeprefix("file://")
    answers = {} if expected is None else {"gold": expected}
    with step("ask silver with DuckDB"), duckdb.connect() as con:
        tablespec_duckdb.attach(con, silver, "silver")
        answers["DuckDB"] = con.sql(TOTALS).fetchall()
        print(indented(con.sql(TOTALS)))
    with step("ask silver with Polars"):
        frame = tablespec_polars.scan(silver)
        answers["Polars"] = totals(frame.select("city", trips=pl.lit(1), fares="fare"))
        print(indented(answers["Polars"]))
    with step("ask silver with deltalake, which knows nothing of tablespec"):
        batches = QueryBuilder().register("silver", DeltaTable(path)).execute(TOTALS).read_all()
        answers["deltalake"] = list(zip(*(column.to_pylist() for column in pa.table(batches).columns)))
        print(indented(answers["deltalake"]))
    for one, answer in answers.items():
        if answer != answers["DuckDB"]:
            sys.exit(f"{one} and DuckDB read different rows")
    print(f"• {', '.join(answers)} say the same")


def totals(groups: pl.LazyFrame) -> list[tuple[Any, ...]]:
    """Counts and sums by city, as Polars adds them up."""
    by_city = groups.group_by("city").agg(pl.col("trips").cast(pl.Int64).sum(), pl.col("fares").sum()).sort("city")
    return by_city.collect().rows()


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done and how long it took."""
    print(f"• {what}", flush=True)
    start = time.perf_counter()
    yield
    print(f"   {time.perf_counter() - start:.2f} s", flush=True)


def told(done: tablespec.Appended | tablespec.ChangeResult) -> str:
    """What a write did, in words."""
    if isinstance(done, tablespec.Appended):
        return f"{done.rows} rows in {done.files} files, version {done.instant.version}"
    counts = {
        "inserted": done.rows_inserted,
        "updated": done.rows_updated,
        "deleted": done.rows_deleted,
        "files written": done.files_added,
        "files rewritten": done.files_rewritten,
        "deletion vectors": done.vectors_written,
    }
    said = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"{said}, version {done.instant.version}" if done.instant else "nothing"


def indented(answer: object) -> str:
    """An answer of an engine, moved under its step."""
    lines = map(str, answer) if isinstance(answer, list) else str(answer).strip().splitlines()
    return "\n".join(f"   {line}" for line in lines)


if __name__ == "__main__":
    main()
