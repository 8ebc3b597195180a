"""The listing of a Hudi table by its metadata table and by its folders: `python tests/bench/hudi_listing.py` prints medians and the bar.

Each run is a fresh process that opens the table and lists its newest state; imports are not timed, and the two ways take turns.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import fastavro
from hudi import FIRST, HERE, block, complete, write_properties

JSON_FILE = HERE.parents[1] / "build" / "bench-hudi-listing.json"
LEAST_RATIO = 3.0
HFILE_BLOCK = 4
BLOCK_BYTES = 1 << 20
TIMED = """
import json, sys, time
import tablespec
options = tablespec.OpenOptions(metadata_table=sys.argv[2] == "metadata table")
start = time.perf_counter()
listed = tablespec.open_table(sys.argv[1], options=options).file_index.list_files_at(None, [])
seconds = time.perf_counter() - start
print(json.dumps({"files": sum(len(one.file_slices) for one in listed), "seconds": seconds}))
"""
WAYS = ("metadata table", "folders")


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
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "table")
        write_table(path, given.files, given.partitions)
        figures = measured(path, given.rounds, given.files)
    for way, seconds in figures.items():
        print(f"listing {given.files} files in {given.partitions} partitions by the {way:14} {seconds:7.2f} s")
    ratio = figures["folders"] / figures["metadata table"]
    verdict = "PASS" if ratio >= LEAST_RATIO else "MISS"
    print(f"bar: by the metadata table at least {LEAST_RATIO:.1f} times as fast: {ratio:.2f} {verdict}")
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(figures, indent=2) + "\n")
    print(f"figures: {given.json}")


def measured(path: Path, rounds: int, files: int) -> dict[str, float]:
    """The median seconds of each way."""
    runs: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in random.sample(WAYS, len(WAYS)):
            command = [sys.executable, "-c", TIMED, str(path), way]
            told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            if told["files"] != files:
                raise SystemExit(f"by the {way} {told['files']} files are listed of {files}")
            runs[way].append(told["seconds"])
    return {way: statistics.median(seconds) for way, seconds in runs.items()}


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
