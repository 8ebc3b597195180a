"""Sets of row positions as flags, one for each row."""

from __future__ import annotations

import struct
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

# Flags that are false and true by turns, and true and false.
_FALSE_FIRST, _TRUE_FIRST = b"\xaa", b"\x55"

# The portable form of a bitmap, as far as it matters here: how many maps of 32 bits there are and the upper half of their numbers, a mark
# and how many containers; then the number and the last place of each container, where they begin, and a bit for each number of a dense one.
_HEAD = struct.Struct("<QIII")
_MARK = 12346
_NUMBERS = 1 << 16
_CONTAINER = _NUMBERS // 8
# Containers that hold no more than so many are lists of numbers instead.
_SPARSE = 4096


def outside(positions: BitMap64, start: int, rows: int) -> pa.BooleanArray:
    """For each of so many rows from a position on whether its own is none of these."""
    if not rows:
        return pa.array([], pa.bool_())
    here = positions
    if here and (here.min() < start or here.max() >= start + rows):
        here = here & BitMap64(range(start, start + rows))
    if start:
        here = here.shift(-start)
    others = _dense_complement(here, rows)
    return pc.invert(_runs(here, rows)) if others is None else others


def _dense_complement(here: BitMap64, rows: int) -> pa.BooleanArray | None:
    """The flags of all others, cut out of a bitmap of them; None where some of its containers are not made of bits."""
    containers = -(-rows // _NUMBERS)
    if containers > _NUMBERS:
        return None
    first = _HEAD.size + 8 * containers
    others = (_all_numbers(containers) ^ here).serialize()
    if len(others) != first + containers * _CONTAINER or _HEAD.unpack_from(others)[2:] != (_MARK, containers):
        return None
    last_places = struct.unpack_from(f"<{2 * containers}H", others, _HEAD.size)[1::2]
    if min(last_places) < _SPARSE:
        return None
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(others).slice(first)])


@lru_cache(maxsize=4)
def _all_numbers(containers: int) -> BitMap64:
    """All numbers of so many containers, each of them made of bits."""
    # Otherwise the ranges that the bitmap is made of would be kept as such.
    numbers = b"".join(struct.pack("<HH", number, _NUMBERS - 1) for number in range(containers))
    first = _HEAD.size - 12 + 8 * containers
    places = struct.pack(f"<{containers}I", *(first + number * _CONTAINER for number in range(containers)))
    bits = b"\xff" * (containers * _CONTAINER)
    return BitMap64.deserialize(_HEAD.pack(1, 0, _MARK, containers) + numbers + places + bits)


def _runs(here: BitMap64, rows: int) -> pa.BooleanArray:
    """The flags as runs that end where the next row has another one."""
    turns = here ^ here.shift(1)
    pattern = _TRUE_FIRST if 0 in here else _FALSE_FIRST
    turns.discard(0)
    turns.add(rows)
    count = len(turns)
    ends = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(turns.to_array())])
    flags = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(pattern * (count // 8 + 1))])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, flags))
