"""Row changes beside deltalake: `python tests/bench/changes.py` prints medians, ratios and bars.

Both must leave the same rows; where they do not, or a run fails, it ends with 1.

Every run is a fresh process on a fresh copy (hard links) of one table of many rows in a hundred partitions. The copies stay until all
runs are done, and what a run wrote is on disk before the next one begins: ext4 takes longer to make files for minutes after others
were deleted, which weighs most on the shorter run, and files that are deleted at once are never written.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs
from change_worker import INCREMENT, PARTITIONS, rows

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-changes.json"


@attrs.frozen
class Bar:
    """What an operation must reach beside another: how many times faster, and how many times fewer bytes written."""

    operation: str
    faster: float
    fewer_bytes: float = 0.0


@attrs.frozen(kw_only=True)
class Figures:
    """What one run took, and what tells the rows that it left or gave."""

    seconds: float
    peak_mb: float
    written: float
    rows: tuple[int, ...]


BARS = (
    Bar("delete", 10, 100),
    Bar("replace partition", 1),
    Bar("replace range", 1),
    Bar("update", 3),
    Bar("merge", 2),
)
PEAK_MB = 1536
# Of four times the rows, and the files.
PEAK_GROWTH = 1.25
INCREMENTAL_FASTER = 20.0
QUARTER = "a quarter"
MISS = "MISS"


def main() -> None:
    """Make the table, measure, and report."""
    parser = argparse.ArgumentParser(description="Measure row changes beside deltalake.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a million rows, one round")
    parser.add_argument("--only", default="", help="one operation")
    parser.add_argument("--folder", type=Path, help="where the generated table is kept and looked for")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given = parser.parse_args()
    total, rounds = (1_000_000, 1) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        tables = {
            "tablespec": written_table(folder, total, PARTITIONS),
            "deltalake": written_table(folder, total, PARTITIONS),
            QUARTER: written_table(folder, total, PARTITIONS // 4),
        }
        figures, judged = measure(tables, folder, total, rounds, given.only)
    for line in (*report(figures), *judged):
        print(line)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(figures, indent=2) + "\n")
    # A bar that is missed is told; rows that differ are a failure.
    if any(line.endswith(MISS) for line in judged):
        sys.exit(1)


def written_table(folder: Path, total: int, partitions: int) -> Path:
    """The first partitions of a table of so many rows, one file each; one that is there already is used again."""
    import tablespec

    path = folder / f"changes-{total}-{partitions}"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    table = tablespec.create_table(str(unfinished), rows(0, 1, None, total).schema, partition_by=["p"])
    span = total // PARTITIONS
    for first in range(0, partitions, 5):
        table.append(rows(first * span, 5 * span, None, total))
    unfinished.rename(path)
    return path


def measure(
    tables: dict[str, Path], folder: Path, total: int, rounds: int, only: str
) -> tuple[dict[str, dict[str, dict[str, float]]], list[str]]:
    """Medians of all operations by both engines, and of ours on a quarter of the table; and lines about runs that failed and rows."""
    cases = [(bar.operation, who) for bar in BARS for who in tables]
    cases += [("read", "tablespec"), ("incremental", "tablespec"), ("incremental", QUARTER)]
    runs: dict[tuple[str, str], list[Figures]] = {}
    missed = []
    with tempfile.TemporaryDirectory(dir=folder) as copies:
        for number in range(rounds):
            for operation, who in cases:
                if only and operation != only:
                    continue
                copy = Path(copies) / f"{number} {operation} {who}"
                shutil.copytree(tables[who], copy, copy_function=os.link)
                os.sync()
                figures = run("tablespec" if who == QUARTER else who, operation, copy, total)
                if figures is None:
                    missed.append(f"bar: {operation}: a run of {who} failed {MISS}")
                else:
                    runs.setdefault((operation, who), []).append(figures)
    medians: dict[str, dict[str, dict[str, float]]] = {}
    for (operation, who), found in runs.items():
        medians.setdefault(operation, {})[who] = {
            "seconds": statistics.median(one.seconds for one in found),
            "peak_mb": statistics.median(one.peak_mb for one in found),
            "written": statistics.median(one.written for one in found),
        }
    return medians, missed + agreements(runs, total)


def agreements(runs: dict[tuple[str, str], list[Figures]], total: int) -> list[str]:
    """A line for each operation about its rows: those that deltalake leaves, or as many as there are to read."""
    wanted = {"read": {(total,)}, "incremental": {(INCREMENT,)}}
    wanted |= {operation: {one.rows for one in found} for (operation, who), found in runs.items() if who == "deltalake"}
    lines = []
    for (operation, who), found in runs.items():
        reached = {one.rows for one in found}
        if who != "tablespec" or operation not in wanted:
            continue
        if reached == wanted[operation] and len(reached) == 1:
            lines.append(f"bar: {operation}: the rows that should be there PASS")
        else:
            lines.append(
                f"bar: {operation}: the rows that should be there: {reached} (want {wanted[operation]}) {MISS}"
            )
    return lines


def run(engine: str, operation: str, path: Path, total: int) -> Figures | None:
    """The figures of one run, or None when it failed."""
    command = [sys.executable, str(HERE / "change_worker.py"), engine, operation, str(path), str(total)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        print(f"{engine} {operation} failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    told = json.loads(done.stdout.splitlines()[-1])
    return Figures(seconds=told["seconds"], peak_mb=told["peak_mb"], written=told["written"], rows=tuple(told["rows"]))


def report(figures: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """A line for each figure and each bar."""
    lines = []
    for operation, engines in figures.items():
        for engine, one in engines.items():
            size = one["written"] / 1e6
            lines.append(
                f"{operation:18} {engine:10} {one['seconds']:7.3f} s {one['peak_mb']:6.0f} MB, {size:9.3f} MB written"
            )
    for bar in BARS:
        engines = figures.get(bar.operation, {})
        if not {"tablespec", "deltalake"} <= engines.keys():
            continue
        ours, theirs = engines["tablespec"], engines["deltalake"]
        lines.append(verdict(f"{bar.operation}: times faster", theirs["seconds"] / ours["seconds"], bar.faster))
        if bar.fewer_bytes:
            ratio = theirs["written"] / max(ours["written"], 1)
            lines.append(verdict(f"{bar.operation}: times fewer bytes", ratio, bar.fewer_bytes))
    for operation, engines in figures.items():
        if {"tablespec", QUARTER} <= engines.keys():
            peak, before = (engines[who]["peak_mb"] for who in ("tablespec", QUARTER))
            lines.append(verdict(f"{operation}: peak memory in MB", peak, PEAK_MB, at_most=True))
            subject = f"{operation}: times the peak memory of a quarter of the rows"
            lines.append(verdict(subject, peak / before, PEAK_GROWTH, at_most=True))
    if "read" in figures and "incremental" in figures:
        ratio = figures["read"]["tablespec"]["seconds"] / figures["incremental"]["tablespec"]["seconds"]
        lines.append(
            verdict("incremental read of the last commit: times faster than a full read", ratio, INCREMENTAL_FASTER)
        )
    return lines


def verdict(name: str, reached: float, wanted: float, *, at_most: bool = False) -> str:
    """A bar, reached or missed."""
    passed = reached <= wanted if at_most else reached >= wanted
    return f"bar: {name}: {reached:.2f} (want {'<=' if at_most else '>='} {wanted:g}) {'PASS' if passed else MISS}"


if __name__ == "__main__":
    main()
