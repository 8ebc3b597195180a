"""A catalog with two tables of trips."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablespec import Catalog, Table

TRIPS = [(1, "sf", 12.5), (2, "sf", None), (3, "la", 30.0), (4, None, 7.0)]
UPDATES = [(2, "sf", 20.0), (3, "la", 33.0), (9, "ny", 9.0)]


def rows_of(rows: list[tuple[object, ...]]) -> pa.Table:
    """Trips as Arrow data."""
    ids, cities, fares = zip(*rows)
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "city": pa.array(cities, pa.string()), "fare": pa.array(fares, pa.float64())}
    )


@pytest.fixture
def catalog(tmp_path) -> Catalog:
    """The table sales.trips of four trips, partitioned by city, and sales.updates of three."""
    catalog = Catalog(str(tmp_path))
    trips, updates = rows_of(TRIPS), rows_of(UPDATES)
    catalog.create_table("sales.trips", trips.schema, partition_by=["city"]).append(trips)
    catalog.create_table("sales.updates", updates.schema).append(updates)
    return catalog


@pytest.fixture
def trips(catalog) -> Table:
    """The table sales.trips."""
    return catalog.load("sales.trips")
