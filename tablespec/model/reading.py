"""The four ways to read a table."""

from __future__ import annotations

import attrs


@attrs.frozen
class Snapshot:
    """All rows as of an instant; None means the latest."""

    at: int | None = None


@attrs.frozen
class ReadOptimized:
    """The rows of base files as of an instant, leaving merge-on-read changes aside."""

    at: int | None = None


@attrs.frozen
class Incremental:
    """The rows as of `upto` that were inserted or changed after `after`."""

    after: int
    upto: int | None = None


@attrs.frozen
class Cdc:
    """The changes after `after` up to and including `upto`, row by row."""

    after: int
    upto: int | None = None


ReadingMode = Snapshot | ReadOptimized | Incremental | Cdc
