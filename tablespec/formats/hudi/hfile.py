"""HFiles: sorted pairs of keys and values, as the metadata table keeps them."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import attrs

_TRAILER_BYTES = 4096
_TRAILER_MAGIC = b'TRABLK"$'
_DATA_MAGIC = b"DATABLK*"
_PROTOBUF_MAGIC = b"PBUF"
_HEADER = struct.Struct(">8siiqbii")
# Of the key, of the value, and of the row that the key begins with.
_LENGTHS = struct.Struct(">iih")
_SHORT = struct.Struct(">h")
_INDEX_ENTRY = struct.Struct(">qi")
_VARINT, _BYTES = 0, 2
_LONGEST_BYTE = 0x7F
_FILE_INFO_OFFSET, _LOAD_ON_OPEN, _INDEX_COUNT, _ENTRY_COUNT, _INDEX_LEVELS = 1, 2, 5, 7, 8
_FIRST_DATA, _LAST_DATA, _CODEC = 9, 10, 12
_GZIP, _NONE = 1, 2
# A block of a metadata table has at most a few megabytes; more than this is damage.
_LARGEST_BLOCK = 1 << 28


@attrs.frozen(eq=False)
class Entries:
    """Pairs of a file: the keys, and where in `data` the value of each begins and ends."""

    keys: tuple[bytes, ...]
    data: bytes
    starts: tuple[int, ...]
    ends: tuple[int, ...]


@attrs.frozen(eq=False)
class HFile:
    """A file whose end has been read; `read` gives bytes of it by offset and length.

    Everything raises ValueError for bytes that are no sound HFile.
    """

    read: Callable[[int, int], bytes | memoryview]
    size: int
    _trailer: dict[int, int]

    @classmethod
    def open(cls, read: Callable[[int, int], bytes | memoryview], size: int) -> HFile:
        """The file of that size."""
        if size < _TRAILER_BYTES:
            raise ValueError("it has no HFile trailer")
        with _soundly():
            return cls(read, size, _trailer(bytes(read(size - _TRAILER_BYTES, _TRAILER_BYTES))))

    @classmethod
    def of(cls, body: bytes | memoryview) -> HFile:
        """The file whose bytes are at hand; they are not copied."""
        view = memoryview(body)
        return cls.open(lambda offset, length: view[offset : offset + length], len(view))

    @property
    def count(self) -> int:
        """The number of its pairs."""
        return self._trailer.get(_ENTRY_COUNT, 0)

    def schema(self) -> str:
        """The Avro schema of the values, as the file itself tells; empty where it does not."""
        with _soundly():
            payload = self._block(self._trailer.get(_FILE_INFO_OFFSET, 0))
            return _file_info(payload).get(b"schema", b"").decode()

    def entries(self, wanted: Collection[str] | None = None) -> Entries:
        """The pairs in the order of their keys: all, or those of the blocks that may hold one of the wanted keys."""
        with _soundly():
            index = None if wanted is None else self._index()
            # Writers order keys as Java does, which is the order of bytes only where one of the two is plain.
            if wanted is None or index is None or not all(map(str.isascii, wanted)):
                return _entries(_data_blocks(self.read(0, self.size), self._trailer))
            numbers = {bisect_right(index, key.encode(), key=lambda one: one[0]) - 1 for key in wanted}
            chosen = [index[number] for number in sorted(numbers) if number >= 0]
            codec = self._trailer.get(_CODEC, _NONE)
            return _entries(_block_at(self._piece(offset, length), 0, codec)[1] for _, offset, length in chosen)

    def _index(self) -> list[tuple[bytes, int, int]] | None:
        """For each data block a key that none before it reaches, its offset and its length; None where the index has another form."""
        if self._trailer.get(_INDEX_LEVELS, 1) != 1:
            return None
        payload = self._block(self._trailer.get(_LOAD_ON_OPEN, 0))
        found, place = [], 0
        for _ in range(self._trailer.get(_INDEX_COUNT, 0)):
            offset, length = _INDEX_ENTRY.unpack_from(payload, place)
            # Keys are shorter than the lengths that take more than a byte, or else the whole file is read.
            size, place = payload[place + _INDEX_ENTRY.size], place + _INDEX_ENTRY.size + 1
            (row_length,) = _SHORT.unpack_from(payload, place)
            if size > _LONGEST_BYTE or not 0 <= row_length <= size - _SHORT.size:
                return None
            found.append((payload[place + _SHORT.size : place + _SHORT.size + row_length], offset, length))
            place += size
        return found

    def _block(self, offset: int) -> bytes:
        """A block of the part that is read when a file is opened."""
        body = self._piece(offset, self.size - _TRAILER_BYTES - offset)
        return bytes(_block_at(body, 0, self._trailer.get(_CODEC, _NONE))[1])

    def _piece(self, offset: int, length: int) -> bytes | memoryview:
        if not 0 <= offset <= offset + length <= self.size:
            raise ValueError("a block lies outside of the file")
        return self.read(offset, length)


def read_hfile(body: bytes | memoryview) -> Entries:
    """All pairs of a file."""
    return HFile.of(body).entries()


@contextmanager
def _soundly() -> Iterator[None]:
    try:
        yield
    except (struct.error, IndexError, zlib.error, OverflowError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no sound HFile ({error})") from error


def _trailer(body: bytes) -> dict[int, int]:
    if not body.startswith(_TRAILER_MAGIC):
        raise ValueError("it has no HFile trailer")
    length, offset = _varint(body, len(_TRAILER_MAGIC))
    found = {number: value for number, value in _fields(body[offset : offset + length]) if isinstance(value, int)}
    if found.get(_CODEC, _NONE) not in (_GZIP, _NONE):
        raise ValueError(f"its compression {found[_CODEC]} is not known")
    return found


def _entries(blocks: Iterable[bytes | memoryview]) -> Entries:
    keys: list[bytes] = []
    starts: list[int] = []
    ends: list[int] = []
    payloads = list(blocks)
    data = b"".join(payloads)
    offset = 0
    for limit in accumulate(map(len, payloads)):
        while offset < limit:
            key_length, value_length, row_length = _LENGTHS.unpack_from(data, offset)
            first = offset + _LENGTHS.size
            value = first - _SHORT.size + key_length
            end = value + value_length
            if key_length < _SHORT.size or not 0 <= row_length <= key_length or value_length < 0:
                raise ValueError("an entry has lengths that cannot be")
            if end >= limit:
                raise ValueError("an entry is longer than its block")
            keys.append(data[first : first + row_length])
            starts.append(value)
            ends.append(end)
            offset = end + 1
    return Entries(tuple(keys), data, tuple(starts), tuple(ends))


def _data_blocks(body: bytes | memoryview, trailer: dict[int, int]) -> Iterator[bytes | memoryview]:
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


def _block_at(body: bytes | memoryview, offset: int, codec: int) -> tuple[bytes, bytes | memoryview, int]:
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
