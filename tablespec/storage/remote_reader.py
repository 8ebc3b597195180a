"""Random access to a file of an object store."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO

import obstore

from tablespec.errors import StorageError
from tablespec.storage.failure import MISSING, wrapped

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from obstore.store import ObjectStore

_READ_AHEAD = 64 * 1024


class RemoteReader(io.RawIOBase, BinaryIO):
    """A file whose reads are requests: a large read is exactly one, small ones are served from what was read ahead."""

    def __init__(self, store: ObjectStore, key: str, size: int, url: str) -> None:
        self._store = store
        self._key = key
        self._size = size
        self._url = url
        self._position = 0
        self._ahead = b""
        self._ahead_at = 0

    @property
    def mode(self) -> str:
        return "rb"

    @property
    def name(self) -> str:
        return self._url

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek to {start + offset}, which is before the begin of {self._url}")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError("the file is closed")
        left = max(self._size - self._position, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = self._bytes(count)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _bytes(self, count: int) -> bytes:
        if count == 0:
            return b""
        begin = self._position - self._ahead_at
        if begin >= 0 and begin + count <= len(self._ahead):
            return self._ahead[begin : begin + count]
        if count >= _READ_AHEAD:
            return self._request(count)
        self._ahead = self._request(min(_READ_AHEAD, self._size - self._position))
        self._ahead_at = self._position
        return self._ahead[:count]

    def _request(self, count: int) -> bytes:
        with wrapped(self._url, missing=MISSING):
            data = obstore.get_range(self._store, self._key, start=self._position, length=count).to_bytes()
        if len(data) != count:
            raise StorageError(self._url, f"there are {len(data)} bytes at offset {self._position}, not {count}")
        return data
