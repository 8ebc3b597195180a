"""The port that the kinds of storage implement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

import attrs


@attrs.frozen(order=True)
class FileInfo:
    """A file at a store: path relative to the root of the storage, bytes, and time of change in milliseconds UTC."""

    path: str
    size: int
    modified: int


class Files(Protocol):
    """The files below one folder of one store; paths are relative to it, literal and free of `.`, `..` and `//`.

    The methods promise what those of `Storage` promise.
    """

    def list(self, prefix: str, after: str) -> Iterator[FileInfo]: ...

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]: ...

    def head(self, path: str) -> FileInfo | None: ...

    def read(self, path: str) -> bytes: ...

    def read_range(self, path: str, offset: int, length: int) -> bytes: ...

    def open(self, path: str) -> BinaryIO: ...

    def local_path(self, path: str) -> str | None: ...

    def put(self, path: str, data: bytes) -> None: ...

    def put_if_absent(self, path: str, data: bytes) -> bool: ...

    def create(self, path: str) -> BinaryIO: ...

    def delete(self, path: str) -> None: ...
