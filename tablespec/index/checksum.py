"""Checksums of the files of indexes, by which damage is noticed before it could change an answer."""

from __future__ import annotations

import functools
import os
import zlib
from pathlib import Path

CHANGED = "is not what was written"
_READ_AT_ONCE = 1 << 20
# What tells that a file is still as it was: device, inode, size, and the times of change of content and inode.
FileState = tuple[int, int, int, int, int]


def checksum(data: bytes | memoryview) -> int:
    """The checksum of bytes in memory."""
    return zlib.crc32(data)


def file_checksum(path: str) -> int:
    """The checksum of a file of the local file system, which a process reads once for as long as the file stays the same."""
    return _read(path, file_state(path))


def file_state(path: str) -> FileState:
    """What a file of the local file system is now; one that is missing raises FileNotFoundError."""
    status = os.stat(path)  # noqa: PTH116 - asked of every file of an index in every query, and Path takes five times as long
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# Some hundred bytes a file.
@functools.lru_cache(maxsize=1 << 15)
def _read(path: str, _: FileState) -> int:
    found, room = 0, bytearray(_READ_AT_ONCE)
    view = memoryview(room)
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(room):
            found = zlib.crc32(view[:count], found)
    return found
