"""The command where its script is not on the path: `python -m tablespec.cli`."""

from __future__ import annotations

from tablespec.cli import main

if __name__ == "__main__":
    main()
