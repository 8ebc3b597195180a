"""Record and text indexes beside scans: `python tests/bench/index.py` prints medians, ratios and bars.

One table of many rows of text, and what DuckDB and Polars take to look through the same Parquet files. Every query opens the table.
The bars are about queries of a process that has asked before; `cold` is its first one, which also compares the index with its checksums.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-index.json"
WORDS = 200_000
WORDS_A_ROW = 12
KEYS = 100_000
FILE_ROWS = 2_500_000
SCHEMA = pa.schema([("id", pa.string()), ("body", pa.string())])


@attrs.frozen
class Bar:
    """What must be reached."""

    name: str
    wanted: float
    # Whether less is better.
    at_most: bool = False


BARS = (
    Bar("term: times faster than duckdb", 50),
    Bar("term: times faster than polars", 50),
    Bar("phrase: times faster than duckdb", 50),
    Bar("phrase: times faster than polars", 50),
    Bar("tag: times faster than a join scan", 20),
    Bar("index: part of the Parquet size of the text", 1, at_most=True),
    Bar("build: part of the throughput of raw tantivy", 0.5),
    Bar("refresh after a 1% append: part of a full build", 0.03, at_most=True),
)


def main() -> None:
    """Make the table, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure record and text indexes.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a million rows, three rounds")
    parser.add_argument("--folder", type=Path, help="where the generated table is kept and looked for")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    parser.add_argument("--cold", nargs=2, metavar=("TABLE", "QUERY"), help="only print the seconds of one query")
    given = parser.parse_args()
    if given.cold:
        print(first_query(*given.cold))
        return
    total, rounds = (1_000_000, 3) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(written_table(given.folder or Path(scratch), total), total, rounds)
    for line in report(figures):
        print(line)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(figures, indent=2) + "\n")


def rows(start: int, count: int) -> pa.Table:
    """Rows of text: a hundred and one words are common, the others come about as often as each other."""
    chance = random.Random(start)
    words = [f"w{number:x}" for number in range(WORDS)]
    common = [f"common{number}" for number in range(100)]
    bodies = [
        " ".join((*chance.choices(words, k=WORDS_A_ROW // 2), *chance.choices(common, k=WORDS_A_ROW // 2)))
        for _ in range(count)
    ]
    numbers = pa.array(range(start, start + count), pa.int64())
    # Keys in no order, as those of events are.
    keys = pc.bit_wise_and(pc.multiply(numbers, 6364136223846793005), (1 << 62) - 1).cast(pa.string())
    return pa.table({"id": pc.binary_join_element_wise(pa.scalar("key-"), keys, ""), "body": bodies}, schema=SCHEMA)


def marked(table: pa.Table, every: int) -> pa.Table:
    """The rows with a rare word, and a rare phrase, in one of so many."""
    body = table.column("body").combine_chunks()
    numbers = pa.arange(0, len(body))
    rare = pc.if_else(
        pc.equal(pc.subtract(numbers, pc.multiply(pc.divide(numbers, every), every)), 7), " zyzzyva quagga zebra", ""
    )
    return table.set_column(1, "body", pc.binary_join_element_wise(body, rare, ""))


def written_table(folder: Path, total: int) -> Path:
    """The table of so many rows; one that is there already is used again."""
    import tablespec

    path = folder / f"index-{total}"
    if path.exists():
        return path
    unfinished = folder / f"index-{total}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    table = tablespec.create_table(str(unfinished), SCHEMA, key=["id"])
    span = min(total, FILE_ROWS)
    for start in range(0, total, span):
        table.append(marked(rows(start, span), total // 100))
    unfinished.rename(path)
    return path


def measure(path: Path, total: int, rounds: int) -> dict[str, float]:
    """All figures: seconds, bytes and ratios."""
    import tablespec

    shutil.rmtree(path / "_tablespec", ignore_errors=True)
    table = tablespec.open_table(str(path))
    files = [str(path / one.slice.base.path) for one in table.scan().slices if one.slice.base is not None]
    figures: dict[str, float] = {"rows": total}
    figures["raw tantivy"] = once(lambda: raw_build(files))
    figures["build"] = once(lambda: table.create_text_index(["body"]))
    figures["record build"] = once(lambda: table.create_record_index())
    figures["index bytes"] = table.index("text-body").coverage().bytes
    figures["text bytes"] = text_bytes(files)
    for name, query in (("term", "zyzzyva"), ("phrase", '"quagga zebra"')):
        literal = query.strip('"')
        figures[name] = median(rounds, lambda query=query: hits(str(path), query))
        figures[f"{name} cold"] = statistics.median(cold(str(path), query) for _ in range(3))
        figures[f"{name} duckdb"] = median(rounds, lambda literal=literal: duckdb_scan(files, literal))
        figures[f"{name} polars"] = median(rounds, lambda literal=literal: polars_scan(files, literal))
    keys = pa.table({"id": rows(0, KEYS).column("id")})
    figures["tag"] = median(rounds, lambda: table.record_index.tag(keys))
    figures["join scan"] = median(rounds, lambda: join_scan(table, keys))
    figures["join scan duckdb"] = median(rounds, lambda: duckdb_join(files, keys))
    version = table.instant().version
    table.append(rows(total, total // 100))
    figures["refresh"] = once(lambda: table.index("text-body").refresh())
    table.restore(version)
    return with_ratios(figures)


def with_ratios(figures: dict[str, float]) -> dict[str, float]:
    """The figures and what the bars are about."""
    found = dict(figures)
    for name in ("term", "phrase"):
        for peer in ("duckdb", "polars"):
            found[f"{name}: times faster than {peer}"] = figures[f"{name} {peer}"] / figures[name]
    found["tag: times faster than a join scan"] = figures["join scan"] / figures["tag"]
    found["index: part of the Parquet size of the text"] = figures["index bytes"] / figures["text bytes"]
    found["build: part of the throughput of raw tantivy"] = figures["raw tantivy"] / figures["build"]
    found["refresh after a 1% append: part of a full build"] = figures["refresh"] / figures["build"]
    return found


def once(work: Callable[[], object]) -> float:
    """The seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(rounds: int, work: Callable[[], object]) -> float:
    """The seconds that something takes, in the middle of some rounds after one that does not count."""
    work()
    return statistics.median(once(work) for _ in range(rounds))


def cold(path: str, query: str) -> float:
    """The seconds of the first query of a process."""
    command = [sys.executable, __file__, "--cold", path, query]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def first_query(path: str, query: str) -> float:
    """The seconds of a query, with everything imported."""
    for module in ("tablespec", "tantivy"):
        import_module(module)
    return once(lambda: hits(path, query))


def hits(path: str, query: str) -> int:
    """The rows of a query, fetched; the table is opened for it."""
    import tablespec

    found = tablespec.open_table(path).scan(f"MATCH(body, '{query}')").to_table()
    assert 90 <= found.num_rows <= 110, found.num_rows
    return int(found.num_rows)


def duckdb_scan(files: list[str], literal: str) -> int:
    """The same rows by DuckDB: the same words, in letters of any size."""
    import duckdb

    query = "SELECT * FROM read_parquet(?) WHERE regexp_matches(body, ?)"
    found = duckdb.sql(query, params=[files, pattern(literal)]).to_arrow_table()
    assert 90 <= found.num_rows <= 110, found.num_rows
    return int(found.num_rows)


def pattern(literal: str) -> str:
    """What finds the same rows as a query for a word or a phrase."""
    return r"(?i)\b" + r"\W+".join(literal.split()) + r"\b"


def polars_scan(files: list[str], literal: str) -> int:
    """The same rows by Polars."""
    import polars as pl

    found = pl.scan_parquet(files).filter(pl.col("body").str.contains(pattern(literal))).collect()
    assert 90 <= found.height <= 110, found.height
    return found.height


def join_scan(table: object, keys: pa.Table) -> int:
    """The locations of keys without an index: all keys are read with where they lie, and joined."""
    places = table.scan(columns=["id", "_file", "_position"]).to_table()  # type: ignore[attr-defined]
    return int(keys.join(places, "id", join_type="left outer").num_rows)


def duckdb_join(files: list[str], keys: pa.Table) -> int:
    """The same join by DuckDB."""
    import duckdb

    query = "SELECT k.id, p.filename, p.file_row_number FROM keys k LEFT JOIN read_parquet(?) p ON k.id = p.id"
    return int(duckdb.sql(query, params=[files]).to_arrow_table().num_rows)


def raw_build(files: list[str]) -> None:
    """What tantivy takes alone: documents added one by one, and nothing else."""
    import tantivy

    with tempfile.TemporaryDirectory() as folder:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("body", index_option="position")
        builder.add_integer_field("position", fast=True)
        writer = tantivy.Index(builder.build(), folder).writer(200_000_000, 2)
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(columns=["body"]):
                for position, text in enumerate(batch.column(0).to_pylist()):
                    writer.add_document(tantivy.Document(body=text, position=position))
        writer.commit()
        writer.wait_merging_threads()


def text_bytes(files: list[str]) -> float:
    """The compressed bytes of the text column."""
    groups = [pq.ParquetFile(file).metadata for file in files]
    return float(
        sum(
            meta.row_group(number).column(1).total_compressed_size
            for meta in groups
            for number in range(meta.num_row_groups)
        )
    )


def report(figures: dict[str, float]) -> list[str]:
    """A line for each figure and each bar."""
    bars = {bar.name: bar for bar in BARS}
    lines = [f"{name:42} {value:14.4f}" for name, value in figures.items() if name not in bars]
    for bar in BARS:
        reached = figures[bar.name]
        passed = reached <= bar.wanted if bar.at_most else reached >= bar.wanted
        sign = "<=" if bar.at_most else ">="
        lines.append(f"bar: {bar.name}: {reached:.3f} (want {sign} {bar.wanted:g}) {'PASS' if passed else 'MISS'}")
    return lines


if __name__ == "__main__":
    main()
