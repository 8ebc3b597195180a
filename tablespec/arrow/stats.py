"""Statistics of a file, taken from its footer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablespec.arrow.encoding import leaf_paths
from tablespec.model.stats import ColumnStats, FileStats

Bound: TypeAlias = Any
"""A value of a column; of which type, only its file knows."""


def file_stats(
    metadata: pq.FileMetaData, leaves: Sequence[tuple[str, ...]], with_nan: Mapping[tuple[str, ...], int]
) -> FileStats:
    """Row count, bounds and null counts of the given leaf columns, by their physical paths.

    The leaves in `with_nan` get no bounds, and the null counts given there: NaN has no place in bounds.
    """
    indexes = leaf_indexes(metadata)
    columns = []
    for path in leaves:
        index = indexes.get(".".join(path))
        if index is not None and path in with_nan:
            columns.append(ColumnStats(path, None, None, with_nan[path]))
        elif index is not None:
            columns.append(_column(metadata, index, path))
    return FileStats(metadata.num_rows, tuple(columns))


def nan_leaves(rows: pa.Table) -> frozenset[tuple[str, ...]]:
    """The leaf columns, members of structs among them, that hold a NaN.

    Footers leave NaN out of their bounds, and engines, for which it is the greatest number, would leave out rows by them.
    """
    return frozenset(
        path
        for field in rows.schema
        for path in _floating((field.name,), field.type)
        if pc.any(pc.is_nan(leaf_values(rows, path))).as_py()
    )


def bounded_leaves(schema: pa.Schema, with_nan: frozenset[tuple[str, ...]]) -> bool | list[str]:
    """The leaf columns that may have statistics in a footer, as a writer of Parquet takes them; True means all."""
    if not with_nan:
        return True
    without = {".".join(path) for path in with_nan}
    return [path for field in schema for path in leaf_paths(field) if path not in without]


def leaf_values(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    """The values of a leaf column, null where a struct around it is."""
    values = rows.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, [name])
    return values


def _floating(path: tuple[str, ...], type_: pa.DataType) -> Iterator[tuple[str, ...]]:
    if pa.types.is_struct(type_):
        for member in type_:
            yield from _floating((*path, member.name), member.type)
    elif pa.types.is_floating(type_):
        yield path


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


def _column(metadata: pq.FileMetaData, index: int, path: tuple[str, ...]) -> ColumnStats:
    bounded = True
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
