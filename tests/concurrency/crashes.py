"""Children that kill themselves in the middle of a verb: `python crashes.py TABLE VERB` forks one after another.

Run as a process of its own that does nothing before it forks, so that no thread is lost in a child. Every line that it
prints is `N STATUS`: the child that was to die at its N-th storage call, and how it ended. The last one lives to the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from datetime import timedelta
from pathlib import Path

import attrs
import pyarrow as pa

import tablespec
from tablespec.formats.detect import open_format
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.write.execution import Strategy
from tablespec.write.runner import Threads

ONE_THREAD = Threads(1)
NEW = pa.table({"id": [3, 90], "p": ["a", "c"], "v": [30.0, 90.0]})

VERBS = {
    "append": lambda table: table.append(NEW),
    "delete": lambda table: table.delete("id in (1, 4)", runner=ONE_THREAD),
    "delete by rewriting": lambda table: table.delete(
        "id in (1, 4)", strategy=Strategy.COPY_ON_WRITE, runner=ONE_THREAD
    ),
    "update": lambda table: table.update({"v": "v + 1"}, "id < 3", runner=ONE_THREAD),
    "merge": lambda table: table.merge(
        NEW,
        "t.id = s.id",
        tablespec.when_matched_update(),
        tablespec.when_not_matched_insert(),
        runner=ONE_THREAD,
    ),
    "replace_where": lambda table: table.replace_where("p = 'a'", NEW.slice(0, 1)),
    "compact": lambda table: table.compact(runner=ONE_THREAD),
    "restore": lambda table: table.restore(1),
    "checkpoint": lambda table: table.checkpoint(),
    "vacuum": lambda table: table.vacuum(timedelta(0), allow_short_retention=True),
}


@attrs.frozen(slots=False)
class Mortal(Storage):
    """A store whose process dies at the N-th call that changes it: before the call when N is even, after it when odd."""

    dies_at: int = -1

    def put(self, path: str, data: bytes) -> None:
        self._step()
        super().put(path, data)
        self._step()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._step()
        done = super().put_if_absent(path, data)
        self._step()
        return done

    def create(self, path: str):
        self._step()
        file = super().create(path)
        self._step()
        return file

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)
        self._step()

    def _step(self) -> None:
        count = self.__dict__.setdefault("steps", 0)
        if count == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.__dict__["steps"] = count + 1


def run(source: Path, verb: str) -> None:
    """Kill children at every call until one lives; each works on a copy of the table of its own."""
    for dies_at in range(200):
        copy = source.with_name(f"{source.name}-{dies_at}")
        shutil.copytree(source, copy)
        child = os.fork()
        if child == 0:
            VERBS[verb](Table(open_format(Mortal(f"file://{copy}", (), (), dies_at))))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{dies_at} {os.waitstatus_to_exitcode(status)}\n")
        if status == 0:
            return


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
