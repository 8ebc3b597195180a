"""Rows that restores brought back: the tags of a file name the commits that did, and those tell which of its rows they were.

The log has no other place for it: a file that comes back keeps the commit version that it had when it was first added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import RLock

import attrs
import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.errors import CorruptFileError
from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, Line, RemoveAction, file_key
from tablespec.formats.delta.deletion_vector import load, locate
from tablespec.formats.delta.live_ids import LiveIds, TrackedFile, all_ids, live_ids, positions_without
from tablespec.model.file import Returned
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage

RETURNED_TAG = "tablespec.returned"
_READERS = 8
# A file that a restore removed may have come back by another, and so on: rows at the end of longer chains count as come back.
_FAR_ENOUGH = 50
_UNREADABLE = (OSError, pa.ArrowInvalid, CorruptFileError)

_File = AddAction | RemoveAction
_Partition = tuple[tuple[str, str | None], ...]


def returning(add: AddAction, before: AddAction | None, version: int) -> AddAction:
    """The add of a file that comes back at a version, or comes to have fewer deleted rows than it has `before`."""
    versions = {version, *returned_at(add), *(() if before is None else returned_at(before))}
    tags = {**(add.tags or {}), RETURNED_TAG: ",".join(map(str, sorted(versions)))}
    return msgspec.structs.replace(add, tags=tags)


def returned_at(file: AddAction | RemoveAction) -> tuple[int, ...]:
    """The versions at which rows of a file came back, as far as its tags tell, in their order."""
    tag = (file.tags or {}).get(RETURNED_TAG)
    return tuple(sorted(int(one) for one in tag.split(",") if one.isdigit())) if isinstance(tag, str) else ()


@attrs.frozen
class RestoreCommit:
    """What a commit did to files, by their paths."""

    adds: Mapping[str, AddAction]
    removes: Mapping[str, RemoveAction]


def restore_commits(
    files: Iterable[AddAction], read: Callable[[set[int]], Mapping[int, Sequence[Line]]]
) -> dict[int, RestoreCommit]:
    """The commits that brought rows of these files back, or rows of files that such a commit removed, as far as they can be read."""
    found: dict[int, RestoreCommit] = {}
    wanted = {version for file in files for version in returned_at(file)}
    for _ in range(_FAR_ENOUGH):
        more = {version: _restore_commit(lines) for version, lines in read(wanted).items()} if wanted else {}
        found |= more
        removes = (remove for commit in more.values() for remove in commit.removes.values())
        wanted = {version for remove in removes for version in returned_at(remove)} - found.keys()
    return found


def _restore_commit(lines: Sequence[Line]) -> RestoreCommit:
    adds = {file_key(line.add.path, None): line.add for line in lines if line.add is not None}
    removes = {file_key(line.remove.path, None): line.remove for line in lines if line.remove is not None}
    return RestoreCommit(adds, removes)


@attrs.frozen(eq=False)
class Returns:
    """Tells which rows of files came back; `tracked` are the hidden columns of row ids and commit versions.

    A row that was live right before in another file, which the same commit removed, did not come back: it lies elsewhere.
    It is the same row when its id is the same, and has not changed when its commit version is. Where that cannot be told,
    rows count as come back: better that than the other way round.
    """

    storage: Storage
    tracked: Schema
    commits: Mapping[int, RestoreCommit]
    _live: dict[tuple[int, _Partition], LiveIds] = attrs.field(factory=dict, init=False, repr=False)
    _told: dict[tuple[str, int, tuple[Returned, ...]], Returned] = attrs.field(factory=dict, init=False, repr=False)
    _lock: RLock = attrs.field(factory=RLock, init=False, repr=False)

    def rows(self, files: Sequence[AddAction]) -> dict[str, tuple[Returned, ...]]:
        """Which rows of files came back at which versions, by their paths as logged."""
        with ThreadPoolExecutor(_READERS) as pool:
            return dict(zip((file.path for file in files), pool.map(self._of, files)))

    def _of(self, file: _File, before: int | None = None) -> tuple[Returned, ...]:
        """The returns of a file; commits that are gone are older than all that can be asked for."""
        found: tuple[Returned, ...] = ()
        for version in returned_at(file):
            if version in self.commits and (before is None or version < before):
                found = (*found, self._returned(file, version, found))
        return found

    def _returned(self, file: _File, version: int, earlier: tuple[Returned, ...]) -> Returned:
        # After restores back and forth each asks for all returns of before.
        key = (file.path, version, earlier)
        if key not in self._told:
            self._told[key] = Returned(version, self._positions(file, version, earlier))
        return self._told[key]

    def _positions(self, file: _File, version: int, earlier: tuple[Returned, ...]) -> bytes | None:
        path, commit = file_key(file.path, None), self.commits[version]
        if path not in commit.adds:
            return None
        try:
            if path in commit.removes:
                before, after = (
                    _deleted(self.storage, one[path].deletion_vector) for one in (commit.removes, commit.adds)
                )
                return (before - after).serialize()
            known = self._tracked_file(file, earlier)
            live = {} if known is None else self._live_before(version, _partition(file))
            return None if known is None or not live else positions_without(self.storage, known, live).serialize()
        except _UNREADABLE:
            # The vector of before was vacuumed, or the file cannot be read, as whoever wants to move its rows will find.
            return None

    def _live_before(self, version: int, partition: _Partition) -> LiveIds:
        """The rows of a partition right before a restore that are in other files since; rows of other partitions changed."""
        with self._lock:
            if (version, partition) not in self._live:
                commit = self.commits[version]
                gone = [file for path, file in commit.removes.items() if path not in commit.adds]
                here = [
                    file
                    for file in gone
                    if _partition(file) == partition and self.commits.keys() >= {*returned_at(file)}
                ]
                told = [(file, self._of(file, version)) for file in here]
                with ThreadPoolExecutor(_READERS) as pool:
                    self._live[version, partition] = all_ids(pool.map(self._live_in, told))
            return self._live[version, partition]

    def _live_in(self, told: tuple[_File, tuple[Returned, ...]]) -> LiveIds:
        file, returned = told
        known = self._tracked_file(file, returned)
        try:
            return {} if known is None else live_ids(self.storage, known, _deleted(self.storage, file.deletion_vector))
        except _UNREADABLE:
            # It was vacuumed, and nobody knows any more which rows were in it.
            return {}

    def _tracked_file(self, file: _File, returned: tuple[Returned, ...]) -> TrackedFile | None:
        """The file where the ids of its rows can be told."""
        if file.base_row_id is None or file.default_row_commit_version is None or len(self.tracked.fields) < 2:
            return None
        return TrackedFile(
            path=file.path,
            columns=self.tracked,
            base_row_id=file.base_row_id,
            commit_version=file.default_row_commit_version,
            returned=returned,
        )


def _partition(file: _File) -> _Partition:
    return tuple(sorted((file.partition_values or {}).items()))


def _deleted(storage: Storage, vector: DeletionVectorAction | None) -> BitMap64:
    return BitMap64() if vector is None else load(storage, locate(vector, storage.url))
