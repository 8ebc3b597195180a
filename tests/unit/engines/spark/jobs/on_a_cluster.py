"""A job for a cluster: it reads and writes a table there, and loses an executor on its way. Run by test_cluster.py."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import tablespec_spark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from tablespec_spark.merge import MOST_SENT

import tablespec

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})


def main(master: str, url: str, scratch: Path) -> None:
    """Append, read, lose an executor while appending, delete, merge few rows and many; tell what each step gave."""
    spark = _session(master)
    table = tablespec.create_table(url, SCHEMA, partition_by=["city"], key=["id"])
    tablespec_spark.append(spark, table, _trips(spark, 0, 100))
    told = {"read": tablespec_spark.read(spark, table).where("city = 'sf'").count()}

    killer = threading.Thread(target=_kill_one, args=(spark.sparkContext.applicationId, scratch))
    killer.start()
    slowly = F.udf(lambda number: _slowly(number, str(scratch)), "double")
    told["appended"] = tablespec_spark.append(
        spark, table, _trips(spark, 100, 200).withColumn("fare", slowly("id"))
    ).rows
    killer.join()

    told["deleted"] = tablespec_spark.delete(spark, table, "fare >= 150").rows_deleted
    source = spark.createDataFrame([(0, "sf", -1.0), (500, "ny", 5.0)], "id long, city string, fare double")
    clauses = [tablespec.when_matched_update(), tablespec.when_not_matched_insert()]
    merged = tablespec_spark.merge(spark, table, source, "t.id = s.id", *clauses)
    told |= {"updated": merged.rows_updated, "inserted": merged.rows_inserted}
    left = tablespec_spark.read(spark, table)
    told |= {"left": left.count(), "highest": left.agg({"fare": "max"}).head()[0]}
    many = spark.range(0, MOST_SENT + 100, numPartitions=4).selectExpr("id", "'ny' AS city", "0.5D AS fare")
    spread = tablespec_spark.upsert(spark, table, many)
    told |= {"spread": [spread.rows_updated, spread.rows_inserted], "at the end": _counted(spark, table)}
    print(json.dumps(told))  # noqa: T201 - the test reads it
    spark.stop()


def _counted(spark: SparkSession, table: tablespec.Table) -> list[float]:
    """How many rows there are, how many different ones, and the sum of their fares."""
    found = tablespec_spark.read(spark, table).selectExpr("count(*)", "count(DISTINCT id)", "sum(fare)").head()
    return list(found)


def _session(master: str) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("cluster")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _trips(spark: SparkSession, first: int, last: int):
    return spark.range(first, last, numPartitions=4).selectExpr(
        "id", "if(id % 2 = 0, 'sf', 'la') AS city", "double(id) AS fare"
    )


def _slowly(number: int, scratch: str) -> float:
    """A value that takes its time, and a sign that the work has begun."""
    Path(scratch, f"begun-{os.getpid()}").touch()
    time.sleep(0.05)
    return float(number)


def _kill_one(application: str, scratch: Path) -> None:
    """Kill the executor of one of the tasks that have begun."""
    while not (begun := list(scratch.glob("begun-*"))):
        time.sleep(0.05)
    worker = int(begun[0].name.removeprefix("begun-"))
    for pid in _executors(application):
        if pid in _ancestors(worker):
            os.kill(pid, signal.SIGKILL)
            (scratch / "killed").touch()


def _executors(application: str) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"CoarseGrainedExecutorBackend.*--app-id {application}"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in found.stdout.split()]


def _ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 1:
        found.add(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return found


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
