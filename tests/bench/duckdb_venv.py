"""A Python environment for DuckDB's delta extension, which goes with one version of DuckDB only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VERSION = "1.5.5"
PACKAGES = (f"duckdb=={VERSION}", f"duckdb-extension-delta=={VERSION}")
FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench-venv"


def duckdb_python() -> Path:
    """The interpreter that can load the extension, installed on first use; CalledProcessError when that fails."""
    python = FOLDER / "bin" / "python"
    if not _has_packages(python):
        _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
    return python


def _has_packages(python: Path) -> bool:
    check = f"import duckdb, duckdb_extension_delta; assert duckdb.__version__ == '{VERSION}'"
    return python.exists() and subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
