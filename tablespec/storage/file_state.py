"""What tells that a local file is still as it was."""

from __future__ import annotations

import os
from typing import NamedTuple


class FileState(NamedTuple):
    """What a file is; the times are those of the last change of its content and of its inode, in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


def file_state(file: str | int) -> FileState:
    """What a file of the local file system, given by its path or opened, is now; one that is missing raises FileNotFoundError."""
    status = os.stat(file)  # noqa: PTH116 - asked of every file of an index in every query, and Path takes five times as long
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
