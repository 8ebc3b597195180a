"""Files of a Delta table that lose rows or go: found with their actions, and turned into new ones."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.expr.nodes import Predicate
from tablespec.formats.base import LiveFile
from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, RemoveAction
from tablespec.formats.delta.adds import candidates, from_actions, judged
from tablespec.formats.delta.checkpoint import add_rows
from tablespec.formats.delta.deletion_vector import FILE_VERSION, encode_positions, encode_z85, locate
from tablespec.formats.delta.state import DeltaState

# Deletion vectors lie in a folder of their own, several in one file. Trino does not read folders that start with `_`.
VECTOR_FOLDER = "dv"

_ADD = msgspec.json.Decoder(AddAction)


def decode_add(origin: bytes) -> AddAction:
    """The add action that an origin is."""
    return _ADD.decode(origin)


def live_files(state: DeltaState, predicate: Predicate) -> Sequence[LiveFile]:
    """The live files that may match, with their add actions as origins, in path order."""
    return state.told(lambda state: _live_files(state, predicate))


def _live_files(state: DeltaState, predicate: Predicate) -> list[LiveFile]:
    found: list[LiveFile] = []
    reconciled = state.reconciled
    for path in reconciled.checkpoint_files:
        for adds, actions in add_rows(state.storage, path, predicate, state.shape):
            found += _live(adds, actions, predicate, state, reconciled.touched)
    tail = list(reconciled.adds.values())
    if tail:
        adds = from_actions(tail)
        rows = candidates(adds, predicate, state.shape)
        found += _live(adds.take(rows), [tail[row] for row in rows.to_pylist()], predicate, state, frozenset())
    return sorted(found, key=lambda file: file.slice.base.path if file.slice.base else "")


def _live(
    adds: pa.StructArray, actions: Sequence[AddAction], predicate: Predicate, state: DeltaState, gone: frozenset[str]
) -> list[LiveFile]:
    by_key = {action.key: action for action in actions}
    return [
        LiveFile(slice=one.slice, verdict=one.verdict, origin=msgspec.json.encode(by_key[key]))
        for key, one in judged(adds, predicate, state.shape)
        if key not in gone
    ]


def revise(state: DeltaState, deleted: Sequence[tuple[bytes, BitMap64]]) -> list[tuple[bytes, bytes]]:
    """Write one file with the deletion vectors of all these files, and give their add actions before and after."""
    if not deleted:
        return []
    identity = uuid.uuid4()
    place = VECTOR_FOLDER + encode_z85(identity.bytes)
    chunks = [bytes([FILE_VERSION])]
    offset = 1
    revised = []
    for origin, positions in deleted:
        data = encode_positions(positions)
        framed = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        vector = DeletionVectorAction(
            storage_type="u",
            path_or_inline_dv=place,
            offset=offset,
            size_in_bytes=len(data),
            cardinality=len(positions),
        )
        chunks.append(framed)
        offset += len(framed)
        revised.append((origin, msgspec.json.encode(_with_vector(decode_add(origin), vector))))
    state.storage.put(f"{VECTOR_FOLDER}/deletion_vector_{identity}.bin", b"".join(chunks))
    return revised


def vector_files(revised: Sequence[tuple[bytes, bytes]], table: str) -> frozenset[str]:
    """The files that hold the deletion vectors of revised files."""
    vectors = [_ADD.decode(new).deletion_vector for _, new in revised]
    paths = [locate(vector, table).path for vector in vectors if vector is not None]
    return frozenset(path for path in paths if path is not None)


def removal(origin: bytes, now: int, *, data_change: bool) -> RemoveAction:
    """The remove of a file, with all that its add said."""
    add = decode_add(origin)
    return RemoveAction(
        path=add.path,
        deletion_timestamp=now,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )


def addition(origin: bytes, *, data_change: bool) -> AddAction:
    """The add of a file that stays with other deleted rows."""
    return msgspec.structs.replace(decode_add(origin), data_change=data_change)


def _with_vector(add: AddAction, vector: DeletionVectorAction) -> AddAction:
    statistics = msgspec.json.decode(add.stats) if add.stats else {}
    # The bounds were those of all rows; the rows that are left need not reach them.
    statistics["tightBounds"] = False
    return msgspec.structs.replace(add, deletion_vector=vector, stats=msgspec.json.encode(statistics).decode())
