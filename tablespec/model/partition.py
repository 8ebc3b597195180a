"""Partitions of a table and their states."""

from __future__ import annotations

import attrs

from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant, Timeline


@attrs.frozen
class PartitionDescriptor:
    """One partition: its path and the typed values of the partition columns.

    An unpartitioned table is one partition with an empty path that encloses the table.
    """

    path: str
    columns: tuple[str, ...] = ()
    values: tuple[object, ...] = ()


@attrs.frozen
class PartitionSnapshot:
    """The slices of a partition that are current at `latest_instant`, in path order."""

    descriptor: PartitionDescriptor
    latest_instant: Instant
    file_slices: tuple[FileSlice, ...]


@attrs.frozen
class PartitionIncrementalSnapshot:
    """The slices of a partition that were added by the actions of `timeline` and are current at its end."""

    descriptor: PartitionDescriptor
    timeline: Timeline
    file_slices: tuple[FileSlice, ...]
