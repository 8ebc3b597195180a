"""The Spark adapter: tables as DataFrames, and DataFrames into tables."""

from __future__ import annotations

from tablespec_spark.runner import Executors
from tablespec_spark.scan import attach, changes, incremental, read, read_optimized, refresh, scan
from tablespec_spark.source import register
from tablespec_spark.sql import attach_catalog, sql
from tablespec_spark.write import (
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
    "Executors",
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
    "read",
    "read_optimized",
    "refresh",
    "register",
    "replace_using",
    "replace_where",
    "scan",
    "sql",
    "update",
    "upsert",
]
