"""Statistics of a file, taken from its footer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from tablespec.model.stats import ColumnStats, FileStats

Bound: TypeAlias = Any
"""A value of a column; of which type, only its file knows."""


def file_stats(
    metadata: pq.FileMetaData, leaves: Sequence[tuple[str, ...]], with_nan: frozenset[tuple[str, ...]]
) -> FileStats:
    """Row count, bounds and null counts of the given leaf columns, by their physical paths.

    A leaf in `with_nan` gets no bounds: footers leave NaN out of them, and readers must not take them for the whole.
    """
    indexes = leaf_indexes(metadata)
    columns = []
    for path in leaves:
        index = indexes.get(".".join(path))
        if index is not None:
            columns.append(_column(metadata, index, path, bounded=path not in with_nan))
    return FileStats(metadata.num_rows, tuple(columns))


def leaf_indexes(metadata: pq.FileMetaData) -> dict[str, int]:
    """The leaf columns by their dotted paths; those that share a path with another, which dots in names may bring about, are left out."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    times = Counter(paths)
    return {path: index for index, path in enumerate(paths) if times[path] == 1}


def value_range(statistics: pq.Statistics | None) -> tuple[Bound, Bound] | None:
    """The least and the greatest value, or None where the footer does not tell them or Python has no such value."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        return statistics.min, statistics.max
    except (OverflowError, ValueError):
        return None


def _column(metadata: pq.FileMetaData, index: int, path: tuple[str, ...], *, bounded: bool) -> ColumnStats:
    low: Bound = None
    high: Bound = None
    nulls: int | None = 0
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(index)
        statistics = chunk.statistics
        if statistics is None or not statistics.has_null_count:
            return ColumnStats(path, None, None, None)
        nulls = nulls + statistics.null_count if nulls is not None else None
        if statistics.null_count == metadata.row_group(group).num_rows:
            continue
        known = value_range(statistics)
        if not bounded or known is None:
            bounded = False
            continue
        low = known[0] if low is None or known[0] < low else low
        high = known[1] if high is None or known[1] > high else high
    return ColumnStats(path, low if bounded else None, high if bounded else None, nulls)
