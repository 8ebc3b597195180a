"""Actions of a Delta log, as lines of a commit and as rows of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
from data_file import COLUMNS, PARTITION_COLUMNS, DataFile

MODIFIED = 1_750_000_000_000

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

Action = Mapping[str, object]


def add_action(file: DataFile, path: str, size: int) -> Action:
    """The add of a file in a commit, under a path that may differ from its own."""
    values = dict(zip(PARTITION_COLUMNS, file.leaf))
    add = {"path": path, "partitionValues": values, "size": size, "modificationTime": MODIFIED, "dataChange": True}
    return {"add": {**add, "stats": file.stats}}


def remove_action(path: str) -> Action:
    """The removal of a path in a commit."""
    return {"remove": {"path": path, "deletionTimestamp": MODIFIED, "dataChange": True}}


def table_actions() -> list[Action]:
    """The protocol and the metadata of the table."""
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


def checkpoint_rows(others: Sequence[Action], files: Sequence[DataFile], sizes: Mapping[int, int]) -> pa.Table:
    """Rows of a checkpoint: the other actions, then the adds; `sizes` holds those that differ from what files tell."""
    adds = add_column(files, sizes)
    columns = [adds if field.name == "add" else pa.nulls(len(adds), field.type) for field in CHECKPOINT]
    head = pa.Table.from_pylist(list(others), CHECKPOINT)
    return pa.concat_tables([head, pa.Table.from_arrays(columns, schema=CHECKPOINT)])


def add_column(files: Sequence[DataFile], sizes: Mapping[int, int]) -> pa.StructArray:
    """The adds of these files as the column of a checkpoint."""
    count, width = len(files), len(PARTITION_COLUMNS)
    offsets = pa.array(range(0, width * count + 1, width), pa.int32())
    keys = pa.array(PARTITION_COLUMNS * count, pa.string())
    values = pa.array([value for file in files for value in file.leaf], pa.string())
    columns = {
        "path": pa.array([file.path for file in files], pa.string()),
        "partitionValues": pa.MapArray.from_arrays(offsets, keys, values),
        "size": pa.array([sizes.get(file.number, file.size) for file in files], pa.int64()),
        "modificationTime": pa.array([MODIFIED + file.number for file in files], pa.int64()),
        "dataChange": pa.array([False] * count, pa.bool_()),
        "stats": pa.array([file.stats for file in files], pa.string()),
    }
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in ADD]
    return pa.StructArray.from_arrays(arrays, fields=list(ADD))
