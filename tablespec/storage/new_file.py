"""A file that appears when closed, at whichever store."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from tablespec.storage.failure import wrapped

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class NewFile(io.RawIOBase, BinaryIO):
    """A file being written: `close` publishes it; an exception in its `with` block, or dropping it, leaves nothing."""

    def __init__(
        self, url: str, write: Callable[[ReadableBuffer], int], publish: Callable[[], None], abandon: Callable[[], None]
    ) -> None:
        self._url = url
        self._write = write
        self._publish = publish
        self._abandon = abandon
        self._written = 0

    @property
    def mode(self) -> str:
        return "wb"

    @property
    def name(self) -> str:
        return self._url

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: ReadableBuffer, /) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        with wrapped(self._url):
            count = self._write(data)
        self._written += count
        return count

    def close(self) -> None:
        """Publish the file."""
        if not self.closed:
            super().close()
            self._publish()

    def abandon(self) -> None:
        """Drop what was written; nothing appears."""
        if not self.closed:
            super().close()
            self._abandon()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # The inherited one closes, which would publish a half-written file when its writer dies of an exception.
        self.abandon()
