"""DuckDB and Polars on a table, beside the same engine on its files: `python tests/bench/engines.py` prints ratios and bars.

An attached table is compared with a view of its files; one that is opened for each question with the engine's own reader of such tables,
which opens it too. What opening costs beside the files has no bar, and is told.

Each way of asking is a process of its own; a round puts every question to every way, in random order so that noise hits all
alike, and medians are taken over the rounds. The rows that vectors delete stay in the files, which are read as they are.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from change_worker import rows
from duckdb_venv import duckdb_python
from engines_worker import OPERATIONS, WAYS

HERE = Path(__file__).resolve().parent
JSON_FILE = HERE.parents[1] / "build" / "bench-engines.json"
PARTITIONS = 50
# How many times as long as on the files a question may take, on a table without deletions and with one row in a hundred deleted.
BARS = {"clean": 1.10, "deleted": 1.30}
PEERS = {"duckdb": "delta_scan", "polars": "scan_delta"}
# Ways whose answers have nothing to do with deletions.
BLIND = ("duckdb files", "polars files")


@attrs.frozen
class Cell:
    """One question to one state of the table by one way."""

    state: str
    operation: str
    way: str


@attrs.frozen
class Run:
    """How long an answer took, on the clock and on the processors, and what it was."""

    seconds: float
    cpu: float
    answer: tuple[float, ...]


Results = Mapping[Cell, Sequence[Run]]


def main() -> None:
    """Make the tables, measure, and report."""
    parser = argparse.ArgumentParser(
        description="Measure DuckDB and Polars on a table beside the same engine on its files."
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two million rows, three rounds")
    parser.add_argument("--only", default="", help="an engine")
    parser.add_argument("--folder", type=Path, help="where the generated tables are kept and looked for")
    parser.add_argument("--json", type=Path, default=JSON_FILE, help="where the figures are written")
    given = parser.parse_args()
    total, rounds = (2_000_000, 3) if given.quick else (given.rows, given.rounds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        tables = {state: written_table(folder, total, state) for state in BARS}
        results = measure(tables, interpreters(given.only), rounds)
    lines = [*figures(results), *bars(results)]
    print("\n".join(lines))
    given.json.parent.mkdir(parents=True, exist_ok=True)
    told = [{**attrs.asdict(cell), "runs": [attrs.asdict(run) for run in runs]} for cell, runs in results.items()]
    given.json.write_text(json.dumps(told, indent=2) + "\n")


def written_table(folder: Path, total: int, state: str) -> Path:
    """The table of so many rows, one file a partition; one that is there already is used again."""
    import tablespec

    path = folder / f"engines-{total}-{state}"
    if path.exists():
        return path
    unfinished = folder / f"engines-{total}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    table = tablespec.create_table(str(unfinished), rows(0, 1, None, total).schema, partition_by=["p"])
    span = total // PARTITIONS
    for partition in range(PARTITIONS):
        table.append(rows(partition * span, span, partition, total))
    if state == "deleted":
        table.delete("bucket < 10")
    (unfinished / "files.json").write_text(json.dumps([str(path / one.slice.base.path) for one in table.scan().slices]))
    unfinished.rename(path)
    return path


def interpreters(only: str) -> dict[str, Path]:
    """The Python that runs each way; a way that cannot be had is left out, with a line that says why."""
    found = {way: Path(sys.executable) for way in WAYS if way.startswith(only)}
    if "duckdb delta_scan" in found:
        try:
            found["duckdb delta_scan"] = duckdb_python()
        except subprocess.CalledProcessError as error:
            del found["duckdb delta_scan"]
            print(f"left out: duckdb delta_scan: {error.stderr.strip().splitlines()[-1]}")
    return found


def measure(tables: Mapping[str, Path], pythons: Mapping[str, Path], rounds: int) -> Results:
    """The runs of every way with every question on every table, after a round that is not measured."""
    results: dict[Cell, list[Run]] = {}
    for state, path in tables.items():
        workers = {way: started(way, python, path) for way, python in pythons.items()}
        for number in range(rounds + 1):
            for operation in OPERATIONS:
                for way in random.sample(list(workers), len(workers)):
                    run = asked(workers[way], operation)
                    if number:
                        results.setdefault(Cell(state, operation, way), []).append(run)
        for worker in workers.values():
            worker.communicate()
    check_answers(results)
    return results


def started(way: str, python: Path, path: Path) -> subprocess.Popen[str]:
    """A process that waits for questions."""
    command = [str(python), "-W", "ignore", str(HERE / "engines_worker.py"), way, str(path), str(path / "files.json")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def asked(worker: subprocess.Popen[str], operation: str) -> Run:
    """One question and its answer."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(operation, file=worker.stdin, flush=True)
    told = json.loads(worker.stdout.readline())
    return Run(told["seconds"], told["cpu"], tuple(told["answer"]))


def check_answers(results: Results) -> None:
    """Stop where two ways that see the same rows answer differently; sums of floats depend on their order."""
    for state in BARS:
        for operation in OPERATIONS:
            seeing = [
                (cell.way, runs[0].answer)
                for cell, runs in results.items()
                if (cell.state, cell.operation) == (state, operation) and (state == "clean" or cell.way not in BLIND)
            ]
            for way, answer in seeing[1:]:
                if any(abs(one - other) > 1e-9 * abs(other) for one, other in zip(answer, seeing[0][1], strict=True)):
                    sys.exit(f"{operation}, {state}: {way} says {answer}, {seeing[0][0]} says {seeing[0][1]}")


def figures(results: Results) -> Iterator[str]:
    """A line for each cell."""
    for cell, runs in results.items():
        seconds, cpu = statistics.median(run.seconds for run in runs), statistics.median(run.cpu for run in runs)
        yield f"{cell.state:8} {cell.operation:10} {cell.way:18} {seconds:8.4f} s {cpu:8.4f} s of processors"


def bars(results: Results) -> Iterator[str]:
    """What the adapters must reach: beside the files, and beside the engine's own reader of such tables."""
    for cell in results:
        engine, _, way = cell.way.partition(" ")
        most = {"adapter": {"files": BARS[cell.state]}, "opening": {PEERS[engine]: 1.0, "files": None}}.get(way, {})
        for other, bar in most.items():
            beside = attrs.evolve(cell, way=f"{engine} {other}")
            if beside in results:
                yield compared(results, cell, beside, bar)


def compared(results: Results, cell: Cell, beside: Cell, most: float | None) -> str:
    """One bar, reached or missed on the clock; the processors are told beside it, for a machine with other things to do."""
    ratio, busy = (
        statistics.median(getattr(run, name) for run in results[cell])
        / statistics.median(getattr(run, name) for run in results[beside])
        for name in ("seconds", "cpu")
    )
    told = f"{cell.state}, {cell.operation}: {cell.way} beside {beside.way}: {ratio:.2f}x, processors {busy:.2f}x"
    if most is None:
        return f"no bar: {told}"
    return f"bar: {told} (want <= {most:g}x) {'PASS' if ratio <= most else 'MISS'}"


if __name__ == "__main__":
    main()
