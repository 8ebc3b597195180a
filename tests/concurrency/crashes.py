"""Children that kill themselves in the middle of verbs: `python -m tests.concurrency.crashes FOLDER` forks one after another.

The folder has a table for each verb, by its name. Run as a process of its own that does nothing before it forks, so that no thread
is lost in a child. Every line that it prints is `STATUS N VERB`: the child that was to die at its N-th storage call, and how it
ended. The last one of each verb lives to the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import attrs
import pyarrow as pa

from tablespec.arrow.schema import schema_of
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.detect import open_format
from tablespec.storage.store import Storage
from tablespec.table import Table
from tests.concurrency.verbs import ONE, VERBS

CREATE = "create"
WITH_FEED = " with the change feed"
COLUMNS = pa.schema([("id", pa.int64()), ("p", pa.string())])
SHORT = {"allow_short_retention": True}


def _create(storage: Storage) -> None:
    DeltaFormat.create(storage, schema_of(COLUMNS), ("p",), (), "the one")


def _on(act: Callable[[Table], object]) -> Callable[[Storage], object]:
    return lambda storage: act(Table(open_format(storage)))


# The verbs that write change files where the feed is on.
FED = ("replace_where", "overwrite_partitions", "delete by rewriting", "update", "update by rewriting", "merge")
FED += ("merge by rewriting", "upsert", "upsert by rewriting", "restore")

# Every verb that writes, commits and checkpoints included, done to partition `a` where it is done to one.
DEADLY: dict[str, Callable[[Storage], object]] = {
    **{name: _on(lambda table, verb=verb: verb.run(table, "a")) for name, verb in VERBS.items()},
    **{name + WITH_FEED: _on(lambda table, verb=VERBS[name]: verb.run(table, "a")) for name in FED},
    "append with a checkpoint": _on(lambda table: VERBS["append"].run(table, "a")),
    "checkpoint": _on(lambda table: table.checkpoint()),
    "vacuum": _on(lambda table: table.vacuum(timedelta(0), runner=ONE, **SHORT)),
    "vacuum_indexes": _on(lambda table: table.vacuum_indexes(timedelta(0), runner=ONE, **SHORT)),
    "expire_log": _on(lambda table: table.expire_log(timedelta(0), **SHORT)),
    "create_record_index": _on(lambda table: table.create_record_index(runner=ONE)),
    "create_text_index": _on(lambda table: table.create_text_index(["p"], runner=ONE)),
    CREATE: _create,
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
            DEADLY[verb](Mortal(f"file://{copy}", (), (), dies_at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {dies_at} {verb}\n")
        sys.stdout.flush()
        if status == 0:
            return


if __name__ == "__main__":
    for table in [path for path in sorted(Path(sys.argv[1]).iterdir()) if path.name in DEADLY]:
        run(table, table.name)
