"""What Delta on Spark writes, tablespec reads, and where it may it writes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tests.interop.every_type import NESTED, PARTITIONS, SCALARS
from tests.jvm.delta_spark import DeltaSpark
from tests.jvm.readings import beside, our_feed, our_row_ids, spark_feed, spark_row_ids
from tests.rows import assert_same_rows

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TRACKED = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
NEW_CHECKPOINTS = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "3"}
STATEMENTS = (
    "INSERT INTO {t} SELECT id, if(id % 3 = 0, NULL, concat('c', id % 3)), id / 4D FROM range(30)",
    "DELETE FROM {t} WHERE id IN (3, 4, 12)",
    "UPDATE {t} SET fare = -fare WHERE id BETWEEN 10 AND 15",
    "MERGE INTO {t} t "
    "USING (SELECT * FROM VALUES (1, 'c1', -1D), (5, 'c2', 0D), (99, 'c9', -3D) AS v(id, city, fare)) s ON t.id = s.id "
    "WHEN MATCHED AND s.id = 5 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "OPTIMIZE {t}",
    "DELETE FROM {t} WHERE id = 20",
)


def listed(properties: dict[str, str]) -> str:
    """Table properties in SQL, which takes no empty list of them."""
    return ", ".join(f"'{name}' = '{value}'" for name, value in {"any.note": "x", **properties}.items())


def given(delta: DeltaSpark, url: Path, rows: pa.Table, properties: dict[str, str], partition_by: str = "") -> None:
    """Let Spark write rows that it is given as a file."""
    source = url.parent / f"{url.name}.parquet"
    pq.write_table(rows, source)
    delta.run(
        f"CREATE TABLE delta.`{url}` USING delta {partition_by} TBLPROPERTIES ({listed(properties)}) "
        f"AS SELECT * FROM parquet.`{source}`"
    )


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_every_value_of_every_type_is_read(delta: DeltaSpark, tmp_path, properties):
    rows = beside({**SCALARS, **NESTED})

    given(delta, tmp_path / "t", rows, properties)

    assert_same_rows(tablespec.open_table(str(tmp_path / "t")).scan(), rows)


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_partitions_of_every_type_are_read(delta: DeltaSpark, tmp_path, properties):
    rows = beside(PARTITIONS)
    names = ", ".join(f"`{name}`" for name in rows.column_names)
    rows = rows.append_column("row", pa.arange(0, rows.num_rows))

    given(delta, tmp_path / "t", rows, properties, f"PARTITIONED BY ({names})")

    assert_same_rows(tablespec.open_table(str(tmp_path / "t")).scan(columns=rows.column_names), rows)


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, id="rewritten"),
        pytest.param({**FEED, **VECTORS}, id="deletion vectors and change feed"),
        pytest.param({**FEED, **VECTORS, **TRACKED, **MAPPED, **NEW_CHECKPOINTS}, id="everything"),
    ],
)
def test_every_version_is_read_and_written_on(delta: DeltaSpark, tmp_path, properties):
    name = f"delta.`{tmp_path}`"
    delta.run(
        f"CREATE TABLE {name} (id BIGINT, city STRING, fare DOUBLE) USING delta PARTITIONED BY (city) "
        f"TBLPROPERTIES ({listed(properties)})"
    )
    table = tablespec.open_table(str(tmp_path))

    for statement in STATEMENTS:
        delta.run(statement.format(t=name))
        assert_same_rows(table.scan(), delta.rows(tmp_path))
    if "delta.columnMapping.mode" in properties:
        delta.run(f"ALTER TABLE {name} ADD COLUMNS (note STRING)")
        delta.run(f"INSERT INTO {name} VALUES (101, 'c1', 1.0, 'x')")
    last = table.instant().version
    table.append(pa.table({"id": [102, 103], "city": ["c1", None], "fare": [1.0, 2.0]}))
    table.delete("id = 102 or id = 8")
    table.update({"fare": "0.25"}, "id = 9 or id = 103")

    assert_same_rows(delta.rows(tmp_path), table.scan())
    if "delta.enableChangeDataFeed" in properties:
        assert_same_rows(spark_feed(delta, tmp_path, 0), our_feed(table, None))
        assert_same_rows(spark_feed(delta, tmp_path, last + 1), our_feed(table, last))
    if "delta.enableRowTracking" in properties:
        assert_same_rows(spark_row_ids(delta, tmp_path), our_row_ids(table))


def test_renamed_dropped_and_widened_columns_are_read(delta: DeltaSpark, tmp_path):
    name = f"delta.`{tmp_path}`"
    delta.run(
        f"CREATE TABLE {name} (id INT, gone STRING, s STRUCT<a: SMALLINT>) USING delta "
        f"TBLPROPERTIES ({listed({**MAPPED, 'delta.enableTypeWidening': 'true'})})"
    )
    delta.run(f"INSERT INTO {name} VALUES (1, 'x', struct(1))")
    for change in (
        "RENAME COLUMN id TO number",
        "DROP COLUMN gone",
        "ALTER COLUMN number TYPE BIGINT",
        "ALTER COLUMN s.a TYPE INT",
        "ADD COLUMNS (gone DATE)",
    ):
        delta.run(f"ALTER TABLE {name} {change}")
    delta.run(f"INSERT INTO {name} VALUES (3000000000, struct(70000), DATE '2020-02-29')")

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), delta.rows(tmp_path))
    assert tablespec.open_table(str(tmp_path)).scan().count() == 2


def test_a_clustered_table_with_constraints_is_read_and_its_constraints_hold_for_us(delta: DeltaSpark, tmp_path):
    name = f"delta.`{tmp_path}`"
    delta.run(f"CREATE TABLE {name} (id BIGINT NOT NULL, v DOUBLE) USING delta CLUSTER BY (id)")
    delta.run(f"ALTER TABLE {name} ADD CONSTRAINT positive CHECK (v > 0)")
    delta.run(f"INSERT INTO {name} SELECT id, id + 0.5 FROM range(10)")
    delta.run(f"OPTIMIZE {name}")
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.scan(), [(number, number + 0.5) for number in range(10)])
    with pytest.raises(tablespec.TableSpecError, match="positive"):
        table.append(pa.table({"id": [1], "v": [-1.0]}))
    assert_same_rows(delta.rows(tmp_path), table.scan())
