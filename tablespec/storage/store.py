"""One `Storage` for every place where tables live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import BinaryIO

import attrs

from tablespec.errors import PathOutsideTableError, StorageError, UnsupportedUrlError
from tablespec.storage.base import FileInfo, Files
from tablespec.storage.local import LocalFiles
from tablespec.storage.remote import RemoteFiles
from tablespec.storage.url import LOCAL, below, canonical, is_absolute, split_root, tidy

__all__ = ["FileInfo", "Storage"]


@attrs.frozen
class Storage:
    """The files below one URL; make it with `Storage.at`.

    A path is literal: percent signs, number signs and spaces are part of the name. It is relative to `url`, or
    absolute: a URL, or a local path that begins with a slash. Reading accepts an absolute path below `url` or one
    of `allowed_roots`; listing and writing never leave `url`. Any other path raises PathOutsideTableError.

    The value pickles without its connections, so a worker opens its own. Failures of the store raise StorageError.
    """

    url: str
    options: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)  # they hold secrets
    allowed_roots: tuple[str, ...] = ()

    @classmethod
    def at(cls, url: str, options: Mapping[str, str] | None = None, allowed_roots: Sequence[str] = ()) -> Storage:
        """The storage at a URL or local path, in canonical form: `file:///abs/path` for local ones, no trailing slash.

        Options are the store's, as obstore and deltalake spell them: `AWS_REGION`, `endpoint`, `allow_http`, `timeout`.
        Nothing is opened yet. Raises UnsupportedUrlError where no store can be meant.
        """
        ordered = tuple(sorted((options or {}).items()))
        return cls(canonical(url), ordered, tuple(canonical(root) for root in allowed_roots))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[FileInfo]:
        """All files below the folder `prefix`, at any depth, in path order; only those whose path sorts after `after`.

        The order is that of the code points, which is that of UTF-8 bytes. A folder that is not there has no files.
        """
        return self._files.list(self._inside(prefix), after)

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        """The folders (as paths) and the files directly in the folder `prefix`, in path order."""
        return self._files.list_folder(self._inside(prefix))

    def head(self, path: str) -> FileInfo | None:
        """What is known about a file, or None when it is not there; outside `url` its path is absolute."""
        files, name = self._locate(path)
        info = files.head(name)
        return info if info is None or files is self._files else attrs.evolve(info, path=canonical(path))

    def read(self, path: str) -> bytes:
        """The whole file; a missing one raises FileNotFoundError."""
        files, name = self._locate(path)
        return files.read(name)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; a missing file raises FileNotFoundError, a short one StorageError."""
        files, name = self._locate(path)
        return files.read_range(name, offset, length)

    def open(self, path: str) -> BinaryIO:
        """The file for random access; a missing one raises FileNotFoundError."""
        files, name = self._locate(path)
        return files.open(name)

    def local_path(self, path: str) -> str | None:
        """The path in the local file system, or None for other stores."""
        files, name = self._locate(path)
        return files.local_path(name)

    def put(self, path: str, data: bytes) -> None:
        """Write a file, replacing one that is there."""
        self._files.put(self._inside_file(path), data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless it exists, atomically; False when it was there.

        False may mean one's own file, where the first answer of a store was lost and the request was sent again;
        after a StorageError the file may be there or not.
        """
        return self._files.put_if_absent(self._inside_file(path), data)

    def create(self, path: str) -> BinaryIO:
        """A file to write in a stream; it appears when closed, and memory is bounded by a few parts.

        It replaces one that is there. An exception inside its `with` block leaves nothing.
        """
        return self._files.create(self._inside_file(path))

    def delete(self, path: str) -> None:
        """Remove a file; nothing happens when it is not there."""
        self._files.delete(self._inside_file(path))

    def relative(self, path: str) -> str | None:
        """The path below `url` under which a listing shows the file, or None for one that lies elsewhere."""
        try:
            return self._relative(path)
        except (PathOutsideTableError, UnsupportedUrlError):
            return None

    @cached_property
    def _files(self) -> Files:
        return _open(self.url, self.options)

    @cached_property
    def _outside(self) -> dict[str, Files]:
        return {}

    def _locate(self, path: str) -> tuple[Files, str]:
        """The files that hold a path to be read, and its name there."""
        name = self._relative(path)
        if name is not None:
            return self._files, self._named(name)
        url = canonical(path)
        if all(below(root, url) is None for root in self.allowed_roots):
            raise PathOutsideTableError(self.url, path)
        root, name = split_root(url)
        if root not in self._outside:
            self._outside[root] = _open(root, self.options)
        return self._outside[root], self._named(name)

    def _inside(self, path: str) -> str:
        name = self._relative(path)
        if name is None:
            raise PathOutsideTableError(self.url, path)
        return name

    def _inside_file(self, path: str) -> str:
        return self._named(self._inside(path))

    def _named(self, name: str) -> str:
        if not name:
            raise StorageError(self.url, "a file was asked for, and the path names the folder itself")
        return name

    def _relative(self, path: str) -> str | None:
        """The path below `url`, or None for an absolute one elsewhere."""
        if is_absolute(path):
            return below(self.url, canonical(path))
        name = tidy(path)
        if name is None:
            raise PathOutsideTableError(self.url, path)
        return name


def _open(url: str, options: tuple[tuple[str, str], ...]) -> Files:
    if url.startswith(LOCAL):
        return LocalFiles(url.removeprefix(LOCAL))
    return RemoteFiles.at(url, dict(options))
