"""Sets of row positions as flags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablespec.arrow.positions import among

FAR = 1 << 40


@given(positions=st.sets(st.integers(0, 60)), start=st.integers(0, 50), rows=st.integers(0, 50))
def test_each_row_is_flagged_whose_position_is_in_the_set(positions: set[int], start: int, rows: int) -> None:
    flags = among(BitMap64(positions), start, rows)

    assert flags.to_pylist() == [position in positions for position in range(start, start + rows)]


@pytest.mark.parametrize("first", [0, 65_000, FAR])
def test_runs_of_positions_are_flagged_wherever_they_lie(first: int) -> None:
    positions = BitMap64(range(first + 3, first + 3000))

    flags = among(positions, first, 4000)

    assert flags.to_pylist() == [3 <= row < 3000 for row in range(4000)]


def test_the_set_stays_as_it_was() -> None:
    positions = BitMap64([1, 5, 9])

    among(positions, 2, 5)

    assert positions == BitMap64([1, 5, 9])
