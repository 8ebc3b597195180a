"""The records of the metadata table that list files, decoded into columns without an object for each file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.avro import data
from tablespec.formats.hudi.file_columns import FileColumns
from tablespec.formats.hudi.schema import Json

LISTED = "filesystemMetadata"
# What the largest number of eight bytes is written as.
_LARGEST = (1 << 64) - 2
_FILE_INFO = [("size", "long"), ("isDeleted", "boolean")]
_MEMBERS = dict(_FILE_INFO).keys()


@attrs.frozen(eq=False, kw_only=True)
class FileRecords:
    """Records that list files: how many the record of each key lists, and one after the other all that they list."""

    keys: tuple[str, ...]
    counts: list[int]
    names: pa.StringArray
    sizes: pa.Int64Array
    deleted: pa.BooleanArray


@attrs.frozen(eq=False)
class DroppedRecords:
    """Keys whose records so far do not count any more."""

    keys: tuple[str, ...]


def decode_file_records(
    body: bytes, keys: Sequence[str], starts: Sequence[int], ends: Sequence[int], schema: str
) -> FileRecords:
    """The records of these keys that lie between the offsets; raises ValueError where they do not fit the schema."""
    decoded = _Decoded([], [], [], [])
    try:
        # A file without records need not tell its schema.
        form = _form(json.loads(schema)) if keys else None
        for start, end in zip(starts, ends):
            if form is None:
                raise _OtherFormError
            form.read(body, start, end, decoded)
    except (_OtherFormError, IndexError):
        view = memoryview(body)
        return _one_by_one(keys, (view[start:end] for start, end in zip(starts, ends)), schema)
    rows = pa.arange(0, len(decoded.sizes))
    return FileRecords(
        keys=tuple(keys),
        counts=decoded.counts,
        names=_names(body, decoded.bounds),
        sizes=pa.array(decoded.sizes, pa.int64()),
        deleted=pc.is_in(rows, pa.array(decoded.deleted, pa.int64())),
    )


def merged(sources: Sequence[FileRecords | DroppedRecords]) -> FileColumns:
    """The files that records list in the end, oldest first: a file may be listed again, with another size, or as deleted."""
    known = Counter(key for source in sources for key in source.keys)
    several = frozenset(key for key, count in known.items() if count > 1)
    folders: dict[str, int] = {}
    parts = [_alone(source, several, folders) for source in sources if isinstance(source, FileRecords)]
    for key, files in _folded(sources, several).items():
        number = folders.setdefault(key, len(folders))
        numbers = pa.repeat(pa.scalar(number, pa.int32()), len(files))
        parts.append((numbers, pa.array(list(files), pa.string()), pa.array(list(files.values()), pa.int64())))
    if not parts:
        parts.append((pa.array([], pa.int32()), pa.array([], pa.string()), pa.array([], pa.int64())))
    numbers, names, sizes = (pa.concat_arrays(column) for column in zip(*parts)) if len(parts) > 1 else parts[0]
    unknown = pa.repeat(pa.scalar(0, pa.int64()), len(names))
    return FileColumns(tuple(folders), numbers, names, sizes, unknown)


def _alone(
    source: FileRecords, several: frozenset[str], folders: dict[str, int]
) -> tuple[pa.Int32Array, pa.StringArray, pa.Int64Array]:
    """The folders, names and sizes of the files of those keys that have no other record."""
    numbers: list[int | None] = []
    for key, count in zip(source.keys, source.counts):
        numbers += [None if key in several else folders.setdefault(key, len(folders))] * count
    of_files = pa.array(numbers, pa.int32())
    columns = (of_files, source.names, source.sizes)
    left = pc.and_not(of_files.is_valid(), source.deleted)
    found = columns if pc.all(left, min_count=0).as_py() else tuple(column.filter(left) for column in columns)
    return found[0], found[1], found[2]


def _folded(sources: Sequence[FileRecords | DroppedRecords], several: frozenset[str]) -> dict[str, dict[str, int]]:
    """The names and sizes of the files of keys that have several records."""
    found: dict[str, dict[str, int]] = {}
    for source in sources:
        if isinstance(source, DroppedRecords):
            for key in source.keys:
                found.pop(key, None)
            continue
        start = 0
        for key, count in zip(source.keys, source.counts):
            if key in several:
                _fold(source, start, count, found.setdefault(key, {}))
            start += count
    return found


def _fold(source: FileRecords, start: int, count: int, files: dict[str, int]) -> None:
    columns = (column.slice(start, count).to_pylist() for column in (source.names, source.sizes, source.deleted))
    for name, size, deleted in zip(*columns):
        if deleted:
            files.pop(name, None)
        else:
            files[name] = max(files.get(name, 0), size)


def _one_by_one(keys: Sequence[str], bodies: Iterator[memoryview], schema: str) -> FileRecords:
    """Records of any form that Avro knows."""
    listed = [record.get(LISTED) or {} for record in data(bodies, schema)]
    found = [files for files in listed if isinstance(files, dict)]
    infos = [info for files in found for info in files.values()]
    if len(found) < len(listed) or not all(isinstance(info, dict) and info.keys() >= _MEMBERS for info in infos):
        raise ValueError("its records do not list files")
    return FileRecords(
        keys=tuple(keys),
        counts=[len(files) for files in found],
        names=pa.array([name for files in found for name in files], pa.string()),
        sizes=pa.array([info["size"] for info in infos], pa.int64()),
        deleted=pa.array([info["isDeleted"] for info in infos], pa.bool_()),
    )


# --- records of the form that Hudi writes ---


class _OtherFormError(Exception):
    """A record is written in another way than expected, or damaged."""


@attrs.frozen
class _Decoded:
    """What records list: where names begin and end in turn, their sizes, and which of them are deleted."""

    counts: list[int]
    bounds: list[int]
    sizes: list[int]
    deleted: list[int]


@attrs.frozen
class _Form:
    """Bytes that stand before the key and behind the files of every record, whose other members are null, and those before the files."""

    lead: bytes
    listing: bytes
    rest: bytes

    def read(self, body: bytes, start: int, end: int, decoded: _Decoded) -> None:
        """Add what the record between two offsets lists."""
        if not body.startswith(self.lead, start):
            raise _OtherFormError
        length, at = _number(body, start + len(self.lead))
        _, at = _number(body, at + length)
        if not body.startswith(self.listing, at):
            raise _OtherFormError
        before = len(decoded.sizes)
        at = _read_files(body, at + len(self.listing), decoded)
        if at + len(self.rest) != end or not body.startswith(self.rest, at):
            raise _OtherFormError
        decoded.counts.append(len(decoded.sizes) - before)


def _form(schema: Json) -> _Form | None:
    """The form of records that are written with this schema; None where it does not have the members that Hudi gives them."""
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or not all(map(_is_field, fields)):
        return None
    types = {str(field["name"]): field["type"] for field in fields}
    names = list(types)
    if LISTED not in names:
        return None
    place = names.index(LISTED)
    listing = [number for number, one in enumerate(_union(types[LISTED])) if _lists_files(one)]
    before, after = (_nulls([types[name] for name in some]) for some in (names[: place - 2], names[place + 1 :]))
    is_known = names[place - 2 : place] == ["key", "type"] and _plain(types["key"]) == "string"
    if not is_known or _plain(types["type"]) != "int" or not listing or before is None or after is None:
        return None
    return _Form(before, bytes([2 * listing[0]]), after)


def _nulls(types: Sequence[Json]) -> bytes | None:
    """What nulls of these types are written as; None where one cannot be null."""
    if not all("null" in _union(one) for one in types):
        return None
    return bytes(2 * _union(one).index("null") for one in types)


def _union(avro: Json) -> list[Json]:
    return avro if isinstance(avro, list) else []


def _plain(avro: Json) -> Json:
    return avro.get("type") if isinstance(avro, dict) else avro


def _lists_files(avro: Json) -> bool:
    values = avro.get("values") if isinstance(avro, dict) and avro.get("type") == "map" else None
    fields = values.get("fields") if isinstance(values, dict) else None
    if not isinstance(fields, list) or not all(map(_is_field, fields)):
        return False
    return [(field["name"], field["type"]) for field in fields] == _FILE_INFO


def _is_field(field: Json) -> bool:
    return isinstance(field, dict) and "name" in field and "type" in field


def _read_files(body: bytes, at: int, decoded: _Decoded) -> int:
    """Add the files of a map that begins at an offset; gives where it ends."""
    bounds, sizes, deleted = decoded.bounds, decoded.sizes, decoded.deleted
    count, at = _number(body, at)
    while count:
        for _ in range(count):
            # There may be a million files: the length of a name and a small size are read without a call.
            length, more = body[at], body[at + 1]
            if length < 0x80:
                at += 1
            elif more < 0x80:
                length, at = (length & 0x7F) | more << 7, at + 2
            else:
                raise _OtherFormError
            bounds.append(at)
            at += length >> 1
            bounds.append(at)
            size = body[at]
            if size < 0x80:
                at += 1
            else:
                size, shift = size & 0x7F, 7
                while (more := body[at := at + 1]) >= 0x80:
                    size, shift = size | (more & 0x7F) << shift, shift + 7
                size, at = size | more << shift, at + 1
            if (length | size) & 1 or size > _LARGEST:
                raise _OtherFormError
            sizes.append(size >> 1)
            if body[at]:
                deleted.append(len(sizes) - 1)
            at += 1
        count, at = _number(body, at)
    return at


def _number(body: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, which must not be negative, and where it ends."""
    byte = body[at]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = body[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value & 1 or value > _LARGEST:
        raise _OtherFormError
    return value >> 1, at + 1


def _names(body: bytes, bounds: list[int]) -> pa.StringArray:
    """The texts between each two bounds, which cut the body into names and the gaps between them."""
    if not bounds:
        return pa.array([], pa.string())
    offsets = pa.array(bounds, pa.int64())
    pieces = pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, [None, offsets.buffers()[1], pa.py_buffer(body)])
    return pieces.take(pa.arange(0, len(bounds), 2)).cast(pa.string())
