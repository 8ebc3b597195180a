"""The Spark adapter beside Spark's own Parquet and Delta on Spark: `python tests/bench/spark.py` prints times, ratios and bars.

Reads are compared on the same files, clean and with one row in a hundred deleted by vectors; writes on the same frame; deletions on
copies of one table. Delta on Spark reads our tables. It is a process of its own with the version of Spark that it is made for, which
is another one than ours; where it cannot be had its bars are left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
from delta_spark_worker import QUERIES, seconds

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-spark.json"
PARTITIONS, FILES_PER_PARTITION = 50, 100
READS = ("full scan", "sum", "count", "filter")
CLEAN, DELETED, APPEND, REWRITE, LISTING, AS_FAST = 1.10, 1.30, 0.9, 5, 2, 1


@attrs.frozen
class Pair:
    """Seconds of ours and of another's, by turns; the bar is a number of times their time at most, or of their speed at least."""

    name: str
    other: str
    bar: float
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    faster: bool = False

    @property
    def ratio(self) -> float:
        """How many times the other's time ours is; turns are compared with each other, since the machine is not always as fast."""
        return statistics.median(mine / other for mine, other in zip(self.ours, self.theirs))

    @property
    def line(self) -> str:
        """The figures with the bar."""
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        figures = f"{self.name:26} tablespec {ours:7.3f} s, {self.other} {theirs:7.3f} s"
        reached, wanted = (
            (1 / self.ratio, f"x as fast (want >= {self.bar:g})")
            if self.faster
            else (self.ratio, f"x the time (want <= {self.bar:g})")
        )
        passed = reached >= self.bar if self.faster else reached <= self.bar
        return f"{figures}; bar: {reached:.2f}{wanted} {'PASS' if passed else 'MISS'}"


def main() -> None:
    """Make the tables, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure the Spark adapter beside plain Parquet and Delta on Spark.")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=100_000, help="of the table with many files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a million rows, ten thousand files, three rounds")
    parser.add_argument("--only", default="", help="append, read, delete or files")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given = parser.parse_args()
    rows, files, rounds = (1_000_000, 10_000, 3) if given.quick else (given.rows, given.files, given.rounds)
    with tempfile.TemporaryDirectory() as folder, delta_on_spark(Path(folder)) as delta:
        pairs = []
        for pair in measure(Path(folder), delta, rows, files, rounds, given.only):
            print(pair.line, flush=True)
            pairs.append({**attrs.asdict(pair), "ratio": pair.ratio})
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(pairs, indent=2) + "\n")


@contextmanager
def delta_on_spark(folder: Path):
    """Delta on Spark, or None with a line that says why."""
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.jvm.delta_spark import PACKAGES, UnreachableError, delta_spark

    try:
        with delta_spark(folder, HERE / "delta_spark_worker.py") as session:
            print(f"Delta on Spark is {' and '.join(PACKAGES[:2])}")
            yield session
    except UnreachableError as error:
        print(f"left out: Delta on Spark: {error}")
        yield None


def measure(folder: Path, delta, rows: int, files: int, rounds: int, only: str) -> Iterator[Pair]:
    """All pairs, in one session of ours."""
    spark = session(folder)
    made = spark.range(0, rows, numPartitions=8).selectExpr(
        "id",
        f"int(id div {max(1, rows // PARTITIONS)}) AS p",
        "rand(7) * 100 AS fare",
        "concat('trip ', id % 1000) AS text",
    )
    made.write.parquet(str(folder / "source"))
    source = spark.read.parquet(str(folder / "source"))
    if only in ("", "append"):
        turns = zip(*(written(spark, folder, source) for _ in range(min(rounds, 3))))
        yield Pair("append", "parquet", APPEND, *turns, faster=True)
    if only in ("", "read", "delete"):
        yield from on_one_table(folder, spark, delta, source, rounds, only)
    if only in ("", "files"):
        yield from of_many_files(folder, spark, delta, files, rounds)
    spark.stop()


def on_one_table(folder: Path, spark, delta, source, rounds: int, only: str) -> Iterator[Pair]:
    """Reads before and after rows are deleted, and deletions."""
    import tablespec_spark

    table = new_table(folder / "table")
    tablespec_spark.append(spark, table, source)
    if only in ("", "delete"):
        yield from deletions(folder, spark, delta, min(rounds, 3))
    if only in ("", "read"):
        for name in READS:
            yield from read(spark, delta, table, name, "clean", CLEAN, rounds)
        table.delete("fare < 1")
        for name in READS:
            yield from read(spark, delta, table, name, "1% deleted", DELETED, rounds)


def written(spark, folder: Path, source) -> tuple[float, float]:
    """Seconds of an append and of a plain write of the same rows."""
    import tablespec_spark

    plain, target = folder / "plain", folder / "target"
    theirs = seconds(lambda: source.write.partitionBy("p").parquet(str(plain)))
    ours = seconds(lambda: tablespec_spark.append(spark, new_table(target), source))
    shutil.rmtree(plain)
    shutil.rmtree(target)
    return ours, theirs


def read(spark, delta, table, name: str, state: str, bar: float, rounds: int) -> Iterator[Pair]:
    """A query on the table, on its files as they are, and by Delta on Spark; the first turn does not count."""
    import tablespec_spark

    path = table.url.removeprefix("file://")
    files = [f"{table.url}/{one.slice.base.path}" for one in table.scan().slices]
    query = QUERIES[name]
    turns = [
        (
            seconds(lambda: query(tablespec_spark.read(spark, table))),
            seconds(lambda: query(spark.read.option("basePath", table.url).parquet(*files))),
            delta.ask(query=name, table=path)["seconds"] if delta else 0,
        )
        for _ in range(rounds + 1)
    ]
    yield from compared(f"{name}, {state}", turns[1:], Pair("", "parquet", bar, (), ()), with_delta=delta is not None)


def compared(name: str, turns: Sequence[Sequence[float]], first: Pair, *, with_delta: bool) -> Iterator[Pair]:
    """The pair of ours and Spark's own, and that of ours and Delta's."""
    ours, plain, delta = (tuple(one) for one in zip(*turns))
    yield attrs.evolve(first, name=name, ours=ours, theirs=plain)
    if with_delta:
        yield Pair(name, "delta", AS_FAST, ours, delta)


def deletions(folder: Path, spark, delta, rounds: int) -> Iterator[Pair]:
    """Seconds of deleting one row in a thousand, on a copy of the table for each turn; the first turn does not count."""
    import tablespec_spark

    import tablespec

    if delta is None:
        return
    turns = []
    for number in range(rounds + 1):
        copies = [folder / f"{way} {number}" for way in ("ours", "vectors", "rewritten")]
        for copy in copies:
            shutil.copytree(folder / "table", copy, copy_function=linked)
        ours, vectors, rewritten = copies
        delta.ask(run=f"ALTER TABLE delta.`{vectors}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
        turns.append(
            (
                seconds(partial(tablespec_spark.delete, spark, tablespec.open_table(str(ours)), "fare < 0.1")),
                delta.ask(run=f"DELETE FROM delta.`{vectors}` WHERE fare < 0.1")["seconds"],
                delta.ask(run=f"DELETE FROM delta.`{rewritten}` WHERE fare < 0.1")["seconds"],
            )
        )
        for copy in copies:
            shutil.rmtree(copy)
    mine, by_vectors, by_rewriting = (tuple(one) for one in zip(*turns[1:]))
    yield Pair("delete 0.1%", "delta, vectors", AS_FAST, mine, by_vectors)
    yield Pair("delete 0.1%", "delta, rewriting", REWRITE, mine, by_rewriting, faster=True)


def linked(file: str, to: str) -> None:
    """Give a data file another name; a file of the log is copied."""
    (shutil.copy if "_delta_log" in file else os.link)(file, to)


def of_many_files(folder: Path, spark, delta, files: int, rounds: int) -> Iterator[Pair]:
    """A query of one partition of a table of many files, which Spark alone finds by listing folders."""
    import tablespec_spark

    table = many_files(folder, files)
    path = str(folder / "many")
    query = QUERIES["one partition"]
    turns = [
        (
            seconds(lambda: query(tablespec_spark.read(spark, table))),
            seconds(lambda: query(spark.read.parquet(path))),
            delta.ask(query="one partition", table=path)["seconds"] if delta else 0,
        )
        for _ in range(rounds + 1)
    ]
    name = f"one partition, {files} files"
    yield from compared(name, turns[1:], Pair("", "parquet", LISTING, (), (), True), with_delta=delta is not None)
    everything = tuple(seconds(lambda: len(tablespec_spark.read(spark, table)._jdf.inputFiles())) for _ in range(3))
    print(f"{files} files cross to the JVM in {statistics.median(everything):.1f} s")


def many_files(folder: Path, files: int):
    """A table of small files; those of a partition are one file under many names."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import tablespec

    table = new_table(folder / "many")
    actions = []
    for partition in range(files // FILES_PER_PARTITION):
        below = folder / "many" / f"p={partition}"
        below.mkdir()
        rows = pa.table({"id": range(10), "fare": [float(partition)] * 10, "text": ["trip"] * 10})
        pq.write_table(rows, below / "0.parquet")
        known = {"partitionValues": {"p": str(partition)}, "size": (below / "0.parquet").stat().st_size}
        known |= {"modificationTime": 1_700_000_000_000, "dataChange": True, "stats": '{"numRecords":10}'}
        for number in range(FILES_PER_PARTITION):
            if number:
                os.link(below / "0.parquet", below / f"{number}.parquet")
            actions.append({"add": {"path": f"p={partition}/{number}.parquet", **known}})
    info = {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "WRITE", "operationParameters": {}}}
    text = "".join(json.dumps(action) + "\n" for action in [info, *actions])
    (folder / "many" / "_delta_log" / f"{1:020d}.json").write_text(text)
    tablespec.open_table(str(folder / "many")).checkpoint()
    return table


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


if __name__ == "__main__":
    main()
