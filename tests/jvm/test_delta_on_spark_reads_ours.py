"""What tablespec writes, Delta on Spark reads: rows of every version, row ids and the change feed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Profile, Table, when_matched_update, when_not_matched_insert
from tests.handmade import commit_file
from tests.interop.every_type import NESTED, PARTITIONS, SCALARS, STEPS
from tests.jvm.delta_spark import DeltaSpark
from tests.jvm.readings import beside, our_feed, our_row_ids, spark_feed, spark_row_ids
from tests.rows import assert_same_rows

MAPPINGS = {"plain": {}, "mapped by name": {"delta.columnMapping.mode": "name"}}
BY_ID = {"delta.columnMapping.mode": "id"}
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])


def trips(*rows: tuple[object, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA)


def with_a_history(url: Path, profile: Profile, properties: dict[str, str]) -> Table:
    """A table that has seen every verb, with a null, an odd and a plain partition."""
    table = tablespec.create_table(
        str(url),
        SCHEMA,
        partition_by=["city"],
        key=["id"],
        profile=profile,
        properties={"delta.enableChangeDataFeed": "true", **properties},
    )
    table.append(trips(*((number, "sf", number / 2) for number in range(20))))
    table.append(trips((20, None, 1.0), (21, "a b/c%d=é'\"", 2.0), (22, "la", None), (23, "la", 4.0)))
    table.delete("id in (3, 7) or city is null")
    table.update({"fare": "fare + 100"}, "id >= 5 and id < 9")
    table.checkpoint()
    source = trips((1, "sf", -1.0), (24, "sf", -2.0))
    table.merge(source, "t.id = s.id and t.city = s.city", when_matched_update(), when_not_matched_insert())
    table.append(pa.table({"id": [25], "city": ["la"], "note": ["new"]}), merge_schema=True)
    table.replace_where("city = 'la' and id > 22", pa.table({"id": [26], "city": ["la"]}), data_columns=True)
    table.compact(where="city = 'sf'")
    table.upsert(trips((21, "a b/c%d=é'\"", 2.5), (27, "x", 2.5)))
    table.delete("id = 10")
    return table


@pytest.mark.parametrize("properties", [*MAPPINGS.values(), BY_ID], ids=[*MAPPINGS, "mapped by id"])
@pytest.mark.parametrize("profile", Profile)
def test_every_value_of_every_type_is_read(delta: DeltaSpark, tmp_path, profile, properties):
    rows = beside({**SCALARS, **NESTED})
    table = tablespec.create_table(str(tmp_path), rows.schema, profile=profile, properties=properties)
    table.append(rows)

    assert_same_rows(delta.rows(tmp_path), rows)


def test_numbers_that_are_stored_as_steps_are_read(delta: DeltaSpark, tmp_path):
    tablespec.create_table(str(tmp_path), STEPS.schema).append(STEPS)

    assert_same_rows(delta.rows(tmp_path), STEPS)


@pytest.mark.parametrize("properties", MAPPINGS.values(), ids=MAPPINGS)
@pytest.mark.parametrize("profile", Profile)
def test_partitions_of_every_type_are_read(delta: DeltaSpark, tmp_path, profile, properties):
    rows = beside(PARTITIONS)
    rows = rows.append_column("row", pa.arange(0, rows.num_rows))
    partition_by = rows.column_names[:-1]
    table = tablespec.create_table(
        str(tmp_path), rows.schema, partition_by=partition_by, profile=profile, properties=properties
    )
    table.append(rows)
    table.checkpoint()
    commit_file(tmp_path, 0).unlink()

    assert_same_rows(delta.rows(tmp_path), rows)


@pytest.mark.parametrize("properties", MAPPINGS.values(), ids=MAPPINGS)
@pytest.mark.parametrize("profile", Profile)
def test_every_version_and_every_change_is_read(delta: DeltaSpark, tmp_path, profile, properties):
    table = with_a_history(tmp_path, profile, properties)
    last = table.instant().version

    for version in range(1, last + 1) if profile is Profile.OPEN else (4, last):
        assert_same_rows(delta.rows(tmp_path, version), table.scan(at=version))
    assert_same_rows(spark_feed(delta, tmp_path, 0), our_feed(table, None))
    assert_same_rows(spark_feed(delta, tmp_path, last), our_feed(table, last - 1))


def test_row_ids_of_the_strict_profile_are_read(delta: DeltaSpark, tmp_path):
    table = with_a_history(tmp_path, Profile.STRICT, {})

    for version in (2, 4, table.instant().version):
        assert_same_rows(spark_row_ids(delta, tmp_path, version), our_row_ids(table, version))


def test_row_ids_of_the_open_profile_are_read_once_they_are_enabled(delta: DeltaSpark, tmp_path):
    table = with_a_history(tmp_path, Profile.OPEN, {})
    ours = our_row_ids(table).to_table()

    delta.run(f"ALTER TABLE delta.`{tmp_path}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    delta.run(f"INSERT INTO delta.`{tmp_path}` VALUES (99, 'sf', 1.0, NULL)")

    theirs = spark_row_ids(delta, tmp_path)
    old = theirs.filter(pa.compute.field("id") != 99)
    assert_same_rows(old.select(["id", "row_id"]), ours.select(["id", "_row_id"]))
    assert len(set(theirs["row_id"].to_pylist())) == theirs.num_rows
    assert_same_rows(theirs, our_row_ids(table))


def test_the_history_is_read(delta: DeltaSpark, tmp_path):
    table = with_a_history(tmp_path, Profile.STRICT, {})

    told = delta.sql(f"DESCRIBE HISTORY delta.`{tmp_path}`")

    assert told["version"].to_pylist() == [entry.instant.version for entry in table.history()]
    assert told["operation"].to_pylist() == [entry.operation for entry in table.history()]
