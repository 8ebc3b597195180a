"""A small pipeline: generated trips go into a table, and other engines open the same table.

Run it by `make demo`, or with the folder to write to: `python docs/examples/demo.py /tmp/demo`.
"""
# ruff: noqa: T201 - a demo talks

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import deltalake
import duckdb
import polars as pl
import pyarrow as pa

import tablespec

CITIES = ("san_francisco", "los_angeles", "chicago", "new_york")
DAYS = 5
TRIPS_A_DAY = 40_000
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("city", pa.string()),
        ("started", pa.timestamp("us", "UTC")),
        ("kilometres", pa.float64()),
        ("fare", pa.decimal128(9, 2)),
    ]
)


def main(folder: str) -> None:
    """Run every step in an empty folder."""
    with step("create a table of trips, partitioned by day and city"):
        table = tablespec.create_table(f"{folder}/trips", SCHEMA, partition_by=["day", "city"], key=["id"])
        print(f"   {table.url} at version {table.instant().version}")
    for day in range(DAYS):
        with step(f"append the trips of day {day + 1}"):
            done = table.append(trips(day))
            print(f"   {done.rows} rows in {done.files} files, version {done.instant.version}")
    ask(table)
    ask_others(table, f"{folder}/trips")


def ask(table: tablespec.Table) -> None:
    """Ask the table itself."""
    with step("read with a filter; only the files that can match are opened"):
        where = "city = 'chicago' and fare > 90"
        scan = table.scan(where=where, columns=["id", "fare"])
        everything = sum(len(one.file_slices) for one in table.file_index.list_files_at())
        print(f"   where {where}: {scan.to_table().num_rows} rows from {len(scan.slices)} of {everything} files")
    with step("travel to version 2"):
        print(f"   {table.scan(at=2).count()} rows then, {table.scan().count()} rows now")
    with step("list the files that version 5 added for one city"):
        for partition in table.file_index.list_files_between(4, 5, "city = 'new_york'"):
            for file_slice in partition.file_slices:
                print(f"   {partition.descriptor.path}: {file_slice.rows} rows, {file_slice.size} bytes")


def ask_others(table: tablespec.Table, path: str) -> None:
    """Ask other clients and engines for the same rows."""
    with step("open the same table with deltalake"):
        theirs = deltalake.DeltaTable(path)
        print(f"   version {theirs.version()}, {theirs.to_pyarrow_table().num_rows} rows")
    with step("query it with Polars"):
        lazy = pl.scan_delta(path).group_by("city").agg(pl.len().alias("trips"), pl.col("fare").sum())
        by_polars = lazy.sort("city").collect()
        print(indented(by_polars))
    with step("query a scan with DuckDB, over Arrow"):
        query = "select city, count(*) as trips, sum(fare) as fare from rows group by city order by city"
        by_duckdb = duckdb.from_arrow(table.scan()).query("rows", query)
        print(indented(by_duckdb))
    if by_polars.rows() != by_duckdb.fetchall():
        sys.exit("Polars and DuckDB read different rows")


def trips(day: int) -> pa.Table:
    """The generated trips of one day; the same on every run."""
    dice = random.Random(day)
    start = FIRST_DAY + timedelta(days=day)
    ids = range(day * TRIPS_A_DAY, (day + 1) * TRIPS_A_DAY)
    kilometres = [round(dice.expovariate(1 / 8), 2) for _ in ids]
    columns = [
        list(ids),
        [start.date()] * TRIPS_A_DAY,
        [dice.choice(CITIES) for _ in ids],
        [start + timedelta(seconds=dice.randrange(86_400)) for _ in ids],
        kilometres,
        [(Decimal(3) + Decimal(str(distance)) * 2).quantize(Decimal("0.01")) for distance in kilometres],
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA)], schema=SCHEMA)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done and how long it took."""
    print(f"• {what}")
    start = time.perf_counter()
    yield
    print(f"   {time.perf_counter() - start:.2f} s")


def indented(answer: object) -> str:
    """An answer of an engine, moved under its step."""
    return "\n".join(f"   {line}" for line in str(answer).strip().splitlines())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(temporary)
