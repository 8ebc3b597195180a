"""Log files, taken apart into blocks; bytes that make no block are told, not guessed at."""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator

import attrs

from tablespec.formats.hudi.instant_time import instant_number

MAGIC = b"#HUDI#"
_FORMAT_VERSION = 1
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_TWO_INTS = struct.Struct(">ii")
# What frames the smallest block: version, type, two empty maps, content length and total length.
_SMALLEST = 4 + 4 + 4 + 8 + 4 + 8


class BlockType(enum.IntEnum):
    """What a block holds, by the number in the file."""

    COMMAND = 0
    DELETE = 1
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class HeaderKey(enum.IntEnum):
    """The entries of a block header that a reader needs."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    IS_PARTIAL = 7


@attrs.frozen
class LogBlock:
    """A block: its type, the entries of its header by their numbers, and its content as it lies in the file."""

    type: BlockType
    header: tuple[tuple[int, str], ...]
    content: memoryview = attrs.field(eq=False, repr=False)

    def text(self, key: HeaderKey) -> str:
        """A header entry; empty where the block has none."""
        return dict(self.header).get(int(key), "")

    @property
    def instant(self) -> int | None:
        """The request time of the write that made the block; None where the header does not say."""
        return _instant(self.text(HeaderKey.INSTANT_TIME))

    @property
    def target(self) -> int | None:
        """The instant that a command is about."""
        return _instant(self.text(HeaderKey.TARGET_INSTANT_TIME))

    @property
    def schema(self) -> str:
        """The Avro schema of the records."""
        return self.text(HeaderKey.SCHEMA)

    @property
    def compacted(self) -> frozenset[int]:
        """The instants whose blocks this one stands for, after a log compaction."""
        times = self.text(HeaderKey.COMPACTED_BLOCK_TIMES).split(",")
        return frozenset(instant_number(time.strip()) for time in times if time.strip())

    @property
    def is_partial(self) -> bool:
        """Whether the records hold only the columns that were set."""
        return self.text(HeaderKey.IS_PARTIAL).lower() == "true"

    @property
    def is_rollback(self) -> bool:
        """Whether the block takes back the blocks of its target."""
        return self.type is BlockType.COMMAND and self.text(HeaderKey.COMMAND_BLOCK_TYPE) in ("0", "")


@attrs.frozen
class Damage:
    """Bytes of a log file that make no whole block; readers go on behind them."""

    start: int
    end: int


def blocks_of(data: bytes) -> Iterator[LogBlock | Damage]:
    """The blocks of a log file in order, and what lies between them.

    A block that was cut short or whose two lengths differ is damage, as for Hudi. A whole one that cannot be
    understood raises ValueError.
    """
    view, offset = memoryview(data), 0
    while offset < len(data):
        end = _block_end(data, offset)
        if end is None:
            following = data.find(MAGIC, offset + 1)
            # The magic bytes may stand inside of a value: go on to the first ones that begin a whole block.
            while following >= 0 and _block_end(data, following) is None:
                following = data.find(MAGIC, following + 1)
            end = len(data) if following < 0 else following
            yield Damage(offset, end)
        else:
            yield _block(view[offset + len(MAGIC) + 8 : end - 8])
        offset = end


def _block_end(data: bytes, start: int) -> int | None:
    """Where the block ends that begins here; None where none does."""
    if data[start : start + len(MAGIC)] != MAGIC or len(data) - start < len(MAGIC) + 8 + _SMALLEST:
        return None
    (length,) = _LONG.unpack_from(data, start + len(MAGIC))
    end = start + len(MAGIC) + 8 + length
    if length < _SMALLEST or end > len(data):
        return None
    (total,) = _LONG.unpack_from(data, end - 8)
    return end if total == length + len(MAGIC) else None


def _block(body: memoryview) -> LogBlock:
    try:
        version, kind = _TWO_INTS.unpack_from(body, 0)
        if version != _FORMAT_VERSION:
            raise ValueError(f"a block has the log format version {version}, and only {_FORMAT_VERSION} is known")
        header, offset = _entries(body, 8)
        (length,) = _LONG.unpack_from(body, offset)
        content = body[offset + 8 : offset + 8 + length]
        if length < 0 or len(content) != length:
            raise ValueError("the content of a block is longer than the block")
        _, end = _entries(body, offset + 8 + length)
    except struct.error as error:
        raise ValueError(f"a block ends too early ({error})") from error
    if end != len(body):
        raise ValueError("a block is longer than what it holds")
    return LogBlock(BlockType(kind), header, content)


def _entries(body: memoryview, offset: int) -> tuple[tuple[tuple[int, str], ...], int]:
    """The entries of a header or footer, and the offset behind them."""
    (count,) = _INT.unpack_from(body, offset)
    offset += 4
    if not 0 <= count <= len(body) // 8:
        raise ValueError("a block header counts more entries than it can hold")
    found = []
    for _ in range(count):
        key, length = _TWO_INTS.unpack_from(body, offset)
        text = bytes(body[offset + 8 : offset + 8 + length]) if length >= 0 else b""
        if len(text) != length:
            raise ValueError("an entry of a block header is longer than the block")
        found.append((key, text.decode()))
        offset += 8 + length
    return tuple(found), offset


def _instant(text: str) -> int | None:
    return instant_number(text) if text else None
