"""Delta tables written by hand, action by action, and what lies in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LEGACY = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def protocol(
    reader: int, writer: int, *, reader_features: Sequence[str] = (), writer_features: Sequence[str] = ()
) -> dict[str, Any]:
    """A protocol action; features are listed where the versions ask for lists."""
    action: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader >= 3:
        action["readerFeatures"] = list(reader_features)
    if writer >= 7:
        action["writerFeatures"] = [*reader_features, *writer_features]
    return {"protocol": action}


def field(name: str, kind: object, *, nullable: bool = True, **metadata: object) -> dict[str, Any]:
    """A column of a schema; underscores pairs in the names of metadata stand for dots."""
    named = {key.replace("__", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": named}


def metadata(
    columns: Mapping[str, object] | Sequence[dict[str, Any]] | None = None,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A metaData action; without columns the table has one, `id` of type long."""
    if columns is None:
        columns = {"id": "long"}
    fields = [field(*item) for item in columns.items()] if isinstance(columns, Mapping) else list(columns)
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partition_by),
            "configuration": dict(properties or {}),
            "createdTime": 1,
        }
    }


def add(folder: Path, name: str, rows: pa.Table, **given: object) -> dict[str, Any]:
    """Write a data file and give the action that adds it; `given` replaces or adds members of the action."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    action = {
        "path": name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows}),
    }
    return {"add": {**action, **given}}


def commit(folder: Path, version: int, *actions: Mapping[str, object]) -> Path:
    """Write a commit of these actions and give its path."""
    path = commit_file(folder, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return path


def commit_file(folder: Path, version: int) -> Path:
    """Where the commit of a version lies."""
    return folder / "_delta_log" / f"{version:020d}.json"


def checkpoint_file(folder: Path, version: int) -> Path:
    """Where the classic checkpoint of a version lies."""
    return folder / "_delta_log" / f"{version:020d}.checkpoint.parquet"


def actions_of(folder: Path, version: int, kind: str) -> list[Any]:
    """The actions of one kind in a commit."""
    lines = [json.loads(line) for line in commit_file(folder, version).read_text().splitlines()]
    return [line[kind] for line in lines if kind in line]


def versions_of(folder: Path) -> list[int]:
    """The versions whose commits lie in the log."""
    return sorted(int(path.stem) for path in (folder / "_delta_log").glob("*.json") if path.stem.isdigit())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, hidden and temporary ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
