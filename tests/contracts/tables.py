"""The same small table in every format: three writes into two partitions.

Its columns are id, part and qty; it is partitioned by part.
"""

from __future__ import annotations

import attrs
import pyarrow as pa

import tablespec
from tablespec.formats.base import TableFormat
from tablespec.formats.detect import open_format
from tablespec.storage.store import Storage
from tests.unit.formats.hudi.conftest import HudiTable
from tests.unit.formats.hudi.conftest import time as hudi_time

WRITES = [
    [("1", "a", 10), ("2", "b", 20)],
    [("3", "a", 30)],
    [("4", "b", 40), ("5", "b", None)],
]


@attrs.frozen(eq=False)
class Sample:
    """A table, and the rows that each of its versions holds."""

    name: str
    storage: Storage
    rows: dict[int, list[tuple[object, ...]]]

    @property
    def format(self) -> TableFormat:
        """The table as nobody has looked at it yet."""
        return open_format(self.storage)

    @property
    def versions(self) -> list[int]:
        """The versions that made it, oldest first."""
        return list(self.rows)


def delta_sample(storage: Storage, *, checkpointed: bool = False) -> Sample:
    """The table as a Delta table; version 0 made it and wrote no rows."""
    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("qty", pa.int32())])
    options = dict(storage.options)
    table = tablespec.create_table(storage.url, schema, partition_by=["part"], key=["id"], storage_options=options)
    rows: dict[int, list[tuple[object, ...]]] = {0: []}
    for number, write in enumerate(WRITES, start=1):
        table.append(pa.Table.from_pylist([dict(zip(schema.names, row)) for row in write], schema))
        rows[number] = [*rows[number - 1], *write]
        if checkpointed and number == 2:
            table.checkpoint()
    return Sample("delta", storage, rows)


def hudi_sample(storage: Storage, version: int) -> Sample:
    """The table as a Hudi copy-on-write table of a table version."""
    hudi = HudiTable(storage, version)
    hudi.properties(hoodie_table_recordkey_fields="id")
    rows: dict[int, list[tuple[object, ...]]] = {}
    so_far: list[tuple[object, ...]] = []
    for number, write in enumerate(WRITES, start=1):
        instant = number * 10
        parts = sorted({str(row[1]) for row in write})
        written = []
        for part in parts:
            group = f"group-{number}-{part}"
            written.append((part, group, hudi.base(part, group, instant, [row for row in write if row[1] == part])))
        hudi.complete(instant, written=written)
        so_far = [*so_far, *write]
        rows[int(hudi_time(instant))] = so_far
    return Sample("hudi", storage, rows)
