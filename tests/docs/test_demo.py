"""The demo, run small: its tables hold what the same steps give in plain Python."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from decimal import ROUND_HALF_UP, Decimal

import pytest
import tablespec_polars

import tablespec
from docs.examples import demo
from tests.docs.blocks import ROOT
from tests.rows import assert_same_rows

TRIPS = 2000
FIRST = TRIPS * 4 // 5


def clean(raw: Iterable[tuple[object, ...]]) -> dict[int, tuple[object, ...]]:
    """The last row that was sent of each trip that can be read."""
    found: dict[int, tuple[object, ...]] = {}
    for trip, sent, rider, day, city, kilometres, fare in raw:
        if kilometres < 0 or fare == "n/a":
            continue
        town = "unknown" if city is None else city.strip().lower()
        row = (trip, sent, rider, day, town, kilometres, Decimal(fare.lstrip("$")))
        if trip not in found or found[trip][1] < sent:
            found[trip] = row
    return found


def raised(row: tuple[object, ...]) -> tuple[object, ...]:
    fare = (row[-1] * Decimal("1.1")).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return (*row[:-1], fare)


@pytest.mark.spark
def test_the_pipeline_gives_what_plain_python_gives(spark, tmp_path, capsys):
    old = list(map(tuple, demo.raw_trips(spark, 0, FIRST, TRIPS).collect()))
    new = list(map(tuple, demo.raw_trips(spark, FIRST, TRIPS, TRIPS).collect()))
    late = list(map(tuple, demo.corrections(spark, FIRST, TRIPS).collect()))
    backfilled = date.fromisoformat(demo.BACKFILLED)
    rows = {
        trip: raised(row) if row[3] == backfilled else row
        for trip, row in clean([*old, *new, *late]).items()
        if row[2] != demo.FORGOTTEN_RIDER
    }
    groups: dict[tuple[object, object], list[Decimal]] = defaultdict(list)
    for row in rows.values():
        groups[row[3], row[4]].append(row[6])

    silver, gold = demo.spark_pipeline(spark, str(tmp_path), TRIPS)

    assert_same_rows(silver.scan(), rows.values())
    assert_same_rows(gold.scan("trips > 0"), [(*key, len(fares), sum(fares)) for key, fares in groups.items()])
    assert tablespec.open_table(f"{tmp_path}/bronze").scan(f"rider = {demo.FORGOTTEN_RIDER}").count() == 0
    demo.ask_all(silver, demo.totals(tablespec_polars.scan(gold)))
    assert "gold, DuckDB, Polars, deltalake say the same" in capsys.readouterr().out


def test_without_java_the_demo_says_so_and_runs_what_needs_none(tmp_path):
    command = [sys.executable, str(ROOT / "docs/examples/demo.py"), str(tmp_path / "tables"), "--trips", "5000"]

    done = subprocess.run(
        command,
        env={**os.environ, "JAVA_HOME": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stdout
    assert "DuckDB, Polars, deltalake say the same" in done.stdout
