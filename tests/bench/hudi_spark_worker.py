"""Hudi on Spark as a process that times whole scans: `python tests/bench/hudi_spark_worker.py TABLE ROUNDS` prints JSON.

It runs in an environment of its own, with the Spark that Hudi is made for. Only the last rounds count, in which everything is warm.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import SparkSession

BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"


def main() -> None:
    """Time the scans."""
    path, rounds = sys.argv[1], int(sys.argv[2])
    jar = os.environ.get("HUDI_BUNDLE")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    builder = builder.config("spark.jars" if jar else "spark.jars.packages", jar or BUNDLE)
    builder = builder.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    builder = builder.config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    builder = builder.config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    runs = [timed(spark, path) for _ in range(rounds + 1)][1:]
    print(json.dumps({"rows": runs[0][0], "seconds": [seconds for _, seconds in runs]}))
    spark.stop()


def timed(spark: SparkSession, path: str) -> tuple[int, float]:
    """The rows of a table, every column of which is read, and the seconds that it took."""
    start = time.perf_counter()
    rows = spark.read.format("hudi").load(path)._jdf.queryExecution().toRdd().count()
    return rows, time.perf_counter() - start


if __name__ == "__main__":
    main()
