"""A job whose tasks fail once each before they succeed, and which goes on when its session is stopped. Run by test_retries.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import tablespec_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from tablespec_spark.runner import Executors

import tablespec


def main(url: str, scratch: str) -> None:
    """Append with a task that fails after it has written, run tasks that fail, and use a stopped session."""
    spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    # Few rows in a batch: then a task fails between two of them.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    table = tablespec.open_table(url)
    failing = F.udf(lambda number: _fails_once(number, scratch), "double")
    frame = spark.range(0, 100, numPartitions=2).selectExpr("id", "if(id % 2 = 0, 'sf', 'la') AS city")
    told: dict[str, object] = {
        "appended": tablespec_spark.append(spark, table, frame.withColumn("fare", failing("id"))).rows,
        "ran": list(Executors(spark).run(_Once(scratch), [1, 2, 3])),
    }
    spark.stop()
    actions = {
        "read": lambda: tablespec_spark.read(spark, table),
        "append": lambda: tablespec_spark.append(spark, table, frame),
        "delete": lambda: tablespec_spark.delete(spark, table, "id = 1"),
        "sql": lambda: tablespec_spark.sql(spark, "SELECT 1"),
    }
    for name, action in actions.items():
        try:
            action()
        except tablespec.TableSpecError as error:
            told[name] = str(error)
    print(json.dumps(told))  # noqa: T201 - the test reads it


def _fails_once(number: int, scratch: str) -> float:
    mark = Path(scratch, "row")
    if number == 87 and not mark.exists():
        mark.touch()
        raise OSError("the disk is tired")
    return float(number)


class _Once:
    """Fails for the second task the first time that it is called."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch

    def __call__(self, task: int) -> int:
        mark = Path(self._scratch, "task")
        if task == 2 and not mark.exists():
            mark.touch()
            os._exit(1)
        return task * 10


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
