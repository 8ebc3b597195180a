"""The Spark adapter: tables as DataFrames, and DataFrames into tables."""

from __future__ import annotations

from tablespec_spark.scan import attach, changes, incremental, read, read_optimized

__all__ = ["attach", "changes", "incremental", "read", "read_optimized"]
