"""Single rows are read by their pages as they would be read with all others."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.arrow.pages import Source, rows_at
from tablespec.arrow.thrift import Reader, encoded
from tablespec.storage.file_state import file_state

ROWS = 3000
WORDS = ["", "a", "word", "ünicode", "x" * 300]
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "small": pa.array([None if n % 7 == 0 else n % 100 for n in range(ROWS)], pa.int8()),
        "text": pa.array([None if n % 11 == 0 else WORDS[n % 5] + str(n) for n in range(ROWS)]),
        "repeated": pa.array([WORDS[n % 5] for n in range(ROWS)]),
        "day": pa.array([date(2026, 1, 1 + n % 28) for n in range(ROWS)]),
        "time": pa.array([datetime(2026, 1, 1, n % 24, tzinfo=UTC) for n in range(ROWS)], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal(n).scaleb(-2) for n in range(ROWS)], pa.decimal128(12, 2)),
        "flag": pa.array([n % 3 == 0 for n in range(ROWS)]),
        "bytes": pa.array([bytes([n % 256]) * (n % 9) for n in range(ROWS)], pa.binary()),
        "nothing": pa.nulls(ROWS, pa.string()),
        # Many rows in the first pages, and few in the others.
        "uneven": pa.array(["x" * 300 + str(n) if n > 2 * ROWS // 3 else "" for n in range(ROWS)]),
    }
)


def read(path: Path, columns: list[str], positions: list[int]) -> pa.RecordBatch | None:
    data = path.read_bytes()
    source = Source(len(data), lambda at, length: data[at : at + length])
    return rows_at(pq.ParquetFile(path), source, columns, positions)


@settings(max_examples=40)
@given(
    positions=st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=30).map(sorted),
    columns=st.lists(st.sampled_from(TABLE.column_names), min_size=1, max_size=4, unique=True),
    group=st.sampled_from([700, ROWS]),
    page=st.sampled_from([64, 1000, 1 << 20]),
    codec=st.sampled_from(["none", "snappy", "zstd"]),
    version=st.sampled_from(["1.0", "2.0"]),
    dictionary=st.booleans(),
    steps=st.booleans(),
)
def test_rows_are_those_that_the_whole_file_has(
    positions: list[int],
    columns: list[str],
    group: int,
    page: int,
    codec: str,
    version: str,
    dictionary: bool,
    steps: bool,
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        pq.write_table(
            TABLE,
            path,
            row_group_size=group,
            data_page_size=page,
            compression=codec,
            data_page_version=version,
            use_dictionary=["text", "repeated"] if dictionary and steps else dictionary,
            column_encoding=dict.fromkeys(["id", "small", "day", "time"], "DELTA_BINARY_PACKED") if steps else None,
            write_page_index=True,
            write_batch_size=50,
        )

        found = read(path, columns, positions)

    assert found is not None
    assert found.to_pylist() == TABLE.select(columns).take(positions).to_pylist()


def test_where_pages_lie_is_remembered_until_the_file_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    asked: list[int] = []

    def write(table: pa.Table) -> None:
        pq.write_table(table, tmp_path / "new", data_page_size=300, write_batch_size=50, write_page_index=True)
        (tmp_path / "new").replace(path)

    def fetched() -> list[dict[str, object]]:
        data = path.read_bytes()

        def part(at: int, length: int) -> bytes:
            asked.append(at)
            return data[at : at + length]

        found = rows_at(pq.ParquetFile(path), Source(len(data), part, file_state(str(path))), ["id"], [5, 2500])
        assert found is not None
        rows: list[dict[str, object]] = found.to_pylist()
        return rows

    write(TABLE)
    assert fetched() == [{"id": 5}, {"id": 2500}]
    first = len(asked)
    assert fetched() == [{"id": 5}, {"id": 2500}]
    assert len(asked) == 2 * first - 1
    # As many rows, of which each takes another page.
    write(TABLE.set_column(0, "id", pa.array([ROWS - n for n in range(ROWS)], pa.int32())))
    assert fetched() == [{"id": ROWS - 5}, {"id": ROWS - 2500}]
    assert len(asked) == 3 * first - 1


@pytest.mark.parametrize("written", [{}, {"write_page_index": True}], ids=["no page index", "nested"])
def test_what_pages_cannot_tell_is_left_to_others(tmp_path: Path, written: dict[str, bool]) -> None:
    table = TABLE.select(["id"]) if not written else pa.table({"id": [{"a": n} for n in range(10)]})
    pq.write_table(table, tmp_path / "x.parquet", **written)

    assert read(tmp_path / "x.parquet", ["id"], [3]) is None


def test_a_footer_is_read_and_written_again(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "x.parquet", row_group_size=100)
    data = (tmp_path / "x.parquet").read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]

    struct = Reader(footer).struct()

    assert Reader(encoded(struct)).struct() == struct
