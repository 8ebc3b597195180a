"""Whatever speaks Arrow reads tables without an adapter, again and again."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tests.rows import assert_same_rows

ROWS = [(1, "a"), (2, None), (4, "c")]


@pytest.fixture
def table(tmp_path) -> tablespec.Table:
    """A table with a deletion vector."""
    made = tablespec.create_table(str(tmp_path / "t"), pa.schema({"n": pa.int64(), "s": pa.string()}))
    made.append(pa.table({"n": [1, 2, 3, 4], "s": ["a", None, "b", "c"]}))
    made.delete("n = 3")
    return made


def test_pyarrow_reads_a_scan_twice(table):
    scan = table.scan()

    assert_same_rows(pa.table(scan), ROWS)
    assert_same_rows(pa.RecordBatchReader.from_stream(scan).read_all(), ROWS)


def test_datafusion_reads_a_scan(table):
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()

    frame = session.from_arrow(table.scan(), name="t")

    assert_same_rows(session.sql("SELECT n, s FROM t").to_arrow_table(), ROWS)
    assert_same_rows(frame.filter(datafusion.col("n") > datafusion.lit(1)).to_arrow_table(), ROWS[1:])


def test_datafusion_writes_a_frame(table):
    datafusion = pytest.importorskip("datafusion")

    table.append(datafusion.SessionContext().sql("SELECT 5 AS n, 'd' AS s"))

    assert_same_rows(table.scan(), [*ROWS, (5, "d")])
