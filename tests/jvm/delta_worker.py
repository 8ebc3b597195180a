"""Delta on Spark as a process that is asked by lines of JSON and answers by lines of JSON; rows come as Arrow files.

It runs in an environment of its own: `python delta_worker.py FOLDER-FOR-JARS` with Spark and delta-spark, and nothing of this project.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


def started(jars: str) -> SparkSession:
    """A session for many tiny tables."""
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    return delta_session(jars, settings)


def delta_session(jars: str, settings: dict[str, str]) -> SparkSession:
    """A session with Delta in it; the first one ever fetches the jars."""
    builder = SparkSession.builder.master("local[2]").appName("Delta on Spark")
    for name, value in {
        "spark.jars.packages": PACKAGE,
        "spark.jars.ivy": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def answer(spark: SparkSession, asked: dict[str, str]) -> dict[str, Any]:
    """What came of a question: an error, or nothing when all went well."""
    try:
        if "checkpoint" in asked:
            logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
            logs.forTable(spark._jsparkSession, asked["checkpoint"]).checkpoint()
        elif "run" in asked:
            spark.sql(asked["run"])
        else:
            rows = spark.sql(asked["sql"]).toArrow()
            with pa.OSFile(asked["into"], "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
    except (PySparkException, Py4JError) as error:
        return {"error": str(error)}
    return {}


def serve(
    start: Callable[[str], SparkSession], answer: Callable[[SparkSession, dict[str, str]], dict[str, Any]]
) -> None:
    """Answer until there are no more questions."""
    # Spark and its launcher talk on the standard output; from here on that goes where errors go.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = start(sys.argv[1])
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line))), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    serve(started, answer)
