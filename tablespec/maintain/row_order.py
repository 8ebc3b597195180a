"""In which order rows lie best: sorted by columns, or along a curve on which rows near in several columns are near."""

from __future__ import annotations

import bisect
import enum
from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

# A place on the curve is a signed number, so this many bits are shared by the columns.
CURVE_BITS = 62
BITS_PER_COLUMN = 16


class Order(enum.Enum):
    """How rows are ordered: by one column after the other, or by all of them alike."""

    SORT = "sort"
    ZORDER = "zorder"


@attrs.frozen(eq=False)
class Layout:
    """The order that rows get, and where in it new files begin.

    `places` tells the place in the order for every row as it was; `starts` are the places with which files begin, and at the end the
    number of rows.
    """

    places: pa.Array
    starts: tuple[int, ...]


def laid_out(keys: Sequence[pa.ChunkedArray], order: Order, rows_per_file: int) -> Layout:
    """The layout of rows with these keys; nulls come last.

    Rows with equal keys share a file, as long as it has less than twice the rows that it should.
    """
    count = len(keys[0])
    match order:
        case Order.SORT:
            columns = keys
        case Order.ZORDER:
            bits = _bits(len(keys))
            columns = [interleaved([scaled(pc.rank(key, tiebreaker="min"), count, bits) for key in keys])]
    rows = _sorted(columns)
    starts = _starts(_changes([column.take(rows) for column in columns]), count, rows_per_file)
    return Layout(inverted(rows), starts)


def inverted(order: pa.Array) -> pa.Array:
    """Where each number from 0 on stands in an order of them; twice inverted is the order again."""
    return pc.inverse_permutation(order.cast(pa.int64()))


def scaled(ranks: pa.Array, count: int, bits: int) -> pa.Array:
    """Ranks from 1 to `count` as quantiles from 0 to 2^bits - 1; equal ranks stay equal."""
    return pc.divide(pc.multiply(pc.subtract(ranks.cast(pa.int64()), 1), 1 << bits), max(count, 1))


def interleaved(columns: Sequence[pa.Array]) -> pa.Array:
    """The bits of the numbers in each row taken in turns, the highest of the first column first."""
    width = len(columns)
    result = pa.repeat(pa.scalar(0, pa.int64()), len(columns[0]))
    for position, column in enumerate(columns):
        for bit in range(_bits(width)):
            lone = pc.bit_wise_and(pc.shift_right(column, bit), 1)
            result = pc.bit_wise_or(result, pc.shift_left(lone, bit * width + width - 1 - position))
    return result


def _bits(width: int) -> int:
    return max(1, min(BITS_PER_COLUMN, CURVE_BITS // width))


def _sorted(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    table = pa.table({str(number): column for number, column in enumerate(columns)})
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])


def _changes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """The places at which a row differs from the one before it."""
    last = max(len(columns[0]) - 1, 0)
    differs = pa.chunked_array([pa.repeat(pa.scalar(False), last)])
    for column in columns:
        one, other = column.slice(0, last), column.slice(1)
        differs = pc.or_(differs, pc.not_equal(one, other).fill_null(False))
        differs = pc.or_(differs, pc.xor(pc.is_null(one), pc.is_null(other)))
    return pc.add(pc.indices_nonzero(differs).cast(pa.int64()), 1)


def _starts(changes: pa.Array, count: int, rows_per_file: int) -> tuple[int, ...]:
    starts = [0]
    while starts[-1] + rows_per_file < count:
        wanted = starts[-1] + rows_per_file
        position = bisect.bisect_left(range(len(changes)), wanted, key=lambda index: changes[index].as_py())
        end = changes[position].as_py() if position < len(changes) else count
        # Files whose ranges do not meet are worth some bytes more, up to twice the size.
        starts.append(end if end < starts[-1] + 2 * rows_per_file else wanted)
    return tuple(dict.fromkeys((*starts, count)))
