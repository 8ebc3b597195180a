"""Files of object stores, and those of `memory://`, by obstore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, BinaryIO

import attrs
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError

from tablespec.errors import StorageError
from tablespec.storage.base import FileInfo
from tablespec.storage.connect import connect
from tablespec.storage.failure import MISSING, wrapped
from tablespec.storage.new_file import NewFile
from tablespec.storage.remote_reader import RemoteReader
from tablespec.storage.url import split_root

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LIST_CHUNK = 1000
_PART_BYTES = 10 * 1024 * 1024
_PARTS_IN_FLIGHT = 4


@attrs.frozen
class RemoteFiles:
    """The files of a store whose keys begin with `start`, which is empty or ends with a slash; see `Files`."""

    store: ObjectStore
    root: str
    start: str

    @classmethod
    def at(cls, url: str, options: Mapping[str, str]) -> RemoteFiles:
        """The files below a canonical URL."""
        root, key = split_root(url)
        return cls(connect(root, options), root, f"{key}/" if key else "")

    def local_path(self, path: str) -> None:
        return None

    def list(self, prefix: str, after: str) -> Iterator[FileInfo]:
        folder = self.start + prefix
        offset = self.start + after if after else None
        with wrapped(self._url(prefix)):
            chunks = obstore.list(self.store, folder, offset=offset, chunk_size=_LIST_CHUNK)
            found = [self._info(meta) for chunk in chunks for meta in chunk if not _is_marker(meta, folder)]
        # Some stores list in no order (S3 Express), and obstore moves an offset that ends with a slash.
        return iter(sorted((info for info in found if info.path > after), key=attrgetter("path")))

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        folder = self.start + prefix
        with wrapped(self._url(prefix)):
            listed = obstore.list_with_delimiter(self.store, folder)
        folders = sorted(key.removeprefix(self.start) for key in listed["common_prefixes"])
        files = [self._info(meta) for meta in listed["objects"] if not _is_marker(meta, folder)]
        return tuple(folders), tuple(sorted(files, key=attrgetter("path")))

    def head(self, path: str) -> FileInfo | None:
        try:
            with wrapped(self._url(path), missing=MISSING):
                return self._info(obstore.head(self.store, self.start + path))
        except FileNotFoundError:
            return None

    def read(self, path: str) -> bytes:
        with wrapped(self._url(path), missing=MISSING):
            return obstore.get(self.store, self.start + path).bytes().to_bytes()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        url = self._url(path)
        with wrapped(url, missing=MISSING):
            if length == 0:  # which obstore refuses to ask for
                obstore.head(self.store, self.start + path)
                return b""
            data = obstore.get_range(self.store, self.start + path, start=offset, length=length).to_bytes()
        if len(data) != length:
            raise StorageError(url, f"there are {len(data)} bytes at offset {offset}, not {length}")
        return data

    def open(self, path: str) -> BinaryIO:
        url = self._url(path)
        with wrapped(url, missing=MISSING):
            size = obstore.head(self.store, self.start + path)["size"]
        return RemoteReader(self.store, self.start + path, size, url)

    def put(self, path: str, data: bytes) -> None:
        with wrapped(self._url(path)):
            obstore.put(self.store, self.start + path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with wrapped(self._url(path)):
            try:
                # Only a single request can carry the condition.
                obstore.put(self.store, self.start + path, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def create(self, path: str) -> BinaryIO:
        url = self._url(path)
        with wrapped(url):
            writer = obstore.open_writer(
                self.store, self.start + path, buffer_size=_PART_BYTES, max_concurrency=_PARTS_IN_FLIGHT
            )

        def abandon() -> None:
            # Leaving its block by an exception is the only way to make the writer drop the parts it has sent.
            # Where the store is out of reach it keeps them, invisible, until its own rules clear them.
            with suppress(BaseError):
                writer.__exit__(StorageError, StorageError(url, "abandoned"), None)

        def publish() -> None:
            with wrapped(url):
                writer.close()

        return NewFile(url, writer.write, publish, abandon)

    def delete(self, path: str) -> None:
        # S3 is silent about a missing file; Azure and Google are not.
        with wrapped(self._url(path)), suppress(FileNotFoundError):
            obstore.delete(self.store, self.start + path)

    def _url(self, path: str) -> str:
        return f"{self.root}/{self.start}{path}"

    def _info(self, meta: ObjectMeta) -> FileInfo:
        modified = (meta["last_modified"] - _EPOCH) // _MILLISECOND
        return FileInfo(meta["path"].removeprefix(self.start), meta["size"], modified)


def _is_marker(meta: ObjectMeta, folder: str) -> bool:
    """Whether this is the empty object `folder/` that some tools leave for a folder; obstore drops its slash."""
    return meta["path"] == folder.rstrip("/")
