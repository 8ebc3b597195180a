"""How tasks are spread: over threads here, over the executors of a cluster elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import attrs

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs a plain function over tasks that pickle."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results in the order of the tasks; the first failure raises, and no more tasks are started."""
        ...


@attrs.frozen
class Threads:
    """Runs tasks on threads of this process."""

    workers: int = max(2, os.cpu_count() or 2)

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results in the order of the tasks."""
        if len(tasks) < 2:
            yield from map(function, tasks)
            return
        pool = ThreadPoolExecutor(self.workers)
        try:
            yield from pool.map(function, tasks)
        finally:
            pool.shutdown(cancel_futures=True)


def gathered(results: Iterable[Result], undo: Callable[[Sequence[Result]], object]) -> list[Result]:
    """All results; when one fails to come, what was done for those before it is undone."""
    done: list[Result] = []
    try:
        done.extend(results)
    except BaseException:
        undo(done)
        raise
    return done
