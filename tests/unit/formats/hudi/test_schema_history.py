"""Columns found by their ids, where that is asked for."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec import OpenOptions
from tablespec.errors import CorruptLogError
from tablespec.formats.hudi.schema_history import load_schema_history
from tests.unit.formats.hudi.conftest import avro_schema, time
from tests.unit.formats.hudi.log_writing import avro_block
from tests.unit.formats.hudi.test_merge_on_read import MOR

RENAMED = avro_schema([("id", "string"), ("part", "string"), ("amount", "int"), ("qty", "int")])


def version(since: str, **columns: int) -> dict[str, object]:
    return {"version_id": since, "fields": [{"id": number, "name": name} for name, number in columns.items()]}


@pytest.fixture
def renamed(new_table):
    """qty was renamed to amount at 20, and a new qty added; a log of before and a base file of after."""
    table = new_table(9, **MOR)
    table.write(10, "a", "f", [("1", "a", 10), ("2", "a", 20)])
    columns = [("id", "string"), ("part", "string"), ("qty", "int")]
    table.append(15, "a", "f", avro_block(time(15), columns, [("2", {"id": "2", "part": "a", "qty": 21})]))
    table.complete(20, operation="ALTER_SCHEMA", schema=RENAMED)
    history = [
        version(time(20), id=1, part=2, amount=3, qty=4),
        version("0", id=1, part=2, qty=3),
    ]
    table.storage.put(f".hoodie/.schema/{time(20)}_{time(21)}.schemacommit", json.dumps({"schemas": history}).encode())
    sink = io.BytesIO()
    stored = {"_hoodie_commit_time": [time(30)], "_hoodie_record_key": ["3"], "id": ["3"], "part": ["a"]}
    pq.write_table(pa.table({**stored, "amount": pa.array([30], pa.int32()), "qty": pa.array([3], pa.int32())}), sink)
    path = f"a/g_0-0-0_{time(30)}.parquet"
    table.storage.put(path, sink.getvalue())
    table.complete(30, written=[("a", "g", path)], schema=RENAMED)
    return table.storage.url


def rows(url, **options):
    found = tablespec.open_table(url, options=OpenOptions(**options)).scan(columns=["id", "amount", "qty"]).to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_by_id_a_renamed_column_keeps_its_values_and_a_new_one_has_none_in_older_files(renamed):
    assert rows(renamed, schema_on_read=True) == [("1", 10, None), ("2", 21, None), ("3", 30, 3)]


def test_by_name_a_renamed_column_is_null_in_older_files(renamed):
    assert rows(renamed) == [("1", None, 10), ("2", None, 21), ("3", 30, 3)]


def test_engines_do_not_read_files_with_other_names_themselves(renamed):
    table = tablespec.open_table(renamed, options=OpenOptions(schema_on_read=True))

    assert [one.slice.needs_merge for one in table.scan().slices] == [True, False]


def test_changes_are_read_by_id_too(renamed):
    table = tablespec.open_table(renamed, options=OpenOptions(schema_on_read=True))

    found = table.changes(int(time(10)), columns=["id", "amount", "_change_type"]).to_table().to_pylist()

    assert sorted(tuple(row.values()) for row in found) == [
        ("2", 20, "update_preimage"),
        ("2", 21, "update_postimage"),
        ("3", 30, "insert"),
    ]


def record(**members: object) -> dict[str, object]:
    """A record type of a history; members are pairs of id and type."""
    fields = [{"id": number, "name": name, "optional": True, "type": kind} for name, (number, kind) in members.items()]
    return {"type": "record", "fields": fields}


def avro_record(name: str, **members: object) -> dict[str, object]:
    fields = [{"name": member, "type": ["null", kind], "default": None} for member, kind in members.items()]
    return {"type": "record", "name": name, "fields": fields}


def deep(x: str, y: str) -> list[tuple[str, object]]:
    """A struct in a struct, an array of structs and a map to structs, all with the same two members."""
    inner = [avro_record(f"r{number}", **{x: "int", y: "int"}) for number in range(3)]
    return [
        ("id", "string"),
        ("part", "string"),
        ("s", avro_record("outer", inner=inner[0])),
        ("a", {"type": "array", "items": ["null", inner[1]]}),
        ("m", {"type": "map", "values": ["null", inner[2]]}),
    ]


def deep_version(since: str, x: str, y: str) -> dict[str, object]:
    first, second, third = (record(**{x: (number, "int"), y: (number + 1, "int")}) for number in (10, 20, 30))
    columns = record(
        id=(1, "string"),
        part=(2, "string"),
        s=(3, record(inner=(4, first))),
        a=(5, {"type": "array", "element_id": 6, "element": second, "element_optional": True}),
        m=(7, {"type": "map", "key_id": 8, "key": "string", "value_id": 9, "value": third, "value_optional": True}),
    )
    return {"version_id": since, **columns}


def deep_row(key: str, x: tuple[str, int], y: tuple[str, int]) -> dict[str, object]:
    inner = dict((x, y))
    return {"id": key, "part": "a", "s": {"inner": inner}, "a": [inner], "m": {"k": inner}}


@pytest.mark.parametrize(
    "new_names", [("y", "x"), ("z", "y"), ("w", "z")], ids=["swapped", "one renamed", "both renamed"]
)
def test_members_at_any_depth_are_found_by_id(new_table, new_names):
    table = new_table(9, **MOR)
    old, new = deep("x", "y"), deep(*new_names)
    base = pa.Table.from_pylist(
        [{"_hoodie_commit_time": time(10), "_hoodie_record_key": "1", **deep_row("1", ("x", 1), ("y", 2))}]
    )
    maps = pa.array(
        [[("k", {"x": 1, "y": 2})]], pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    )
    sink = io.BytesIO()
    pq.write_table(base.set_column(base.column_names.index("m"), "m", maps), sink)
    path = f"a/f_0-0-0_{time(10)}.parquet"
    table.storage.put(path, sink.getvalue())
    table.complete(10, written=[("a", "f", path)], schema=avro_schema(old))
    log = table.log("a", "f", 15, avro_block(time(15), old, [("2", deep_row("2", ("x", 3), ("y", 4)))]))
    table.complete(15, "deltacommit", written=[("a", "f", log)], schema=avro_schema(old))
    table.complete(20, operation="ALTER_SCHEMA", schema=avro_schema(new))
    history = [deep_version(time(20), *new_names), deep_version("0", "x", "y")]
    table.storage.put(f".hoodie/.schema/{time(20)}_{time(21)}.schemacommit", json.dumps({"schemas": history}).encode())
    row = deep_row("3", (new_names[0], 5), (new_names[1], 6))
    log = table.log("a", "f", 30, avro_block(time(30), new, [("3", row)]))
    table.complete(30, "deltacommit", written=[("a", "f", log)], schema=avro_schema(new))

    found = tablespec.open_table(table.storage.url, options=OpenOptions(schema_on_read=True)).scan().to_table()

    told = sorted(found.to_pylist(), key=lambda row: row["id"])
    wanted = [dict(zip(new_names, values)) for values in ((1, 2), (3, 4), (5, 6))]
    assert [row["s"] for row in told] == [{"inner": inner} for inner in wanted]
    assert [row["a"] for row in told] == [[inner] for inner in wanted]
    assert [row["m"] for row in told] == [[("k", inner)] for inner in wanted]


def test_a_damaged_history_is_an_error(new_table):
    table = new_table(9)
    table.storage.put(f".hoodie/.schema/{time(20)}.schemacommit", b"{}")

    with pytest.raises(CorruptLogError, match="no history of schemas"):
        load_schema_history(table.storage)
