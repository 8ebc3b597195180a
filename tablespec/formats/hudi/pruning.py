"""Which slices cannot hold a match, by what the metadata table knows of the columns of partitions and files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.expr.nodes import Predicate, columns_of
from tablespec.formats.hudi.metadata_table import COLUMN_STATS, PARTITION_STATS, ColumnStat, MetadataTable
from tablespec.model.file import FileSlice
from tablespec.model.schema import DATE, INTEGER, LONG, STRING, Schema

# Types whose bounds are written in one way only.
_COMPARABLE = (INTEGER, LONG, STRING, DATE)
# Beyond this the index costs more than the footers of the files that it saves.
_MOST_BYTES = 64 << 20


def without_match(
    metadata: MetadataTable, slices: Sequence[FileSlice], schema: Schema, predicate: Predicate, *, newest: bool
) -> frozenset[FileSlice]:
    """The slices of a base file alone that cannot hold a match; those with logs are never told by their parts.

    `slices` are all of their partitions. What is known of whole partitions is about the newest state.
    """
    named = {path[0] for path in columns_of(predicate) if len(path) == 1 and path[0] in schema}
    columns = frozenset(name for name in named if schema.field(name).type in _COMPARABLE)
    clean = [slice_ for slice_ in slices if slice_.is_clean]
    if not columns or not clean:
        return frozenset()
    without = frozenset[str]()
    if newest and _is_worth_it(metadata, PARTITION_STATS):
        loose = {slice_.group.partition for slice_ in slices if not slice_.is_clean}
        partitions = tuple(dict.fromkeys(slice_.group.partition for slice_ in clean))
        known = _Known.of(metadata.partition_stats(columns), partitions, schema)
        without = known.without_match(predicate, columns) - loose
    left = [slice_ for slice_ in clean if slice_.group.partition not in without]
    if left and _is_worth_it(metadata, COLUMN_STATS):
        files = {_file_name(slice_): slice_ for slice_ in left}
        of_files = _Known.of(metadata.column_stats(columns), tuple(files), schema).without_match(predicate, columns)
        left = [slice_ for name, slice_ in files.items() if name not in of_files]
    return frozenset(clean) - frozenset(left)


def _is_worth_it(metadata: MetadataTable, partition: str) -> bool:
    return partition in metadata.partitions and metadata.size_of(partition) <= _MOST_BYTES


def _file_name(slice_: FileSlice) -> str:
    assert slice_.base is not None
    return slice_.base.path.rsplit("/", 1)[-1]


@attrs.frozen(eq=False)
class _Known:
    """The statistics of columns of files or partitions, by their names."""

    stats: dict[tuple[str, str], ColumnStat]
    names: tuple[str, ...]
    schema: Schema

    @classmethod
    def of(cls, stats: Iterable[ColumnStat], names: tuple[str, ...], schema: Schema) -> _Known:
        """What statistics say of those with these names."""
        return cls({(stat.file, stat.column): stat for stat in stats}, names, schema)

    def without_match(self, predicate: Predicate, columns: frozenset[str]) -> frozenset[str]:
        """Those that cannot hold a match."""
        rows = pa.array([self._rows(name, columns) for name in self.names], pa.int64())
        possible, _ = verdicts(predicate, self._bounds_of, rows, len(self.names))
        return frozenset(name for name, may in zip(self.names, possible.to_pylist()) if not may)

    def _rows(self, name: str, columns: frozenset[str]) -> int | None:
        counts = [stat.rows for column in columns if (stat := self.stats.get((name, column))) is not None]
        return counts[0] if counts else None

    def _bounds_of(self, path: tuple[str, ...]) -> ColumnBounds | None:
        column = path[0]
        if len(path) > 1 or column not in self.schema or self.schema.field(column).type not in _COMPARABLE:
            return None
        wanted = arrow_type(self.schema.field(column).type)
        found = [self.stats.get((name, column)) for name in self.names]
        fitting = [stat if stat is not None and _fits(stat, wanted) else None for stat in found]
        lows, highs = (
            pa.array([None if stat is None else getattr(stat, side) for stat in fitting], _carrier(wanted)).cast(wanted)
            for side in ("low", "high")
        )
        return ColumnBounds(lows, highs, pa.array([stat and stat.nulls for stat in fitting], pa.int64()))


def _carrier(wanted: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(wanted) else wanted


def _fits(stat: ColumnStat, wanted: pa.DataType) -> bool:
    expected = str if pa.types.is_string(wanted) else int
    return all(value is None or type(value) is expected for value in (stat.low, stat.high))
