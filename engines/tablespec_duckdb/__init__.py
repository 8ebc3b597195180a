"""The DuckDB adapter: tables as relations and views, and row changes with rows that come from DuckDB."""

from __future__ import annotations

from tablespec_duckdb.scan import attach, changes, incremental, read_optimized, refresh, scan
from tablespec_duckdb.sql import attach_catalog, sql
from tablespec_duckdb.write import (
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
