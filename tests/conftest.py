"""What all tests share: one Spark session, and how thoroughly properties are tried."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.java import missing_java, under_ci

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=2000)
# The same examples every time: there a run judges the change and not the luck of the draw, which is tried everywhere else.
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `spark` are skipped where Spark cannot start; under CI they fail."""
    if item.get_closest_marker("spark") is None:
        return
    reason = missing_java()
    if reason is not None:
        (pytest.fail if under_ci() else pytest.skip)(reason)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of a test process, in UTC; tests that use it are marked `spark`."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    # Importing pyspark takes a second, which runs without Spark need not wait for.
    builder = import_module("pyspark.sql").SparkSession.builder.master("local[2]").appName("tests of tablespec")
    for name, value in {
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={folder}",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
