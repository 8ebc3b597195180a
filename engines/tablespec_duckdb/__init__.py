"""The DuckDB adapter: tables as relations and views, and row changes with rows that come from DuckDB."""

from __future__ import annotations

from tablespec_duckdb.scan import attach, changes, incremental, read_optimized, refresh, scan
from tablespec_duckdb.write import append, delete, merge, replace_where, sql, update, upsert

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
    "sql",
    "update",
    "upsert",
]
