"""On a cluster of two workers, each a process of its own, one of which loses its executor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from tablespec_spark.merge import MOST_SENT

import tablespec
from tests.rows import assert_same_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("jobs") / "on_a_cluster.py"
_DEPLOY = "org.apache.spark.deploy"


@pytest.fixture
def cluster(tmp_path) -> Iterator[str]:
    """The URL of a master with two workers on the loopback."""
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    master = [f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    started = [_daemon(master, tmp_path / "master.log")]
    try:
        _wait_for(port, started[0], tmp_path / "master.log")
        for number in (1, 2):
            folder = tmp_path / f"worker{number}"
            options = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g", "-d", str(folder)]
            started.append(_daemon([f"{_DEPLOY}.worker.Worker", *options, url], tmp_path / f"worker{number}.log"))
        yield url
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


def test_nothing_is_lost_or_doubled_where_an_executor_dies(cluster, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    url = str(tmp_path / "trips")

    with (tmp_path / "job.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, str(JOB), cluster, url, str(scratch)],
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
            timeout=500,
        )

    assert done.returncode == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert (scratch / "killed").exists()
    told = json.loads(done.stdout.splitlines()[-1])
    changed = {"deleted": 50, "updated": 1, "inserted": 1}
    count = MOST_SENT + 100
    spread = {"spread": [151, count - 151], "at the end": [count, count, count / 2]}
    assert told == {"read": 50, "appended": 100, **changed, "left": 151, "highest": 149.0, **spread}
    rows = [(number, "la" if number % 2 else "sf", float(number)) for number in range(1, 150)]
    table = tablespec.open_table(url)
    assert_same_rows(table.scan(at=table.instant().version - 1), [*rows, (0, "sf", -1.0), (500, "ny", 5.0)])


def _daemon(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as sink:
        return subprocess.Popen([_spark_class(), *command], env=_environment(), stdout=sink, stderr=sink)


def _home() -> str:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent)


def _spark_class() -> str:
    return str(Path(_home(), "bin", "spark-class"))


def _environment() -> dict[str, str]:
    root = Path(tablespec.__file__).parents[1]
    return os.environ | {
        "SPARK_HOME": _home(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "engines"), os.environ.get("PYTHONPATH", "")]),
    }


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail(f"the master did not start: {log.read_text()[-2000:]}")
