"""Writers that race for one table, as threads or as processes."""

from __future__ import annotations

import json
import multiprocessing
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import pyarrow as pa

import tablespec
from tablespec import Retries
from tablespec.storage.store import Storage

PATIENT = Retries(attempts=200, first_pause=0.001, longest_pause=0.05)
Acknowledged = list[tuple[int, int]]


def append_rows(
    url: str, options: Mapping[str, str] | None, writer: int, appends: int, start: object = None
) -> Acknowledged:
    """Append rows (writer, number), one at a time, and tell (number, version) of each that was acknowledged."""
    table = tablespec.open_table(url, storage_options=options)
    if start is not None:
        start.wait()
    done = []
    for number in range(appends):
        rows = pa.table({"writer": [writer] * (number % 3 + 1), "number": [number] * (number % 3 + 1)})
        done.append((number, table.append(rows, retries=PATIENT).instant.version))
    return done


def race_of_threads(url: str, writers: int, appends: int, options: Mapping[str, str] | None = None) -> Acknowledged:
    """What the writers were told."""
    barrier = threading.Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        return _gathered(pool, url, options, writers, appends, barrier)


def race_of_processes(url: str, writers: int, appends: int, options: Mapping[str, str] | None = None) -> Acknowledged:
    """What the writers were told."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(writers, mp_context=context) as pool:
        return _gathered(pool, url, options, writers, appends, manager.Barrier(writers))


def _gathered(
    pool: Executor, url: str, options: Mapping[str, str] | None, writers: int, appends: int, barrier: object
) -> Acknowledged:
    running = [pool.submit(append_rows, url, options, writer, appends, barrier) for writer in range(writers)]
    return [(writer * 1000 + number, version) for writer, one in enumerate(running) for number, version in one.result()]


def check(url: str, acknowledged: Acknowledged, options: Mapping[str, str] | None = None) -> None:
    """Every acknowledged append is there exactly once, at the version it was told, with row ids of its own."""
    table = tablespec.open_table(url, storage_options=options)
    versions = sorted(version for _, version in acknowledged)
    assert versions == list(range(1, len(acknowledged) + 1))
    assert [instant.version for instant in table.timeline] == [0, *versions]
    expected = Counter({key: key % 1000 % 3 + 1 for key, _ in acknowledged})
    found = table.scan().to_table().to_pydict()
    assert Counter(w * 1000 + n for w, n in zip(found["writer"], found["number"])) == expected
    for key, version in acknowledged:
        (slice_,) = [
            slice_
            for partition in table.file_index.list_files_between(version - 1, version)
            for slice_ in partition.file_slices
        ]
        (rows,) = {tuple(row.values()) for batch in table.slice_reader().open(slice_) for row in batch.to_pylist()}
        assert rows[0] * 1000 + rows[1] == key
    ranges = sorted(_row_ids(table))
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    storage = Storage.at(url, options)
    stamps = [_stamp(storage, version) for version in [0, *versions]]
    assert stamps == sorted(set(stamps))


def _row_ids(table: tablespec.Table) -> list[tuple[int, int]]:
    slices = [slice_ for partition in table.file_index.list_files_at(None) for slice_ in partition.file_slices]
    return [(slice_.base.base_row_id, slice_.base.base_row_id + slice_.base.rows) for slice_ in slices]


def _stamp(storage: Storage, version: int) -> int:
    first = storage.read(f"_delta_log/{version:020d}.json").splitlines()[0]
    return json.loads(first)["commitInfo"]["inCommitTimestamp"]
