"""Synthetic Delta logs of many adds: `python tests/bench/logs.py classic 1000000 FOLDER`.

Only one leaf partition really exists, so that engines can run a filtered query to its end. The checkpoint stands at
version 100 with its adds in an order like a shuffle's, and small commits follow. Version 101 removes one file of the
real leaf and adds another there: an engine that does not reconcile the tail with the checkpoint finds the wrong files.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from actions import CHECKPOINT, MODIFIED, Action, add_action, checkpoint_rows, remove_action, table_actions
from data_file import FILES_PER_LEAF, ROWS_PER_FILE, DataFile

CHECKPOINT_VERSION = 100
LAST_VERSION = 103
ROW_GROUP = 200_000
# Coprime to every power of ten: stepping by it visits each file once.
STRIDE = 611_953
KINDS = ("classic", "own")


@attrs.frozen(kw_only=True)
class Filter:
    """A predicate that all engines understand, and how many files and rows of the real leaf it finds."""

    name: str
    sql: str
    files: int
    rows: int


@attrs.frozen(kw_only=True)
class Log:
    """A table with about `files` files.

    The checkpoint of the kind `classic` has statistics as JSON only, that of the kind `own` is written by tablespec.
    """

    kind: str
    files: int
    folder: Path

    @property
    def path(self) -> Path:
        """The root of the table."""
        return self.folder / f"{self.kind}-{self.files}"

    @property
    def real_files(self) -> tuple[DataFile, ...]:
        """The files of the one leaf that exists, in the middle of the table."""
        first = self.files // 2 + 42 * FILES_PER_LEAF
        return tuple(DataFile(first + offset) for offset in range(FILES_PER_LEAF))

    @property
    def filters(self) -> tuple[Filter, ...]:
        """By partition, by statistics clustered like the partitions, and by statistics scattered over all files."""
        file = self.real_files[3]
        dt, region, bucket = file.leaf
        by_partition = f"dt = DATE '{dt}' and region = '{region}' and bucket = {bucket}"
        return (
            Filter(name="partition", sql=by_partition, files=FILES_PER_LEAF, rows=FILES_PER_LEAF * ROWS_PER_FILE),
            Filter(name="statistics", sql=f"id = {file.first_id + 500}", files=1, rows=1),
            Filter(name="scattered", sql=f"name = '{file.name_prefix}-0500'", files=1, rows=1),
        )


def write_log(log: Log) -> None:
    """Write the table of `log`; one that is there already stays, unless tablespec has made its checkpoint."""
    unfinished = log.path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if log.kind == "own":
        classic = attrs.evolve(log, kind="classic")
        write_log(classic)
        shutil.copytree(classic.path, unfinished)
        write_own_checkpoint(unfinished)
        write_far_commits(unfinished, LAST_VERSION + 1, LAST_VERSION + 3, log.files)
        shutil.rmtree(log.path, ignore_errors=True)
    elif log.path.exists():
        return
    else:
        write_classic(log, unfinished)
    unfinished.rename(log.path)


def write_classic(log: Log, path: Path) -> None:
    """Write the real files, a checkpoint with statistics as JSON only, and three commits after it."""
    replaced, *kept = log.real_files
    sizes = {file.number: write_rows(path / file.path, file.rows()) for file in kept}
    late = replaced.path.replace("part-", "late-")
    late_size = write_rows(path / late, replaced.rows())
    write_checkpoint(path, log.files, sizes)
    write_commit(path, CHECKPOINT_VERSION + 1, [remove_action(replaced.path), add_action(replaced, late, late_size)])
    write_far_commits(path, CHECKPOINT_VERSION + 2, LAST_VERSION, log.files)


def write_own_checkpoint(path: Path) -> None:
    """Let tablespec write its checkpoint at the newest version; the classic one goes, so nobody falls back to it."""
    import tablespec

    tablespec.open_table(str(path)).checkpoint()
    for old in (path / "_delta_log").glob(f"{CHECKPOINT_VERSION:020d}.*"):
        old.unlink()
    hint = json.loads((path / "_delta_log" / "_last_checkpoint").read_text())
    if hint["version"] != LAST_VERSION:
        raise SystemExit(f"tablespec has left the checkpoint at version {hint['version']}, not {LAST_VERSION}")


def write_checkpoint(path: Path, files: int, sizes: Mapping[int, int]) -> None:
    """Write the checkpoint of version 100, its commit and its hint; memory is bounded by one row group."""
    log = path / "_delta_log"
    log.mkdir()
    target = log / f"{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    with pq.ParquetWriter(target, CHECKPOINT, compression="snappy") as writer:
        for first in range(0, files, ROW_GROUP):
            steps = range(first, min(first + ROW_GROUP, files))
            chunk = [DataFile(step * STRIDE % files) for step in steps]
            writer.write_table(checkpoint_rows(table_actions() if first == 0 else (), chunk, sizes))
    write_commit(path, CHECKPOINT_VERSION, [])
    size = target.stat().st_size
    hint = {"version": CHECKPOINT_VERSION, "size": files + 2, "sizeInBytes": size, "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def write_far_commits(path: Path, first: int, last: int, files: int) -> None:
    """Write commits that each add two files and remove one, none of them in the real leaf."""
    for version in range(first, last + 1):
        *twins, gone = (DataFile(files - 1 - (version - CHECKPOINT_VERSION) * 20 - step) for step in range(3))
        added = [add_action(file, file.path.replace("part-", f"late-{version}-"), file.size) for file in twins]
        write_commit(path, version, [*added, remove_action(gone.path)])


def write_commit(path: Path, version: int, actions: Iterable[Action]) -> None:
    """Write one commit file: a commitInfo line and the actions."""
    info = {"commitInfo": {"timestamp": MODIFIED + version, "operation": "WRITE", "operationParameters": {}}}
    lines = [json.dumps(action, separators=(",", ":")) + "\n" for action in (info, *actions)]
    (path / "_delta_log" / f"{version:020d}.json").write_text("".join(lines))


def write_rows(target: Path, rows: pa.Table) -> int:
    """Write rows to a Parquet file; gives its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return target.stat().st_size


def main() -> None:
    """Write the log that the command line asks for."""
    parser = argparse.ArgumentParser(description="Write a synthetic Delta log.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("files", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write_log(Log(kind=given.kind, files=given.files, folder=given.folder))


if __name__ == "__main__":
    main()
