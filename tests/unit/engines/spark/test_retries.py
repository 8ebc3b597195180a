"""Tasks that Spark tries again, and a session that is stopped: in a process of its own, since only one session can be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tests.rows import assert_same_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = Path(__file__).with_name("jobs") / "with_failures.py"
SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The table that the job wrote, where its marks lie, and what it told."""
    folder = tmp_path_factory.mktemp("retries")
    table = tablespec.create_table(str(folder / "trips"), SCHEMA, partition_by=["city"])
    command = [sys.executable, str(JOB), table.url, str(folder)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return table, folder, json.loads(done.stdout.splitlines()[-1])


def test_a_task_that_fails_once_leaves_no_row_twice(job):
    table, folder, told = job

    assert (folder / "row").exists()
    assert told["appended"] == 100
    rows = [(number, "la" if number % 2 else "sf", float(number)) for number in range(100)]
    assert_same_rows(table.scan(), rows)


def test_a_task_whose_process_dies_is_run_again(job):
    _, folder, told = job

    assert (folder / "task").exists()
    assert told["ran"] == [10, 20, 30]


@pytest.mark.parametrize("action", ["read", "append", "delete", "sql"])
def test_a_stopped_session_is_named(job, action):
    *_, told = job

    assert told[action].endswith("is stopped; make a new one with SparkSession.builder.getOrCreate()")
