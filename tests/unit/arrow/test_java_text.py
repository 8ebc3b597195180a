"""Values as text the way Spark writes them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.arrow.java_text import spark_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (100000.0, "100000.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-123456789012.0, "-1.23456789012E11"),
        (1e20, "1.0E20"),
        (1.5e300, "1.5E300"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value, text):
    assert spark_text(pa.array([value], pa.float64())).to_pylist() == [text]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (1.5, "1.5"), (16777216.0, "1.6777216E7"), (3.4028234663852886e38, "3.4028235E38"), (1e-3, "0.001")],
)
def test_floats_are_written_with_the_digits_that_tell_them_from_other_floats(value, text):
    assert spark_text(pa.array([value], pa.float32())).to_pylist() == [text]


@pytest.mark.parametrize("width", [32, 64])
@given(data=st.data())
def test_a_number_is_read_back_from_its_text(width, data):
    value = data.draw(st.floats(width=width, allow_nan=False))
    kind = pa.float32() if width == 32 else pa.float64()

    (text,) = spark_text(pa.array([value], kind)).to_pylist()

    assert pa.array([float(text)], kind).equals(pa.array([value], kind))
    assert "." in text or math.isinf(value)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([-5], pa.int8()), "-5"),
        (pa.array([2**62]), "4611686018427387904"),
        (pa.array([True]), "true"),
        (pa.array([date(2020, 2, 29)]), "2020-02-29"),
        (pa.array([date(1, 1, 1)]), "0001-01-01"),
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), "1.50"),
        (pa.array([b"abc"]), "abc"),
        (pa.array([datetime(2020, 2, 29, 10, 20, 30)], pa.timestamp("us")), "2020-02-29 10:20:30"),
        (pa.array([datetime(2020, 2, 29)], pa.timestamp("ms")), "2020-02-29 00:00:00"),
        (pa.array([datetime(2020, 2, 29, 0, 0, 0, 120000)], pa.timestamp("us")), "2020-02-29 00:00:00.12"),
        (
            pa.array([datetime(2020, 2, 29, 0, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "2020-02-29 00:00:00.000001",
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_other_values_are_written_as_spark_shows_them(array, text):
    assert spark_text(array).to_pylist() == [text]


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.int64()], ids=str)
def test_nulls_stay_nulls(kind):
    assert spark_text(pa.array([None, None], kind)).to_pylist() == [None, None]
    assert spark_text(pa.array([], kind)).to_pylist() == []


def test_every_value_stays_at_its_place():
    values = [1.5, None, math.nan, 0.0, 1.5, -0.0]

    assert spark_text(pa.array(values)).to_pylist() == ["1.5", None, "NaN", "0.0", "1.5", "-0.0"]
