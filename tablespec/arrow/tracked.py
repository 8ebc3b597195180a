"""Row ids and commit versions of rows in files: those that the file stores, and what the log says of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.parquet import PositionedBatch
from tablespec.model.file import Returned
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID


def row_ids(rows: PositionedBatch, first: int | None) -> pa.Array:
    """The ids of rows; one that has none of its own has that of the first row of the file and its position."""
    return pc.coalesce(rows.column(ROW_ID), pc.add(rows.positions, pa.scalar(first, pa.int64())))


def commit_versions(rows: PositionedBatch, version: int | None, returned: Sequence[Returned]) -> pa.Array:
    """The versions that wrote rows, that of the file where one has none of its own, or brought them back later."""
    versions = pc.coalesce(rows.column(ROW_COMMIT_VERSION), pa.scalar(version, pa.int64()))
    for one in returned:
        later = pc.max_element_wise(versions, pa.scalar(one.version, pa.int64()))
        back = None if one.positions is None else rows.among(BitMap64.deserialize(one.positions))
        versions = later if back is None else pc.if_else(back, later, versions)
    return versions
