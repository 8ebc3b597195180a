"""Spark without any extension reads the data files that tablespec writes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
from tests.interop.every_type import STEPS
from tests.rows import assert_same_rows

pytestmark = pytest.mark.spark


def test_a_data_file_holds_the_same_rows_for_spark(spark, tmp_path):
    rows = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int64()),
            "fare": pa.array([Decimal("12.50"), None, Decimal("-0.01")], pa.decimal128(9, 2)),
            "ratio": pa.array([0.5, float("nan"), None], pa.float64()),
            "day": pa.array([date(2026, 1, 31), None, date(1969, 12, 31)]),
            "at": pa.array(
                [datetime(2026, 1, 31, 12, tzinfo=UTC), None, datetime(1969, 1, 1, tzinfo=UTC)],
                pa.timestamp("us", "UTC"),
            ),
            "city": ["sf", "", None],
        }
    )
    table = tablespec.create_table(str(tmp_path / "trips"), rows.schema)
    table.append(rows)

    (partition,) = table.file_index.list_files_at()
    files = [str(tmp_path / "trips" / one.base.path) for one in partition.file_slices]

    assert_same_rows(spark.read.parquet(*files).toArrow(), rows)


def test_numbers_that_are_stored_as_steps_are_the_same_for_spark(spark, tmp_path):
    table = tablespec.create_table(str(tmp_path / "steps"), STEPS.schema)
    table.append(STEPS)

    (partition,) = table.file_index.list_files_at()
    frame = spark.read.parquet(*(str(tmp_path / "steps" / one.base.path) for one in partition.file_slices))

    assert_same_rows(frame.toArrow(), STEPS)
    for name in STEPS.column_names[:-1]:
        assert_same_rows(frame.where(f"{name} is null").toArrow(), table.scan(f"{name} is null"))
    assert_same_rows(frame.where("long = 0 and int > -5").toArrow(), table.scan("long = 0 and int > -5"))
