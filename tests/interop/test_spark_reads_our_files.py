"""Spark without any extension reads the data files that tablespec writes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
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
