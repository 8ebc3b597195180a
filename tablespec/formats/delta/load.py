"""States made from the log: from its newest checkpoint on, or from further back where a checkpoint or a compacted file is damaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import attrs

from tablespec.errors import CorruptLogError, InstantNotFoundError, MissingLogError
from tablespec.formats.delta.actions import Line
from tablespec.formats.delta.checkpoint import read_checkpoint
from tablespec.formats.delta.codec import decode_commit
from tablespec.formats.delta.log import LOG, Checkpoint, Compaction, Listing, list_log, segment
from tablespec.formats.delta.replay import EMPTY, Reconciled, apply, from_checkpoint
from tablespec.storage.store import FileInfo, Storage

_READERS = 8
# How often a log may be cleaned up under the eyes of a reader.
_LISTINGS = 10
_Answer = TypeVar("_Answer")


def load(
    storage: Storage, listing: Listing, version: int, damaged: frozenset[Checkpoint | Compaction] = frozenset()
) -> tuple[Reconciled, FileInfo]:
    """The state right after a version, and the file that tells its time; what is damaged is passed over where the rest of the log does.

    Raises CorruptLogError where it does not.
    """
    usable = attrs.evolve(
        listing,
        checkpoints=tuple(one for one in listing.checkpoints if one not in damaged),
        compactions=tuple(one for one in listing.compactions if one not in damaged),
    )
    part = segment(usable, version, storage.url)
    try:
        start = EMPTY if part.checkpoint is None else from_checkpoint(read_checkpoint(storage, part.checkpoint))
    except CorruptLogError as error:
        assert part.checkpoint is not None
        return _load_without(part.checkpoint, error, storage, listing, version, damaged)
    try:
        reconciled = apply(start, _told_by(storage, part.tail))
    except CorruptLogError as error:
        compaction = next((one for one in usable.compactions if one.file.path == error.file), None)
        if compaction is None:
            raise
        return _load_without(compaction, error, storage, listing, version, damaged)
    last = dict(listing.commits).get(version) or (part.checkpoint.files[0] if part.checkpoint else part.tail[-1])
    return attrs.evolve(reconciled, version=version), last


def on_the_log(storage: Storage, listing: Listing, ask: Callable[[Listing], _Answer]) -> _Answer:
    """What `ask` makes of a log as it was listed; where that is not whole any more, of the log as it is then.

    Others may write a checkpoint and remove what lies before it while the files of a listing are read.
    """
    for _ in range(_LISTINGS):
        try:
            return ask(listing)
        except (MissingLogError, CorruptLogError):
            again = list_log(storage)
            if again == listing:
                raise
            listing = again
    return ask(listing)


def told(storage: Storage, reconciled: Reconciled, ask: Callable[[Reconciled], _Answer]) -> _Answer:
    """What `ask` finds in a state; where its checkpoint turns out to be damaged, in the same state made without it."""
    try:
        return ask(reconciled)
    except CorruptLogError as error:
        below = reconciled.checkpoint_version
        if below < 0:
            raise
        listing = list_log(storage)
        damaged = frozenset[Checkpoint | Compaction](one for one in listing.checkpoints if one.version >= below)
        try:
            whole, _ = load(storage, listing, reconciled.version, damaged)
        except (MissingLogError, InstantNotFoundError):
            raise error from None
        return told(storage, whole, ask)


def commit_of(data: bytes, table: str, file: str) -> list[Line]:
    """The actions of a commit, of which there is one at least; raises CorruptLogError."""
    lines = decode_commit(data, table, file)
    if not lines:
        # A loss of power leaves such files, and so does a writer that has only begun; what they were to say is not known.
        raise CorruptLogError(table, file, 0, "the file is empty")
    return lines


def read_commits(storage: Storage, files: Sequence[tuple[int, FileInfo]]) -> list[tuple[int, list[Line]]]:
    """The actions of commits, in the order given; raises MissingLogError for one that went after it was listed."""

    def read(commit: tuple[int, FileInfo]) -> tuple[int, list[Line]]:
        version, file = commit
        try:
            data = storage.read(file.path)
        except FileNotFoundError as error:
            raise MissingLogError(storage.url, version, files[-1][0]) from error
        return version, commit_of(data, storage.url, file.path)

    if len(files) < 2 or storage.local_path(LOG) is not None:
        return [read(commit) for commit in files]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, files))


def _told_by(storage: Storage, tail: Sequence[FileInfo]) -> list[tuple[int, list[Line]]]:
    return read_commits(storage, [(_version_of(file), file) for file in tail])


def _load_without(
    file: Checkpoint | Compaction,
    error: CorruptLogError,
    storage: Storage,
    listing: Listing,
    version: int,
    damaged: frozenset[Checkpoint | Compaction],
) -> tuple[Reconciled, FileInfo]:
    if listing.commits and listing.commits[0][0] > 0:
        listing = list_log(storage)
    try:
        return load(storage, listing, version, damaged | {file})
    except (MissingLogError, InstantNotFoundError):
        raise error from None


def _version_of(file: FileInfo) -> int:
    # A compacted file is named after its first and its last version; the last is where the state then stands.
    names = file.path.removeprefix(f"{LOG}/").split(".")
    return int(names[1]) if names[1].isdigit() else int(names[0])
