"""Checkpoints read: the few actions about the table at once, the many adds only where a predicate asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablespec.arrow.parquet import open_parquet
from tablespec.arrow.schema import arrow_type
from tablespec.arrow.stream import prefetched
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.errors import CorruptLogError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.base import JudgedSlice
from tablespec.formats.delta.actions import AddAction, Line, RemoveAction, SidecarAction
from tablespec.formats.delta.adds import TableShape, candidates, judged, needs_of, widened
from tablespec.formats.delta.codec import decode_commit
from tablespec.formats.delta.log import LOG, Checkpoint
from tablespec.formats.delta.stats_json import Leaf, json_of_parsed
from tablespec.storage.store import FileInfo, Storage

BATCH_ROWS = 32_768
# A row group of this many rows is read at once; larger ones in batches, so that memory stays bounded.
SMALL_GROUP = 65_536

# Columns of an add that a slice is made of, besides partition values and statistics.
_SLICE_COLUMNS = (
    "path",
    "size",
    "modificationTime",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)
_TABLE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
# A leaf that is never null when its action is there.
_MARKS = {
    "protocol": "protocol.minReaderVersion",
    "metaData": "metaData.id",
    "txn": "txn.appId",
    "domainMetadata": "domainMetadata.domain",
    "sidecar": "sidecar.path",
    "add": "add.path",
    "remove": "remove.path",
}


@attrs.frozen(kw_only=True)
class CheckpointState:
    """A checkpoint: the actions about the table, and where its file actions lie."""

    version: int
    lines: tuple[Line, ...]
    files: tuple[str, ...]


def read_checkpoint(storage: Storage, checkpoint: Checkpoint) -> CheckpointState:
    """What a checkpoint says about the table; its adds stay where they are."""
    lines: list[Line] = []
    files: list[str] = []
    for part in checkpoint.files:
        if part.path.endswith(".json"):
            lines += decode_commit(storage.read(part.path), storage.url, part.path)
        else:
            lines += _table_lines(storage, part)
            files.append(part.path)
    sidecars = [line.sidecar for line in lines if line.sidecar is not None]
    if sidecars:
        files = [_sidecar_path(sidecar) for sidecar in sidecars]
    return CheckpointState(version=checkpoint.version, lines=tuple(lines), files=tuple(files))


def judged_adds(
    storage: Storage, path: str, predicate: Predicate, shape: TableShape
) -> Iterator[tuple[str, JudgedSlice]]:
    """The key and the slice of every add in a checkpoint file that may match."""
    with _open(storage, path) as file:
        leaves = _leaf_indexes(file)
        if "add.path" not in leaves:
            return
        for group in _chosen_groups(file, leaves, predicate, shape):
            yield from _judged_in_group(file, leaves, group, predicate, shape)


def add_rows(
    storage: Storage, path: str, predicate: Predicate, shape: TableShape
) -> Iterator[tuple[pa.StructArray, list[AddAction]]]:
    """The adds of a checkpoint file that may match, whole: in columns and as actions."""
    with _open(storage, path) as file:
        leaves = _leaf_indexes(file)
        if "add.path" not in leaves:
            return
        for group in _chosen_groups(file, leaves, predicate, shape):
            judging = _judging_columns(file, leaves, predicate, shape)
            rows = candidates(_whole_group(file, group, judging), predicate, shape)
            if len(rows):
                adds = _whole_group(file, group, ["add"]).take(rows)
                yield adds, [_action(row) for row in _rows(adds)]


def _action(row: dict[str, object]) -> AddAction:
    if row.get("stats") is None and row.get("stats_parsed") is not None:
        parsed = row["stats_parsed"]
        assert isinstance(parsed, dict)
        row["stats"] = json_of_parsed(parsed)
    return msgspec.convert(_without_nulls(row), AddAction, strict=False)


def add_batches(storage: Storage, path: str) -> Iterator[pa.StructArray]:
    """All adds of a checkpoint file with all their fields, in batches."""
    yield from _action_batches(storage, path, "add")


def removes(storage: Storage, path: str) -> Iterator[RemoveAction]:
    """The tombstones in a checkpoint file."""
    for batch in _action_batches(storage, path, "remove"):
        for row in _rows(batch):
            yield msgspec.convert(_without_nulls(row), RemoveAction, strict=False)


def _without_nulls(value: dict[str, object]) -> dict[str, object]:
    # Members that are null are absent; values of maps may be null and stay.
    return {
        key: _without_nulls(item) if isinstance(item, dict) and key in ("format", "deletionVector") else item
        for key, item in value.items()
        if item is not None
    }


def _open(storage: Storage, path: str) -> pq.ParquetFile:
    try:
        return open_parquet(storage, path)
    except FileNotFoundError as error:
        raise CorruptLogError(storage.url, path, 0, "the file of this checkpoint is missing") from error
    except pa.ArrowInvalid as error:
        raise CorruptLogError(storage.url, path, 0, f"the checkpoint cannot be read ({error})") from error


def _sidecar_path(sidecar: SidecarAction) -> str:
    path = unquote(sidecar.path)
    return path if "://" in path or path.startswith("/") else f"{LOG}/_sidecars/{path}"


def _table_lines(storage: Storage, part: FileInfo) -> list[Line]:
    lines: list[Line] = []
    with _open(storage, part.path) as file:
        leaves = _leaf_indexes(file)
        for column in _TABLE_ACTIONS:
            if _MARKS[column] not in leaves:
                continue
            for group in _groups_with(file, leaves[_MARKS[column]]):
                values = file.read_row_group(group, columns=[column]).column(column)
                rows = values.filter(pc.is_valid(pc.struct_field(values, _MARKS[column].split(".")[1])))
                lines += [_line(storage, part, column, row) for row in _rows(rows)]
    return lines


def _rows(array: pa.Array | pa.ChunkedArray) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = array.to_pylist(maps_as_pydicts="lossy")
    return rows


def _line(storage: Storage, part: FileInfo, column: str, row: dict[str, object]) -> Line:
    try:
        return msgspec.convert({column: _without_nulls(row)}, Line, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptLogError(storage.url, part.path, 0, str(error)) from error


def _leaf_indexes(file: pq.ParquetFile) -> dict[str, int]:
    return {file.schema.column(index).path: index for index in range(file.metadata.num_columns)}


def _groups_with(file: pq.ParquetFile, leaf: int) -> list[int]:
    """The row groups in which a leaf column is not null throughout, as far as the footer can tell."""
    return [group for group in range(file.metadata.num_row_groups) if _present(file, group, leaf) != 0]


def _present(file: pq.ParquetFile, group: int, leaf: int) -> int | None:
    metadata = file.metadata.row_group(group)
    statistics = metadata.column(leaf).statistics
    if statistics is None or not statistics.has_null_count:
        return None
    return int(metadata.num_rows - statistics.null_count)


def _chosen_groups(
    file: pq.ParquetFile, leaves: dict[str, int], predicate: Predicate, shape: TableShape
) -> Sequence[int]:
    groups = _groups_with(file, leaves["add.path"])
    if predicate == TRUE or not groups:
        return groups
    present = [_present(file, group, leaves["add.path"]) for group in groups]
    rows = pa.array([1 if count is None else count for count in present], pa.int64())

    def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
        leaf = shape.leaf(path)
        if path[0] in shape.partition_columns:
            index = leaves.get(f"add.partitionValues_parsed.{leaf.path[0]}")
            return (
                None
                if index is None
                else _group_bounds(file, groups, present, (index, index), arrow_type(leaf.type), nulls=True)
            )
        indexes = [leaves.get(f"add.stats_parsed.{kind}.{'.'.join(leaf.path)}") for kind in ("minValues", "maxValues")]
        if None in indexes:
            return None
        bounds = _group_bounds(file, groups, present, (indexes[0], indexes[1]), arrow_type(leaf.type), nulls=False)
        return None if bounds is None else attrs.evolve(bounds, max=widened(bounds.max, leaf.type))

    may_match, _ = verdicts(predicate, bounds_of, rows, len(groups))
    return [group for group, chosen in zip(groups, may_match.to_pylist()) if chosen]


def _group_bounds(
    file: pq.ParquetFile,
    groups: Sequence[int],
    present: Sequence[int | None],
    indexes: tuple[int | None, int | None],
    wanted: pa.DataType,
    *,
    nulls: bool,
) -> ColumnBounds | None:
    """Bounds over all adds of each row group; unknown where an add lacks them (`nulls` says that null is a value of its own)."""
    lows: list[object] = []
    highs: list[object] = []
    counts: list[int | None] = []
    for group, adds in zip(groups, present):
        low, high = (file.metadata.row_group(group).column(index).statistics for index in indexes)
        known = adds is not None and all(
            one is not None and one.has_min_max and one.has_null_count for one in (low, high)
        )
        missing = None if adds is None or not known else adds - min(_values(file, group, one) for one in (low, high))
        usable = missing is not None and (nulls or missing == 0)
        lows.append(low.min if usable else None)
        highs.append(high.max if usable else None)
        counts.append(missing if nulls else None)
    try:
        low_array, high_array = pa.array(lows, wanted), pa.array(highs, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None
    return ColumnBounds(low_array, high_array, pa.array(counts, pa.int64()))


def _values(file: pq.ParquetFile, group: int, statistics: pq.Statistics) -> int:
    return int(file.metadata.row_group(group).num_rows - statistics.null_count)


def _judged_in_group(
    file: pq.ParquetFile, leaves: dict[str, int], group: int, predicate: Predicate, shape: TableShape
) -> Iterator[tuple[str, JudgedSlice]]:
    judging = _judging_columns(file, leaves, predicate, shape)
    columns = list(dict.fromkeys([*_slice_columns(file, leaves, group, predicate, shape), *judging]))
    if file.metadata.row_group(group).num_rows > SMALL_GROUP:
        batches = file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=columns)
        for batch in prefetched(batches):
            adds = batch.column("add")
            chosen = adds.take(candidates(adds, predicate, shape))
            yield from judged(chosen, predicate, shape)
        return
    rows = candidates(_whole_group(file, group, judging), predicate, shape)
    if len(rows):
        yield from judged(_whole_group(file, group, columns).take(rows), predicate, shape)


def _whole_group(file: pq.ParquetFile, group: int, columns: Sequence[str]) -> pa.StructArray:
    return file.read_row_group(group, columns=list(columns), use_threads=False).column("add").combine_chunks()


def _slice_columns(
    file: pq.ParquetFile, leaves: dict[str, int], group: int, predicate: Predicate, shape: TableShape
) -> list[str]:
    columns = [f"add.{name}" for name in _SLICE_COLUMNS if _filled(file, leaves, group, f"add.{name}")]
    columns += [_partition_source(file, shape.leaf((name,))) for name in shape.partition_columns]
    if "add.stats_parsed.numRecords" in leaves:
        columns.append("add.stats_parsed.numRecords")
    elif predicate == TRUE or needs_of(predicate, shape).data:
        # Decoding the texts of all files for the row counts of a few is most of the work; without them the counts stay unknown.
        columns.append("add.stats")
    return list(dict.fromkeys(columns))


def _filled(file: pq.ParquetFile, leaves: dict[str, int], group: int, column: str) -> bool:
    """Whether a column has values in a row group, as far as the footer can tell."""
    indexes = [index for path, index in leaves.items() if path == column or path.startswith(f"{column}.")]
    return any(_present(file, group, index) != 0 for index in indexes)


def _partition_source(file: pq.ParquetFile, leaf: Leaf) -> str:
    usable = _parsed_type(file, leaf.path[0]) == arrow_type(leaf.type)
    return f"add.partitionValues_parsed.{leaf.path[0]}" if usable else "add.partitionValues"


def _judging_columns(
    file: pq.ParquetFile, leaves: dict[str, int], predicate: Predicate, shape: TableShape
) -> list[str]:
    needs = needs_of(predicate, shape)
    columns = ["add.path", *(_partition_source(file, shape.leaf(path)) for path in needs.partitions)]
    if needs.data and "add.stats_parsed.numRecords" in leaves:
        columns += ["add.stats_parsed.numRecords", "add.tags"]
        for path in needs.data:
            stored = ".".join(shape.leaf(path).path)
            columns += [f"add.stats_parsed.{kind}.{stored}" for kind in ("minValues", "maxValues", "nullCount")]
    elif needs.data:
        columns += ["add.stats", "add.tags"]
    return list(dict.fromkeys(columns))


def _parsed_type(file: pq.ParquetFile, column: str) -> pa.DataType | None:
    add = file.schema_arrow.field("add").type
    index = add.get_field_index("partitionValues_parsed")
    if index < 0 or add.field(index).type.get_field_index(column) < 0:
        return None
    return add.field(index).type.field(column).type


def _action_batches(storage: Storage, path: str, name: str) -> Iterator[pa.StructArray]:
    with _open(storage, path) as file:
        leaves = _leaf_indexes(file)
        if _MARKS[name] not in leaves:
            return
        for group in _groups_with(file, leaves[_MARKS[name]]):
            for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=[name]):
                array = batch.column(name)
                yield array.filter(pc.is_valid(array.field("path")))
