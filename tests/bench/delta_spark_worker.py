"""The questions of the Spark benchmark, and Delta on Spark as a process that times its answers: see tests/jvm/delta_worker.py."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

QUERIES = {
    # Delta on Spark cannot be written to the format that throws rows away.
    "full scan": lambda frame: frame._jdf.queryExecution().toRdd().count(),
    "sum": lambda frame: frame.agg({"fare": "sum"}).collect(),
    "count": lambda frame: frame.count(),
    "filter": lambda frame: frame.where("id < 1000").selectExpr("sum(fare)").collect(),
    "one partition": lambda frame: frame.where("p = 7").selectExpr("sum(fare)").collect(),
}


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def answer(spark, asked):
    """How long a query of a table took, or a statement."""
    if "run" in asked:
        return {"seconds": seconds(lambda: spark.sql(asked["run"]))}
    query = QUERIES[asked["query"]]
    return {"seconds": seconds(lambda: query(spark.read.format("delta").load(asked["table"])))}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "jvm"))
    from delta_worker import delta_session, serve

    serve(lambda jars: delta_session(jars, {"spark.driver.memory": "3g"}), answer)
