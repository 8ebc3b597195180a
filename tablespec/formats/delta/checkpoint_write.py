"""Checkpoints written so that they can be listed fast: adds sorted by partition, statistics in columns of their own.

The actions about the table stand in a first row group alone; the footer of the file then tells which row groups of adds a filter needs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import timedelta

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablespec.arrow.encoding import leaf_paths
from tablespec.arrow.stats import bounded_leaves, nan_leaves
from tablespec.formats.delta.actions import Action, RemoveAction
from tablespec.formats.delta.adds import ADD, TEXT_MAP, VECTOR, TableShape, from_actions, partition_column, vector_row
from tablespec.formats.delta.checkpoint import add_batches, removes
from tablespec.formats.delta.log import LAST_CHECKPOINT, LOG
from tablespec.formats.delta.properties import file_retention
from tablespec.formats.delta.state import DeltaState
from tablespec.formats.delta.stats_json import Leaf, Parts, json_of_parsed, parse_stats, stats_type
from tablespec.model.schema import StructType
from tablespec.storage.store import Storage

GROUP_ADDS = 20_000
# Opening the file reads its whole footer, whose size is that of row groups times columns.
FOOTER_CHUNKS = 10_000
INDEXED_COLUMNS = 32

_STRINGS = pa.list_(pa.string())
_TABLE_ACTIONS = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", TEXT_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", TEXT_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "remove": pa.struct(
        [
            ("path", pa.string()),
            ("deletionTimestamp", pa.int64()),
            ("dataChange", pa.bool_()),
            ("extendedFileMetadata", pa.bool_()),
            ("partitionValues", TEXT_MAP),
            ("size", pa.int64()),
            ("deletionVector", VECTOR),
            ("baseRowId", pa.int64()),
            ("defaultRowCommitVersion", pa.int64()),
        ]
    ),
}


@attrs.frozen
class WrittenCheckpoint:
    """A checkpoint that was written."""

    version: int
    actions: int
    adds: int
    size: int


def write_checkpoint(state: DeltaState, now: int) -> WrittenCheckpoint:
    """Write the checkpoint of a state and point `_last_checkpoint` at it."""
    return state.told(lambda state: _write_checkpoint(state, now))


def _write_checkpoint(state: DeltaState, now: int) -> WrittenCheckpoint:
    storage, version = state.storage, state.instant.version
    adds = live_adds(state)
    head = _head_rows(state, now)
    data = _parquet(head, adds, _order(adds, state.shape))
    storage.put(f"{LOG}/{version:020d}.checkpoint.parquet", data)
    written = WrittenCheckpoint(version, len(head) + len(adds), len(adds), len(data))
    _point_at(storage, written)
    return written


def live_adds(state: DeltaState) -> pa.StructArray:
    """All live adds with their statistics, as text and parsed, and their typed partition values."""
    leaves = indexed_leaves(state.shape)
    touched = state.reconciled.touched
    batches = []
    for path in state.reconciled.checkpoint_files:
        for adds in add_batches(state.storage, path):
            batches.append(_complete(untouched(adds, touched), leaves, state.shape))
    tail = list(state.reconciled.adds.values())
    if tail or not batches:
        batches.append(_complete(from_actions(tail), leaves, state.shape))
    return pa.concat_arrays(batches)


def indexed_leaves(shape: TableShape) -> list[Leaf]:
    """The leaves that have statistics: the first ones outside of the partition columns."""
    found = [
        shape.leaf(path)
        for path, field in shape.schema.leaves()
        if path[0] not in shape.partition_columns and not isinstance(field.type, StructType)
    ]
    return [leaf for leaf in found if not str(leaf.type).startswith(("array", "map", "variant", "void"))][
        :INDEXED_COLUMNS
    ]


def untouched(adds: pa.StructArray, touched: frozenset[str]) -> pa.StructArray:
    """The adds whose keys are not in `touched`."""
    if not touched:
        return adds
    paths = pc.replace_substring_regex(adds.field("path"), "^file:/+", "/")
    vector = adds.field("deletionVector") if adds.type.get_field_index("deletionVector") >= 0 else None
    if vector is None:
        keys = paths
    else:
        # A member that is declared required has a value even where there is no vector.
        kind, place, number = (pc.struct_field(vector, name) for name in ("storageType", "pathOrInlineDv", "offset"))
        offset = pc.coalesce(pc.binary_join_element_wise("@", number.cast(pa.string()), ""), "")
        identity = pc.binary_join_element_wise(kind, place, offset, "")
        keys = pc.coalesce(pc.binary_join_element_wise(paths, identity, "\n"), paths)
    return adds.filter(pc.invert(pc.is_in(keys, pa.array(sorted(touched), pa.string()))))


def _complete(adds: pa.StructArray, leaves: Sequence[Leaf], shape: TableShape) -> pa.StructArray:
    wanted = stats_type(leaves, Parts.ALL)
    children = {field.name: _member(adds, field) for field in ADD}
    children["dataChange"] = pa.repeat(pa.scalar(False), len(adds))
    had_parsed = adds.type.get_field_index("stats_parsed") >= 0
    if had_parsed and children["stats"].null_count == len(adds):
        texts = [json_of_parsed(row) for row in adds.field("stats_parsed").to_pylist()]
        children["stats"] = pa.array(texts, pa.string())
    children["stats_parsed"] = parse_stats(children["stats"], leaves, shape.table, Parts.ALL)
    if shape.partition_columns:
        columns = [partition_column(adds, field, shape.table) for field in shape.partition_fields]
        names = [field.stored_name for field in shape.partition_fields]
        children["partitionValues_parsed"] = pa.StructArray.from_arrays(columns, names=names)
    assert children["stats_parsed"].type.equals(wanted)
    return pa.StructArray.from_arrays(list(children.values()), names=list(children))


def _member(adds: pa.StructArray, field: pa.Field) -> pa.Array:
    index = adds.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(adds), field.type)
    child = adds.field(index)
    if field.name == "deletionVector" and not child.type.equals(VECTOR):
        # Other writers add members of their own here.
        members = [child.field(member.name).cast(member.type) for member in VECTOR]
        return pa.StructArray.from_arrays(members, fields=list(VECTOR), mask=child.is_null())
    return child if child.type.equals(field.type) else child.cast(field.type)


def _order(adds: pa.StructArray, shape: TableShape) -> pa.Array:
    keys = {}
    if shape.partition_columns:
        parsed = adds.field("partitionValues_parsed")
        keys = {f"p{index}": parsed.field(index) for index in range(parsed.type.num_fields)}
    keys["added"] = pc.fill_null(adds.field("baseRowId"), -1)
    keys["path"] = adds.field("path")
    table = pa.table(keys)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys])


def _head_rows(state: DeltaState, now: int) -> list[dict[str, object]]:
    reconciled = state.reconciled
    rows: list[dict[str, object]] = [
        {"protocol": _row(state.protocol)},
        {"metaData": _row(state.metadata)},
    ]
    rows += [{"txn": _row(txn)} for txn in reconciled.transactions.values()]
    rows += [{"domainMetadata": _row(domain)} for domain in reconciled.domains.values()]
    return rows + [{"remove": _remove_row(remove)} for remove in _tombstones(state, now)]


def _tombstones(state: DeltaState, now: int) -> Iterable[RemoveAction]:
    # Other clients take the files of a tombstone that is gone for unneeded, so they stay as long as the table asks.
    limit = now - file_retention(state.properties) // timedelta(milliseconds=1)
    reconciled = state.reconciled
    for path in reconciled.checkpoint_files:
        for remove in removes(state.storage, path):
            if remove.key not in reconciled.touched and (remove.deletion_timestamp or 0) > limit:
                yield remove
    yield from (remove for remove in reconciled.removes.values() if (remove.deletion_timestamp or 0) > limit)


def _row(action: Action) -> dict[str, object]:
    # Maps are written as lists of pairs, which is what Arrow makes maps of.
    def pairs(value: object, arrow: pa.DataType) -> object:
        if isinstance(value, dict) and pa.types.is_map(arrow):
            return list(value.items())
        if isinstance(value, dict):
            return {field.name: pairs(value.get(field.name), field.type) for field in arrow}
        return value

    name = {
        "ProtocolAction": "protocol",
        "MetadataAction": "metaData",
        "TxnAction": "txn",
        "DomainMetadataAction": "domainMetadata",
    }
    row = pairs(msgspec.to_builtins(action), _TABLE_ACTIONS[name[type(action).__name__]])
    assert isinstance(row, dict)
    return row


def _remove_row(remove: RemoveAction) -> dict[str, object]:
    return {
        "path": remove.path,
        "deletionTimestamp": remove.deletion_timestamp,
        "dataChange": False,
        "extendedFileMetadata": remove.extended_file_metadata,
        "partitionValues": None if remove.partition_values is None else list(remove.partition_values.items()),
        "size": remove.size,
        "deletionVector": None if remove.deletion_vector is None else vector_row(remove.deletion_vector),
        "baseRowId": remove.base_row_id,
        "defaultRowCommitVersion": remove.default_row_commit_version,
    }


def _parquet(head: list[dict[str, object]], adds: pa.StructArray, order: pa.Array) -> bytes:
    schema = pa.schema([pa.field("add", adds.type), *(pa.field(name, kind) for name, kind in _TABLE_ACTIONS.items())])
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        version="2.6",
        use_dictionary=_repetitive(adds.type),
        write_statistics=bounded_leaves(schema, nan_leaves(pa.table({"add": adds}))),
    ) as writer:
        writer.write_table(pa.Table.from_pylist([{"add": None, **row} for row in head], schema))
        step = max(GROUP_ADDS, -(-len(adds) * sum(len(leaf_paths(field)) for field in schema) // FOOTER_CHUNKS))
        for start in range(0, len(adds), step):
            part = adds.take(order.slice(start, step))
            empty = [pa.nulls(len(part), kind) for kind in _TABLE_ACTIONS.values()]
            writer.write_table(pa.Table.from_arrays([part, *empty], schema=schema), row_group_size=step)
    return sink.getvalue()


def _repetitive(add: pa.StructType) -> list[str]:
    """The leaves in which values repeat; a dictionary of anything else costs more than it saves."""
    leaves = ["add.partitionValues.key_value.key", "add.partitionValues.key_value.value", "add.tags.key_value.key"]
    leaves += ["add.stats_parsed.numRecords", "add.defaultRowCommitVersion"]
    if add.get_field_index("partitionValues_parsed") >= 0:
        leaves += [f"add.partitionValues_parsed.{field.name}" for field in add.field("partitionValues_parsed").type]
    statistics = add.field("stats_parsed").type
    if statistics.get_field_index("nullCount") >= 0:
        leaves += leaf_paths(statistics.field("nullCount"), "add.stats_parsed.")
    return leaves


def _point_at(storage: Storage, written: WrittenCheckpoint) -> None:
    hint = {
        "version": written.version,
        "size": written.actions,
        "sizeInBytes": written.size,
        "numOfAddFiles": written.adds,
    }
    storage.put(LAST_CHECKPOINT, msgspec.json.encode(hint))
