"""Maps of files as Avro writes them, decoded into columns: many maps side by side, or few of them file by file."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

# What the largest number of eight bytes is written as.
_LARGEST = (1 << 64) - 2
# Numbers side by side have so many bytes at most that no bit is lost.
_LARGEST_SHIFT = 56
# The end of a map: a block without files.
_MAP_END = b"\x00"
# With no more maps side by side than these, file by file is faster.
FEW = 1024


class OtherFormError(Exception):
    """Something is written in another way than expected, or damaged."""


@attrs.frozen(eq=False)
class FileEntries:
    """Files in the order of their bytes: where the name of each begins and ends, its size, and whether it is deleted."""

    begins: pa.Int64Array
    ends: pa.Int64Array
    sizes: pa.Int64Array
    deleted: pa.BooleanArray

    def names(self, body: bytes) -> pa.StringArray:
        """The names, which lie in the body."""
        count = len(self.begins)
        # They cut the body into names and the gaps between them.
        bounds = memoryview(bytearray(16 * count)).cast("q")
        for place, column in enumerate((self.begins, self.ends)):
            bounds[place::2] = memoryview(column.buffers()[1]).cast("q")[column.offset : column.offset + count]
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(body)]
        pieces = pa.Array.from_buffers(pa.large_binary(), max(0, 2 * count - 1), buffers)
        return pieces.take(pa.arange(0, 2 * count, 2)).cast(pa.string())


@attrs.frozen(eq=False)
class FileLists:
    """Files that are found one by one, with bounds of names in turn and the numbers of those that are deleted."""

    bounds: list[int] = attrs.field(factory=list)
    sizes: list[int] = attrs.field(factory=list)
    deleted: list[int] = attrs.field(factory=list)

    def entries(self) -> FileEntries:
        """The same as columns."""
        return FileEntries(
            pa.array(self.bounds[::2], pa.int64()),
            pa.array(self.bounds[1::2], pa.int64()),
            pa.array(self.sizes, pa.int64()),
            pc.is_in(pa.arange(0, len(self.sizes)), pa.array(self.deleted, pa.int64())),
        )

    def read_map(self, body: bytes, at: int) -> int:
        """Add the files of a map that begins at an offset; gives where it ends."""
        count, at = number_at(body, at)
        while count:
            count, at = number_at(body, self.read_files(body, at, count))
        return at

    def read_files(self, body: bytes, at: int, count: int) -> int:
        """Add so many files; gives where they end."""
        bounds, sizes, deleted = self.bounds, self.sizes, self.deleted
        for _ in range(count):
            # There may be a million files: the length of a name and a small size are read without a call.
            length, more = body[at], body[at + 1]
            if length < 0x80:
                at += 1
            elif more < 0x80:
                length, at = (length & 0x7F) | more << 7, at + 2
            else:
                raise OtherFormError
            bounds.append(at)
            at += length >> 1
            bounds.append(at)
            size = body[at]
            if size < 0x80:
                at += 1
            else:
                size, shift = size & 0x7F, 7
                while (more := body[at := at + 1]) >= 0x80:
                    size, shift = size | (more & 0x7F) << shift, shift + 7
                size, at = size | more << shift, at + 1
            if (length | size) & 1 or size > _LARGEST:
                raise OtherFormError
            sizes.append(size >> 1)
            if body[at]:
                deleted.append(len(sizes) - 1)
            at += 1
        return at


def number_at(body: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, which must not be negative, and where it ends."""
    byte = body[at]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = body[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value & 1 or value > _LARGEST:
        raise OtherFormError
    return value >> 1, at + 1


# --- many at once ---


@attrs.frozen(eq=False)
class SideBySide:
    """Bytes that are read at many offsets at once; raises OtherFormError, or IndexError behind the end."""

    body: bytes
    data: pa.UInt8Array

    @classmethod
    def of(cls, body: bytes) -> SideBySide:
        """These bytes, which are not copied."""
        return cls(body, pa.Array.from_buffers(pa.uint8(), len(body), [None, pa.py_buffer(body)]))

    def past(self, at: pa.Int64Array, expected: bytes) -> pa.Int64Array:
        """The offsets behind bytes that must stand at each."""
        for byte in expected:
            if not _all(pc.equal(self.data.take(at), pa.scalar(byte, pa.uint8()))):
                raise OtherFormError
            at = pc.add(at, 1)
        return at

    def numbers(self, at: pa.Int64Array) -> tuple[pa.Int64Array, pa.Int64Array]:
        """The numbers at offsets, which must not be negative, and where they end."""
        byte = self.data.take(at).cast(pa.int64())
        value, shift = pc.bit_wise_and(byte, 0x7F), 7
        while not _all(is_last := pc.less(byte, 0x80)):
            if shift > _LARGEST_SHIFT:
                raise OtherFormError
            at = pc.if_else(is_last, at, pc.add(at, 1))
            byte = pc.if_else(is_last, 0, self.data.take(at).cast(pa.int64()))
            value = pc.bit_wise_or(value, pc.shift_left(pc.bit_wise_and(byte, 0x7F), shift))
            shift += 7
        if not _all(pc.equal(pc.bit_wise_and(value, 1), 0)):
            raise OtherFormError
        return pc.shift_right(value, 1), pc.add(at, 1)

    def maps(self, at: pa.Int64Array, ends: pa.Int64Array, rest: bytes) -> tuple[list[int], FileEntries]:
        """How many files there are in the maps at these offsets, each of one block and with the rest up to its end, and the files."""
        counts, at = self.numbers(at)
        # A map without files is nothing but its end.
        at = pc.if_else(pc.equal(counts, 0), pc.subtract(at, 1), at)
        left, waves = counts, list[FileEntries]()
        while len(at) > FEW:
            is_done, is_open = pc.equal(left, 0), pc.greater(left, 0)
            if not self.past(at.filter(is_done), _MAP_END + rest).equals(ends.filter(is_done)):
                raise OtherFormError
            at, left, ends = (column.filter(is_open) for column in (at, left, ends))
            wave, at = self._files(at)
            waves.append(wave)
            left = pc.subtract(left, 1)
        lists = FileLists()
        for start, count, end in zip(at.to_pylist(), left.to_pylist(), ends.to_pylist()):
            if self.body[lists.read_files(self.body, start, count) : end] != _MAP_END + rest:
                raise OtherFormError
        return counts.to_pylist(), _in_order([*waves, lists.entries()])

    def _files(self, at: pa.Int64Array) -> tuple[FileEntries, pa.Int64Array]:
        """The one file at each offset, and where it ends."""
        lengths, begins = self.numbers(at)
        ends = pc.add(begins, lengths)
        sizes, flags = self.numbers(ends)
        return FileEntries(begins, ends, sizes, pc.not_equal(self.data.take(flags), 0)), pc.add(flags, 1)


def _in_order(parts: Sequence[FileEntries]) -> FileEntries:
    columns = zip(*((part.begins, part.ends, part.sizes, part.deleted) for part in parts))
    begins, ends, sizes, deleted = map(pa.concat_arrays, columns)
    order = pc.sort_indices(begins)
    return FileEntries(*(column.take(order) for column in (begins, ends, sizes, deleted)))


def _all(column: pa.BooleanArray) -> bool:
    found: bool = pc.all(column, min_count=0).as_py()
    return found
