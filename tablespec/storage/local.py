"""Files of the local file system, by plain calls of the operating system.

That takes every name literally, where obstore hides names like `x#1`, and needs no start of an asynchronous runtime.
A file comes to be under a hidden temporary name beside its own, so a crash leaves at most that and its folder.
Folders are made for files as they need them, and go with a file that is given up; whoever writes into them at the same
time makes them anew.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from threading import RLock
from typing import BinaryIO
from uuid import uuid4

import attrs

from tablespec.errors import StorageError
from tablespec.storage.base import FileInfo
from tablespec.storage.failure import MISSING, wrapped
from tablespec.storage.new_file import NewFile
from tablespec.storage.url import LOCAL

# The names of files that are not complete yet.
_TEMPORARY = re.compile(r"\.[0-9a-f]{32}\.tmp")


def is_temporary(path: str) -> bool:
    """Whether a file is one that is not complete yet, or never will be as its writer died."""
    return _TEMPORARY.fullmatch(path.rpartition("/")[2]) is not None


# How often a folder may be taken away by others before there is a file in it; each of them has made it, and does so once.
_MAKINGS = 100


@attrs.frozen
class LocalFiles:
    """The files below one folder, which need not exist yet; `Files` tells what the methods promise."""

    folder: str
    # The folders that came to be for files of ours. Who holds the lock may make and remove some; a file that is
    # dropped meanwhile is given up on the same thread.
    _made: set[Path] = attrs.field(factory=set, init=False, eq=False, repr=False)
    _folders: RLock = attrs.field(factory=RLock, init=False, eq=False, repr=False)

    def local_path(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def list(self, prefix: str, after: str) -> Iterator[FileInfo]:
        return self._walk(f"{prefix}/" if prefix else "", after)

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        start = f"{prefix}/" if prefix else ""
        entries = self._entries(start)
        folders = sorted(start + entry.name for name, entry in entries if name.endswith("/"))
        files = (_info(start + name, entry.stat) for name, entry in entries if not name.endswith("/"))
        return tuple(folders), tuple(info for info in files if info is not None)

    def head(self, path: str) -> FileInfo | None:
        target = self.local_path(path)
        with wrapped(LOCAL + target):
            return _info(path, Path(target).stat)

    def read(self, path: str) -> bytes:
        target = self.local_path(path)
        with wrapped(LOCAL + target, missing=MISSING):
            return Path(target).read_bytes()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        target = self.local_path(path)
        with wrapped(LOCAL + target, missing=MISSING), Path(target).open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        if len(data) != length:
            raise StorageError(LOCAL + target, f"there are {len(data)} bytes at offset {offset}, not {length}")
        return data

    def open(self, path: str) -> BinaryIO:
        target = self.local_path(path)
        with wrapped(LOCAL + target, missing=MISSING):
            return Path(target).open("rb")

    def put(self, path: str, data: bytes) -> None:
        with self.create(path) as file:
            file.write(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        target = Path(self.local_path(path))
        with wrapped(LOCAL + str(target)):
            temporary, file = self._temporary_beside(target)
            try:
                with file:
                    file.write(data)
                    _sync(file)
                target.hardlink_to(temporary)
            except FileExistsError:
                return False
            finally:
                self._remove(temporary)
            _sync_folder(target.parent)
        return True

    def create(self, path: str) -> BinaryIO:
        target = Path(self.local_path(path))
        url = LOCAL + str(target)
        with wrapped(url):
            temporary, file = self._temporary_beside(target)

        def abandon() -> None:
            with suppress(OSError):
                file.close()
            self._remove(temporary)

        def publish() -> None:
            try:
                with wrapped(url):
                    with file:
                        _sync(file)
                    temporary.replace(target)
            except BaseException:
                abandon()
                raise
            with wrapped(url):
                _sync_folder(target.parent)

        return NewFile(url, file.write, publish, abandon)

    def delete(self, path: str) -> None:
        target = self.local_path(path)
        with wrapped(LOCAL + target), suppress(*MISSING):
            Path(target).unlink()
            self._remove_folders(Path(target).parent)

    def _walk(self, start: str, after: str) -> Iterator[FileInfo]:
        for name, entry in self._entries(start):
            path = start + name
            if name.endswith("/"):
                if path > after or after.startswith(path):
                    yield from self._walk(path, after)
            elif path > after:
                info = _info(path, entry.stat)
                if info is not None:
                    yield info

    def _entries(self, start: str) -> Sequence[tuple[str, os.DirEntry[str]]]:
        """What lies in a folder, in path order: folders have a slash at the end, which is where their files sort."""
        folder = self.local_path(start)
        with wrapped(LOCAL + folder):
            try:
                with os.scandir(folder) as entries:
                    named = [(f"{entry.name}/" if entry.is_dir() else entry.name, entry) for entry in entries]
            except MISSING:
                return ()
        return sorted(named, key=itemgetter(0))

    def _temporary_beside(self, target: Path) -> tuple[Path, BinaryIO]:
        temporary = target.with_name(f".{uuid4().hex}.tmp")
        for _ in range(_MAKINGS):
            with suppress(FileNotFoundError):
                return temporary, temporary.open("xb")
            # A writer that gives up may take the folder, or one above it, away again before there is anything in it.
            with suppress(FileNotFoundError):
                self._make_folder(target.parent)
        return temporary, temporary.open("xb")

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        with self._folders, suppress(FileExistsError):
            folder.mkdir()
            self._made.add(folder)
        _sync_folder(folder.parent)

    def _remove(self, temporary: Path) -> None:
        # Whether the target is there is decided already; a temporary that stays behind harms nobody.
        with suppress(OSError):
            temporary.unlink()
            self._remove_folders(temporary.parent)

    def _remove_folders(self, folder: Path) -> None:
        """Take away the folders that were made for a file, as far up as nothing else is in them."""
        with self._folders, suppress(OSError):
            while folder in self._made:
                folder.rmdir()
                self._made.discard(folder)
                folder = folder.parent


def _info(path: str, status_of: Callable[[], os.stat_result]) -> FileInfo | None:
    try:
        status = status_of()
    except MISSING:
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    # A name is safe from a loss of power only when its folder is on disk, too.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
