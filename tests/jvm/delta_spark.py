"""Delta on Spark, the reference implementation, at the other end of a pipe."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

import attrs
import pyarrow as pa

from tests.bench.venvs import BUILD, python_with

PACKAGES = ("pyspark==4.2.0", "delta-spark==4.4.0", "pyarrow")
WORKER = Path(__file__).with_name("delta_worker.py")
# Those of the Python and the Spark that run the tests.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


class UnreachableError(Exception):
    """What Delta on Spark is made of cannot be fetched here."""


class DeltaSparkError(Exception):
    """A statement that Delta on Spark refused."""


@attrs.frozen(eq=False)
class DeltaSpark:
    """A running session."""

    questions: IO[str]
    answers: IO[str]
    folder: Path
    log: Path
    numbers: Iterator[int] = attrs.field(factory=count)

    def sql(self, statement: str) -> pa.Table:
        """The rows of a query; DeltaSparkError when it is refused."""
        into = self.folder / f"{next(self.numbers)}.arrow"
        self.ask(sql=statement, into=str(into))
        with pa.OSFile(str(into)) as file:
            rows = pa.ipc.open_file(file).read_all()
        into.unlink()
        return rows

    def run(self, statement: str) -> None:
        """Run a command, whatever it tells; DeltaSparkError when it is refused."""
        self.ask(run=statement)

    def rows(self, table: Path, version: int | None = None) -> pa.Table:
        """The rows of a table, as of a version."""
        travel = "" if version is None else f" VERSION AS OF {version}"
        return self.sql(f"SELECT * FROM delta.`{table}`{travel}")

    def checkpoint(self, table: Path) -> None:
        """Let it write a checkpoint."""
        self.ask(checkpoint=str(table))

    def ask(self, **question: str) -> dict[str, Any]:
        """What the worker answers; DeltaSparkError when it refuses."""
        print(json.dumps(question), file=self.questions, flush=True)
        line = self.answers.readline()
        if not line:
            raise DeltaSparkError(f"Delta on Spark has stopped:\n{self.log.read_text()[-5000:]}")
        told = json.loads(line)
        if "error" in told:
            raise DeltaSparkError(told["error"])
        return dict(told)


@contextmanager
def delta_spark(folder: Path, worker: Path = WORKER) -> Iterator[DeltaSpark]:
    """A session that lives as long as the block; UnreachableError where its packages or its jars cannot be fetched."""
    try:
        python = python_with("jvm-venv", PACKAGES)
    except subprocess.CalledProcessError as error:
        raise UnreachableError(f"pip cannot install {' '.join(PACKAGES)}: {_last_line(error.stderr)}") from error
    log = folder / "delta-spark.log"
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    environment.update(TZ="UTC", SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=str(python))
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [python, worker, str(BUILD / "jvm-jars")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environment,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        if not process.stdout.readline():
            raise _not_started(log.read_text())
        yield DeltaSpark(process.stdin, process.stdout, folder, log)
        process.stdin.close()


def _not_started(told: str) -> Exception:
    if "unresolved dependency" in told or "UNRESOLVED DEPENDENCIES" in told:
        return UnreachableError("Maven Central cannot be reached, where the jars of Delta on Spark come from")
    return DeltaSparkError(f"Delta on Spark did not start:\n{told[-5000:]}")


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "no reason given")
