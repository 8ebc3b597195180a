"""Synthetic Delta logs with many adds, of which one leaf partition really exists.

A table of N files has 10 files per leaf partition (dt, region, bucket), 1000 files per day. Ids grow with the day, so that they
are clustered like the partitions; names are hashes, so that every file has a small range somewhere in the whole: one column that
sorting by partition helps and one that it does not. The checkpoint stands at version 100 with its adds in random order, as
engines leave them that shuffle by path. Version 101 removes one file of the real leaf and adds another there: an engine that does
not reconcile the tail with the checkpoint finds the wrong files.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE = 1000
FILES_PER_LEAF = 10
FILES_PER_DAY = 1000
REAL_LEAF = 42
CHECKPOINT_VERSION = 100
ROW_GROUP = 200_000
FIRST_DAY = datetime.date(2020, 1, 1)
MODIFIED = 1_750_000_000_000
# Coprime to every power of ten: stepping by it visits each file once, in an order like a shuffle.
STRIDE = 611_953

STRING_MAP = pa.map_(pa.string(), pa.string())
STRINGS = pa.list_(pa.string())
DELETION_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
ADD = pa.struct(
    {
        "path": pa.string(),
        "partitionValues": STRING_MAP,
        "size": pa.int64(),
        "modificationTime": pa.int64(),
        "dataChange": pa.bool_(),
        "stats": pa.string(),
        "tags": STRING_MAP,
        "deletionVector": DELETION_VECTOR,
        "baseRowId": pa.int64(),
        "defaultRowCommitVersion": pa.int64(),
        "clusteringProvider": pa.string(),
    }
)
REMOVE = pa.struct(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": STRING_MAP,
        "size": pa.int64(),
        "deletionVector": DELETION_VECTOR,
    }
)
METADATA = pa.struct(
    {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": STRING_MAP}),
        "schemaString": pa.string(),
        "partitionColumns": STRINGS,
        "createdTime": pa.int64(),
        "configuration": STRING_MAP,
    }
)
PROTOCOL = pa.struct(
    {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": STRINGS,
        "writerFeatures": STRINGS,
    }
)
TXN = pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()})
CHECKPOINT = pa.schema({"txn": TXN, "protocol": PROTOCOL, "metaData": METADATA, "add": ADD, "remove": REMOVE})

COLUMNS = (
    ("id", "long"),
    ("name", "string"),
    ("amount", "double"),
    ("ts", "timestamp"),
    ("dt", "date"),
    ("region", "string"),
    ("bucket", "integer"),
)
PARTITION_COLUMNS = ("dt", "region", "bucket")


@attrs.frozen(kw_only=True)
class Log:
    """A generated table and what its filters must find: `leaf` holds ten files; `some_id` and `some_name` lie in one of them."""

    path: Path
    files: int
    dt: str
    region: str
    bucket: int
    some_id: int
    some_name: str


@attrs.frozen
class DataFile:
    """One file of the table, known by its number alone."""

    number: int

    @property
    def dt(self) -> datetime.date:
        return FIRST_DAY + datetime.timedelta(days=self.number // FILES_PER_DAY)

    @property
    def leaf(self) -> tuple[str, str, str]:
        """The partition values as the log spells them."""
        in_day = self.number % FILES_PER_DAY // FILES_PER_LEAF
        return self.dt.isoformat(), f"region-{in_day // 10}", str(in_day % 10)

    @property
    def path(self) -> str:
        folder = "/".join(f"{name}={value}" for name, value in zip(PARTITION_COLUMNS, self.leaf))
        unique = hashlib.md5(str(self.number).encode(), usedforsecurity=False).hexdigest()
        return f"{folder}/part-{self.number % FILES_PER_LEAF:05d}-{unique}-c000.snappy.parquet"

    @property
    def first_id(self) -> int:
        return self.number * ROWS_PER_FILE

    @property
    def name_prefix(self) -> str:
        return f"{self.number * 2_654_435_761 % 2**32:08x}"

    @property
    def stats(self) -> str:
        """The statistics as engines write them: JSON without spaces."""
        last = ROWS_PER_FILE - 1
        low, day, prefix = self.number * 7919 % 10_000 / 100, self.leaf[0], self.name_prefix
        return (
            f'{{"numRecords":{ROWS_PER_FILE},"minValues":{{"id":{self.first_id},"name":"{prefix}-0000","amount":{low},'
            f'"ts":"{day}T00:00:00.000Z"}},"maxValues":{{"id":{self.first_id + last},"name":"{prefix}-{last:04d}",'
            f'"amount":{low + last},"ts":"{day}T00:16:39.000Z"}},"nullCount":{{"id":0,"name":0,"amount":0,"ts":0}}}}'
        )

    def rows(self) -> pa.Table:
        """The content, which agrees with `stats`."""
        low = self.number * 7919 % 10_000 / 100
        start = datetime.datetime.combine(self.dt, datetime.time(), datetime.UTC)
        steps = range(ROWS_PER_FILE)
        return pa.table(
            {
                "id": pa.array([self.first_id + step for step in steps], pa.int64()),
                "name": [f"{self.name_prefix}-{step:04d}" for step in steps],
                "amount": [low + step for step in steps],
                "ts": pa.array([start + datetime.timedelta(seconds=s) for s in steps], pa.timestamp("us", "UTC")),
            }
        )


def write_classic_log(path: Path, files: int) -> Log:
    """A table of about `files` files whose checkpoint has statistics as JSON only, followed by three commits."""
    (path / "_delta_log").mkdir(parents=True)
    real = [DataFile(REAL_LEAF * FILES_PER_LEAF + offset) for offset in range(FILES_PER_LEAF)]
    late = DataFile(real[0].number + files)
    sizes = {file.number: write_data_file(path, file) for file in real[1:]}
    late_path = real[0].path.replace("part-", "late-")
    sizes[late.number] = write_rows(path / late_path, real[0].rows())
    write_checkpoint(path, files, sizes)
    write_commit(path, 101, [remove_action(real[0].path), add_action(real[0], late_path, sizes[late.number])])
    write_far_commits(path, 102, 2, files)
    return log_of(path, files)


def log_of(path: Path, files: int) -> Log:
    """The description of a log that was generated at `path` earlier."""
    file = DataFile(REAL_LEAF * FILES_PER_LEAF + 3)
    dt, region, bucket = file.leaf
    some = file.first_id + 500
    name = f"{file.name_prefix}-0500"
    return Log(path=path, files=files, dt=dt, region=region, bucket=int(bucket), some_id=some, some_name=name)


def write_far_commits(path: Path, first_version: int, count: int, files: int) -> None:
    """Commits that each add two files and remove one, none of them in the real leaf."""
    for version in range(first_version, first_version + count):
        far = [DataFile(files - 1 - (version - CHECKPOINT_VERSION) * 20 - step) for step in range(3)]
        added = [add_action(file, file.path.replace("part-", f"v{version}-"), 100_000) for file in far[:2]]
        write_commit(path, version, [*added, remove_action(far[2].path)])


def write_checkpoint(path: Path, files: int, sizes: dict[int, int]) -> None:
    """The checkpoint of version 100 with its hint and its commit; memory is bounded by one row group."""
    target = path / "_delta_log" / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    with pq.ParquetWriter(target, CHECKPOINT, compression="snappy") as writer:
        for first in range(0, files, ROW_GROUP):
            numbers = [step * STRIDE % files for step in range(first, min(first + ROW_GROUP, files))]
            adds = add_column([DataFile(number) for number in numbers], sizes)
            writer.write_table(action_rows(adds, table_actions() if first == 0 else []))
    write_commit(path, CHECKPOINT_VERSION, [])
    hint = {"version": CHECKPOINT_VERSION, "size": files + 2, "sizeInBytes": target.stat().st_size, "numOfAddFiles": files}
    (path / "_delta_log" / "_last_checkpoint").write_text(json.dumps(hint))


def add_column(files: Sequence[DataFile], sizes: dict[int, int]) -> pa.StructArray:
    """The adds of these files as the column of a checkpoint."""
    count = len(files)
    leaves = [value for file in files for value in file.leaf]
    offsets = pa.array(range(0, 3 * count + 1, 3), pa.int32())
    keys = pa.array(PARTITION_COLUMNS * count, pa.string())
    columns = {
        "path": pa.array([file.path for file in files], pa.string()),
        "partitionValues": pa.MapArray.from_arrays(offsets, keys, pa.array(leaves, pa.string())),
        "size": pa.array([sizes.get(file.number) or size_of(file) for file in files], pa.int64()),
        "modificationTime": pa.array([MODIFIED + file.number for file in files], pa.int64()),
        "dataChange": pa.array([False]).take(pa.array([0] * count)),
        "stats": pa.array([file.stats for file in files], pa.string()),
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in ADD]
    return pa.StructArray.from_arrays(arrays, fields=list(ADD))


def action_rows(adds: pa.StructArray, others: Sequence[dict[str, object]]) -> pa.Table:
    """Rows of a checkpoint: first the other actions, then the adds."""
    head = pa.Table.from_pylist(list(others), CHECKPOINT)
    columns = [adds if field.name == "add" else pa.nulls(len(adds), field.type) for field in CHECKPOINT]
    return pa.concat_tables([head, pa.Table.from_arrays(columns, schema=CHECKPOINT)])


def table_actions() -> list[dict[str, object]]:
    """The protocol and the metadata of the table, one row each."""
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in COLUMNS]
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(PARTITION_COLUMNS),
        "createdTime": MODIFIED,
        "configuration": {},
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def add_action(file: DataFile, path: str, size: int) -> dict[str, object]:
    """The add of a file in a commit, under a path that may differ from its own."""
    values = dict(zip(PARTITION_COLUMNS, file.leaf))
    add = {"path": path, "partitionValues": values, "size": size, "modificationTime": MODIFIED, "dataChange": True}
    return {"add": {**add, "stats": file.stats}}


def remove_action(path: str) -> dict[str, object]:
    """The removal of a path in a commit."""
    return {"remove": {"path": path, "deletionTimestamp": MODIFIED, "dataChange": True}}


def write_commit(path: Path, version: int, actions: Iterable[dict[str, object]]) -> None:
    """One commit file: a commitInfo line and the actions."""
    info = {"commitInfo": {"timestamp": MODIFIED + version, "operation": "WRITE", "operationParameters": {}}}
    lines = [json.dumps(action, separators=(",", ":")) for action in (info, *actions)]
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines) + "\n")


def write_data_file(path: Path, file: DataFile) -> int:
    """Write the rows of a file at its place below `path`; gives the size in bytes."""
    return write_rows(path / file.path, file.rows())


def write_rows(target: Path, rows: pa.Table) -> int:
    """Write rows to a Parquet file; gives its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return target.stat().st_size


def size_of(file: DataFile) -> int:
    """The size that the log tells of a file that does not exist."""
    return random.Random(file.number).randrange(50_000, 500_000)
