"""A process that writes to tables: `python -m tests.concurrency.writer` takes orders as lines of JSON and answers so.

An order names a table, verbs and a partition for each. Where it says `held`, the writer stops right before its first attempt to
commit, tells the change that it is about to make, and goes on when it is told to.
"""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable

import attrs

from tablespec.errors import CommitConflictError, TableSpecError
from tablespec.formats.base import Change, Committed, Lost, TableState
from tablespec.formats.delta.format import DeltaFormat
from tablespec.storage.store import Storage
from tablespec.table import Table
from tests.concurrency.verbs import VERBS


def _at_once(change: Change) -> None:
    """Nobody to wait for."""


@attrs.define(eq=False)
class Held(DeltaFormat):
    """A table whose first commit waits until `gate` lets it through."""

    gate: Callable[[Change], None] = _at_once
    _passed: bool = attrs.field(default=False, init=False)

    def try_commit(self, change: Change, state: TableState) -> Committed | Lost:
        if not self._passed:
            self._passed = True
            self.gate(change)
        return super().try_commit(change, state)


def main() -> None:
    """Serve orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        gate = _gate if order["held"] else _at_once
        answers = [_done(order, verb, partition, gate) for verb, partition in order["verbs"]]
        _say({"done": answers})


def _done(order: dict[str, object], verb: str, partition: str, gate: Callable[[Change], None]) -> dict[str, object]:
    storage = Storage.at(order["url"], order["options"])
    try:
        instant = VERBS[verb].run(Table(Held(storage, gate=gate)), partition)
    except CommitConflictError as error:
        return {"conflict": error.why, "with": error.version}
    except TableSpecError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"version": None if instant is None else instant.version}


def _gate(change: Change) -> None:
    _say({"change": base64.b64encode(pickle.dumps(change)).decode()})
    sys.stdin.readline()


def _say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
