"""Which files the past of a Delta table needs, and where files lie that nobody needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa

from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, Line
from tablespec.formats.delta.adds import from_actions, vector_of
from tablespec.formats.delta.checkpoint import add_batches
from tablespec.formats.delta.checkpoint_write import untouched
from tablespec.formats.delta.deletion_vector import locate
from tablespec.formats.delta.log import LOG, Checkpoint, Listing
from tablespec.formats.delta.partition_values import escape
from tablespec.formats.delta.state import DeltaState
from tablespec.storage.local import is_temporary
from tablespec.storage.store import FileInfo, Storage

CHANGES = "_change_data"

_VERSIONED = re.compile(r"([0-9]{20})\..+")


def needed_files(
    storage: Storage, states: Sequence[DeltaState], commits: Iterable[tuple[int, Sequence[Line]]]
) -> frozenset[str]:
    """The files below the table that these states hold or these commits name, by their paths as listed."""
    named: set[str] = set()
    for state in states:
        named.update(_files_of(state))
    for _, lines in commits:
        for line in lines:
            if line.add is not None:
                named.update(_files_of_add(line.add, storage.url))
            elif line.cdc is not None:
                named.update(_spellings(line.cdc.path))
    return frozenset(place for path in named for place in _places(storage, path))


def disposable(files: Iterable[FileInfo], partition_columns: Iterable[str]) -> list[FileInfo]:
    """The files that may be removed when no instant needs them: not those in hidden places, but for changes and temporaries."""
    named = frozenset(escape(column) for column in partition_columns)
    return [file for file in files if _disposable(file.path, named)]


def expired_log(listing: Listing, files: Iterable[FileInfo], version: int) -> list[FileInfo]:
    """The files of a log before the newest checkpoint that is not after `version`; nothing without such a checkpoint."""
    start = newest_checkpoint(listing, version)
    if start is None:
        return []
    # A compaction reaches into what stays, but starts from what goes.
    return [file for file in files if _is_before(start, file)]


def newest_checkpoint(listing: Listing, version: int) -> Checkpoint | None:
    """The newest complete checkpoint that is not after a version."""
    return next((one for one in reversed(listing.checkpoints) if one.version <= version), None)


def run_starts(versions: Sequence[int]) -> list[int]:
    """Those versions whose forerunner is not among them."""
    known = set(versions)
    return [version for version in versions if version - 1 not in known]


def _disposable(path: str, partition_columns: frozenset[str]) -> bool:
    *folders, name = path.split("/")
    if folders[:1] == [CHANGES]:
        folders = folders[1:]
    if any(_hidden(folder) and folder.partition("=")[0] not in partition_columns for folder in folders):
        return False
    return not _hidden(name) or is_temporary(name)


def _places(storage: Storage, path: str) -> Sequence[str]:
    """Where a listing may show a file that the log names."""
    place = storage.relative(path)
    if place is not None:
        return (place,)
    # What seems to lie elsewhere may lie here under another name of this place, that of a link or of another scheme.
    folders = path.split("/")
    return ["/".join(folders[start:]) for start in range(1, len(folders))]


def _adds_of(state: DeltaState) -> list[pa.StructArray]:
    batches = [
        untouched(adds, state.reconciled.touched)
        for path in state.reconciled.checkpoint_files
        for adds in add_batches(state.storage, path)
    ]
    return [*batches, from_actions(list(state.reconciled.adds.values()))]


def _files_of(state: DeltaState) -> Iterator[str]:
    for adds in state.told(_adds_of):
        for path in adds.field("path").to_pylist():
            yield from _spellings(path)
        if adds.type.get_field_index("deletionVector") >= 0:
            vectors = adds.field("deletionVector").drop_null().to_pylist()
            for vector in vectors:
                if vector["storageType"] is not None:
                    yield from _vector_file(vector_of(vector), state.storage.url)


def _files_of_add(add: AddAction, table: str) -> Iterator[str]:
    yield from _spellings(add.path)
    if add.deletion_vector is not None:
        yield from _vector_file(add.deletion_vector, table)


def _vector_file(vector: DeletionVectorAction, table: str) -> Iterator[str]:
    path = locate(vector, table).path
    if path is not None:
        yield path


def _spellings(path: str) -> tuple[str, ...]:
    # Some writers do not escape paths; a file that either reading names is safe.
    return (path, unquote(path)) if "%" in path else (path,)


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _is_before(start: Checkpoint, file: FileInfo) -> bool:
    if is_temporary(file.path):
        # Its writer was killed: whoever is still at work began later.
        return file.modified < start.files[0].modified
    version = _version_of(file)
    return version is not None and version < start.version


def _version_of(file: FileInfo) -> int | None:
    found = _VERSIONED.fullmatch(file.path.removeprefix(f"{LOG}/"))
    return int(found[1]) if found else None
