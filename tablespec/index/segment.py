"""Indexes as they lie beside a table: a definition, manifests, and the segments that they name.

A segment says where values lie in some base files. Base files never change, so a segment is right for as long as the file and the way its
columns are read stay the same; nothing else about the table matters to it. Names are unique, so builders never meet.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Sequence

import attrs
import msgspec

from tablespec.errors import IndexNotFoundError, StorageError, TableSpecWarning
from tablespec.index.checksum import CHANGED, checksum, checksum_in, file_checksum
from tablespec.model.file import FileSlice
from tablespec.model.schema import Field, Schema, StructType
from tablespec.storage.file_state import FileState, file_state
from tablespec.storage.store import Storage

FOLDER = "_tablespec/index"
RECORD, TEXT = KINDS = ("record", "text")
_DEFINITION = "definition.json"
# What reading JSON raises where it is none.
_GARBLED = (msgspec.DecodeError, UnicodeDecodeError)
# From so many manifests on a refresh puts them together, so that reading them stays cheap.
MANY_MANIFESTS = 16


class Definition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an index is about; columns are paths joined by dots, and `created` is in milliseconds UTC."""

    name: str
    kind: str
    columns: tuple[str, ...]
    tokenizer: str = ""
    created: int = 0

    @property
    def folder(self) -> str:
        """Where the index lies in the table."""
        return f"{FOLDER}/{self.name}"


class Covered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A base file that a segment is about."""

    path: str
    size: int
    rows: int


class IndexFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file of a segment, by its path in the table, with the checksum of what was written."""

    path: str
    size: int
    crc: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


class Segment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an index; `columns` tells how the columns were read, and `unique` whether no key stands in it twice."""

    id: str
    columns: str
    covers: tuple[Covered, ...]
    files: tuple[IndexFile, ...]
    unique: bool = False
    # In nanoseconds UTC: of two segments about one file the newer counts.
    created: int = 0

    @property
    def rows(self) -> int:
        """The rows of the base files that it is about."""
        return sum(file.rows for file in self.covers)

    @property
    def folder(self) -> str:
        """The folder in the table that all its files lie in."""
        return self.files[0].path.rpartition("/")[0]


class _Manifest(msgspec.Struct, frozen=True):
    # The checksum of the segments as they stand in the file.
    crc: int
    segments: msgspec.Raw


@attrs.frozen
class StoredIndex:
    """An index as it was found: its definition, its segments, and the manifests that name them, which may be damaged."""

    definition: Definition
    segments: tuple[Segment, ...]
    manifests: tuple[str, ...]
    damaged: tuple[str, ...] = ()

    def covering(self, schema: Schema) -> dict[tuple[str, int], Segment]:
        """For each base file, by path and size, the segment that is about it, where columns are still read in the same way."""
        columns = reading_of(self.definition, schema)
        return {
            (file.path, file.size): segment
            for segment in sorted(self.segments, key=lambda one: one.created)
            if segment.columns == columns
            for file in segment.covers
        }


def new_segment_id() -> str:
    """A name that no other segment or manifest has."""
    return uuid.uuid4().hex


def base_key(slice_: FileSlice) -> tuple[str, int] | None:
    """What a segment knows the base file of a slice by; None for a slice that only a merge with log files can read."""
    return None if slice_.base is None or slice_.logs else (slice_.base.path, slice_.base.size)


def reading_of(definition: Definition, schema: Schema) -> str | None:
    """How columns are found in files, what they are read as, and what cuts them into words; None where one is not there."""
    found = []
    for name in definition.columns:
        field = field_of(name, schema)
        if field is None:
            return None
        found.append(field)
    columns = ", ".join(
        " ".join((*(f"{one.stored_name}#{one.field_id}" for one in path), str(path[-1].type))) for path in found
    )
    return f"{columns} by {definition.tokenizer}" if definition.tokenizer else columns


def field_of(name: str, schema: Schema) -> tuple[Field, ...] | None:
    """The fields on the way to a column, by their names joined by dots."""
    path: tuple[Field, ...] = ()
    fields, rest = schema.fields, name
    while rest:
        # A name may have dots of its own: the longest that fits counts.
        fitting = [field for field in fields if rest == field.name or rest.startswith(f"{field.name}.")]
        if not fitting:
            return None
        field = max(fitting, key=lambda one: len(one.name))
        path, rest = (*path, field), rest[len(field.name) + 1 :]
        fields = field.type.fields if isinstance(field.type, StructType) else ()
    return path or None


def index_names(storage: Storage) -> list[str]:
    """The names of all indexes of a table."""
    return [path.rpartition("/")[2] for path in storage.list_folder(FOLDER)[0]]


def load_all(storage: Storage, kind: str | None = None) -> list[StoredIndex]:
    """All indexes, or those of a kind; what cannot be read is left out with a warning."""
    found = [load(storage, name, kind) for name in index_names(storage)]
    return [one for one in found if one is not None]


def load_to_read(storage: Storage, kind: str) -> list[StoredIndex]:
    """All indexes of a kind, for whoever reads rows where there are none; so none, with a warning, where the store does not list them."""
    try:
        return load_all(storage, kind)
    except StorageError as error:
        _warn(storage, FOLDER, error, "let the store list that folder")
        return []


def load(storage: Storage, name: str, kind: str | None = None, *, whole: bool = False) -> StoredIndex | None:
    """An index by its name; None where there is none, or one of another kind.

    What the store does not give is left out with a warning, or raises StorageError where the `whole` index must be known.
    """
    folder = f"{FOLDER}/{name}"
    try:
        definition = msgspec.json.decode(storage.read(f"{folder}/{_DEFINITION}"), type=Definition)
        if definition.name != name or definition.kind not in KINDS:
            raise msgspec.DecodeError(f"is about {definition.name}, a {definition.kind} index")
    except FileNotFoundError:
        return None
    except (*_GARBLED, StorageError) as error:
        if whole and isinstance(error, StorageError):
            raise
        _warn(storage, f"{folder}/{_DEFINITION}", error, "create it again to mend it")
        return None
    if kind is not None and definition.kind != kind:
        return None
    manifests = [
        file.path
        for file in storage.list_folder(folder)[1]
        if file.path.endswith(".json") and not file.path.endswith(f"/{_DEFINITION}")
    ]
    segments: dict[str, Segment] = {}
    damaged = []
    for path in manifests:
        try:
            segments.update((segment.id, segment) for segment in _manifest(storage.read(path)))
        except FileNotFoundError:
            # Somebody put it together with others, or removed it; either way it only costs time.
            continue
        except StorageError as error:
            if whole:
                raise
            _warn(storage, path, error)
        except _GARBLED as error:
            _warn(storage, path, f"is damaged or of an older version ({error})")
            damaged.append(path)
    return StoredIndex(definition, tuple(segments.values()), tuple(manifests), tuple(damaged))


def _manifest(data: bytes) -> tuple[Segment, ...]:
    read = msgspec.json.decode(data, type=_Manifest)
    if checksum(bytes(read.segments)) != read.crc:
        raise msgspec.DecodeError(CHANGED)
    return msgspec.json.decode(read.segments, type=tuple[Segment, ...])


def require(storage: Storage, name: str) -> StoredIndex:
    """An index by its name; raises IndexNotFoundError."""
    found = load(storage, name)
    if found is None:
        raise IndexNotFoundError(storage.url, name, tuple(index_names(storage)))
    return found


def define(storage: Storage, definition: Definition) -> Definition:
    """Write a definition unless there is one of that name, and give the one that holds."""
    stamped = msgspec.structs.replace(definition, created=time.time_ns() // 1_000_000)
    path, data = f"{definition.folder}/{_DEFINITION}", msgspec.json.encode(stamped)
    storage.put_if_absent(path, data)
    found = load(storage, definition.name)
    if found is None:
        # It is damaged; segments say themselves what they are about.
        storage.put(path, data)
        return definition
    return found.definition


def publish(storage: Storage, definition: Definition, segments: Sequence[Segment]) -> str:
    """Make segments known under a name of their own; those that nobody knows yet become the newest."""
    now = time.time_ns()
    segments = [one if one.created else msgspec.structs.replace(one, created=now) for one in segments]
    path = f"{definition.folder}/{new_segment_id()}.json"
    named = msgspec.json.encode(segments)
    storage.put_if_absent(path, msgspec.json.encode(_Manifest(checksum(named), msgspec.Raw(named))))
    return path


def drop(storage: Storage, name: str) -> int:
    """Remove an index, its definition first, and tell how many files went."""
    folder = f"{FOLDER}/{name}"
    storage.delete(f"{folder}/{_DEFINITION}")
    files = list(storage.list(folder))
    for file in files:
        storage.delete(file.path)
    return len(files) + 1


def is_whole(storage: Storage, segment: Segment) -> bool:
    """Whether all files of a segment are there as they were written; warns where one is not.

    Of files that are not local only the sizes are looked at: whoever fetches one looks at its checksum.
    """
    if segment.files and (local := storage.local_path(segment.folder)) is not None:
        return local_states(storage, segment, local) is not None
    return all(_is_there(storage, file) for file in segment.files)


def local_states(storage: Storage, segment: Segment, folder: str) -> tuple[FileState, ...] | None:
    """What the files of a segment in a local folder are now; None with a warning where one is not as it was written."""
    states = []
    for file in segment.files:
        path = f"{folder}/{file.name}"
        try:
            state = file_state(path)
            why = None if checksum_in(path, state) == file.crc else CHANGED
        except FileNotFoundError:
            why = "is missing"
        except OSError as error:
            why = str(error)
        if why is not None:
            _warn(storage, file.path, why)
            return None
        states.append(state)
    return tuple(states)


def _is_there(storage: Storage, file: IndexFile) -> bool:
    try:
        found = storage.head(file.path)
        why = "is missing" if found is None else f"has {found.size} bytes, not {file.size}"
    except (OSError, StorageError) as error:
        found, why = None, str(error)
    if found is not None and found.size == file.size:
        return True
    _warn(storage, file.path, why)
    return False


def is_sound(local: str, file: IndexFile) -> bool:
    """Whether a local file, or a local copy of it, is what was written; one that is missing raises FileNotFoundError."""
    return file_checksum(local) == file.crc


def warn_damaged(storage: Storage, segment: Segment, why: object) -> None:
    """Tell that a segment cannot be used and the rows are looked at instead."""
    _warn(storage, segment.files[0].path if segment.files else segment.id, why)


def _warn(storage: Storage, path: str, why: object, way_out: str = "refresh the index to mend it") -> None:
    text = f"the index file {path} of {storage.url} {why}: rows are read instead; {way_out}"
    warnings.warn(text, TableSpecWarning, stacklevel=4)


def needed_files(storage: Storage, needed: frozenset[str]) -> frozenset[str]:
    """The files of indexes that are about a base file among those needed, with their definitions and manifests."""
    kept: set[str] = set()
    # What cannot be asked for now may tell of files that are needed.
    loaded = [load(storage, name, whole=True) for name in index_names(storage)]
    for stored in [one for one in loaded if one is not None]:
        definition = stored.definition
        kept |= {f"{definition.folder}/{_DEFINITION}", *stored.manifests}
        newest = {
            (segment.columns, file.path, file.size): segment
            for segment in sorted(stored.segments, key=lambda one: one.created)
            for file in segment.covers
            if file.path in needed
        }
        kept |= {file.path for segment in newest.values() for file in segment.files}
    return frozenset(kept)


def is_of_index(path: str) -> bool:
    """Whether a file of the table is one of an index."""
    return path.startswith(f"{FOLDER}/") and "/" in path.removeprefix(f"{FOLDER}/")
