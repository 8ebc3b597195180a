"""The Spark adapter beside Spark's own Parquet: `python tests/bench/spark.py` prints times, ratios and bars of one run.

Reads are compared on the same files, clean and with one row in a hundred deleted by vectors; writes on the same frame.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

JSON_FILE = Path(__file__).resolve().parents[2] / "build" / "bench-spark.json"
PARTITIONS = 50
QUERIES = {
    "full scan": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "sum": lambda frame: frame.agg({"fare": "sum"}).collect(),
    "count": lambda frame: frame.count(),
    "filter": lambda frame: frame.where("id < 1000").selectExpr("sum(fare)").collect(),
}
CLEAN, DELETED, APPEND = 1.10, 1.30, 0.9


@attrs.frozen
class Pair:
    """Seconds of ours and of Spark's own, by turns."""

    name: str
    bar: float
    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times Spark's own time ours is; turns are compared with each other, since the machine is not always as fast."""
        return statistics.median(mine / other for mine, other in zip(self.ours, self.theirs))


def main() -> None:
    """Make the table, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure the Spark adapter beside plain Parquet.")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a million rows, three rounds")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given = parser.parse_args()
    rows, rounds = (1_000_000, 3) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory() as folder:
        pairs = measure(Path(folder), rows, rounds)
    for line in report(pairs):
        print(line)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {pair.name: {**attrs.asdict(pair), "ratio": pair.ratio} for pair in pairs}
    given.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure(folder: Path, rows: int, rounds: int) -> list[Pair]:
    """All pairs, in one session."""
    import tablespec_spark

    spark = session(folder)
    made = spark.range(0, rows, numPartitions=8).selectExpr(
        "id",
        f"int(id div {max(1, rows // PARTITIONS)}) AS p",
        "rand(7) * 100 AS fare",
        "concat('trip ', id % 1000) AS text",
    )
    made.write.parquet(str(folder / "source"))
    source = spark.read.parquet(str(folder / "source"))
    pairs = [Pair("append", APPEND, *zip(*(written(spark, folder, source) for _ in range(min(rounds, 3)))))]
    table = new_table(folder / "table")
    tablespec_spark.append(spark, table, source)
    pairs += [read(spark, table, f"{name}, clean", CLEAN, rounds) for name in QUERIES]
    table.delete("fare < 1")
    pairs += [read(spark, table, f"{name}, 1% deleted", DELETED, rounds) for name in QUERIES]
    spark.stop()
    return pairs


def written(spark, folder: Path, source) -> tuple[float, float]:
    """Seconds of an append and of a plain write of the same rows."""
    import tablespec_spark

    plain, target = folder / "plain", folder / "target"
    theirs = seconds(lambda: source.write.partitionBy("p").parquet(str(plain)))
    ours = seconds(lambda: tablespec_spark.append(spark, new_table(target), source))
    shutil.rmtree(plain)
    shutil.rmtree(target)
    return ours, theirs


def read(spark, table, name: str, bar: float, rounds: int) -> Pair:
    """Seconds of a query on the table and on its files as they are; the first turn does not count."""
    import tablespec_spark

    query = QUERIES[name.partition(",")[0]]
    files = [f"{table.url}/{one.slice.base.path}" for one in table.scan().slices]
    turns = [
        (
            seconds(lambda: query(tablespec_spark.read(spark, table))),
            seconds(lambda: query(spark.read.option("basePath", table.url).parquet(*files))),
        )
        for _ in range(rounds + 1)
    ]
    return Pair(name, bar, *zip(*turns[1:]))


def new_table(path: Path):
    """An empty table in partitions."""
    import tablespec

    return tablespec.create_table(str(path), _schema(), partition_by=["p"])


def _schema():
    import pyarrow as pa

    return pa.schema({"id": pa.int64(), "p": pa.int32(), "fare": pa.float64(), "text": pa.string()})


def session(folder: Path):
    """A session on two cores."""
    from pyspark.sql import SparkSession

    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    made = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def report(pairs: list[Pair]) -> list[str]:
    """A line for each pair with its bar."""
    lines = []
    for pair in pairs:
        ours, theirs = statistics.median(pair.ours), statistics.median(pair.theirs)
        figures = f"{pair.name:22} tablespec {ours:7.3f} s, parquet {theirs:7.3f} s"
        if pair.name == "append":
            reached, passed = 1 / pair.ratio, 1 / pair.ratio >= pair.bar
            lines.append(f"{figures}; bar: {reached:.2f}x as fast (want >= {pair.bar:g}) {_verdict(passed)}")
        else:
            passed = pair.ratio <= pair.bar
            lines.append(f"{figures}; bar: {pair.ratio:.2f}x the time (want <= {pair.bar:g}) {_verdict(passed)}")
    return lines


def _verdict(passed: bool) -> str:
    return "PASS" if passed else "MISS"


if __name__ == "__main__":
    main()
