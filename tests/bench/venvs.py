"""Python environments of their own, below build/, for programs that do not get along with the packages of the tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"


def python_with(name: str, packages: Sequence[str]) -> Path:
    """The interpreter of an environment with exactly these packages, made on first use; CalledProcessError when that fails."""
    folder = BUILD / name
    python, told = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join(packages)
    if not told.exists() or told.read_text() != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
        told.write_text(wanted)
    return python


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
