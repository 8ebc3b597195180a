"""How tasks are spread: over threads here, over the executors of a cluster elsewhere."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

import attrs

Task = TypeVar("Task")
Result = TypeVar("Result")


@runtime_checkable
class Runner(Protocol):
    """Runs a plain function over tasks that pickle."""

    def run(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """The results in the order of the tasks.

        After a failure no more tasks are started; it is raised once the results of those that were done all the same have come, so that
        whoever gathers results can take back what every task did.
        """
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
        waiting = deque(pool.submit(function, task) for task in tasks)
        failure: BaseException | None = None
        try:
            while waiting:
                future = waiting.popleft()
                error = None if future.cancelled() else future.exception()
                if failure is None and error is not None:
                    failure = error
                    pool.shutdown(cancel_futures=True)
                if error is None and not future.cancelled():
                    yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)
        if failure is not None:
            raise failure


def gathered(results: Iterable[Result], undo: Callable[[Sequence[Result]], object]) -> list[Result]:
    """All results; when one fails to come, what was done for the others is undone."""
    done: list[Result] = []
    try:
        done.extend(results)
    except BaseException:
        undo(done)
        raise
    return done
