"""A Python environment for DuckDB's delta extension, which goes with one version of DuckDB only."""

from __future__ import annotations

from pathlib import Path

from venvs import python_with

VERSION = "1.5.5"
PACKAGES = (f"duckdb=={VERSION}", f"duckdb-extension-delta=={VERSION}")


def duckdb_python() -> Path:
    """The interpreter that can load the extension, installed on first use; CalledProcessError when that fails."""
    return python_with("bench-venv", PACKAGES)
