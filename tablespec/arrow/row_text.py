"""Rows as text, for messages."""

from __future__ import annotations

import pyarrow as pa


def row_text(batch: pa.RecordBatch, row: int) -> str:
    """One row of a batch with the names of its columns."""
    chosen = batch.slice(row, 1)
    try:
        return str(chosen.to_pylist()[0])
    except OverflowError:
        # Python has no years beyond 9999.
        values = (" ".join(column.to_string().split()) for column in chosen.columns)
        return f"{{{', '.join(f'{name!r}: {value}' for name, value in zip(chosen.schema.names, values))}}}"
