"""The command `tablespec`."""

from __future__ import annotations

import sys

try:
    from tablespec.cli.app import main
except ModuleNotFoundError as missing:
    if missing.name not in ("rich", "typer"):
        raise

    def main() -> None:
        """Say what to install: the packages of the command are an extra."""
        print("error: the command needs packages that are not installed; pip install 'tablespec[cli]'", file=sys.stderr)
        sys.exit(2)


__all__ = ["main"]
