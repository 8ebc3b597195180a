"""One way of asking a table in a process of its own: `python tests/bench/engines_worker.py WAY PATH FILES` answers a line a question.

A question is the name of an operation. Two ways have what they ask at hand, the table attached and its files as a view, and only the
answer is timed. Those that open the table, as the engine's own reader of such tables does, do so for every question, in the time that is
told. Imports and connections are not timed. Nothing but the standard library is imported at the top, since DuckDB's extension lives in
an environment of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What is asked, as SQL over the rows; sums and averages look at every value of their columns.
OPERATIONS = {
    "full scan": "select sum(id), sum(p), avg(bucket), sum(amount), sum(length(name)), sum(length(note)) from t",
    "sum": "select sum(amount) from t",
    "count": "select count(*) from t",
    "filter": "select count(*), sum(id) from t where p = 7 and bucket = 77",
}
Ask = Callable[[str], tuple[Any, ...]]


def duckdb_adapter(path: str, files: list[str]) -> Ask:
    """DuckDB by way of tablespec, on a table that is attached."""
    import duckdb
    import tablespec_duckdb

    import tablespec

    con = duckdb.connect()
    tablespec_duckdb.attach(con, tablespec.open_table(path), "t")
    return lambda sql: con.execute(sql).fetchall()[0]


def duckdb_files(path: str, files: list[str]) -> Ask:
    """DuckDB on a view of the Parquet files themselves."""
    import duckdb

    con = duckdb.connect()
    con.read_parquet(files, hive_partitioning=True).create_view("t")
    return lambda sql: con.execute(sql).fetchall()[0]


def duckdb_opening(path: str, files: list[str]) -> Ask:
    """DuckDB by way of tablespec, with a table that is opened for the question."""
    import duckdb
    import tablespec_duckdb

    import tablespec

    con = duckdb.connect()

    def ask(sql: str) -> tuple[Any, ...]:
        tablespec_duckdb.attach(con, tablespec.open_table(path), "t")
        return con.execute(sql).fetchall()[0]

    return ask


def duckdb_delta(path: str, files: list[str]) -> Ask:
    """DuckDB by its own extension."""
    import duckdb
    import duckdb_extension_delta

    folder = Path(duckdb_extension_delta.__path__[0])
    con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    con.load_extension(str(folder / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"))
    return lambda sql: con.execute(sql.replace("from t", f"from delta_scan('{path}')")).fetchall()[0]


def polars_adapter(path: str, files: list[str]) -> Ask:
    """Polars by way of tablespec, on a frame that is made."""
    import tablespec_polars

    import tablespec

    frame = tablespec_polars.scan(tablespec.open_table(path))
    return lambda sql: _asked_of_polars(frame, sql)


def polars_files(path: str, files: list[str]) -> Ask:
    """Polars on a frame of the Parquet files themselves."""
    import polars

    frame = polars.scan_parquet(files, hive_partitioning=True)
    return lambda sql: _asked_of_polars(frame, sql)


def polars_opening(path: str, files: list[str]) -> Ask:
    """Polars by way of tablespec, with a table that is opened for the question."""
    import tablespec_polars

    import tablespec

    return lambda sql: _asked_of_polars(tablespec_polars.scan(tablespec.open_table(path)), sql)


def polars_delta(path: str, files: list[str]) -> Ask:
    """Polars by its own reader of Delta tables."""
    import polars

    return lambda sql: _asked_of_polars(polars.scan_delta(path), sql)


def _asked_of_polars(frame: Any, sql: str) -> tuple[Any, ...]:
    import polars

    # The streaming engine is the one for tables of this size.
    found = polars.SQLContext(t=frame).execute(sql, eager=False).collect(engine="streaming")
    return tuple(found.row(0))


WAYS: dict[str, Callable[[str, list[str]], Ask]] = {
    "duckdb adapter": duckdb_adapter,
    "duckdb files": duckdb_files,
    "duckdb opening": duckdb_opening,
    "duckdb delta_scan": duckdb_delta,
    "polars adapter": polars_adapter,
    "polars files": polars_files,
    "polars opening": polars_opening,
    "polars scan_delta": polars_delta,
}


def main() -> None:
    """Answer until there are no more questions."""
    way, path, files = sys.argv[1:]
    ask = WAYS[way](path, json.loads(Path(files).read_text()))
    for line in sys.stdin:
        start, busy = time.perf_counter(), time.process_time()
        answer = ask(OPERATIONS[line.strip()])
        seconds, cpu = time.perf_counter() - start, time.process_time() - busy
        print(json.dumps({"seconds": seconds, "cpu": cpu, "answer": [float(value) for value in answer]}), flush=True)


if __name__ == "__main__":
    main()
