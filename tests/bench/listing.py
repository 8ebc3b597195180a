"""The listing of files beside other engines: `python tests/bench/listing.py` prints medians, ratios and bars.

Each run is a fresh process whose imports are not timed. A round asks every peer every question once, the peers one
after another in random order so that noise hits all alike, and medians are taken over the rounds. Peers that list
(tablespec, deltalake) stand beside peers that can only be asked for rows (Polars, DuckDB): the rows come from ten small
files or one, and the line "tablespec scan" does that work too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from duckdb_venv import duckdb_python
from logs import KINDS, Filter, Log
from report import CALLS, OURS, Cell, Results, Runs, bars, remarks, size_name, tables

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-listing.json"
SIZES = {"10k": 10_000, "100k": 100_000, "1M": 1_000_000}
COUNTING_FILES = (OURS, "deltalake")
TIMEOUT_SECONDS = 600


def main() -> None:
    """Generate the logs, measure, and report."""
    given = arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        logs = [log for files in given.sizes for log in written_logs(files, folder)]
        results = measure(logs, interpreters(), given.rounds)
    for line in tables(results):
        print(line)
    for line in (*bars(results), *remarks(results)):
        print(line)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(as_json(results, given.rounds), indent=2) + "\n")
    print(f"figures: {given.json}")


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure the listing of files beside other engines.")
    parser.add_argument("--sizes", type=sizes, default=list(SIZES.values()), help="of " + ",".join(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="10k files only, one round")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    parser.add_argument("--folder", type=Path, help="where generated logs are kept and looked for")
    given = parser.parse_args()
    if given.quick:
        given.sizes, given.rounds = [SIZES["10k"]], 1
    return given


def sizes(text: str) -> list[int]:
    """The numbers of files that a list like 10k,1M names."""
    return [SIZES[name] for name in text.split(",")]


def written_logs(files: int, folder: Path) -> Iterator[Log]:
    """The logs of that size; written by other processes, as the peak memory of workers starts at that of this one."""
    for kind in KINDS:
        log = Log(kind=kind, files=files, folder=folder.resolve())
        command = [sys.executable, str(HERE / "logs.py"), kind, str(files), str(log.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            yield log
        else:
            print(f"left out: {kind} checkpoint, {size_name(files)}: {last_line(done.stderr)}")


def interpreters() -> dict[str, Path]:
    """The Python that runs each peer; a peer that cannot be had is left out, with a line that says why."""
    found = {peer: Path(sys.executable) for peer in CALLS}
    try:
        found["duckdb"] = duckdb_python()
    except subprocess.CalledProcessError as error:
        del found["duckdb"]
        print(f"left out: duckdb: {last_line(error.stderr)}")
    return found


def measure(logs: Sequence[Log], pythons: Mapping[str, Path], rounds: int) -> Results:
    """The runs of every peer with every filter on every log, after an unmeasured run for byte code and page cache."""
    asked = [(log, one) for log in logs for one in log.filters]
    results = {Cell(log.kind, log.files, one.name, peer): Runs() for log, one in asked for peer in pythons}
    for log in logs:
        for peer in pythons if log.files == min(each.files for each in logs) else (OURS,):
            run_once(log, log.filters[0], peer, pythons[peer])
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for log, one in asked:
            for peer in random.sample(list(pythons), len(pythons)):
                cell = Cell(log.kind, log.files, one.name, peer)
                if not results[cell].failure:
                    results[cell] = with_run(results[cell], run_once(log, one, peer, pythons[peer]))
    return results


def run_once(log: Log, wanted: Filter, peer: str, python: Path) -> Runs:
    """One run in a process of its own."""
    command = [str(python), "-W", "ignore", str(HERE / "worker.py"), peer, str(log.path), wanted.sql]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return Runs(failure=f"took more than {TIMEOUT_SECONDS} s")
    # Some peers abort while the interpreter exits, after the line: the line counts, not the exit code.
    if not done.stdout.startswith("{"):
        return Runs(failure=last_line(done.stderr) or f"exit code {done.returncode}")
    said = json.loads(done.stdout.splitlines()[0])
    expected = wanted.files if peer in COUNTING_FILES else wanted.rows
    if said["found"] != expected:
        return Runs(failure=f"found {said['found']}, not {expected}")
    return Runs((said["seconds"],), (said["peak_mb"],))


def with_run(runs: Runs, new: Runs) -> Runs:
    """The runs of a cell and one more; a failure counts for all."""
    if new.failure:
        return new
    return Runs(runs.seconds + new.seconds, runs.peak_mb + new.peak_mb)


def as_json(results: Results, rounds: int) -> dict[str, object]:
    """Everything that was measured, as plain values."""
    runs = [{**attrs.asdict(cell), **attrs.asdict(runs)} for cell, runs in results.items()]
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    return {"machine": machine, "rounds": rounds, "runs": runs, "bars": [attrs.asdict(bar) for bar in bars(results)]}


def last_line(text: str) -> str:
    """The last line of an error output, which names the error."""
    return text.strip().splitlines()[-1] if text.strip() else ""


if __name__ == "__main__":
    main()
