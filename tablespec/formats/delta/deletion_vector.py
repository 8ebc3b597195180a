"""Sets of deleted row positions: their descriptors and their bytes."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from urllib.parse import unquote

from pyroaring import BitMap64

from tablespec.errors import CorruptFileError, CorruptLogError, StorageError, UnsupportedTableError
from tablespec.formats.delta.actions import DeletionVectorAction
from tablespec.model.file import DeletionVector
from tablespec.storage.store import Storage

MAGIC = 1681511377
FILE_VERSION = 1

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85, _TO_Z85 = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)


def locate(action: DeletionVectorAction, table: str) -> DeletionVector:
    """Where a descriptor says that the vector lies."""
    try:
        path, inline = _place(action, table)
    except ValueError as error:
        why = f"{action.path_or_inline_dv!r} names no place of a vector ({error})"
        raise CorruptLogError(table, "add.deletionVector", 0, why) from error
    return DeletionVector(
        path=path,
        inline=inline,
        offset=action.offset or 0,
        size=action.size_in_bytes,
        cardinality=action.cardinality,
    )


def load(storage: Storage, vector: DeletionVector) -> BitMap64:
    """The positions in a vector; its checksum, size and cardinality are checked."""
    name = vector.path or "(inline)"
    if vector.inline is not None:
        data = vector.inline
    else:
        assert vector.path is not None
        data = _unframe(_framed(storage, vector, vector.path), vector, storage.url)
    positions = decode_positions(data, storage.url, name)
    if len(positions) != vector.cardinality:
        why = f"the vector holds {len(positions)} positions where the log says {vector.cardinality}"
        raise CorruptFileError(storage.url, name, why)
    return positions


def decode_positions(data: bytes, table: str, name: str) -> BitMap64:
    """The positions in the bytes of one vector."""
    if len(data) < 4 or struct.unpack_from("<I", data)[0] != MAGIC:
        raise CorruptFileError(table, name, "it does not start with the number of a deletion vector")
    try:
        return BitMap64.deserialize(data[4:])
    except (ValueError, IndexError) as error:
        raise CorruptFileError(table, name, str(error)) from error


def encode_positions(positions: BitMap64) -> bytes:
    """The bytes of one vector."""
    return struct.pack("<I", MAGIC) + positions.serialize()


def decode_z85(text: str) -> bytes:
    """The bytes of Z85 text; raises ValueError for other text."""
    if len(text) % 5 or not set(text) <= set(_Z85):
        raise ValueError("it is not Z85")
    return base64.b85decode(text.translate(_TO_B85))


def encode_z85(data: bytes) -> str:
    """Z85 text of bytes, whose number is a multiple of four."""
    return base64.b85encode(data).decode().translate(_TO_Z85)


def _place(action: DeletionVectorAction, table: str) -> tuple[str | None, bytes | None]:
    text = action.path_or_inline_dv
    match action.storage_type:
        case "u":
            name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(text[-20:]))}.bin"
            return f"{text[:-20]}/{name}" if text[:-20] else name, None
        case "p":
            return unquote(text), None
        case "i":
            return None, decode_z85(text)[: action.size_in_bytes]
        case other:
            raise UnsupportedTableError(table, f"deletion vectors of the storage type {other!r}")


def _framed(storage: Storage, vector: DeletionVector, path: str) -> bytes:
    """The bytes of a vector with its size before and its checksum behind them."""
    try:
        return storage.read_range(path, vector.offset, vector.size + 8)
    except StorageError as error:
        file = storage.head(path)
        if file is None or vector.offset + vector.size + 8 <= file.size:
            raise
        why = f"it ends at byte {file.size}, inside of the vector at byte {vector.offset}"
        raise CorruptFileError(storage.url, path, why) from error


def _unframe(framed: bytes, vector: DeletionVector, table: str) -> bytes:
    assert vector.path is not None
    (size,) = struct.unpack_from(">i", framed)
    if size != vector.size:
        raise CorruptFileError(table, vector.path, f"a vector of {size} bytes stands where the log says {vector.size}")
    data = framed[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", framed, 4 + size)
    if zlib.crc32(data) != checksum:
        raise CorruptFileError(table, vector.path, "the checksum of a deletion vector does not match")
    return data
