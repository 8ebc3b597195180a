"""The bodies of completed instants: JSON in table version 6, Avro from version 8 on."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tablespec.errors import CorruptLogError
from tablespec.formats.hudi.avro import first_record
from tablespec.formats.hudi.instant_time import instant_number
from tablespec.formats.hudi.names import parse_base_file_name
from tablespec.model.file import FileGroupId

# Operations that move rows between files or describe them, and change none.
_LAYOUT_OPERATIONS = frozenset({"CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA"})
_AVRO_MAGIC = b"Obj\x01"
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    StopIteration,
    struct.error,
)


@attrs.frozen(kw_only=True)
class WriteStat:
    """A file that a commit has written, by its path relative to the table.

    `previous` is the instant of the base file that the group had before; `change_files` are paths and sizes of the files
    in which the changes are noted.
    """

    group: FileGroupId
    path: str
    rows: int
    previous: int | None = None
    change_files: tuple[tuple[str, int], ...] = ()


@attrs.frozen(kw_only=True)
class CommitMetadata:
    """What a commit, delta commit or replace commit did; `schema` is Avro text, empty where it is left out."""

    operation: str
    schema: str
    stats: tuple[WriteStat, ...]
    replaced: tuple[FileGroupId, ...]

    @property
    def changes_data(self) -> bool:
        """Whether rows were inserted, changed or deleted, rather than laid out anew."""
        return self.operation not in _LAYOUT_OPERATIONS


@attrs.frozen(kw_only=True)
class CleanMetadata:
    """What a cleaner run removed.

    Before `earliest_retained` no state is complete; None when the cleaner counts file versions instead of commits.
    `removed` holds the groups of the removed base files with their instants.
    """

    earliest_retained: int | None
    removed: tuple[tuple[FileGroupId, int], ...]


def parse_commit(table: str, path: str, body: bytes) -> CommitMetadata:
    """The metadata of a completed write."""
    try:
        return _commit(_decode(body))
    except _UNREADABLE as error:
        raise CorruptLogError(table, path, 0, f"it is no commit metadata ({error})") from error


def parse_clean(table: str, path: str, body: bytes) -> CleanMetadata:
    """The metadata of a completed cleaner run."""
    try:
        return _clean(_decode(body))
    except _UNREADABLE as error:
        raise CorruptLogError(table, path, 0, f"it is no clean metadata ({error})") from error


def _decode(body: bytes) -> Mapping[str, object]:
    if not body:
        raise ValueError("it is empty")
    record = first_record(body) if body.startswith(_AVRO_MAGIC) else json.loads(body)
    if not isinstance(record, dict):
        raise ValueError("it holds no record")
    return record


def _commit(record: Mapping[str, object]) -> CommitMetadata:
    extra = _mapping(record.get("extraMetadata"))
    written = _by_partition(record.get("partitionToWriteStats"))
    replaced = _by_partition(record.get("partitionToReplaceFileIds"))
    return CommitMetadata(
        operation=str(record.get("operationType") or "UNKNOWN"),
        schema=str(extra.get("schema") or ""),
        stats=tuple(_stat(partition, _mapping(stat)) for partition, stat in written),
        replaced=tuple(FileGroupId(partition, str(file_id)) for partition, file_id in replaced),
    )


def _stat(partition: str, stat: Mapping[str, object]) -> WriteStat:
    rows = stat.get("numWrites")
    previous = str(stat.get("prevCommit") or "")
    return WriteStat(
        group=FileGroupId(partition, str(stat["fileId"])),
        path=str(stat.get("path") or ""),
        rows=rows if isinstance(rows, int) else 0,
        previous=instant_number(previous) if previous.isdigit() else None,
        change_files=tuple((str(path), int(str(size))) for path, size in _mapping(stat.get("cdcStats")).items()),
    )


def _clean(record: Mapping[str, object]) -> CleanMetadata:
    earliest = str(record.get("earliestCommitToRetain") or "")
    removed = []
    for partition, cleaned in _mapping(record.get("partitionMetadata")).items():
        for path in _sequence(_mapping(cleaned).get("deletePathPatterns")):
            if (name := parse_base_file_name(str(path).rsplit("/", 1)[-1])) is not None:
                removed.append((FileGroupId(partition, name.file_id), name.instant))
    return CleanMetadata(earliest_retained=instant_number(earliest) if earliest else None, removed=tuple(removed))


def _by_partition(value: object) -> Iterator[tuple[str, object]]:
    return ((partition, one) for partition, listed in _mapping(value).items() for one in _sequence(listed))


def _mapping(value: object) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:40]!r} stands where a map should")
    return value


def _sequence(value: object) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{str(value)[:40]!r} stands where a list should")
    return value
