"""One measured run in a process of its own: `python tests/bench/worker.py PEER PATH SQL` prints a line of JSON.

A peer first imports and connects, which is not timed, and then gives the function whose time counts. Nothing but the
standard library is imported at the top, since DuckDB's extension lives in an environment of its own.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

Run = Callable[[], int]


def tablespec_list(path: str, sql: str) -> Run:
    """Open the table and list the files that may match."""
    import tablespec

    def run() -> int:
        return sum(len(one.file_slices) for one in tablespec.open_table(path).file_index.list_files_at(None, sql))

    return run


def tablespec_read(path: str, sql: str) -> Run:
    """Open the table, list the files that may match and read the rows that do."""
    import tablespec

    return lambda: tablespec.open_table(path).scan(where=sql).to_table().num_rows


def deltalake_list(path: str, sql: str) -> Run:
    """Open the table and list the files that may match."""
    import deltalake

    return lambda: len(deltalake.DeltaTable(path).file_uris(file_pruning_predicate=sql))


def polars_read(path: str, sql: str) -> Run:
    """Open the table and read the rows that match."""
    import polars

    matching = polars.sql_expr(sql)
    return lambda: polars.scan_delta(path).filter(matching).collect().height


def duckdb_read(path: str, sql: str) -> Run:
    """Open the table and aggregate the rows that match."""
    import duckdb
    import duckdb_extension_delta

    folder = Path(duckdb_extension_delta.__path__[0])
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.load_extension(str(folder / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"))
    query = f"select count(*), sum(amount) from delta_scan('{path}') where {sql}"
    return lambda: int(connection.execute(query).fetchall()[0][0])


PEERS: dict[str, Callable[[str, str], Run]] = {
    "tablespec": tablespec_list,
    "tablespec + read": tablespec_read,
    "deltalake": deltalake_list,
    "polars": polars_read,
    "duckdb": duckdb_read,
}


def main() -> None:
    """Measure the peer that the command line names."""
    peer, path, sql = sys.argv[1:]
    run = PEERS[peer](path, sql)
    start = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "found": found}), flush=True)


if __name__ == "__main__":
    main()
