"""The Polars adapter: tables as lazy frames, and row changes with rows that come from Polars."""

from __future__ import annotations

from tablespec_polars.scan import attach, changes, incremental, read_optimized, refresh, scan
from tablespec_polars.write import append, delete, merge, replace_where, update, upsert

__all__ = [
    "append",
    "attach",
    "changes",
    "delete",
    "incremental",
    "merge",
    "read_optimized",
    "refresh",
    "replace_where",
    "scan",
    "update",
    "upsert",
]
