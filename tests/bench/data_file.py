"""The files of a synthetic table, each known by its number alone.

There are 10 files per leaf partition (dt, region, bucket) and 1000 per day. Ids grow with the day, so that they are
clustered like the partitions; names are hashes, so that every file has a small range somewhere in the whole: one column
whose statistics gain from adds sorted by partition, and one whose statistics do not.
"""

from __future__ import annotations

import datetime
import hashlib

import attrs
import pyarrow as pa

ROWS_PER_FILE = 1000
FILES_PER_LEAF = 10
FILES_PER_DAY = 1000
FIRST_DAY = datetime.date(2020, 1, 1)
PARTITION_COLUMNS = ("dt", "region", "bucket")
COLUMNS = (
    ("id", "long"),
    ("name", "string"),
    ("amount", "double"),
    ("ts", "timestamp"),
    ("dt", "date"),
    ("region", "string"),
    ("bucket", "integer"),
)


@attrs.frozen
class DataFile:
    """One file of the table."""

    number: int

    @property
    def day(self) -> datetime.date:
        """The value of the partition column dt."""
        return FIRST_DAY + datetime.timedelta(days=self.number // FILES_PER_DAY)

    @property
    def leaf(self) -> tuple[str, str, str]:
        """The partition values as the log spells them."""
        in_day = self.number % FILES_PER_DAY // FILES_PER_LEAF
        return self.day.isoformat(), f"region-{in_day // 10}", str(in_day % 10)

    @property
    def path(self) -> str:
        """Where the file lies in the table; the hash keeps paths as hard to compress as real ones."""
        folder = "/".join(f"{name}={value}" for name, value in zip(PARTITION_COLUMNS, self.leaf))
        unique = hashlib.md5(str(self.number).encode(), usedforsecurity=False).hexdigest()
        return f"{folder}/part-{self.number % FILES_PER_LEAF:05d}-{unique}-c000.snappy.parquet"

    @property
    def size(self) -> int:
        """The bytes that the log tells of a file that does not really exist."""
        return 50_000 + self.number * 104_729 % 450_000

    @property
    def first_id(self) -> int:
        """The smallest id; the ids of a file follow each other."""
        return self.number * ROWS_PER_FILE

    @property
    def name_prefix(self) -> str:
        """What all names in the file begin with, and no names in other files."""
        return f"{self.number * 2_654_435_761 % 2**32:08x}"

    @property
    def lowest_amount(self) -> float:
        """The smallest amount; the ranges of most files overlap."""
        return self.number * 7919 % 10_000 / 100

    @property
    def stats(self) -> str:
        """The statistics as engines write them: JSON without spaces."""
        last, low, day, prefix = ROWS_PER_FILE - 1, self.lowest_amount, self.leaf[0], self.name_prefix
        return (
            f'{{"numRecords":{ROWS_PER_FILE},"minValues":{{"id":{self.first_id},"name":"{prefix}-0000","amount":{low},'
            f'"ts":"{day}T00:00:00.000Z"}},"maxValues":{{"id":{self.first_id + last},"name":"{prefix}-{last:04d}",'
            f'"amount":{low + last},"ts":"{day}T00:16:39.000Z"}},"nullCount":{{"id":0,"name":0,"amount":0,"ts":0}}}}'
        )

    def rows(self) -> pa.Table:
        """The content, which agrees with `stats`."""
        start = datetime.datetime.combine(self.day, datetime.time(), datetime.UTC)
        steps = range(ROWS_PER_FILE)
        return pa.table(
            {
                "id": pa.array([self.first_id + step for step in steps], pa.int64()),
                "name": [f"{self.name_prefix}-{step:04d}" for step in steps],
                "amount": [self.lowest_amount + step for step in steps],
                "ts": pa.array([start + datetime.timedelta(seconds=s) for s in steps], pa.timestamp("us", "UTC")),
            }
        )
