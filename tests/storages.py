"""Stores that misbehave, or tell what they were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from tablespec.errors import StorageError
from tablespec.storage.store import FileInfo, Storage


@attrs.frozen
class CountingStorage(Storage):
    """Remembers what was asked of it, as (verb, path)."""

    calls: list[tuple[str, str]] = attrs.field(factory=list, eq=False)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[FileInfo]:
        self.calls.append(("list", prefix))
        return super().list(prefix, after=after)

    def head(self, path: str) -> FileInfo | None:
        self.calls.append(("head", path))
        return super().head(path)

    def read(self, path: str) -> bytes:
        self.calls.append(("read", path))
        return super().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.calls.append(("read", path))
        return super().read_range(path, offset, length)

    def open(self, path: str):
        self.calls.append(("open", path))
        return super().open(path)

    def local_path(self, path: str) -> str | None:
        found = super().local_path(path)
        if found is not None:
            self.calls.append(("open", path))
        return found

    def put(self, path: str, data: bytes) -> None:
        self.calls.append(("put", path))
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.calls.append(("put_if_absent", path))
        return super().put_if_absent(path, data)


@attrs.frozen
class LosingAnswers(Storage):
    """Performs each put-if-absent that `when` chooses by its path, and then loses the answer.

    What the caller gets in its place is False, as after a repeated request, or StorageError where `raises` is set.
    """

    when: Callable[[str], bool] = attrs.field(default=lambda path: True, eq=False)
    raises: bool = True

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = super().put_if_absent(path, data)
        if not self.when(path):
            return done
        if self.raises:
            raise StorageError(f"{self.url}/{path}", "the connection was reset")
        return False


@attrs.frozen
class Refusing(Storage):
    """Fails each verb of `verbs` before anything is done, for the paths that `when` chooses."""

    verbs: tuple[str, ...] = ("put_if_absent",)
    when: Callable[[str], bool] = attrs.field(default=lambda path: True, eq=False)

    def put(self, path: str, data: bytes) -> None:
        self._refuse("put", path)
        super().put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._refuse("put_if_absent", path)
        return super().put_if_absent(path, data)

    def create(self, path: str):
        self._refuse("create", path)
        return super().create(path)

    def _refuse(self, verb: str, path: str) -> None:
        if verb in self.verbs and self.when(path):
            raise StorageError(f"{self.url}/{path}", "the disk is full")


@attrs.frozen
class Overtaken(Storage):
    """Lets somebody else act right before each put-if-absent."""

    before: Callable[[str], None] = attrs.field(default=lambda path: None, eq=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.before(path)
        return super().put_if_absent(path, data)


@attrs.frozen
class Slow(Storage):
    """Lets somebody else act between each listing and its use."""

    after: Callable[[], None] = attrs.field(default=lambda: None, eq=False)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[FileInfo]:
        found = list(super().list(prefix, after=after))
        self.after()
        return iter(found)
