"""Statistics of a file that was just written, taken from its footer."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq

from tablespec.model.stats import ColumnStats, FileStats


def file_stats(
    metadata: pq.FileMetaData, leaves: Sequence[tuple[str, ...]], with_nan: frozenset[tuple[str, ...]]
) -> FileStats:
    """Row count, bounds and null counts of the given leaf columns, by their physical paths.

    A leaf in `with_nan` gets no bounds: footers leave NaN out of them, and readers must not take them for the whole.
    """
    indexes = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    columns = []
    for path in leaves:
        index = indexes.get(".".join(path))
        if index is not None:
            columns.append(_column(metadata, index, path, bounded=path not in with_nan))
    return FileStats(metadata.num_rows, tuple(columns))


def _column(metadata: pq.FileMetaData, index: int, path: tuple[str, ...], *, bounded: bool) -> ColumnStats:
    low: object = None
    high: object = None
    nulls: int | None = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return ColumnStats(path, None, None, None)
        nulls = nulls + statistics.null_count if nulls is not None else None
        if statistics.null_count == metadata.row_group(group).num_rows:
            continue
        bounded = bounded and statistics.has_min_max
        if bounded:
            low = statistics.min if low is None or statistics.min < low else low
            high = statistics.max if high is None or statistics.max > high else high
    return ColumnStats(path, low if bounded else None, high if bounded else None, nulls)
