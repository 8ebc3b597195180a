"""Bounds of statistics, loosened by what writers lose of them and by no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.arrow.schema import arrow_type
from tablespec.formats.delta.bounds import outer_bounds
from tablespec.formats.delta.numbers import as_decimal
from tablespec.model.schema import DATE, DOUBLE, LONG, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType


def loosened(value: object, data_type: DataType) -> tuple[object, object]:
    bound = pa.array([value], arrow_type(data_type))
    low, high = outer_bounds(bound, bound, data_type)
    assert low.type == high.type
    return low[0].as_py(), high[0].as_py()


def test_a_timestamp_may_have_been_cut_to_milliseconds():
    moment = datetime(2020, 1, 1, 0, 0, 0, 123000)

    assert loosened(moment, TIMESTAMP_NTZ) == (moment, moment + timedelta(microseconds=999))
    aware = moment.replace(tzinfo=UTC)
    assert loosened(aware, TIMESTAMP) == (aware, aware + timedelta(microseconds=999))


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (5, LONG),
        (0.1, DOUBLE),
        ("a", STRING),
        (datetime(2020, 1, 1).date(), DATE),
        (Decimal("1.5"), DecimalType(15, 1)),
    ],
    ids=str,
)
def test_other_bounds_are_taken_as_they_are(value, data_type):
    assert loosened(value, data_type) == (value, value)


@pytest.mark.parametrize("data_type", [LONG, TIMESTAMP, DecimalType(38, 18)], ids=str)
def test_unknown_bounds_stay_unknown(data_type):
    assert loosened(None, data_type) == (None, None)


@given(data=st.data())
def test_a_decimal_that_was_written_as_a_double_is_within_its_bounds(data):
    precision = data.draw(st.integers(1, 38))
    data_type = DecimalType(precision, data.draw(st.integers(0, precision)))
    unscaled = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    value = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -data_type.scale))
    as_double = Decimal(repr(float(unscaled) / 10.0**data_type.scale))

    try:
        low, high = loosened(as_decimal(as_double, data_type), data_type)
    except ValueError:
        return  # beyond the range of the type, so that it is no bound at all
    assert low <= value <= high


@given(unscaled=st.integers(10**20, 10**38 - 1), scale=st.integers(0, 38))
def test_bounds_of_long_decimals_stay_narrow(unscaled, scale):
    value = Decimal((0, tuple(map(int, str(unscaled))), -scale))

    low, high = loosened(value, DecimalType(38, scale))

    assert low < value < high
    assert (high - low) / value < Decimal("1e-13")
