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


def test_a_damaged_history_is_an_error(new_table):
    table = new_table(9)
    table.storage.put(f".hoodie/.schema/{time(20)}.schemacommit", b"{}")

    with pytest.raises(CorruptLogError, match="no history of schemas"):
        load_schema_history(table.storage)
