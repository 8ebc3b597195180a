"""Every engine changes tables by every verb, and what one wrote the others read."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec import when_matched_delete, when_matched_update, when_not_matched_insert
from tests.conformance.cells import cells, engines
from tests.conformance.tables import hudi_table
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
NEW = pa.table([pa.array([2, 4]), pa.array(["la", "la"]), pa.array([20.5, 40.0])], schema=SCHEMA)

HUDI_NEW = pa.table({"id": ["6"], "part": ["b"], "qty": pa.array([60], pa.int32())})


@pytest.fixture
def table(tmp_path) -> tablespec.Table:
    """Three trips in two cities; version 1 wrote them."""
    properties = {"delta.enableChangeDataFeed": "true"}
    made = tablespec.create_table(
        str(tmp_path / "trips"), SCHEMA, partition_by=["city"], key=["id"], properties=properties
    )
    made.append(
        pa.table([pa.array([1, 2, 3]), pa.array(["sf", "la", "sf"]), pa.array([10.0, 20.0, None])], schema=SCHEMA)
    )
    return made


@pytest.fixture
def hudi(tmp_path) -> tablespec.Table:
    """A Hudi table of three writes."""
    return hudi_table(tmp_path / "hudi")[0]


WRITES = {
    "append": ((NEW,), [(1, "sf", 10.0), (2, "la", 20.0), (3, "sf", None), (2, "la", 20.5), (4, "la", 40.0)]),
    "replace_where": (("city = 'la'", NEW), [(1, "sf", 10.0), (3, "sf", None), (2, "la", 20.5), (4, "la", 40.0)]),
    "delete": (("fare < 15",), [(2, "la", 20.0), (3, "sf", None)]),
    "update": (({"fare": "fare + 1"}, "city = 'sf'"), [(1, "sf", 11.0), (2, "la", 20.0), (3, "sf", None)]),
    "merge": (
        (NEW, "t.id = s.id", when_matched_delete("s.fare > 100"), when_matched_update(), when_not_matched_insert()),
        [(1, "sf", 10.0), (2, "la", 20.5), (3, "sf", None), (4, "la", 40.0)],
    ),
    "upsert": ((NEW,), [(1, "sf", 10.0), (2, "la", 20.5), (3, "sf", None), (4, "la", 40.0)]),
}


HUDI_WRITES = {
    "append": (HUDI_NEW,),
    "replace_where": ("part = 'b'", HUDI_NEW),
    "delete": ("part = 'b'",),
    "update": ({"qty": "1"}, "part = 'b'"),
    "merge": (HUDI_NEW, "t.id = s.id", when_not_matched_insert()),
    "upsert": (HUDI_NEW,),
}


@pytest.mark.parametrize(("engine", "capability"), cells("Changes of rows"))
def test_what_one_engine_writes_every_engine_reads(started, readers, engine, capability, table, hudi):
    format_, verb = capability.split(": ")
    arguments, rows = WRITES[verb]

    with started(engine) as running:
        if format_ == "hudi":
            running.write(verb, hudi, *HUDI_WRITES[verb])
        running.write(verb, table, *arguments)

    for reader in readers:
        with started(reader) as other:
            assert_same_rows(other.read("scan", table), rows)


@pytest.mark.parametrize(("engine", "capability"), cells("Reading modes"))
def test_an_engine_reads_in_every_mode(started, engine, capability, table, hudi):
    table.delete("id = 2")
    table.append(pa.table([pa.array([4]), pa.array(["la"]), pa.array([40.0])], schema=SCHEMA))

    with started(engine) as running:
        match capability.split(": "):
            case "delta", "scan":
                assert_same_rows(running.read("scan", table), [(1, "sf", 10.0), (3, "sf", None), (4, "la", 40.0)])
            case "delta", "read_optimized":
                found = running.read("read_optimized", table, where="city = 'sf'", columns=["id"])
                assert_same_rows(found, [(1,), (3,)])
            case "delta", "incremental":
                assert_same_rows(running.read("incremental", table, after=1), [(4, "la", 40.0)])
                assert_same_rows(running.read("incremental", table, after=1, where="id < 4", columns=["id"]), [])
            case "delta", "changes":
                found = running.read("changes", table, after=1, columns=["id", "_change_type", "_commit_version"])
                assert_same_rows(found, [(2, "delete", 2), (4, "insert", 3)])
            case "hudi", "scan":
                first = hudi.timeline.instants[0]
                found = running.read("scan", hudi, where="part = 'a'", columns=["id"], at=first)
                assert_same_rows(found, [("1",)])
            case "hudi", "read_optimized":
                assert_same_rows(
                    running.read("read_optimized", hudi, columns=["id"], where="qty > 25"), [("3",), ("4",)]
                )
            case "hudi", mode:
                second = hudi.timeline.instants[1]
                found = running.read(mode, hudi, after=second, columns=["id"])
                assert_same_rows(found, [("4",), ("5",)])


@pytest.mark.parametrize("engine", engines())
def test_read_optimized_leaves_deletions_aside(started, engine, table):
    table.append(pa.table([pa.array([5, 6]), pa.array(["ny", "ny"]), pa.array([1.0, 2.0])], schema=SCHEMA))
    table.delete("id = 5")

    with started(engine) as running:
        assert_same_rows(running.read("read_optimized", table, where="city = 'ny'", columns=["id"]), [(5,), (6,)])
        assert_same_rows(running.read("scan", table, where="city = 'ny'", columns=["id"]), [(6,)])


@pytest.mark.parametrize("engine", engines())
def test_rows_of_wrong_types_are_refused_and_nothing_is_written(started, engine, table):
    with started(engine) as running, pytest.raises(tablespec.TableSpecError):
        running.write("append", table, pa.table({"id": ["x"], "city": ["sf"], "fare": [1.0]}))

    assert table.timeline.latest().version == 1
