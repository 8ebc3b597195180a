"""HFiles: sorted pairs of keys and values, as the metadata table keeps them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import attrs

_TRAILER_BYTES = 4096
_TRAILER_MAGIC = b'TRABLK"$'
_DATA_MAGIC = b"DATABLK*"
_PROTOBUF_MAGIC = b"PBUF"
_HEADER = struct.Struct(">8siiqbii")
_LENGTHS = struct.Struct(">ii")
_SHORT = struct.Struct(">h")
_VARINT, _BYTES = 0, 2
_FILE_INFO_OFFSET, _FIRST_DATA, _LAST_DATA, _CODEC = 1, 9, 10, 12
_GZIP, _NONE = 1, 2
# A block of a metadata table has at most a few megabytes; more than this is damage.
_LARGEST_BLOCK = 1 << 28


@attrs.frozen(eq=False)
class Entries:
    """All pairs of a file: the keys, and where in `data` the value of each begins and ends."""

    keys: tuple[bytes, ...]
    data: bytes
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def read_hfile(body: bytes) -> Entries:
    """The pairs of a file in the order of their keys; raises ValueError for bytes that are no sound HFile."""
    try:
        return _entries(body, _trailer(body))
    except (struct.error, IndexError, zlib.error, OverflowError) as error:
        raise ValueError(f"it is no sound HFile ({error})") from error


def file_schema(body: bytes) -> str:
    """The Avro schema of the values, as the file itself tells; empty where it does not."""
    try:
        trailer = _trailer(body)
        payload = _block(body, trailer.get(_FILE_INFO_OFFSET, 0), trailer.get(_CODEC, _NONE))[1]
        return _file_info(payload).get(b"schema", b"").decode()
    except (struct.error, IndexError, zlib.error, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no sound HFile ({error})") from error


def _trailer(body: bytes) -> dict[int, int]:
    start = len(body) - _TRAILER_BYTES
    if start < 0 or body[start : start + len(_TRAILER_MAGIC)] != _TRAILER_MAGIC:
        raise ValueError("it has no HFile trailer")
    length, offset = _varint(body, start + len(_TRAILER_MAGIC))
    found = {number: value for number, value in _fields(body[offset : offset + length]) if isinstance(value, int)}
    if found.get(_CODEC, _NONE) not in (_GZIP, _NONE):
        raise ValueError(f"its compression {found[_CODEC]} is not known")
    return found


def _entries(body: bytes, trailer: dict[int, int]) -> Entries:
    keys: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    pieces: list[bytes] = []
    before = 0
    for payload in _data_blocks(body, trailer):
        offset = 0
        while offset < len(payload):
            key_length, value_length = _LENGTHS.unpack_from(payload, offset)
            value = offset + _LENGTHS.size + key_length
            (row_length,) = _SHORT.unpack_from(payload, offset + _LENGTHS.size)
            if key_length < _SHORT.size or not 0 <= row_length <= key_length or value_length < 0:
                raise ValueError("an entry has lengths that cannot be")
            if value + value_length + 1 > len(payload):
                raise ValueError("an entry is longer than its block")
            first = offset + _LENGTHS.size + _SHORT.size
            keys.append(payload[first : first + row_length])
            starts.append(before + value)
            ends.append(before + value + value_length)
            offset = value + value_length + 1
        pieces.append(payload)
        before += len(payload)
    return Entries(tuple(keys), b"".join(pieces), tuple(starts), tuple(ends))


def _data_blocks(body: bytes, trailer: dict[int, int]) -> Iterator[bytes]:
    """The data blocks from the first to the last; index and bloom blocks may lie between them."""
    if _FIRST_DATA not in trailer and _LAST_DATA not in trailer:
        return
    offset, last = trailer.get(_FIRST_DATA, 0), trailer.get(_LAST_DATA, 0)
    if not 0 <= offset <= last < len(body):
        # Files without any entry have no first block.
        return
    while offset <= last:
        magic, payload, following = _block_at(body, offset, trailer.get(_CODEC, _NONE))
        if magic == _DATA_MAGIC:
            yield payload
        offset = following


def _block(body: bytes, offset: int, codec: int) -> tuple[bytes, bytes]:
    magic, payload, _ = _block_at(body, offset, codec)
    return magic, payload


def _block_at(body: bytes, offset: int, codec: int) -> tuple[bytes, bytes, int]:
    """The magic and the payload of a block, and where the next one begins."""
    magic, on_disk, size, _, _, _, with_header = _HEADER.unpack_from(body, offset)
    if on_disk < 0 or not 0 <= size <= _LARGEST_BLOCK or with_header < _HEADER.size:
        raise ValueError("a block has a size that cannot be")
    end = offset + _HEADER.size + on_disk
    if end > len(body):
        raise ValueError("a block is longer than the file")
    # What follows the data on disk are checksums.
    stored = body[offset + _HEADER.size : min(end, offset + with_header)]
    if codec == _NONE:
        return magic, stored[:size], end
    unpacked = zlib.decompressobj(wbits=31).decompress(stored, size + 1)
    if len(unpacked) != size:
        raise ValueError("a block does not unpack to its size")
    return magic, unpacked, end


def _file_info(payload: bytes) -> dict[bytes, bytes]:
    if not payload.startswith(_PROTOBUF_MAGIC):
        raise ValueError("its file info has an unknown form")
    length, offset = _varint(payload, len(_PROTOBUF_MAGIC))
    found = {}
    for _, pair in _fields(payload[offset : offset + length]):
        if isinstance(pair, bytes):
            parts = {number: value for number, value in _fields(pair) if isinstance(value, bytes)}
            found[parts.get(1, b"")] = parts.get(2, b"")
    return found


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a protobuf message."""
    offset = 0
    while offset < len(message):
        tag, offset = _varint(message, offset)
        if tag & 7 == _VARINT:
            value, offset = _varint(message, offset)
            yield tag >> 3, value
        elif tag & 7 == _BYTES:
            length, offset = _varint(message, offset)
            yield tag >> 3, message[offset : offset + length]
            offset += length
        else:
            raise ValueError("a message has a field of an unknown kind")


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset
        if shift > 63:
            raise ValueError("a number has too many bytes")
