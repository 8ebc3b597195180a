"""Sets of row positions as flags."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablespec.arrow.positions import outside

FAR = 1 << 40
CONTAINER = 1 << 16


@given(positions=st.sets(st.integers(0, 60)), start=st.integers(0, 50), rows=st.integers(0, 50))
def test_each_row_is_flagged_whose_position_is_not_in_the_set(positions: set[int], start: int, rows: int) -> None:
    flags = outside(BitMap64(positions), start, rows)

    assert flags.to_pylist() == [position not in positions for position in range(start, start + rows)]


@pytest.mark.parametrize("first", [0, 65_000, FAR])
def test_runs_of_positions_are_left_out_wherever_they_lie(first: int) -> None:
    positions = BitMap64(range(first + 3, first + 3000))

    flags = outside(positions, first, 4000)

    assert flags.to_pylist() == [not 3 <= row < 3000 for row in range(4000)]


@given(
    bounds=st.lists(st.tuples(st.integers(0, 3 * CONTAINER), st.integers(1, CONTAINER)), max_size=4),
    step=st.sampled_from([1, 2, 3, 17, 5000]),
    start=st.sampled_from([0, 1, CONTAINER - 1, CONTAINER, 2 * CONTAINER + 5]),
    rows=st.sampled_from([1, 7, CONTAINER - 1, CONTAINER, CONTAINER + 1, 3 * CONTAINER]),
)
def test_many_rows_are_flagged_alike_however_their_bitmap_is_kept(
    bounds: list[tuple[int, int]], step: int, start: int, rows: int
) -> None:
    positions = BitMap64()
    for first, length in bounds:
        positions |= BitMap64(range(first, first + length, step))

    flags = outside(positions, start, rows)

    taken = pc.is_in(pa.arange(start, start + rows), pa.array(positions.to_array(), pa.uint64()).cast(pa.int64()))
    assert flags.equals(pc.invert(taken))


@pytest.mark.parametrize("left", [0, 1, 4095, 4096, 4097])
def test_rows_of_which_few_are_left_are_flagged_too(left: int) -> None:
    flags = outside(BitMap64(range(left, CONTAINER)), 0, CONTAINER)

    assert flags.to_pylist() == [row < left for row in range(CONTAINER)]


def test_the_set_stays_as_it_was() -> None:
    positions = BitMap64([1, 5, 9])

    outside(positions, 2, 5)

    assert positions == BitMap64([1, 5, 9])
