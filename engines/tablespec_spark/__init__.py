"""The Spark adapter: tables as DataFrames, and DataFrames into tables."""

from __future__ import annotations

from tablespec_spark.scan import attach, changes, incremental, read, read_optimized, scan
from tablespec_spark.source import register
from tablespec_spark.write import append, cluster, compact, delete, merge, replace_where, update, upsert

__all__ = [
    "append",
    "attach",
    "changes",
    "cluster",
    "compact",
    "delete",
    "incremental",
    "merge",
    "read",
    "read_optimized",
    "register",
    "replace_where",
    "scan",
    "update",
    "upsert",
]
