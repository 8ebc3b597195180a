"""Add actions in columns: judged by a predicate as a whole, and turned into slices where they survive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.expr.nodes import TRUE, Predicate, asks_for_nulls, columns_of, conjuncts
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import JudgedSlice
from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, file_key
from tablespec.formats.delta.bounds import outer_bounds
from tablespec.formats.delta.deletion_vector import locate
from tablespec.formats.delta.partition_values import HiveFolders, parse_value
from tablespec.formats.delta.stats_alike import alike_bounds
from tablespec.formats.delta.stats_json import Leaf, Parts, parse_stats
from tablespec.model.file import BaseFile, FileGroupId, FileSlice
from tablespec.model.schema import Field, Schema, StructType

GROUP_TAG = "tablespec.group"
INSTANT_TAG = "tablespec.instant"
FORM_TAG = "tablespec.form"

# What a slice is made of, besides partition values and statistics.
_MEMBERS = ("path", "size", "modificationTime", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_ZERO, _ONE = pa.scalar(0, pa.int64()), pa.scalar(1, pa.int64())
_CAST_BY_ARROW = frozenset({"string", "byte", "short", "integer", "long", "date"})

TEXT_MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", TEXT_MAP),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", TEXT_MAP),
        pa.field("deletionVector", VECTOR),
        pa.field("baseRowId", pa.int64()),
        pa.field("defaultRowCommitVersion", pa.int64()),
        pa.field("clusteringProvider", pa.string()),
    ]
)


@attrs.frozen(kw_only=True)
class TableShape:
    """What must be known of a table to understand its adds."""

    table: str
    schema: Schema
    partition_columns: tuple[str, ...]

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in their order."""
        return tuple(self.schema.field(name) for name in self.partition_columns)

    def leaf(self, path: tuple[str, ...]) -> Leaf:
        """The leaf of the statistics for a column path."""
        stored, fields = [], self.schema.fields
        for name in path:
            field = next(field for field in fields if field.name == name)
            stored.append(field.stored_name)
            fields = field.type.fields if isinstance(field.type, StructType) else ()
        return Leaf(tuple(stored), field.type)


@attrs.frozen
class Needs:
    """The columns that judging a predicate looks at, by logical path."""

    partitions: tuple[tuple[str, ...], ...]
    data: tuple[tuple[str, ...], ...]


def needs_of(predicate: Predicate, shape: TableShape) -> Needs:
    """What of the adds must be read to judge `predicate`."""
    paths = sorted(columns_of(predicate))
    partitions = tuple(path for path in paths if path[0] in shape.partition_columns)
    # Structs have no statistics of their own, only their members.
    data = tuple(path for path in paths if not isinstance(shape.leaf(path).type, StructType))
    return Needs(partitions, tuple(path for path in data if path not in partitions))


def from_actions(actions: Sequence[AddAction]) -> pa.StructArray:
    """Add actions as an Arrow array."""
    rows = [
        {
            "path": add.path,
            "partitionValues": list(add.partition_values.items()),
            "size": add.size,
            "modificationTime": add.modification_time,
            "dataChange": add.data_change is True,
            "stats": add.stats,
            "tags": None if add.tags is None else [(key, _text(value)) for key, value in add.tags.items()],
            "deletionVector": None if add.deletion_vector is None else vector_row(add.deletion_vector),
            "baseRowId": add.base_row_id,
            "defaultRowCommitVersion": add.default_row_commit_version,
            "clusteringProvider": add.clustering_provider,
        }
        for add in actions
    ]
    return pa.array(rows, ADD)


def vector_row(vector: DeletionVectorAction) -> dict[str, object]:
    """A deletion vector as a row of a checkpoint."""
    return {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline_dv,
        "offset": vector.offset,
        "sizeInBytes": vector.size_in_bytes,
        "cardinality": vector.cardinality,
    }


def judge(
    adds: pa.StructArray, predicate: Predicate, shape: TableShape, *, roughly: bool = False
) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    """For each add whether it may match, and whether all its rows do; `roughly` may let a few more pass, for half the work."""
    needs = needs_of(predicate, shape)
    leaves = [shape.leaf(path) for path in needs.data]
    parts = Parts.BOUNDS if roughly and not asks_for_nulls(predicate) else Parts.COUNTS
    statistics = _statistics(adds, leaves, shape, parts) if leaves else None
    counted = None if statistics is None else _child(statistics, "numRecords")
    rows = pa.repeat(_ONE, len(adds)) if counted is None else pc.coalesce(counted, _ONE)

    def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
        if path[0] in shape.partition_columns:
            return _partition_bounds(partition_column(adds, shape.schema.field(path[0]), shape.table), rows)
        return (
            None if statistics is None or path not in needs.data else _data_bounds(adds, statistics, shape.leaf(path))
        )

    return verdicts(predicate, bounds_of, rows, len(adds))


def candidates(adds: pa.StructArray, predicate: Predicate, shape: TableShape) -> pa.Array:
    """The positions of the adds that may match; a few more than `judge` would let pass, for a fraction of the work."""
    # Some writers declare the members of an action required: then only the action itself is null where there is none.
    mark = next(name for name in ("path", "size", "stats") if adds.type.get_field_index(name) >= 0)
    rows = pc.indices_nonzero(pc.is_valid(pc.struct_field(adds, mark)))
    if predicate == TRUE:
        return rows
    # What the partition values decide is cheap; statistics are looked at only where they leave something open.
    parts = sorted(conjuncts(predicate), key=lambda part: len(needs_of(part, shape).data))
    for part in parts:
        if not len(rows):
            break
        may_match, _ = judge(_take(adds, rows), part, shape, roughly=True)
        rows = rows.filter(may_match)
    return rows


def _take(adds: pa.StructArray, rows: pa.Array) -> pa.StructArray:
    first, last = rows[0].as_py(), rows[-1].as_py()
    # Rows that follow each other need not be copied.
    return adds.slice(first, len(rows)) if last - first + 1 == len(rows) else adds.take(rows)


def partition_column(adds: pa.StructArray, field: Field, table: str) -> pa.Array:
    """The typed values of a partition column, one for each add."""
    parsed = _child(adds, "partitionValues_parsed")
    wanted = arrow_type(field.type)
    if parsed is not None and parsed.type.get_field_index(field.stored_name) >= 0:
        values = parsed.field(field.stored_name)
        if values.type.equals(wanted):
            return values
    texts = _lookup(adds.field("partitionValues"), field.stored_name).dictionary_encode()
    if not len(texts.dictionary):
        return pa.nulls(len(adds), wanted)
    return _typed_values(texts.dictionary, field, wanted, table).take(texts.indices)


def _typed_values(texts: pa.Array, field: Field, wanted: pa.DataType, table: str) -> pa.Array:
    if str(field.type) in _CAST_BY_ARROW:
        try:
            return texts.cast(wanted)
        except pa.ArrowInvalid:
            pass  # some text is odd, which the slower way knows how to take
    return pa.array([parse_value(text, field.type, table) for text in texts.to_pylist()], wanted)


def slices_of(adds: pa.StructArray, shape: TableShape) -> Iterator[tuple[str, FileSlice]]:
    """The key and the slice of each add."""
    statistics = _statistics(adds, [], shape)
    counts = None if statistics is None else _child(statistics, "numRecords")
    rows = [None] * len(adds) if counts is None else counts.to_pylist()
    fields = shape.partition_fields
    values: list[tuple[object, ...]] = [()] * len(adds)
    if fields:
        values = list(zip(*(partition_column(adds, field, shape.table).to_pylist() for field in fields)))
    naming, folders = HiveFolders(fields), dict[tuple[object, ...], str]()
    members = [_list(adds, name) for name in _MEMBERS]
    for row_count, of_partition, row in zip(rows, values, zip(*members)):
        if of_partition not in folders:
            folders[of_partition] = naming.folder(of_partition)
        yield _slice(dict(zip(_MEMBERS, row)), row_count, of_partition, folders[of_partition], shape.table)


def _slice(
    add: dict[str, Any], rows: int | None, values: tuple[object, ...], folder: str, table: str
) -> tuple[str, FileSlice]:
    path: str = add["path"]
    tags = dict(add["tags"] or ())
    raw, version = add["deletionVector"], add["defaultRowCommitVersion"]
    vector = None if raw is None or raw["storageType"] is None else vector_of(raw)
    base = BaseFile(
        path=unquote(path) if "%" in path else path,
        logged_as=path,
        size=add["size"],
        rows=rows,
        modified=add["modificationTime"],
        base_row_id=add["baseRowId"],
        row_commit_version=version,
        form=tags.get(FORM_TAG) or "",
    )
    slice_ = FileSlice(
        group=FileGroupId(folder, tags.get(GROUP_TAG) or path),
        instant=_instant(tags, version),
        base=base,
        deletes=None if vector is None else locate(vector, table),
        partition_values=values,
    )
    return file_key(path, vector), slice_


def judged(adds: pa.StructArray, predicate: Predicate, shape: TableShape) -> Iterator[tuple[str, JudgedSlice]]:
    """The key and the slice of each add that may match, with its verdict."""
    may_match, always = judge(adds, predicate, shape)
    chosen, sure = adds.filter(may_match), always.filter(may_match)
    for (key, slice_), all_match in zip(slices_of(chosen, shape), sure.to_pylist()):
        yield key, JudgedSlice(slice_, Verdict.ALWAYS if all_match else Verdict.MAYBE)


def _instant(tags: dict[str, str], version: int | None) -> int:
    tagged = tags.get(INSTANT_TAG)
    if tagged is not None and tagged.isdigit():
        return int(tagged)
    return -1 if version is None else version


def vector_of(raw: dict[str, object]) -> DeletionVectorAction:
    """The deletion vector that a row of a checkpoint describes."""
    wanted = {key: raw.get(key) for key in ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")}
    return msgspec.convert(wanted, DeletionVectorAction)


def _statistics(
    adds: pa.StructArray, leaves: Sequence[Leaf], shape: TableShape, parts: Parts = Parts.COUNTS
) -> pa.StructArray | None:
    parsed = _child(adds, "stats_parsed")
    texts = _child(adds, "stats")
    if parsed is not None and (texts is None or parsed.null_count <= texts.null_count):
        return parsed
    if texts is None:
        return None
    alike = alike_bounds(texts, leaves, shape.schema) if parts is Parts.BOUNDS else None
    return parse_stats(texts, leaves, shape.table, parts) if alike is None else alike


def _data_bounds(adds: pa.StructArray, statistics: pa.StructArray, leaf: Leaf) -> ColumnBounds | None:
    low, high = (_leaf(statistics, bound, leaf.path) for bound in ("minValues", "maxValues"))
    null_count = _leaf(statistics, "nullCount", leaf.path)
    rows = _child(statistics, "numRecords")
    if null_count is not None:
        null_count = null_count.cast(pa.int64())
        null_count = (
            null_count if rows is None else pc.if_else(pc.is_valid(rows), null_count, pa.scalar(None, pa.int64()))
        )
    wanted = arrow_type(leaf.type)
    if low is None or high is None or pa.types.is_nested(wanted) or not _fits(low.type, wanted):
        return None if null_count is None else ColumnBounds(None, None, null_count)
    low, high = outer_bounds(low.cast(wanted), high.cast(wanted), leaf.type)
    return ColumnBounds(low, high, null_count, nan_free=_nan_free(adds, low))


def _nan_free(adds: pa.StructArray, low: pa.Array) -> pa.BooleanArray | None:
    tags = _child(adds, "tags")
    if tags is None or not pa.types.is_floating(low.type):
        return None
    # Bounds of other writers may leave NaN out, which sorts above every number. Ours have no bounds where there is one.
    return pc.and_(pc.is_valid(_lookup(tags, GROUP_TAG)), pc.is_valid(low))


def _partition_bounds(values: pa.Array, rows: pa.Array) -> ColumnBounds:
    null_count = pc.if_else(pc.is_null(values), rows, _ZERO)
    free = pc.invert(pc.is_nan(values)).fill_null(True) if pa.types.is_floating(values.type) else None
    if free is not None:
        values = pc.if_else(free, values, None)
    return ColumnBounds(values, values, null_count, nan_free=free)


def _leaf(statistics: pa.StructArray, kind: str, path: tuple[str, ...]) -> pa.Array | None:
    current: pa.Array | None = _child(statistics, kind)
    for name in path:
        if current is None or not pa.types.is_struct(current.type):
            return None
        current = _child(current, name)
    return current


def _lookup(maps: pa.MapArray, key: str) -> pa.Array:
    """The value under `key` in each map; null where there is none."""
    count = len(maps)
    start, end = (maps.offsets[index].as_py() for index in (0, count))
    # The keys and items of a slice are those of the whole array.
    keys, items = (flat.slice(start, end - start) for flat in (maps.keys, maps.items))
    if count and not maps.null_count and len(keys) and len(keys) % count == 0:
        # As a rule every map has the same keys in the same order: then they are a matrix, and a column of it is quickly had.
        width = len(keys) // count
        first = keys.slice(0, width)
        position = first.to_pylist().index(key) if key in first.to_pylist() else None
        if position is not None and keys.equals(_tiled(first, count)):
            return pc.list_element(pa.FixedSizeListArray.from_arrays(items, width), pa.scalar(position, pa.int32()))
    return pc.map_lookup(maps, key, "first")


def _tiled(pattern: pa.Array, times: int) -> pa.Array:
    """A small array repeated, by doubling."""
    tiled, count = pattern, 1
    while count < times:
        tiled = pa.concat_arrays([tiled, tiled.slice(0, min(count, times - count) * len(pattern))])
        count = min(2 * count, times)
    return tiled


def _fits(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if stored.equals(wanted):
        return True
    same_kind = (
        (pa.types.is_integer, pa.types.is_integer),
        (pa.types.is_floating, pa.types.is_floating),
        (pa.types.is_decimal, pa.types.is_decimal),
        (pa.types.is_timestamp, pa.types.is_timestamp),
    )
    return any(left(stored) and right(wanted) for left, right in same_kind)


def _child(array: pa.StructArray, name: str) -> pa.Array | None:
    """A member of a struct array with the nulls of the struct laid over it, or None when there is no such member."""
    index = array.type.get_field_index(name)
    if index < 0:
        return None
    child = array.field(index)
    return (
        pc.if_else(array.is_valid(), child, pa.scalar(None, child.type))
        if array.null_count and not pa.types.is_nested(child.type)
        else child
    )


def _list(adds: pa.StructArray, name: str) -> list[object]:
    child = _child(adds, name)
    return [None] * len(adds) if child is None else child.to_pylist()


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
