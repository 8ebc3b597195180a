"""The Polars adapter: tables as lazy frames, and row changes with rows that come from Polars."""

from __future__ import annotations

from tablespec_polars.scan import attach, changes, incremental, read_optimized, refresh, scan
from tablespec_polars.sql import attach_catalog, sql
from tablespec_polars.write import (
    append,
    cluster,
    compact,
    delete,
    merge,
    overwrite_partitions,
    replace_using,
    replace_where,
    update,
    upsert,
)

__all__ = [
    "append",
    "attach",
    "attach_catalog",
    "changes",
    "cluster",
    "compact",
    "delete",
    "incremental",
    "merge",
    "overwrite_partitions",
    "read_optimized",
    "refresh",
    "replace_using",
    "replace_where",
    "scan",
    "sql",
    "update",
    "upsert",
]
