"""One `Storage` for every place where tables live, over obstore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import attrs


@attrs.frozen(order=True)
class FileInfo:
    """A file at a store: path relative to the root of the storage, bytes, and time of change in milliseconds UTC."""

    path: str
    size: int
    modified: int


@attrs.frozen
class Storage:
    """The files below one URL."""

    url: str
    options: tuple[tuple[str, str], ...] = ()
    allowed_roots: tuple[str, ...] = ()

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[FileInfo]:
        """All files below the folder `prefix`, at any depth, in path order; only those whose path sorts after `after`."""
        raise NotImplementedError

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        """The folders (as paths) and the files directly in the folder `prefix`, in path order."""
        raise NotImplementedError

    def head(self, path: str) -> FileInfo | None:
        """What is known about a file, or None when it is not there."""
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        """The whole file; a missing one raises FileNotFoundError."""
        raise NotImplementedError

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; a missing file raises FileNotFoundError, a short one StorageError."""
        raise NotImplementedError

    def open(self, path: str) -> BinaryIO:
        """The file for random access; a missing one raises FileNotFoundError."""
        raise NotImplementedError

    def local_path(self, path: str) -> str | None:
        """The path in the local file system, or None for other stores."""
        raise NotImplementedError

    def put(self, path: str, data: bytes) -> None:
        """Write a file, replacing one that is there."""
        raise NotImplementedError

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists, atomically; False when it was there."""
        raise NotImplementedError

    def create(self, path: str) -> BinaryIO:
        """A file to write in a stream; it appears when closed, and memory is bounded by one part."""
        raise NotImplementedError

    def delete(self, path: str) -> None:
        """Remove a file; nothing happens when it is not there."""
        raise NotImplementedError
