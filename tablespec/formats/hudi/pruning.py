"""Which slices cannot hold a match, by the column statistics of the metadata table."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.expr.nodes import Predicate, columns_of
from tablespec.formats.hudi.metadata_table import COLUMN_STATS, ColumnStat, MetadataTable
from tablespec.model.file import FileSlice
from tablespec.model.schema import DATE, INTEGER, LONG, STRING, Schema

# Types whose bounds are written in one way only.
_COMPARABLE = (INTEGER, LONG, STRING, DATE)
# Beyond this the index costs more than the footers of the files that it saves.
_MOST_BYTES = 64 << 20


def without_match(
    metadata: MetadataTable, slices: Sequence[FileSlice], schema: Schema, predicate: Predicate
) -> frozenset[FileSlice]:
    """The slices of a base file alone that cannot hold a match; those with logs are never told by their parts."""
    named = {path[0] for path in columns_of(predicate) if len(path) == 1 and path[0] in schema}
    columns = frozenset(name for name in named if schema.field(name).type in _COMPARABLE)
    clean = [slice_ for slice_ in slices if slice_.is_clean]
    if not columns or not clean or COLUMN_STATS not in metadata.partitions:
        return frozenset()
    if metadata.size_of(COLUMN_STATS) > _MOST_BYTES:
        return frozenset()
    known = _Known({(stat.file, stat.column): stat for stat in metadata.column_stats(columns)}, tuple(clean), schema)
    rows = pa.array([known.rows(slice_, columns) for slice_ in clean], pa.int64())
    possible, _ = verdicts(predicate, known.bounds_of, rows, len(clean))
    return frozenset(slice_ for slice_, may in zip(clean, possible.to_pylist()) if not may)


@attrs.frozen(eq=False)
class _Known:
    """The statistics of columns of slices."""

    stats: dict[tuple[str, str], ColumnStat]
    slices: tuple[FileSlice, ...]
    schema: Schema

    def rows(self, slice_: FileSlice, columns: frozenset[str]) -> int | None:
        counts = [stat.rows for column in columns if (stat := self._of(slice_, column)) is not None]
        return counts[0] if counts else None

    def bounds_of(self, path: tuple[str, ...]) -> ColumnBounds | None:
        name = path[0]
        if len(path) > 1 or name not in self.schema or self.schema.field(name).type not in _COMPARABLE:
            return None
        wanted = arrow_type(self.schema.field(name).type)
        found = [self._of(slice_, name) for slice_ in self.slices]
        fitting = [stat if stat is not None and _fits(stat, wanted) else None for stat in found]
        lows, highs = (
            pa.array([None if stat is None else getattr(stat, side) for stat in fitting], _carrier(wanted)).cast(wanted)
            for side in ("low", "high")
        )
        return ColumnBounds(lows, highs, pa.array([stat and stat.nulls for stat in fitting], pa.int64()))

    def _of(self, slice_: FileSlice, column: str) -> ColumnStat | None:
        assert slice_.base is not None
        return self.stats.get((slice_.base.path.rsplit("/", 1)[-1], column))


def _carrier(wanted: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(wanted) else wanted


def _fits(stat: ColumnStat, wanted: pa.DataType) -> bool:
    expected = str if pa.types.is_string(wanted) else int
    return all(value is None or type(value) is expected for value in (stat.low, stat.high))
