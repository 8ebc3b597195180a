"""One measured row change in a process of its own: `python tests/bench/change_worker.py ENGINE OPERATION PATH` prints JSON.

Imports and the making of source data are not timed. `written` counts the bytes of files that the operation added. `rows` are as many as
a read gave, or sums over all columns of all rows of the changed table, as deltalake reads it whoever changed it; finding them is not timed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

PARTITIONS = 100
READS = ("read", "incremental")
INCREMENT = 1000
Run = Callable[[], object]


def rows(first: int, count: int, partition: int | None, total: int) -> pa.Table:
    """Rows of the bench table from an id on: every id lies in the partition `id // (total / PARTITIONS)`."""
    ids = pa.arange(first, first + count)
    owner = pc.divide(ids, total // PARTITIONS) if partition is None else pa.repeat(partition, count)
    bucket = pc.bit_wise_and(pc.multiply(ids, 2654435761), 1023)
    return pa.table(
        {
            "id": ids,
            "p": pc.cast(owner, pa.int32()),
            "bucket": pc.cast(bucket, pa.int32()),
            "amount": pc.divide(pc.cast(bucket, pa.float64()), 7.0),
            "name": pc.binary_join_element_wise("name", pc.cast(ids, pa.string()), "-"),
            "note": pc.binary_join_element_wise("note", pc.cast(bucket, pa.string()), "-"),
        }
    )


def merge_source(total: int, count: int) -> pa.Table:
    """Keys spread over the whole table, nine of ten of them there already."""
    step = total // count
    ids = pc.multiply(pa.arange(0, count), step)
    ids = pc.if_else(pc.equal(pc.bit_wise_and(pa.arange(0, count), 7), 0), pc.add(ids, total), ids)
    owner = pc.if_else(pc.less(ids, total), pc.divide(ids, total // PARTITIONS), 0)
    base = rows(0, count, 0, total)
    return base.set_column(0, "id", ids).set_column(1, "p", pc.cast(owner, pa.int32()))


def tablespec_run(operation: str, path: str, total: int) -> Run:
    """The operation by tablespec."""
    import tablespec

    table = tablespec.open_table(path)
    span = total // PARTITIONS
    replacement = rows(7 * span, span, 7, total)
    ranged = rows(7 * span, span // 2, 7, total)
    source = merge_source(total, min(100_000, total // 10)) if operation == "merge" else None
    if operation == "incremental":
        table.append(rows(total, INCREMENT, 7, total))
        last = table.instant().version
    return {
        "delete": lambda: table.delete("bucket = 77"),
        "replace partition": lambda: table.replace_where("p = 7", replacement),
        "replace range": lambda: table.replace_where(
            f"p = 7 and id < {7 * span + span // 2}", ranged, data_columns=True
        ),
        "update": lambda: table.update({"amount": "amount + 1"}, "bucket >= 77 and bucket < 87"),
        "merge": lambda: table.merge(
            source, "t.id = s.id and t.p = s.p", tablespec.when_matched_update(), tablespec.when_not_matched_insert()
        ),
        "read": lambda: table.scan().to_table().num_rows,
        "incremental": lambda: table.incremental(last - 1).to_table().num_rows,
    }[operation]


def deltalake_run(operation: str, path: str, total: int) -> Run:
    """The operation by deltalake."""
    import deltalake

    table = deltalake.DeltaTable(path)
    span = total // PARTITIONS
    replacement = rows(7 * span, span, 7, total)
    ranged = rows(7 * span, span // 2, 7, total)
    source = merge_source(total, min(100_000, total // 10)) if operation == "merge" else None

    def write(predicate: str, data: pa.Table) -> None:
        deltalake.write_deltalake(table, data, mode="overwrite", predicate=predicate)

    def merge() -> object:
        merger = table.merge(source, "t.id = s.id and t.p = s.p", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    return {
        "delete": lambda: table.delete("bucket = 77"),
        "replace partition": lambda: write("p = 7", replacement),
        "replace range": lambda: write(f"p = 7 and id < {7 * span + span // 2}", ranged),
        "update": lambda: table.update(updates={"amount": "amount + 1"}, predicate="bucket >= 77 and bucket < 87"),
        "merge": merge,
    }[operation]


ENGINES = {"tablespec": tablespec_run, "deltalake": deltalake_run}


def size_of(path: str) -> int:
    """The bytes of all files below a folder."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


def row_sums(path: str) -> list[int]:
    """How many rows a table has, and sums that tell which values stand in which rows."""
    import deltalake

    values = ("p", "bucket", "round(amount * 7)", "substr(name, 6)", "substr(note, 6)")
    sums = [f"sum((id % 1009 + 1) * cast({value} as bigint))" for value in values]
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found = pa.table(builder.execute(f"select count(*), sum(id), {', '.join(sums)} from t").read_all())
    return [column[0].as_py() for column in found.columns]


def peak_mb() -> float:
    """The most memory that this process had; what the system tells of its own accord counts the process that began it, too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Measure what the command line names."""
    engine, operation, path, total = sys.argv[1:]
    run = ENGINES[engine](operation, path, int(total))
    before = size_of(path)
    start = time.perf_counter()
    result = run()
    seconds = time.perf_counter() - start
    peak = peak_mb()
    written = size_of(path) - before
    told = [result] if operation in READS else row_sums(path)
    figures = {"seconds": seconds, "peak_mb": peak, "written": written, "result": str(result), "rows": told}
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
