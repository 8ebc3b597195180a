"""Tables with words in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("body", pa.string())])
NewTable = Callable[..., tablespec.Table]


def data(rows: Sequence[tuple[int | None, str | None, str | None]]) -> pa.Table:
    """Rows of id, kind and body."""
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], schema=SCHEMA)


@pytest.fixture
def new_table(tmp_path: Path) -> NewTable:
    """Makes a table of id, kind and body with the rows of each file."""

    def make(*files: Sequence[tuple[int | None, str | None, str | None]], **options: object) -> tablespec.Table:
        table = tablespec.create_table(str(tmp_path / "table"), SCHEMA, **options)  # type: ignore[arg-type]
        for rows in files:
            table.append(data(rows))
        return table

    return make
