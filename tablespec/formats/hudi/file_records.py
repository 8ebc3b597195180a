"""The records of the metadata table that list files, decoded into columns without an object for each file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.avro import data
from tablespec.formats.hudi.file_columns import FileColumns
from tablespec.formats.hudi.file_maps import FEW, FileEntries, FileLists, OtherFormError, SideBySide, number_at
from tablespec.formats.hudi.schema import Json

LISTED = "filesystemMetadata"
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
    try:
        # A file without records need not tell its schema.
        form = _form(json.loads(schema)) if keys else _Form(b"", b"", b"")
        if form is None:
            raise OtherFormError
        counts, files = form.read(body, starts, ends)
    except (OtherFormError, IndexError):
        view = memoryview(body)
        return _one_by_one(keys, (view[start:end] for start, end in zip(starts, ends)), schema)
    return FileRecords(
        keys=tuple(keys), counts=counts, names=files.names(body), sizes=files.sizes, deleted=files.deleted
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
    ends = {key: end for key, count, end in zip(source.keys, source.counts, accumulate(source.counts)) if count}
    numbers = [None if key in several else folders.setdefault(key, len(folders)) for key in ends]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(ends.values(), pa.int64()), pa.array(numbers, pa.int32()))
    of_files = pc.run_end_decode(runs)
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


@attrs.frozen
class _Form:
    """Bytes that stand before the key and behind the files of every record, whose other members are null, and those before the files."""

    lead: bytes
    listing: bytes
    rest: bytes

    def read(self, body: bytes, starts: Sequence[int], ends: Sequence[int]) -> tuple[list[int], FileEntries]:
        """How many files each of the records between these offsets lists, and the files."""
        if len(starts) > FEW:
            try:
                return self._read_many(SideBySide.of(body), pa.array(starts, pa.int64()), pa.array(ends, pa.int64()))
            except (OtherFormError, IndexError):
                # One by one maps may have several blocks, and numbers more bytes.
                pass
        found = FileLists()
        return [self._read_one(body, start, end, found) for start, end in zip(starts, ends)], found.entries()

    def _read_many(self, body: SideBySide, starts: pa.Int64Array, ends: pa.Int64Array) -> tuple[list[int], FileEntries]:
        lengths, at = body.numbers(body.past(starts, self.lead))
        _, at = body.numbers(pc.add(at, lengths))
        return body.maps(body.past(at, self.listing), ends, self.rest)

    def _read_one(self, body: bytes, start: int, end: int, found: FileLists) -> int:
        """Add what the record between two offsets lists; gives how many files these are."""
        if not body.startswith(self.lead, start):
            raise OtherFormError
        length, at = number_at(body, start + len(self.lead))
        _, at = number_at(body, at + length)
        if not body.startswith(self.listing, at):
            raise OtherFormError
        before = len(found.sizes)
        at = found.read_map(body, at + len(self.listing))
        if at + len(self.rest) != end or not body.startswith(self.rest, at):
            raise OtherFormError
        return len(found.sizes) - before


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
