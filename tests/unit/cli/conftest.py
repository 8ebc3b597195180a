"""A small table whose log is written by hand, so that every fact about it is known."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablespec.cli.app import run

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "fare", "type": "decimal(9,2)", "nullable": True, "metadata": {}},
        {"name": "city", "type": "string", "nullable": True, "metadata": {}},
    ],
}
# 2026-01-31T12:00:00Z; version n was committed n minutes later.
FIRST_COMMIT = 1_769_860_800


@attrs.frozen
class Outcome:
    """What a command line did."""

    code: int
    out: str
    err: str


@attrs.frozen
class Trips:
    """The table: version 0 is empty, version 1 adds san_francisco, version 2 adds los_angeles."""

    path: Path
    sizes: tuple[int, int]

    @property
    def url(self) -> str:
        return f"file://{self.path}"

    def commit(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020}.json"

    def write_commit(self, version: int, *actions: dict[str, object]) -> None:
        path = self.commit(version)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))
        moment = FIRST_COMMIT + 60 * version
        os.utime(path, (moment, moment))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Runs one command line in this process."""

    def outcome(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return outcome


@pytest.fixture
def trips(tmp_path: Path) -> Trips:
    """A table of three trips in two cities, with one property and a record key."""
    path = tmp_path / "trips"
    first = _data_file(path, "city=sf/1.parquet", {"id": [1, 2], "fare": ["12.50", None]})
    second = _data_file(path, "city=la/2.parquet", {"id": [3], "fare": ["7.00"]})
    metadata = {
        "id": "0d6ac8a1",
        "name": "trips",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": ["city"],
        "configuration": {"tablespec.recordKey": "id", "delta.appendOnly": "true"},
        "createdTime": FIRST_COMMIT * 1000,
    }
    created = {"operation": "CREATE TABLE", "engineInfo": "hand/1"}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    table = Trips(path, (first, second))
    table.write_commit(0, {"commitInfo": created}, {"protocol": protocol}, {"metaData": metadata})
    table.write_commit(1, {"commitInfo": _written(2)}, add_action("city=sf/1.parquet", "sf", first, 2))
    table.write_commit(2, {"commitInfo": _written(1)}, add_action("city=la/2.parquet", "la", second, 1))
    return table


def _data_file(table: Path, name: str, columns: dict[str, list[object]]) -> int:
    path = table / name
    path.parent.mkdir(parents=True)
    fares = pa.array(columns["fare"], pa.string()).cast(pa.decimal128(9, 2))
    pq.write_table(pa.table({"id": columns["id"], "fare": fares}), path)
    return path.stat().st_size


def _written(rows: int) -> dict[str, object]:
    return {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "operationMetrics": {"numOutputRows": str(rows)},
        "engineInfo": "hand/1",
    }


def add_action(path: str, city: str, size: int, rows: int, **more: object) -> dict[str, object]:
    """An add of the log."""
    stats = json.dumps({"numRecords": rows})
    action = {"path": path, "partitionValues": {"city": city}, "size": size, "dataChange": True, "stats": stats, **more}
    return {"add": {**action, "modificationTime": FIRST_COMMIT * 1000}}
