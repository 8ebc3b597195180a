"""Delta on Spark writes to a table of tablespec, tablespec reads every state of it and writes on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Profile, Table, when_matched_update, when_not_matched_insert
from tests.jvm.delta_spark import DeltaSpark
from tests.jvm.readings import our_feed, our_row_ids, spark_feed, spark_row_ids
from tests.rows import assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
STATEMENTS = (
    "INSERT INTO {t} VALUES (30, 'sf', 1.5), (31, NULL, 2.5), (32, 'a b/c=é', 3.5)",
    "DELETE FROM {t} WHERE id IN (2, 12, 30)",
    "UPDATE {t} SET fare = fare * 2 WHERE id > 12",
    "MERGE INTO {t} t "
    "USING (SELECT * FROM VALUES (1, 'sf', -1D), (21, 'la', -2D), (40, 'x', -3D) AS v(id, city, fare)) s "
    "ON t.id = s.id AND t.city = s.city WHEN MATCHED AND s.id = 21 THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET fare = s.fare WHEN NOT MATCHED THEN INSERT *",
    "INSERT INTO {t} REPLACE WHERE city = 'la' SELECT 50L, 'la', 5D",
    "ALTER TABLE {t} ADD COLUMNS (note STRING)",
    "INSERT INTO {t} VALUES (60, 'sf', 6.0, 'new')",
    "OPTIMIZE {t}",
)


def written(url: Path, profile: Profile, properties: dict[str, str]) -> Table:
    """A table with deletion vectors, updated rows and a checkpoint."""
    table = tablespec.create_table(
        str(url), SCHEMA, partition_by=["city"], key=["id"], profile=profile, properties=properties
    )
    table.append(pa.table({"id": range(20), "city": ["sf"] * 20, "fare": [number / 2 for number in range(20)]}))
    table.append(pa.table({"id": [20, 21, 22], "city": ["la", "la", None], "fare": [1.0, None, 3.0]}))
    table.delete("id in (3, 7, 20)")
    table.update({"fare": "fare + 100"}, "id >= 5 and id < 9")
    table.checkpoint()
    return table


@pytest.mark.parametrize(
    ("profile", "properties"),
    [
        pytest.param(Profile.OPEN, {}, id="open"),
        pytest.param(Profile.STRICT, {}, id="strict"),
        pytest.param(Profile.STRICT, {"delta.columnMapping.mode": "name"}, id="strict and mapped"),
    ],
)
def test_both_write_the_same_table_in_turn(delta: DeltaSpark, tmp_path, profile, properties):
    table = written(tmp_path, profile, {"delta.enableChangeDataFeed": "true", **properties})
    first = table.instant().version

    for statement in STATEMENTS:
        delta.run(statement.format(t=f"delta.`{tmp_path}`"))
        assert_same_rows(table.scan(), delta.rows(tmp_path))
    delta.checkpoint(tmp_path)

    table = tablespec.open_table(str(tmp_path))
    assert_same_rows(table.scan(), delta.rows(tmp_path))
    table.append(pa.table({"id": [70], "city": ["y"], "fare": [7.0]}))
    table.delete("id = 31 or id = 60")
    table.update({"fare": "0.5"}, "id = 1 or id = 14")
    source = pa.table({"id": [40, 71], "city": ["x", "x"], "fare": [-40.0, -71.0]})
    table.merge(source, "t.id = s.id and t.city = s.city", when_matched_update(), when_not_matched_insert())
    assert_same_rows(delta.rows(tmp_path), table.scan())
    assert_same_rows(spark_feed(delta, tmp_path, first + 1), our_feed(table, first))
    if profile is Profile.STRICT:
        assert_same_rows(spark_row_ids(delta, tmp_path), our_row_ids(table))


@pytest.mark.parametrize("profile", Profile)
def test_a_vacuum_of_either_keeps_what_the_other_needs(delta: DeltaSpark, tmp_path, profile):
    table = written(tmp_path, profile, {})
    rows = table.scan().to_table()

    delta.run(f"VACUUM delta.`{tmp_path}` RETAIN 0 HOURS")
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), rows)

    delta.run(f"DELETE FROM delta.`{tmp_path}` WHERE id = 8")
    table.compact(where="city = 'la'")
    assert table.vacuum(timedelta(0), allow_short_retention=True).paths
    assert_same_rows(delta.rows(tmp_path), [row for row in zip(*rows.to_pydict().values()) if row[0] != 8])


@pytest.mark.parametrize("profile", Profile)
def test_a_version_that_spark_restores_is_read_and_restored_from(delta: DeltaSpark, tmp_path, profile):
    table = written(tmp_path, profile, {})
    before = table.scan(at=2).to_table()
    now = table.instant().version

    delta.run(f"RESTORE TABLE delta.`{tmp_path}` TO VERSION AS OF 2")
    assert_same_rows(table.scan(), before)

    table.restore(now)
    assert_same_rows(delta.rows(tmp_path), table.scan(at=now))
