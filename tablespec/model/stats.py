"""What is known about the values of a file without reading it."""

from __future__ import annotations

import attrs


@attrs.frozen
class ColumnStats:
    """Bounds and null count of one leaf column; None where nothing is known."""

    path: tuple[str, ...]
    min: object
    max: object
    null_count: int | None


@attrs.frozen
class FileStats:
    """The row count of a file and what is known of its leaf columns."""

    rows: int
    columns: tuple[ColumnStats, ...] = ()
