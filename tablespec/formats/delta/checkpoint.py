"""Checkpoints read: the few actions about the table at once, the many adds only where a predicate asks for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.stream import worked_ahead
from tablespec.errors import CorruptLogError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.base import JudgedSlice
from tablespec.formats.delta.actions import AddAction, Line, RemoveAction, SidecarAction
from tablespec.formats.delta.adds import TableShape, candidates, judged, needs_of, slices_of
from tablespec.formats.delta.checkpoint_file import BATCH_ROWS, GONE, MARKS, CheckpointFile
from tablespec.formats.delta.codec import decode_commit
from tablespec.formats.delta.log import LOG, Checkpoint
from tablespec.formats.delta.stats_json import json_of_parsed
from tablespec.model.file import FileSlice
from tablespec.model.schema import DOUBLE, FLOAT
from tablespec.storage.store import FileInfo, Storage

# Columns of an add that a slice is made of, besides partition values and statistics.
_SLICE_COLUMNS = ("path", "size", "modificationTime", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_TABLE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "sidecar")
_VECTOR = "add.deletionVector.storageType"


@attrs.frozen(kw_only=True, eq=False)
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
            lines += decode_commit(_read(storage, part.path), storage.url, part.path)
        else:
            with CheckpointFile.open(storage, part.path) as opened:
                lines += _table_lines(storage, part, opened)
            files.append(part.path)
    sidecars = [line.sidecar for line in lines if line.sidecar is not None]
    if sidecars:
        files = [_sidecar_path(sidecar) for sidecar in sidecars]
        # One that is missing is found out now, while the commits may still stand in for the checkpoint.
        for path in files:
            CheckpointFile.open(storage, path).file.close()
    return CheckpointState(version=checkpoint.version, lines=tuple(lines), files=tuple(files))


def read_whole_checkpoint(storage: Storage, checkpoint: Checkpoint) -> None:
    """Read all of a checkpoint, adds and tombstones too, and raise CorruptLogError where that cannot be done."""
    for path in read_checkpoint(storage, checkpoint).files:
        for _ in itertools.chain(add_batches(storage, path), removes(storage, path)):
            pass


def judged_adds(
    storage: Storage, path: str, predicate: Predicate, shape: TableShape
) -> Iterator[tuple[str, JudgedSlice]]:
    """The key and the slice of every add in a checkpoint file that may match."""
    with CheckpointFile.open(storage, path) as opened:
        if opened.has("add"):
            columns = _judging_columns(opened, predicate, shape)
            for group, rows, adds in _candidates(opened, columns, predicate, shape):
                rest = _without(_slice_columns(opened, group, predicate, shape), columns)
                yield from judged(_joined(adds, _taken(opened, group, rest, rows)), predicate, shape)


def surveyed_adds(storage: Storage, path: str, shape: TableShape) -> tuple[int, list[tuple[str, FileSlice]]]:
    """The bytes of all files that a checkpoint file adds, and the key and the slice of each that has a deletion vector."""
    total, found = 0, list[tuple[str, FileSlice]]()
    with CheckpointFile.open(storage, path) as opened:
        for group in opened.groups_with("add") if opened.has("add") else ():
            columns = ["add.size", *([_VECTOR] if opened.filled(group, _VECTOR) else [])]
            rows = []
            for start, adds in opened.batches(group, "add", columns):
                total += pc.sum(pc.struct_field(adds, "size")).as_py() or 0
                if len(columns) > 1:
                    with_vector = pc.is_valid(pc.struct_field(adds, ["deletionVector", "storageType"]))
                    rows.append(pc.add(pc.indices_nonzero(with_vector).cast(pa.int64()), start))
            chosen = pa.concat_arrays(rows) if rows else ()
            if len(chosen):
                found += slices_of(_taken(opened, group, _slice_columns(opened, group, TRUE, shape), chosen), shape)
    return total, found


def add_rows(
    storage: Storage, path: str, predicate: Predicate, shape: TableShape
) -> Iterator[tuple[pa.StructArray, list[AddAction]]]:
    """The adds of a checkpoint file that may match, whole: in columns and as actions."""
    with CheckpointFile.open(storage, path) as opened:
        if not opened.has("add"):
            return
        columns = _judging_columns(opened, predicate, shape)
        for group, rows, _ in _candidates(opened, columns, predicate, shape):
            adds = _taken(opened, group, ["add"], rows)
            yield adds, [_action(row) for row in _rows(_told_once(adds))]


def add_batches(storage: Storage, path: str) -> Iterator[pa.StructArray]:
    """All adds of a checkpoint file with all their fields, in batches."""
    yield from _action_batches(storage, path, "add")


def removes(storage: Storage, path: str) -> Iterator[RemoveAction]:
    """The tombstones in a checkpoint file."""
    for batch in _action_batches(storage, path, "remove"):
        for row in _rows(batch):
            yield msgspec.convert(_without_nulls(row), RemoveAction, strict=False)


def _told_once(adds: pa.StructArray) -> pa.StructArray:
    """Adds without what they tell a second time in columns of their own, of which objects are dear to make."""
    names = [field.name for field in adds.type]
    twice = {"partitionValues_parsed"}
    if "stats" in names and not adds.field("stats").null_count:
        twice.add("stats_parsed")
    left = [name for name in names if name not in twice]
    return pa.StructArray.from_arrays([adds.field(name) for name in left], left)


def _action(row: dict[str, object]) -> AddAction:
    if row.get("stats") is None and row.get("stats_parsed") is not None:
        parsed = row["stats_parsed"]
        assert isinstance(parsed, dict)
        row["stats"] = json_of_parsed(parsed)
    return msgspec.convert(_without_nulls(row), AddAction, strict=False)


def _without_nulls(value: dict[str, object]) -> dict[str, object]:
    # Members that are null are absent; values of maps may be null and stay.
    return {
        key: _without_nulls(item) if isinstance(item, dict) and key in ("format", "deletionVector") else item
        for key, item in value.items()
        if item is not None
    }


def _read(storage: Storage, path: str) -> bytes:
    try:
        return storage.read(path)
    except FileNotFoundError as error:
        raise CorruptLogError(storage.url, path, 0, GONE) from error


def _sidecar_path(sidecar: SidecarAction) -> str:
    path = unquote(sidecar.path)
    return path if "://" in path or path.startswith("/") else f"{LOG}/_sidecars/{path}"


def _table_lines(storage: Storage, part: FileInfo, opened: CheckpointFile) -> list[Line]:
    lines: list[Line] = []
    wanted: dict[int, list[str]] = {}
    for column in _TABLE_ACTIONS:
        if opened.has(column):
            for group in opened.groups_with(column):
                wanted.setdefault(group, []).append(column)
    for group, columns in wanted.items():
        missing = {column: opened.present(group, opened.leaves[MARKS[column]]) for column in columns}
        for batch in opened.read(group, columns):
            for column in columns:
                values = batch.column(column)
                present = values.filter(pc.is_valid(pc.struct_field(values, MARKS[column].split(".")[1])))
                lines += [_line(storage, part, column, row) for row in _rows(present)]
                missing[column] = None if (count := missing[column]) is None else count - len(present)
            if not any(count is None or count for count in missing.values()):
                break
    return lines


def _rows(array: pa.Array | pa.ChunkedArray) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = array.to_pylist(maps_as_pydicts="lossy")
    return rows


def _line(storage: Storage, part: FileInfo, column: str, row: dict[str, object]) -> Line:
    try:
        return msgspec.convert({column: _without_nulls(row)}, Line, strict=False)
    except msgspec.ValidationError as error:
        raise CorruptLogError(storage.url, part.path, 0, str(error)) from error


def _candidates(
    opened: CheckpointFile, columns: Sequence[str], predicate: Predicate, shape: TableShape
) -> Iterator[tuple[int, pa.Array, pa.StructArray]]:
    """For each row group with adds that may match: its number, their rows in it, and some of their columns."""
    groups = opened.chosen_groups(predicate, shape)
    batches = ((group, start, adds) for group in groups for start, adds in opened.batches(group, "add", columns))

    def chosen(batch: tuple[int, int, pa.StructArray]) -> tuple[int, pa.Array, pa.StructArray]:
        group, start, adds = batch
        rows = candidates(adds, predicate, shape)
        return group, pc.add(rows.cast(pa.int64()), pa.scalar(start, pa.int64())), adds.take(rows)

    small = sum(opened.rows(group) for group in groups) <= BATCH_ROWS
    found = map(chosen, batches) if small else worked_ahead(chosen, batches)
    for group, parts in itertools.groupby(found, lambda part: part[0]):
        chunks = [(rows, adds) for _, rows, adds in parts if len(rows)]
        if chunks:
            yield group, pa.concat_arrays([rows for rows, _ in chunks]), pa.concat_arrays([adds for _, adds in chunks])


def _taken(opened: CheckpointFile, group: int, columns: Sequence[str], rows: pa.Array) -> pa.StructArray:
    """Some columns of the adds in these rows of a row group."""
    taken, done = [], 0
    for start, adds in opened.batches(group, "add", columns):
        here = rows.slice(done)
        first, end = (pa.scalar(row, pa.int64()) for row in (start, start + len(adds)))
        here = pc.subtract(here.filter(pc.less(here, end)), first)
        taken.append(adds.take(here))
        done += len(here)
        if done == len(rows):
            break
    return pa.concat_arrays(taken)


def _without(columns: Sequence[str], read: Sequence[str]) -> list[str]:
    """The columns of those members of an add of which something has not been read yet."""
    missing = {column.split(".")[1] for column in columns if column not in read}
    return [column for column in dict.fromkeys([*columns, *read]) if column.split(".")[1] in missing]


def _joined(adds: pa.StructArray, more: pa.StructArray) -> pa.StructArray:
    """The members of two arrays over the same adds; where both have one, the second counts."""
    members = {field.name: array.field(index) for array in (adds, more) for index, field in enumerate(array.type)}
    return pa.StructArray.from_arrays(list(members.values()), list(members))


def _slice_columns(opened: CheckpointFile, group: int, predicate: Predicate, shape: TableShape) -> list[str]:
    columns = [f"add.{name}" for name in _SLICE_COLUMNS if opened.filled(group, f"add.{name}")]
    columns += [opened.partition_source(shape.leaf((name,))) for name in shape.partition_columns]
    if "add.stats_parsed.numRecords" in opened.leaves:
        columns.append("add.stats_parsed.numRecords")
    elif predicate == TRUE or needs_of(predicate, shape).data:
        # Decoding the texts of all files for the row counts of a few is most of the work; without them the counts stay unknown.
        columns.append("add.stats")
    return list(dict.fromkeys(columns))


def _judging_columns(opened: CheckpointFile, predicate: Predicate, shape: TableShape) -> list[str]:
    needs = needs_of(predicate, shape)
    leaves = [shape.leaf(path) for path in needs.data]
    columns = [opened.partition_source(shape.leaf(path)) for path in needs.partitions]
    if leaves and "add.stats_parsed.numRecords" in opened.leaves:
        columns.append("add.stats_parsed.numRecords")
        for leaf in leaves:
            stored = ".".join(leaf.path)
            columns += [f"add.stats_parsed.{kind}.{stored}" for kind in ("minValues", "maxValues", "nullCount")]
    elif leaves:
        columns.append("add.stats")
    if any(leaf.type in (FLOAT, DOUBLE) for leaf in leaves):
        # Tags tell whose bounds leave NaN out.
        columns.append("add.tags")
    return list(dict.fromkeys([opened.mark_of_adds(columns), *columns]))


def _action_batches(storage: Storage, path: str, name: str) -> Iterator[pa.StructArray]:
    with CheckpointFile.open(storage, path) as opened:
        if not opened.has(name):
            return
        for group in opened.groups_with(name):
            for _, array in opened.batches(group, name, [name]):
                yield array.filter(pc.is_valid(pc.struct_field(array, "path")))
