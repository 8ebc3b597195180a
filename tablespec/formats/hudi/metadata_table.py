"""The metadata table: an index that Hudi keeps beside a table; it may be left aside, and never counts more than the timeline."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

import attrs
import pyarrow as pa

from tablespec.errors import CorruptFileError
from tablespec.formats.hudi.avro_columns import decode_records
from tablespec.formats.hudi.hfile import Entries, file_schema, read_hfile
from tablespec.formats.hudi.instant_time import DIGITS
from tablespec.formats.hudi.listing import group_files, slices_at
from tablespec.formats.hudi.log_file import BlockType, LogBlock, blocks_of
from tablespec.formats.hudi.log_records import deleted_keys
from tablespec.formats.hudi.log_scan import counting
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.timeline import ActiveTimeline, Visibility, parse_timeline, visibility_of
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.storage.store import FileInfo, Storage

FILES, RECORD_INDEX, COLUMN_STATS = "files", "record_index", "column_stats"
_FOLDER = ".hoodie/metadata"
_ALL_PARTITIONS = "__all_partitions__"
_UNPARTITIONED = "."
_HALF = 1 << 64
_AS_TEXT = 1


@attrs.frozen(eq=False)
class _Source:
    """Records of one file or block: values by key, or keys that are deleted where there are none."""

    keys: tuple[str, ...]
    values: pa.Array | None


@attrs.frozen(eq=False)
class ColumnStat:
    """What the index knows of a column of a file; bounds are None where it knows none."""

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

    def files(self) -> list[FileInfo]:
        """All files of the table outside of .hoodie, in path order, as a listing of the storage would give them."""
        found: dict[str, dict[str, int]] = {}
        for source in self._sources(FILES, "filesystemMetadata"):
            if source.values is None:
                for key in source.keys:
                    found.pop(key, None)
                continue
            for key, listed in zip(source.keys, source.values.to_pylist()):
                names = found.setdefault(key, {})
                for name, info in listed or ():
                    if info["isDeleted"]:
                        names.pop(name, None)
                    else:
                        names[name] = max(names.get(name, 0), info["size"])
        found.pop(_ALL_PARTITIONS, None)
        prefixed = ((("" if key == _UNPARTITIONED else f"{key}/"), names) for key, names in found.items())
        listed = [FileInfo(f"{prefix}{name}", size, 0) for prefix, names in prefixed for name, size in names.items()]
        return sorted(listed, key=lambda file: file.path)

    def locations(self, keys: Iterable[str]) -> dict[str, FileGroupId]:
        """The file groups that hold these record keys; keys that the table does not hold are left out.

        Of rows that share a key only the last one is known, so that this finds where to write and not what to leave unread.
        """
        groups = self._slices(RECORD_INDEX)
        shards: dict[int, set[str]] = {}
        for key in keys:
            shards.setdefault(abs(_java_hash(key)) % len(groups), set()).add(key)
        found: dict[str, FileGroupId] = {}
        for number, wanted in shards.items():
            for source in self._of_slice(groups[number], "recordIndexMetadata", wanted.__contains__):
                for position, key in enumerate(source.keys):
                    found.pop(key, None)
                    if source.values is not None and (entry := source.values[position].as_py()) is not None:
                        found[key] = _location(entry)
        return found

    def column_stats(self, columns: frozenset[str]) -> list[ColumnStat]:
        """What is known of these columns, file by file."""
        found: dict[str, ColumnStat | None] = {}
        for source in self._sources(COLUMN_STATS, "ColumnStatsMetadata"):
            if source.values is None:
                found |= dict.fromkeys(source.keys)
                continue
            for key, entry in zip(source.keys, source.values.to_pylist()):
                if entry is not None and entry["columnName"] in columns:
                    found[key] = None if entry["isDeleted"] else _column_stat(entry)
        return [stat for stat in found.values() if stat is not None]

    def size_of(self, partition: str) -> int:
        """The bytes of the current files of a partition of the index."""
        return sum(slice_.size for slice_ in self._slices(partition))

    def _sources(self, partition: str, column: str) -> Iterator[_Source]:
        for slice_ in self._slices(partition):
            yield from self._of_slice(slice_, column, None)

    def _slices(self, partition: str) -> list[FileSlice]:
        """The current slices of a partition, in the order of their file groups."""
        _, files = self.storage.list_folder(f"{_FOLDER}/{partition}")
        found = slices_at(group_files(files), self.visibility, frozenset())
        return sorted(found, key=lambda slice_: slice_.group.id)

    def _of_slice(self, slice_: FileSlice, column: str, wanted: Callable[[str], bool] | None) -> Iterator[_Source]:
        """The records of a slice, oldest first."""
        path = ""
        try:
            if slice_.base is not None:
                path = slice_.base.path
                body = self.storage.read(path)
                yield _source(read_hfile(body), file_schema(body), column, wanted)
            blocks = []
            for log in slice_.logs:
                path = log.path
                found = list(blocks_of(self.storage.read(path)))
                if not all(isinstance(block, LogBlock) for block in found):
                    raise ValueError("it holds bytes that make no whole block")
                blocks += [block for block in found if isinstance(block, LogBlock)]
            for block in counting(blocks, self.visibility.sees):
                yield _of_block(block, column, wanted)
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


def _of_block(block: LogBlock, column: str, wanted: Callable[[str], bool] | None) -> _Source:
    if block.type is BlockType.DELETE:
        return _Source(tuple(deleted_keys(block)), None)
    if block.type is not BlockType.HFILE:
        raise ValueError(f"it holds a block of type {block.type.name}")
    return _source(read_hfile(bytes(block.content)), block.schema, column, wanted)


def _source(entries: Entries, schema: str, column: str, wanted: Callable[[str], bool] | None) -> _Source:
    """The wanted records, with the one member of their value that the partition is about."""
    keys = [key.decode() for key in entries.keys]
    chosen = [number for number, key in enumerate(keys) if wanted is None or wanted(key)]
    starts, ends = (
        pa.array([bounds[number] for number in chosen], pa.int64()) for bounds in (entries.starts, entries.ends)
    )
    if not chosen:
        return _Source((), pa.nulls(0))
    batch = decode_records(memoryview(entries.data), starts, ends, schema, frozenset({column}))
    if column not in batch.schema.names:
        raise ValueError(f"its records have no {column}")
    return _Source(tuple(keys[number] for number in chosen), batch.column(column))


def _location(entry: dict[str, object]) -> FileGroupId:
    partition = str(entry["partitionName"])
    partition = "" if partition == _UNPARTITIONED else partition
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
