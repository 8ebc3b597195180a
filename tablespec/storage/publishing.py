"""New files that appear while further ones are being written.

A store takes its time to make a file last: a disk until the bytes are on it, an object store for the last request.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

import attrs

# Each may hold a part of its file in memory until it is there.
_AT_ONCE = 4


@attrs.define(eq=False)
class Publishing:
    """Closes files on threads of its own, and the newest on that of the caller, so that a single file needs no other one."""

    _newest: BinaryIO | None = attrs.field(default=None, init=False)
    _threads: ThreadPoolExecutor | None = attrs.field(default=None, init=False)
    _under_way: deque[Future[None]] = attrs.field(factory=deque, init=False)

    def add(self, file: BinaryIO) -> None:
        """Close a file before long; when one that was added earlier could not be closed, that is raised here or by `finish`."""
        before, self._newest = self._newest, file
        if before is None:
            return
        self._threads = self._threads or ThreadPoolExecutor(_AT_ONCE)
        self._under_way.append(self._threads.submit(before.close))
        if len(self._under_way) > _AT_ONCE:
            self._under_way.popleft().result()

    def finish(self) -> None:
        """Close what is left and wait for all; only then is every file there."""
        newest, self._newest = self._newest, None
        if newest is not None:
            newest.close()
        while self._under_way:
            self._under_way.popleft().result()
        self._end()

    def abort(self) -> None:
        """Drop the newest file and wait for the others, whatever became of them: nothing appears from here on."""
        newest, self._newest = self._newest, None
        if newest is not None:
            discard(newest)
        self._end()
        self._under_way.clear()

    def _end(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None


def discard(file: BinaryIO) -> None:
    """Drop a file that was not closed."""
    file.__exit__(RuntimeError, RuntimeError("discarded"), None)
