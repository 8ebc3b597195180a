"""Sets of row positions as flags, one for each row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

# Flags that are false and true by turns, and true and false.
_FALSE_FIRST, _TRUE_FIRST = b"\xaa", b"\x55"


def among(positions: BitMap64, start: int, rows: int) -> pa.BooleanArray:
    """For each of so many rows from a position on whether its own is among these."""
    if not rows:
        return pa.array([], pa.bool_())
    here = (positions & BitMap64(range(start, start + rows))).shift(-start)
    # The flags as runs that end where the next row has another one.
    turns = here ^ here.shift(1)
    pattern = _TRUE_FIRST if 0 in here else _FALSE_FIRST
    turns.discard(0)
    turns.add(rows)
    count = len(turns)
    ends = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(turns.to_array())])
    flags = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(pattern * (count // 8 + 1))])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, flags))
