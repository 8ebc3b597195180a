"""Rows that restores brought back: the tags of a file name the commits that did, and those tell which of its rows they were.

The log has no other place for it: a file that comes back keeps the commit version that it had when it was first added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from pyroaring import BitMap64

from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, Line, file_key
from tablespec.formats.delta.deletion_vector import load, locate
from tablespec.model.file import Returned
from tablespec.storage.store import Storage

RETURNED_TAG = "tablespec.returned"


def returning(add: AddAction, before: AddAction | None, version: int) -> AddAction:
    """The add of a file that comes back at a version, or comes to have fewer deleted rows than it has `before`."""
    versions = {version, *returned_at(add), *(() if before is None else returned_at(before))}
    tags = {**(add.tags or {}), RETURNED_TAG: ",".join(map(str, sorted(versions)))}
    return msgspec.structs.replace(add, tags=tags)


def returned_at(add: AddAction) -> tuple[int, ...]:
    """The versions at which rows of a file came back, as far as its tags tell."""
    tag = (add.tags or {}).get(RETURNED_TAG)
    return tuple(int(version) for version in tag.split(",") if version.isdigit()) if isinstance(tag, str) else ()


def returned_rows(storage: Storage, add: AddAction, commits: Mapping[int, Sequence[Line]]) -> tuple[Returned, ...]:
    """Which rows of a file came back at which versions; commits that are gone are older than all that can be asked for."""
    path = file_key(add.path, None)
    return tuple(
        Returned(version, _positions(storage, path, commits[version]))
        for version in returned_at(add)
        if version in commits
    )


def _positions(storage: Storage, path: str, lines: Sequence[Line]) -> bytes | None:
    gone = [line.remove for line in lines if line.remove is not None and file_key(line.remove.path, None) == path]
    come = [line.add for line in lines if line.add is not None and file_key(line.add.path, None) == path]
    if not gone or not come or gone[0].deletion_vector is None:
        return None
    try:
        before = _deleted(storage, gone[0].deletion_vector)
        return (before - _deleted(storage, come[0].deletion_vector)).serialize()
    except FileNotFoundError:
        # The vector of before was vacuumed. Better that rows count as changed which were not than the other way round.
        return None


def _deleted(storage: Storage, vector: DeletionVectorAction | None) -> BitMap64:
    return BitMap64() if vector is None else load(storage, locate(vector, storage.url))
