"""Checksums of the files of indexes, by which damage is noticed before it could change an answer."""

from __future__ import annotations

import functools
import zlib
from pathlib import Path

from tablespec.storage.file_state import FileState, file_state

CHANGED = "is not what was written"
_READ_AT_ONCE = 1 << 20


def checksum(data: bytes | memoryview) -> int:
    """The checksum of bytes in memory."""
    return zlib.crc32(data)


def file_checksum(path: str) -> int:
    """The checksum of a file of the local file system, which a process reads once for as long as the file stays the same."""
    return checksum_in(path, file_state(path))


# Some hundred bytes a file.
@functools.lru_cache(maxsize=1 << 15)
def checksum_in(path: str, _: FileState) -> int:
    """The checksum of a file that is in some state."""
    found, room = 0, bytearray(_READ_AT_ONCE)
    view = memoryview(room)
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(room):
            found = zlib.crc32(view[:count], found)
    return found
