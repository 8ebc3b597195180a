"""Writer processes at the command of a test, and the places where their tables lie."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import attrs

from tablespec.formats.base import Change
from tablespec.storage.store import Storage

ROOT = Path(__file__).parents[2]
ENDPOINT = "TABLESPEC_S3_ENDPOINT"
# Whether the tables lie on the object store of `make test-s3`.
ON_A_STORE = ENDPOINT in os.environ
Job = tuple[str, str]


@attrs.define
class Places:
    """Where tables of a test lie: copies of local ones, each below `root`, which is a folder or the URL of a store."""

    root: str
    options: Mapping[str, str] | None
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)

    def copy(self, source: Path, name: str = "") -> str:
        """A table of its own with the same history."""
        url = f"{self.root}/{name or next(self._numbers)}"
        if "://" not in self.root:
            shutil.copytree(source, url)
            return url
        storage = Storage.at(url, self.options)
        for path in sorted(path for path in source.rglob("*") if path.is_file()):
            storage.put(str(path.relative_to(source)), path.read_bytes())
        return url


@attrs.frozen
class Writer:
    """A process that does what it is told, one order at a time."""

    process: subprocess.Popen[str]

    def start(self, places: Places, url: str, jobs: Sequence[Job], *, held: bool) -> None:
        """Order verbs, each with its partition; `held` ones wait right before their commit."""
        self._say(json.dumps({"url": url, "options": places.options, "verbs": list(jobs), "held": held}))

    def change(self) -> Change | None:
        """The change that is about to be committed; None where there is nothing to commit."""
        answer = self._answer()
        return pickle.loads(base64.b64decode(answer["change"])) if "change" in answer else None

    def go_on(self) -> dict[str, object]:
        """Let a held commit through and tell what became of it."""
        self._say("go on")
        return self.outcomes()[0]

    def outcomes(self) -> list[dict[str, object]]:
        """What became of the verbs, in order: a version, a conflict with one, or another error."""
        return self._answer()["done"]

    def _say(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def _answer(self) -> dict[str, object]:
        line = self.process.stdout.readline()
        assert line, "the writer died"
        return json.loads(line)


@contextmanager
def writers(number: int) -> Iterator[list[Writer]]:
    """That many writer processes."""
    command = [sys.executable, "-m", "tests.concurrency.writer"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen(command, **pipes) for _ in range(number)]
    try:
        yield [Writer(process) for process in processes]
    finally:
        for process in processes:
            process.stdin.close()
            process.wait(timeout=30)
            process.stdout.close()
