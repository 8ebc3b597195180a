"""The adapter over Spark Connect, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.java import under_ci


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(find_spec("grpc") is None and not under_ci(), reason="needs pip install 'pyspark[connect]'")
def test_tables_are_read_and_written_over_spark_connect():
    module = Path(__file__).with_name("over_connect.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)]
    without = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYSPARK_"))}

    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=without, check=False)

    assert done.returncode == 0, done.stdout[-20_000:]
