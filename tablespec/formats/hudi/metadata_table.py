"""The metadata table: an index that Hudi keeps beside a table; it may be left aside, and never counts more than the timeline."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import repeat
from typing import Any

import attrs
import pyarrow as pa

from tablespec.errors import CorruptFileError
from tablespec.formats.hudi.avro_columns import decode_records
from tablespec.formats.hudi.file_columns import FileColumns
from tablespec.formats.hudi.file_records import DroppedRecords, FileRecords, decode_file_records, merged
from tablespec.formats.hudi.hfile import Entries, HFile, read_hfile
from tablespec.formats.hudi.instant_time import DIGITS
from tablespec.formats.hudi.log_file import BlockType, LogBlock, blocks_of
from tablespec.formats.hudi.log_records import deleted_keys
from tablespec.formats.hudi.log_scan import counting
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.slices import group_files, slices_at
from tablespec.formats.hudi.timeline import ActiveTimeline, Visibility, parse_timeline, visibility_of
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.storage.store import Storage

FILES, RECORD_INDEX, COLUMN_STATS, PARTITION_STATS = "files", "record_index", "column_stats", "partition_stats"
_FOLDER = ".hoodie/metadata"
# Its record says nothing that those of the partitions do not.
_ALL_PARTITIONS = b"__all_partitions__"
_UNPARTITIONED = "."
_HALF = 1 << 64
_AS_TEXT = 1
_LOCATION = "recordIndexMetadata"
# Where each partition of the table has shards of its own, they are named otherwise.
_SHARD = "record-index-{:04}-0"


@attrs.frozen(eq=False)
class _Source:
    """Records of one file or block: values by key, or keys that are deleted where there are none."""

    keys: tuple[str, ...]
    values: list[Any] | None


@attrs.frozen(eq=False)
class LocatedKeys:
    """The file groups of those record keys that the index knows, and how many keys it knows altogether."""

    groups: dict[str, FileGroupId]
    entries: int


@attrs.frozen(eq=False)
class ColumnStat:
    """What the index knows of a column of a file, or of a partition; bounds are None where it knows none."""

    file: str
    column: str
    low: object
    high: object
    nulls: int | None
    rows: int | None


@attrs.frozen(kw_only=True)
class MetadataTable:
    """The index of a table, as far as it is valid for what is completed on the table's own timeline."""

    storage: Storage
    partitions: frozenset[str]
    visibility: Visibility

    def files(self) -> FileColumns:
        """All files of the table outside of .hoodie, without the time of their change."""
        sources: list[FileRecords | DroppedRecords] = []
        for slice_ in self._slices(FILES):
            for base in [] if slice_.base is None else [slice_.base]:
                with self._sound(base.path):
                    file = HFile.of(self.storage.read(base.path))
                    sources.append(_file_records(file.entries(), file.schema()))
            with self._sound_logs(slice_):
                sources += [_listed_in_block(block) for block in self._blocks(slice_)]
        return merged(sources)

    def located(self, keys: Iterable[str]) -> LocatedKeys | None:
        """The file groups that hold these record keys; None where the index is laid out in another way.

        Of rows that share a key only the last one is known.
        """
        groups = self._slices(RECORD_INDEX)
        if not groups or [slice_.group.id for slice_ in groups] != [_SHARD.format(n) for n in range(len(groups))]:
            return None
        shards: dict[int, set[str]] = {number: set() for number in range(len(groups))}
        for key in keys:
            shards[abs(_java_hash(key)) % len(groups)].add(key)
        found = [self._located(groups[number], wanted) for number, wanted in shards.items()]
        return LocatedKeys(
            {key: group for one in found for key, group in one.groups.items()}, sum(one.entries for one in found)
        )

    def _located(self, shard: FileSlice, wanted: set[str]) -> LocatedKeys:
        """The wanted keys of a shard; what its logs say of any key is looked at, since it may be new or gone."""
        logged: dict[str, FileGroupId | None] = {}
        for source in self._logged(shard, _LOCATION):
            told = source.values or repeat(None)
            logged |= {key: None if entry is None else _location(entry) for key, entry in zip(source.keys, told)}
        stored: dict[str, FileGroupId] = {}
        entries = 0
        for base, source in self._stored(shard, _LOCATION, wanted | set(logged)):
            assert source.values is not None
            stored = {key: _location(entry) for key, entry in zip(source.keys, source.values) if entry}
            entries = base.count
        entries += sum((group is not None) - (key in stored) for key, group in logged.items())
        known = {key: group for key, group in (stored | logged).items() if key in wanted and group is not None}
        return LocatedKeys(known, entries)

    def column_stats(self, columns: frozenset[str]) -> list[ColumnStat]:
        """What is known of these columns, file by file."""
        return [stats[-1] for stats in self._stats(COLUMN_STATS, columns)]

    def partition_stats(self, columns: frozenset[str]) -> list[ColumnStat]:
        """What is known of these columns, partition by partition: the bounds of all records, which are never too narrow.

        A record may be about all files of its partition or only about those that one write made.
        """
        return [_spanning(stats) for stats in self._stats(PARTITION_STATS, columns)]

    def _stats(self, partition: str, columns: frozenset[str]) -> Iterable[list[ColumnStat]]:
        """The records of every key that is there, oldest first."""
        found: dict[str, list[ColumnStat]] = {}
        for source in self._sources(partition, "ColumnStatsMetadata"):
            for key, entry in zip(source.keys, source.values or repeat(None)):
                if entry is None or entry["isDeleted"]:
                    found.pop(key, None)
                elif entry["columnName"] in columns:
                    found.setdefault(key, []).append(_column_stat(entry))
        return found.values()

    def size_of(self, partition: str) -> int:
        """The bytes of the current files of a partition of the index."""
        return sum(slice_.size for slice_ in self._slices(partition))

    def _sources(self, partition: str, column: str) -> Iterator[_Source]:
        """All records of a partition, those of a slice oldest first."""
        for slice_ in self._slices(partition):
            yield from (source for _, source in self._stored(slice_, column, None))
            yield from self._logged(slice_, column)

    def _slices(self, partition: str) -> list[FileSlice]:
        """The current slices of a partition, in the order of their file groups."""
        _, files = self.storage.list_folder(f"{_FOLDER}/{partition}")
        found = slices_at(group_files(files), self.visibility, frozenset())
        return sorted(found, key=lambda slice_: slice_.group.id)

    def _stored(self, slice_: FileSlice, column: str, wanted: set[str] | None) -> Iterator[tuple[HFile, _Source]]:
        """The base file of a slice, where it has one, with the wanted records."""
        if slice_.base is None:
            return
        path = slice_.base.path
        with self._sound(path):
            if wanted is None:
                file = HFile.of(self.storage.read(path))
            else:
                file = HFile.open(partial(self.storage.read_range, path), slice_.base.size)
            source = _source(file.entries(wanted), file.schema(), column, wanted)
        yield file, source

    def _logged(self, slice_: FileSlice, column: str) -> Iterator[_Source]:
        """The records of the logs of a slice, oldest first."""
        with self._sound_logs(slice_):
            sources = [_of_block(block, column) for block in self._blocks(slice_)]
        yield from sources

    def _blocks(self, slice_: FileSlice) -> list[LogBlock]:
        """The blocks of the logs of a slice that count, oldest first."""
        blocks: list[LogBlock] = []
        for log in slice_.logs:
            with self._sound(log.path):
                found = list(blocks_of(self.storage.read(log.path)))
                if not all(isinstance(block, LogBlock) for block in found):
                    raise ValueError("it holds bytes that make no whole block")
                blocks += [block for block in found if isinstance(block, LogBlock)]
        return counting(blocks, self.visibility.sees)

    def _sound_logs(self, slice_: FileSlice) -> AbstractContextManager[None]:
        return self._sound(slice_.logs[-1].path if slice_.logs else "")

    @contextmanager
    def _sound(self, path: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, FileNotFoundError) as error:
            raise CorruptFileError(self.storage.url, path, str(error)) from error


def load_metadata_table(storage: Storage, table: TableProperties, active: ActiveTimeline) -> MetadataTable | None:
    """The metadata table, or None where the table says that it has none that lists files, or it does not know the newest write."""
    entries = dict(table.entries)
    there, begun = (
        {name.strip() for name in entries.get(f"hoodie.table.metadata.partitions{suffix}", "").split(",")}
        for suffix in ("", ".inflight")
    )
    if FILES not in there - begun:
        return None
    folder = f"{_FOLDER}/.hoodie/timeline" if table.layout == 2 else f"{_FOLDER}/.hoodie"
    _, files = storage.list_folder(folder)
    timeline = parse_timeline((file.path for file in files), layout=table.layout)
    # Old releases give upkeep of the index longer numbers, which do not order among the others.
    if not timeline.writes or any(len(str(action.request)) > DIGITS for action in timeline.completed):
        return None
    seen = [action for action in timeline.writes if action.request not in active.pending]
    if not _is_up_to_date(timeline, active):
        return None
    return MetadataTable(
        storage=storage,
        partitions=frozenset(there - begun),
        visibility=visibility_of(timeline, seen, layout=table.layout),
    )


def _is_up_to_date(timeline: ActiveTimeline, active: ActiveTimeline) -> bool:
    """Whether the index knows the newest write of the table: it has an action of the same time, or was made after it."""
    if not active.writes:
        return True
    newest = active.writes[-1]
    if any(action.request == newest.request for action in timeline.writes):
        return True
    made = [action.completion for action in timeline.writes if action.completion is not None]
    return newest.completion is not None and any(completion >= newest.completion for completion in made)


def _listed_in_block(block: LogBlock) -> FileRecords | DroppedRecords:
    if block.type is BlockType.DELETE:
        return DroppedRecords(tuple(map(_folder, deleted_keys(block))))
    return _file_records(_entries(block), block.schema)


def _file_records(entries: Entries, schema: str) -> FileRecords:
    chosen = [number for number, key in enumerate(entries.keys) if key != _ALL_PARTITIONS]
    keys = [_folder(entries.keys[number].decode()) for number in chosen]
    starts, ends = ([bounds[number] for number in chosen] for bounds in (entries.starts, entries.ends))
    return decode_file_records(entries.data, keys, starts, ends, schema)


def _folder(key: str) -> str:
    return "" if key == _UNPARTITIONED else key


def _of_block(block: LogBlock, column: str) -> _Source:
    if block.type is BlockType.DELETE:
        return _Source(tuple(deleted_keys(block)), None)
    return _source(_entries(block), block.schema, column, None)


def _entries(block: LogBlock) -> Entries:
    if block.type is not BlockType.HFILE:
        raise ValueError(f"it holds a block of type {block.type.name}")
    return read_hfile(block.content)


def _source(entries: Entries, schema: str, column: str, wanted: set[str] | None) -> _Source:
    """The wanted records, with the one member of their value that the partition is about."""
    keys = [key.decode() for key in entries.keys]
    chosen = [number for number, key in enumerate(keys) if wanted is None or key in wanted]
    if not chosen:
        return _Source((), [])
    starts, ends = (
        pa.array([bounds[number] for number in chosen], pa.int64()) for bounds in (entries.starts, entries.ends)
    )
    batch = decode_records(memoryview(entries.data), starts, ends, schema, frozenset({column}))
    if column not in batch.schema.names:
        raise ValueError(f"its records have no {column}")
    return _Source(tuple(keys[number] for number in chosen), batch.column(column).to_pylist())


def _location(entry: dict[str, object]) -> FileGroupId:
    partition = _folder(str(entry["partitionName"]))
    if entry.get("fileIdEncoding") == _AS_TEXT:
        return FileGroupId(partition, str(entry["fileId"]))
    high, low, index = (int(str(entry[name])) for name in ("fileIdHighBits", "fileIdLowBits", "fileIndex"))
    name = str(uuid.UUID(int=(high % _HALF) * _HALF + low % _HALF))
    return FileGroupId(partition, f"{name}-{index}" if index >= 0 else name)


def _column_stat(entry: dict[str, object]) -> ColumnStat:
    nulls, rows = entry["nullCount"], entry["valueCount"]
    return ColumnStat(
        str(entry["fileName"]),
        str(entry["columnName"]),
        _unwrapped(entry["minValue"]),
        _unwrapped(entry["maxValue"]),
        nulls if isinstance(nulls, int) else None,
        rows if isinstance(rows, int) else None,
    )


def _spanning(stats: list[ColumnStat]) -> ColumnStat:
    """The bounds around those of several records; without any where one of them does not tell its own."""
    # Where all values are null there are no bounds, or ones that mean nothing.
    told = [stat for stat in stats if stat.nulls is None or stat.nulls != stat.rows]
    values = [value for stat in told for value in (stat.low, stat.high)]
    unknown = attrs.evolve(stats[-1], nulls=None, rows=None, low=None, high=None)
    for kind in (int, str):
        typed = [value for value in values if isinstance(value, kind)]
        if typed and len(typed) == len(values):
            return attrs.evolve(unknown, low=min(typed), high=max(typed))
    return unknown


def _unwrapped(wrapped: object) -> object:
    """The value in the one branch of a union that is taken; None for values of several parts."""
    taken = [one for one in wrapped.values() if one is not None] if isinstance(wrapped, dict) else []
    return taken[0].get("value") if len(taken) == 1 and isinstance(taken[0], dict) else None


def _java_hash(text: str) -> int:
    """What String.hashCode gives in Java."""
    value = 0
    encoded = text.encode("utf-16-be")
    for place in range(0, len(encoded), 2):
        value = (value * 31 + int.from_bytes(encoded[place : place + 2])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
