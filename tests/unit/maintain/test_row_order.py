import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.maintain.row_order import Order, interleaved, laid_out, scaled


def laid(values, rows_per_file, order=Order.SORT):
    layout = laid_out([pa.chunked_array([values])], order, rows_per_file)
    return layout.places.to_pylist(), layout.starts


def test_places_are_those_of_the_sorted_rows_and_nulls_come_last():
    assert laid([30, None, 10, 20], 10) == ([2, 3, 0, 1], (0, 4))


def test_not_a_number_comes_after_every_number_and_before_null():
    assert laid([None, float("nan"), 1.0], 10)[0] == [2, 1, 0]


def test_files_begin_after_as_many_rows_as_asked_for():
    assert laid(list(range(10)), 4)[1] == (0, 4, 8, 10)


def test_equal_keys_share_a_file():
    assert laid([1, 1, 1, 2, 2, 2, 3, 3], 2)[1] == (0, 3, 6, 8)


def test_keys_that_fill_more_than_a_file_are_cut():
    assert laid([1] * 8 + [2], 2)[1] == (0, 2, 4, 6, 8, 9)


def test_later_columns_decide_between_equal_values_of_the_first():
    keys = [pa.chunked_array([["b", "a", "b", "a"]]), pa.chunked_array([[1, 2, 0, 1]])]

    layout = laid_out(keys, Order.SORT, 2)

    assert layout.places.to_pylist() == [3, 1, 2, 0]
    assert layout.starts == (0, 2, 4)


def test_quantiles_keep_the_order_and_the_ties_of_ranks():
    assert scaled(pa.array([1, 1, 3, 4], pa.uint64()), 4, 2).to_pylist() == [0, 0, 2, 3]


def test_bits_are_taken_in_turns_from_the_first_column_on():
    assert interleaved([pa.array([0b11, 0b00]), pa.array([0b00, 0b11])]).to_pylist() == [0b1010, 0b0101]


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 40])
def test_a_curve_of_any_number_of_columns_puts_every_row_somewhere(width):
    keys = [pa.chunked_array([list(range(50))]) for _ in range(width)]

    layout = laid_out(keys, Order.ZORDER, 10)

    assert layout.places.to_pylist() == list(range(50))


def test_the_curve_makes_the_ranges_of_both_columns_narrow():
    points = list(itertools.product(range(16), range(16)))
    keys = [pa.chunked_array([[point[axis] for point in points]]) for axis in (0, 1)]

    layout = laid_out(keys, Order.ZORDER, 16)

    files = [
        [point for point, place in zip(points, layout.places.to_pylist()) if start <= place < end]
        for start, end in itertools.pairwise(layout.starts)
    ]
    widths = [
        max(point[axis] for point in file) - min(point[axis] for point in file) for file in files for axis in (0, 1)
    ]
    assert widths == [3] * 32


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 20))
def test_ranges_of_files_meet_only_in_values_that_fill_more_than_one(values, rows_per_file):
    places, starts = laid(pa.array(values, pa.int64()), rows_per_file)

    ordered = [value for _, value in sorted(zip(places, values))]
    assert sorted(places) == list(range(len(values)))
    assert ordered == sorted(values, key=lambda value: (value is None, value or 0))
    for start, cut in itertools.pairwise(starts[:-1]):
        if ordered[cut - 1] == ordered[cut]:
            assert cut - start == rows_per_file
            assert ordered[cut : start + 2 * rows_per_file] == [ordered[cut]] * len(
                ordered[cut : start + 2 * rows_per_file]
            )
        assert cut - start < 2 * rows_per_file
