"""Whole scans of Hudi tables beside the package hudi and Hudi on Spark: `python tests/bench/hudi.py` prints medians, ratios and bars.

A copy-on-write table, and the same table as merge-on-read with a tenth of its rows updated in Avro logs of half of its file
groups. Each run is a fresh process whose imports are not timed; peers take turns, and medians are taken over the rounds. Hudi on Spark
is one process that is warm when it is timed; where it cannot be had it is left out, with the reason.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from venvs import python_with

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-hudi.json"
PARTITIONS, GROUPS = "abcd", 16
FIRST, SECOND = "20260101000000000", "20260101000100000"
META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
COLUMNS = [
    ("id", "string"),
    ("part", "string"),
    ("ts", "long"),
    ("qty", "int"),
    ("price", "double"),
    ("note", "string"),
    ("at", MICROS),
]
PEERS = {
    "tablespec": "import tablespec\nrun = lambda: tablespec.open_table(path).scan().to_table().num_rows",
    "hudi": "import hudi\nrun = lambda: sum(batch.num_rows for batch in hudi.HudiTable(path).read())",
}
TIMED = """
import json, resource, sys, time
path = sys.argv[1]
{setup}
start = time.perf_counter()
rows = run()
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"rows": rows, "seconds": seconds, "peak_mb": peak}}))
"""
SPARK, SPARK_PACKAGES = "Hudi on Spark", ("pyspark==3.5.9",)
# Table, and how many times the time of hudi it may take.
BARS = {"copy-on-write": 1.0, "merge-on-read": 1.5}


def main() -> None:
    """Make the tables, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure whole scans of Hudi tables.")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="200k rows, one round")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given, _ = parser.parse_known_args()
    if given.quick:
        given.rows, given.rounds = 200_000, 1
    figures: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind, bar in BARS.items():
            path = Path(scratch, kind)
            write_table(path, given.rows, merge_on_read=kind == "merge-on-read")
            figures[kind] = measured(path, given.rounds, given.rows)
            on_spark = hudi_on_spark(path, given.rounds, given.rows)
            if on_spark is not None:
                figures[kind][SPARK] = {"seconds": on_spark}
            report(kind, figures[kind], bar)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"figures: {given.json}")


def measured(path: Path, rounds: int, rows: int) -> dict[str, dict[str, float]]:
    """The medians of every peer."""
    runs: dict[str, list[dict[str, float]]] = {peer: [] for peer in PEERS}
    for _ in range(rounds):
        for peer in random.sample(list(PEERS), len(PEERS)):
            told = subprocess.run(
                [sys.executable, "-c", TIMED.format(setup=PEERS[peer]), str(path)],
                capture_output=True,
                text=True,
                check=True,
            )
            runs[peer].append(json.loads(told.stdout))
            if runs[peer][-1]["rows"] != rows:
                raise SystemExit(f"{peer} reads {runs[peer][-1]['rows']} rows of {rows}")
    return {
        peer: {key: statistics.median(run[key] for run in of_peer) for key in ("seconds", "peak_mb")}
        for peer, of_peer in runs.items()
    }


def hudi_on_spark(path: Path, rounds: int, rows: int) -> float | None:
    """The median seconds of Hudi on Spark, or None with a line that says why."""
    # Variables of the Spark of this environment are not for that one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    try:
        command = [python_with("hudi-venv", SPARK_PACKAGES), HERE / "hudi_spark_worker.py", path, str(rounds)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    except subprocess.CalledProcessError as error:
        print(f"left out: {SPARK}: {error.stderr.strip().splitlines()[-1]}")
        return None
    found = json.loads(told.stdout.strip().splitlines()[-1])
    if found["rows"] != rows:
        raise SystemExit(f"{SPARK} reads {found['rows']} rows of {rows}")
    return statistics.median(found["seconds"])


def report(kind: str, figures: dict[str, dict[str, float]], bar: float) -> None:
    for peer, found in figures.items():
        memory = f" {found['peak_mb']:7.0f} MB" if "peak_mb" in found else ""
        print(f"{kind}: {peer:14} {found['seconds']:7.2f} s{memory}")
    ratio = figures["tablespec"]["seconds"] / figures["hudi"]["seconds"]
    print(f"bar: {kind} at most {bar:.1f} times the time of hudi: {ratio:.2f} {'PASS' if ratio <= bar else 'MISS'}")
    if SPARK in figures:
        faster = figures[SPARK]["seconds"] / figures["tablespec"]["seconds"]
        print(f"bar: {kind} faster than {SPARK}: {faster:.2f} times {'PASS' if faster > 1 else 'MISS'}")


# --- the tables ---


def write_table(path: Path, rows: int, *, merge_on_read: bool) -> None:
    """A table of that many rows in sixteen file groups."""
    write_properties(path, "MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE")
    stats = []
    for group in range(GROUPS):
        part, keys = PARTITIONS[group % len(PARTITIONS)], range(group * rows // GROUPS, (group + 1) * rows // GROUPS)
        name = f"{part}/{file_id(group)}_0-0-0_{FIRST}.parquet"
        Path(path, part).mkdir(exist_ok=True)
        Path(path, part, ".hoodie_partition_metadata").write_text(f"commitTime={FIRST}\npartitionDepth=1\n")
        pq.write_table(base_rows(part, keys), path / name, compression="snappy")
        stats.append((part, file_id(group), name))
    complete(path, FIRST, "deltacommit" if merge_on_read else "commit", stats)
    if merge_on_read:
        logs = [write_log(path, group, rows) for group in range(0, GROUPS, 2)]
        complete(path, SECOND, "deltacommit", logs)


def file_id(group: int) -> str:
    return f"{group:08}-0000-4000-8000-000000000000-0"


def base_rows(part: str, keys: range) -> pa.Table:
    texts = [f"key-{key:010}" for key in keys]
    count = len(keys)
    columns = {
        "_hoodie_commit_time": pa.array([FIRST] * count),
        "_hoodie_commit_seqno": pa.array([f"{FIRST}_0_{key}" for key in keys]),
        "_hoodie_record_key": pa.array(texts),
        "_hoodie_partition_path": pa.array([part] * count),
        "_hoodie_file_name": pa.array(["file"] * count),
        "id": pa.array(texts),
        "part": pa.array([part] * count),
        "ts": pa.array(keys, pa.int64()),
        "qty": pa.array([key % 1000 for key in keys], pa.int32()),
        "price": pa.array([key / 7 for key in keys]),
        "note": pa.array([f"note{key % 9973:08}" for key in keys]),
        "at": pa.array(keys, pa.int64()).cast(pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def write_log(path: Path, group: int, rows: int) -> tuple[str, str, str]:
    """A log that updates every fifth row of a group."""
    part, keys = PARTITIONS[group % len(PARTITIONS)], range(group * rows // GROUPS, (group + 1) * rows // GROUPS, 5)
    schema = record_schema()
    parsed, content = fastavro.parse_schema(schema), io.BytesIO()
    content.write(struct.pack(">ii", 3, len(keys)))
    for key in keys:
        text = f"key-{key:010}"
        meta = (SECOND, f"{SECOND}_0_{key}", text, part, file_id(group))
        row = dict(zip(META, meta)) | {
            "id": text,
            "part": part,
            "ts": key + 1,
            "qty": -1,
            "price": 0.5,
            "note": "changed",
        }
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, {**row, "at": key})
        content.write(struct.pack(">i", sink.tell()) + sink.getvalue())
    name = f"{part}/.{file_id(group)}_{SECOND}.log.1_0-0-0"
    Path(path, name).write_bytes(block({0: SECOND, 2: json.dumps(schema)}, content.getvalue()))
    return part, file_id(group), name


def block(header: dict[int, str], content: bytes, kind: int = 3) -> bytes:
    entries = b"".join(struct.pack(">ii", key, len(text)) + text.encode() for key, text in header.items())
    body = struct.pack(">iii", 1, kind, len(header)) + entries + struct.pack(">q", len(content)) + content
    body += struct.pack(">i", 0)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def record_schema(*, with_meta: bool = True) -> dict[str, object]:
    named = [*(((name, "string") for name in META) if with_meta else ()), *COLUMNS]
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in named]
    return {"type": "record", "name": "row", "namespace": "hoodie.bench", "fields": fields}


def write_properties(path: Path, kind: str) -> None:
    entries = {
        "hoodie.table.name": "bench",
        "hoodie.database.name": "",
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "archived",
        "hoodie.table.type": kind,
        "hoodie.table.format": "native",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.create.schema": json.dumps(record_schema(with_meta=False)),
        "hoodie.table.checksum": str(zlib.crc32(b".bench")),
    }
    (path / ".hoodie" / "timeline").mkdir(parents=True)
    lines = (f"{key}={value}" for key, value in entries.items())
    (path / ".hoodie" / "hoodie.properties").write_text("\n".join(lines) + "\n")


def complete(path: Path, instant: str, action: str, written: list[tuple[str, str, str]]) -> None:
    """Put a completed write on the timeline."""

    def optional(kind: object) -> list[object]:
        return ["null", kind]

    stat = [
        *((name, "string") for name in ("fileId", "path", "prevCommit", "partitionPath", "baseFile")),
        *((name, "long") for name in ("numWrites", "numDeletes", "numInserts", "numUpdateWrites", "fileSizeInBytes")),
        ("logFiles", {"type": "array", "items": "string"}),
    ]
    stat_schema = {
        "type": "record",
        "name": "HoodieWriteStat",
        "fields": [{"name": name, "type": optional(kind), "default": None} for name, kind in stat],
    }
    commit = [
        ("partitionToWriteStats", {"type": "map", "values": {"type": "array", "items": stat_schema}}),
        ("extraMetadata", {"type": "map", "values": "string"}),
        ("operationType", "string"),
        ("compacted", "boolean"),
    ]
    schema = {
        "type": "record",
        "name": "HoodieCommitMetadata",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [{"name": name, "type": optional(kind), "default": None} for name, kind in commit],
    }
    stats: dict[str, list[dict[str, object]]] = {}
    for part, group, name in written:
        size = Path(path, name).stat().st_size
        logs = [name.rsplit("/", 1)[-1]] if ".log." in name else []
        stats.setdefault(part, []).append(
            {
                "fileId": group,
                "path": name,
                "prevCommit": "null",
                "partitionPath": part,
                "baseFile": "",
                "logFiles": logs,
            }
            | {"numWrites": 1, "numDeletes": 0, "numInserts": 1, "numUpdateWrites": 0, "fileSizeInBytes": size}
        )
    body = {
        "partitionToWriteStats": stats,
        "extraMetadata": {"schema": json.dumps(record_schema(with_meta=False))},
        "operationType": "UPSERT",
        "compacted": False,
    }
    timeline = path / ".hoodie" / "timeline"
    for pending in (f"{instant}.{action}.requested", f"{instant}.{action}.inflight"):
        (timeline / pending).touch()
    with (timeline / f"{instant}_{int(instant) + 500}.{action}").open("wb") as file:
        fastavro.writer(file, schema, [body])


if __name__ == "__main__":
    main()
