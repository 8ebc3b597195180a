"""The listing of a Hudi table by its metadata table and by its folders: `python tests/bench/hudi_listing.py` prints medians and bars.

Each run is a fresh process that opens the table and lists its newest state; imports are not timed, and the two ways take turns. The
table lies on the local disk first and then on an object store, MinIO, which `make test-s3` builds; without it that part is left out.
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
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import fastavro
from hudi import FIRST, HERE, block, complete, write_properties

from tablespec.storage.store import Storage

JSON_FILE = HERE.parents[1] / "build" / "bench-hudi-listing.json"
LEAST_RATIO = 3.0
HFILE_BLOCK = 4
BLOCK_BYTES = 1 << 20
UPLOADS, UPLOAD_SECONDS = 32, 600
TIMED = """
import json, os, sys, time
import tablespec
stored = json.loads(os.environ["BENCH_STORAGE_OPTIONS"])
options = tablespec.OpenOptions(metadata_table=sys.argv[2] == "metadata table")
start, busy = time.perf_counter(), time.process_time()
listed = tablespec.open_table(sys.argv[1], storage_options=stored, options=options).file_index.list_files_at(None, [])
seconds, cpu = time.perf_counter() - start, time.process_time() - busy
print(json.dumps({"files": sum(len(one.file_slices) for one in listed), "seconds": seconds, "cpu": cpu}))
"""
WAYS = ("metadata table", "folders")
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Make the table, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure the listing of a Hudi table.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="2k files in 200 partitions, one round")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given, _ = parser.parse_known_args()
    if given.quick:
        given.files, given.partitions, given.rounds = 2_000, 200, 1
    figures: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "table")
        write_table(path, given.files, given.partitions)
        print(f"{given.files} files in {given.partitions} partitions", flush=True)
        figures["local disk"] = measured(str(path), {}, given.rounds, given.files)
        report("local disk", figures["local disk"])
        with on_object_store(path, may_build=not given.quick) as found:
            if found is not None:
                figures["object store"] = measured(*found, given.rounds, given.files)
                report("object store", figures["object store"])
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"figures: {given.json}")


def measured(url: str, options: Mapping[str, str], rounds: int, files: int) -> Figures:
    """The median seconds of each way, by the clock and of the processor."""
    runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    environment = {**os.environ, "BENCH_STORAGE_OPTIONS": json.dumps(options)}
    for _ in range(rounds):
        for way in random.sample(WAYS, len(WAYS)):
            command = [sys.executable, "-c", TIMED, url, way]
            told = json.loads(
                subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
            )
            if told["files"] != files:
                raise SystemExit(f"by the {way} {told['files']} files are listed of {files}")
            runs[way].append(told)
    return {
        way: {key: statistics.median(run[key] for run in of_way) for key in ("seconds", "cpu")}
        for way, of_way in runs.items()
    }


def report(place: str, figures: Figures) -> None:
    """Print what was measured at a place, and the bar."""
    for way, found in figures.items():
        print(f"{place}: by the {way:14} {found['seconds']:7.2f} s, of the processor {found['cpu']:7.2f} s")
    ratio, of_cpu = (figures["folders"][key] / figures["metadata table"][key] for key in ("seconds", "cpu"))
    verdict = "PASS" if ratio >= LEAST_RATIO else "MISS"
    told = f"{ratio:.2f} (of the processor {of_cpu:.2f}) {verdict}"
    print(f"bar: {place}: by the metadata table at least {LEAST_RATIO:.1f} times as fast: {told}", flush=True)


@contextmanager
def on_object_store(table: Path, *, may_build: bool) -> Iterator[tuple[str, dict[str, str]] | None]:
    """The URL and the storage options of the same table on an object store, or None with a line that says why."""
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.s3.minio import BINARY, BUCKET, PASSWORD, USER, build, server

    reason = None if BINARY.exists() else build() if may_build else "it is not built yet, which a short run leaves"
    if reason is not None:
        print(f"left out: the object store: {reason}")
        yield None
        return
    with server() as endpoint:
        options = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
            "AWS_REGION": "us-east-1",
        }
        url = f"s3://{BUCKET}/table"
        took = uploaded(table, Storage.at(url, options))
        if took is None:
            print(f"left out: the object store: its files were not there after {UPLOAD_SECONDS} s")
        else:
            print(f"uploaded to the object store in {took:.0f} s", flush=True)
        yield None if took is None else (url, options)


def uploaded(table: Path, storage: Storage) -> float | None:
    """Copy all files of a table, many at a time; gives the seconds that it took, or None where it took too long."""
    start = time.monotonic()
    paths = [Path(folder, name) for folder, _, names in os.walk(table) for name in names]

    def upload(path: Path) -> bool:
        if time.monotonic() - start > UPLOAD_SECONDS:
            return False
        storage.put(path.relative_to(table).as_posix(), path.read_bytes())
        return True

    with ThreadPoolExecutor(UPLOADS) as pool:
        done = all(pool.map(upload, paths))
    return time.monotonic() - start if done else None


def write_table(path: Path, files: int, partitions: int) -> None:
    """A table of empty files, all of the first write, and a metadata table that lists them."""
    write_properties(path, "COPY_ON_WRITE")
    with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.metadata.partitions=files\n")
    listed: dict[str, dict[str, object]] = {}
    for number in range(partitions):
        part = f"day-{number:06}"
        Path(path, part).mkdir()
        Path(path, part, ".hoodie_partition_metadata").touch()
        # Ids as Hudi gives them, one for each file.
        groups = (
            f"{random.getrandbits(32):08x}-4d3c-4b5a-9f00-{group:012x}-0" for group in range(number, files, partitions)
        )
        names = [f"{group}_0-0-0_{FIRST}.parquet" for group in groups]
        for name in names:
            Path(path, part, name).touch()
        listed[part] = {name: {"size": 1, "isDeleted": False} for name in names}
    first = next(iter(listed))
    name = next(iter(listed[first]))
    complete(path, FIRST, "commit", [(first, name.split("_")[0], f"{first}/{name}")])
    write_metadata_table(path / ".hoodie" / "metadata", listed)


def write_metadata_table(path: Path, listed: Mapping[str, Mapping[str, object]]) -> None:
    """The partition `files` of a metadata table, as one block of a log."""
    schema = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": FILE_INFO}], "default": None},
        ],
    }
    parsed = fastavro.parse_schema(schema)

    def value(kind: int, files: Mapping[str, object]) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, {"key": "", "type": kind, "filesystemMetadata": dict(files)})
        return sink.getvalue()

    entries = {part: value(2, files) for part, files in listed.items()}
    entries["__all_partitions__"] = value(1, {part: {"size": 0, "isDeleted": False} for part in listed})
    (path / "files").mkdir(parents=True)
    (path / ".hoodie" / "timeline").mkdir(parents=True)
    (path / ".hoodie" / "timeline" / f"{FIRST}_{int(FIRST) + 1}.deltacommit").touch()
    body = block({0: FIRST, 2: json.dumps(schema)}, hfile(entries), HFILE_BLOCK)
    (path / "files" / f".files-0000-0_{FIRST}.log.1_0-0-0").write_bytes(body)


FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}


def hfile(entries: Mapping[str, bytes]) -> bytes:
    """An HFile without compression, index and file info."""
    payloads, current = [], b""
    for key, value in sorted(entries.items()):
        row = struct.pack(">h", len(key)) + key.encode() + bytes(10)
        current += struct.pack(">ii", len(row), len(value)) + row + value + b"\0"
        if len(current) > BLOCK_BYTES:
            payloads.append(current)
            current = b""
    payloads.append(current)
    body, last = b"", 0
    for payload in payloads:
        last = len(body)
        header = struct.pack(">8siiqbii", b"DATABLK*", len(payload), len(payload), -1, 0, 0, len(payload) + 33)
        body += header + payload
    message = b"".join(
        bytes([number << 3]) + varint(value) for number, value in ((7, len(entries)), (9, 0), (10, last), (12, 2))
    )
    trailer = b'TRABLK"$' + varint(len(message)) + message
    return body + trailer.ljust(4096, b"\0")


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


if __name__ == "__main__":
    main()
