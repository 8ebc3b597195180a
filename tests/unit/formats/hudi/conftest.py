"""A small Hudi table, made file by file."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Sequence

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablespec.storage.store import Storage

COLUMNS = [("id", "string"), ("part", "string"), ("qty", "int")]
COMMIT = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "fields": [
        {
            "name": "partitionToWriteStats",
            "type": {
                "type": "map",
                "values": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieWriteStat",
                        "fields": [
                            {"name": "fileId", "type": "string"},
                            {"name": "path", "type": "string"},
                            {"name": "prevCommit", "type": "string"},
                        ],
                    },
                },
            },
        },
        {"name": "extraMetadata", "type": {"type": "map", "values": "string"}},
        {"name": "operationType", "type": "string"},
        {
            "name": "partitionToReplaceFileIds",
            "type": {"type": "map", "values": {"type": "array", "items": "string"}},
        },
    ],
}


def avro_schema(columns: Sequence[tuple[str, object]]) -> str:
    """The Avro record of nullable columns, as text."""
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in columns]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


@attrs.define
class HudiTable:
    """A table that is written one file at a time; instants are small numbers, padded to seventeen digits."""

    storage: Storage
    version: int

    def properties(self, **entries: str) -> None:
        """Write hoodie.properties; underscores in the names stand for dots."""
        given = {
            "hoodie.table.name": "t",
            "hoodie.table.version": str(self.version),
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.partition.fields": "part",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.checksum": str(zlib.crc32(b".t")),
            **{key.replace("_", "."): value for key, value in entries.items()},
        }
        self.storage.put(".hoodie/hoodie.properties", "\n".join(f"{k}={v}" for k, v in given.items()).encode())

    def base(self, partition: str, file_id: str, instant: int, rows: Sequence[tuple[object, ...]] = ()) -> str:
        """Write a base file and give its path."""
        path = f"{partition}/{file_id}_0-0-0_{time(instant)}.parquet".removeprefix("/")
        columns = [list(column) for column in zip(*rows)] or [[], [], []]
        types = [pa.string(), pa.string(), pa.int32()]
        stored = {
            "_hoodie_commit_time": pa.array([time(instant)] * len(rows), pa.string()),
            "_hoodie_record_key": pa.array(columns[0], pa.string()),
            **{name: pa.array(values, kind) for (name, _), values, kind in zip(COLUMNS, columns, types)},
        }
        sink = io.BytesIO()
        pq.write_table(pa.table(stored), sink)
        self.storage.put(path, sink.getvalue())
        return path

    def log(self, partition: str, file_id: str, instant: int, *blocks: bytes, version: int = 1) -> str:
        """Write a log file and give its path; `instant` is that of its base file in version 6."""
        path = f"{partition}/.{file_id}_{time(instant)}.log.{version}_0-0-0".removeprefix("/")
        self.storage.put(path, b"".join(blocks))
        return path

    def append(self, instant: int, partition: str, file_id: str, *blocks: bytes) -> str:
        """Write a log file and complete its delta commit."""
        path = self.log(partition, file_id, instant, *blocks)
        self.complete(instant, "deltacommit", written=[(partition, file_id, path)])
        return path

    def complete(
        self,
        instant: int,
        action: str = "commit",
        *,
        written: Sequence[tuple[str, str, str]] = (),
        replaced: Sequence[tuple[str, str]] = (),
        operation: str = "UPSERT",
        schema: str | None = None,
        completed: int | None = None,
        previous: int | None = None,
    ) -> None:
        """Complete a write of (partition, file id, path) that replaces (partition, file id), five seconds later by default."""
        body = {
            "partitionToWriteStats": {},
            "extraMetadata": {} if schema == "" else {"schema": schema or avro_schema(COLUMNS)},
            "operationType": operation,
            "partitionToReplaceFileIds": {},
        }
        for partition, file_id, path in written:
            body["partitionToWriteStats"].setdefault(partition, []).append(
                {"fileId": file_id, "path": path, "prevCommit": time(previous) if previous else "null"}
            )
        for partition, file_id in replaced:
            body["partitionToReplaceFileIds"].setdefault(partition, []).append(file_id)
        if self.version < 8:
            self.storage.put(f".hoodie/{time(instant)}.{action}", json.dumps(body).encode())
            return
        sink = io.BytesIO()
        fastavro.writer(sink, COMMIT, [body])
        self.instant(f"{time(instant)}_{time(completed or instant + 5)}.{action}", sink.getvalue())

    def write(self, instant: int, partition: str, file_id: str, rows: Sequence[tuple[object, ...]] = ()) -> str:
        """Write a base file and complete its commit."""
        path = self.base(partition, file_id, instant, rows)
        self.complete(instant, written=[(partition, file_id, path)])
        return path

    def clean(self, instant: int, earliest: int | None, removed: Sequence[tuple[str, str]] = ()) -> None:
        """Complete a cleaner run that removed (partition, file name)."""
        partitions = {partition: {"deletePathPatterns": [name]} for partition, name in removed}
        body = {"earliestCommitToRetain": time(earliest) if earliest else "", "partitionMetadata": partitions}
        self.instant(f"{time(instant)}_{time(instant + 1)}.clean", json.dumps(body).encode())

    def instant(self, name: str, body: bytes = b"") -> None:
        """Put a file on the timeline."""
        self.storage.put(f".hoodie/timeline/{name}" if self.version >= 8 else f".hoodie/{name}", body)


def time(instant: int) -> str:
    """An instant time of seventeen digits, so many seconds into the year 2024."""
    return str(20240101000000000 + instant * 1000)


@pytest.fixture
def new_table(tmp_path) -> Callable[..., HudiTable]:
    """Makes a table of the given version with a hoodie.properties and nothing else."""

    def make(version: int = 9, **entries: str) -> HudiTable:
        table = HudiTable(Storage.at(str(tmp_path / "table")), version)
        table.properties(**entries)
        return table

    return make
