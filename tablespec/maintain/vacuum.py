"""Removing what no retained instant needs: data files, deletion vectors, change files, and what aborted writes left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict

import attrs

from tablespec.errors import InvalidOptionError, ShortRetentionError
from tablespec.formats.base import TableFormat
from tablespec.formats.maintenance import LOG_FOLDERS
from tablespec.index.segment import is_of_index, needed_files
from tablespec.maintain.rewrite import maintainable
from tablespec.model.instant import Timeline
from tablespec.storage.store import FileInfo, Storage
from tablespec.write.runner import Runner, Threads

# Writers and readers are thought to be done within a week; nothing tells their files from those that nobody needs.
LEAST_RETENTION = timedelta(days=7)
TASK_FILES = 100


@attrs.frozen
class Removed:
    """The files that were removed, or would be; paths are relative to the table, in path order."""

    paths: tuple[str, ...]
    bytes: int

    @classmethod
    def of(cls, files: Sequence[FileInfo]) -> Removed:
        """What the removal of files is told as."""
        return cls(tuple(file.path for file in files), sum(file.size for file in files))


@attrs.frozen
class RemoveTask:
    """Files to remove."""

    storage: Storage
    paths: tuple[str, ...]


class Removing(TypedDict, total=False):
    """Keywords of verbs that remove files."""

    dry_run: bool
    allow_short_retention: bool


def vacuum(
    format_: TableFormat,
    retention: timedelta | None = None,
    *,
    dry_run: bool = False,
    allow_short_retention: bool = False,
    runner: Runner = Threads(),
) -> Removed:
    """Remove the files that no state of the last `retention` needs, and that are older than that themselves.

    Without a retention it is what the table asks for, a week by default; one that is shorter than both must be allowed by name.
    Hidden files and folders stay, but for change files and temporaries. Versions older than the retention cannot be read any more.
    """
    target = maintainable(format_, "vacuum")
    state = target.latest()
    # Tables may ask whoever removes files to know all their features: the check for writing is that.
    target.check_writable(state, "vacuum")
    before = _retained_since(
        target.storage.url, retention, target.retention(state).files, allowed=allow_short_retention
    )
    # Listed before the log is read: what is committed in between is needed then.
    files = list(target.storage.list())
    needed = target.needed_since(oldest_retained(target.timeline(), before))
    own = outside_of_tables(files)
    indexes = [file for file in own if is_of_index(file.path)]
    kept = needed | needed_files(target.storage, needed) if indexes else needed
    going = not_linked(target.storage, plan([*target.disposable(state, own), *indexes], kept, before), kept)
    if not dry_run:
        remove(target.storage, going, runner)
    return Removed.of(going)


def vacuum_indexes(
    format_: TableFormat,
    retention: timedelta | None = None,
    *,
    dry_run: bool = False,
    allow_short_retention: bool = False,
    runner: Runner = Threads(),
) -> Removed:
    """Remove the files of indexes that are about base files which are gone, and that are older than `retention`, a week by default.

    It needs nothing but the files, so that it serves tables that others write and clean up. A reader who still knows such a part of an
    index reads rows instead.
    """
    storage = format_.storage
    before = _retained_since(storage.url, retention, LEAST_RETENTION, allowed=allow_short_retention)
    files = outside_of_tables(list(storage.list()))
    indexes = [file for file in files if is_of_index(file.path)]
    there = frozenset(file.path for file in files)
    going = plan(indexes, needed_files(storage, there) if indexes else there, before)
    if not dry_run:
        remove(storage, going, runner)
    return Removed.of(going)


def expire_log(
    format_: TableFormat,
    retention: timedelta | None = None,
    *,
    dry_run: bool = False,
    allow_short_retention: bool = False,
) -> Removed:
    """Remove the entries of the log before the newest checkpoint that is older than the retention of the log, 30 days by default.

    Versions before that checkpoint cannot be named any more. Without such a checkpoint nothing goes. A retention that is shorter than a
    week, and than what the table asks for, must be allowed by name: a writer that began before it would write where nobody reads.
    """
    target = maintainable(format_, "expire_log")
    state = target.latest()
    target.check_writable(state, "expire_log")
    before = _retained_since(target.storage.url, retention, target.retention(state).log, allowed=allow_short_retention)
    timeline = target.timeline()
    going = () if timeline.instants[0].timestamp > before else target.expired_log(oldest_retained(timeline, before))
    if not dry_run:
        # Oldest first: whatever stops this, the log stays without a gap.
        for file in going:
            target.storage.delete(file.path)
    return Removed.of(going)


def oldest_retained(timeline: Timeline, before: int) -> int:
    """The version that was the newest at a time: it and all later ones are retained."""
    older = [instant.version for instant in timeline if instant.timestamp <= before]
    return older[-1] if older else timeline.instants[0].version


def outside_of_tables(files: Sequence[FileInfo]) -> list[FileInfo]:
    """The files but for those of other tables inside of this one."""
    tables = tuple({table for file in files if (table := _inner_table(file.path))})
    return [file for file in files if not file.path.startswith(tables)]


def plan(files: Sequence[FileInfo], needed: frozenset[str], before: int) -> tuple[FileInfo, ...]:
    """The files that go: those that are not needed and were not changed after `before`."""
    return tuple(file for file in files if file.path not in needed and file.modified <= before)


def not_linked(storage: Storage, going: tuple[FileInfo, ...], needed: frozenset[str]) -> tuple[FileInfo, ...]:
    """The files that go but for those that are needed under another name, which links to folders give them."""
    # The names of files are given once, whatever folder they are seen in.
    names = {_name(file.path) for file in going}
    kept = {_real(storage, path) for path in needed if _name(path) in names} - {None}
    return tuple(file for file in going if _real(storage, file.path) not in kept) if kept else going


def remove(storage: Storage, files: Sequence[FileInfo], runner: Runner) -> None:
    """Remove files, many at a time."""
    paths = tuple(file.path for file in files)
    tasks = [RemoveTask(storage, paths[start : start + TASK_FILES]) for start in range(0, len(paths), TASK_FILES)]
    for _ in runner.run(remove_files, tasks):
        pass


def remove_files(task: RemoveTask) -> int:
    """Remove the files of a task, on a worker, and tell how many they were."""
    for path in task.paths:
        task.storage.delete(path)
    return len(task.paths)


def _retained_since(table: str, asked: timedelta | None, configured: timedelta, *, allowed: bool) -> int:
    """The time, in milliseconds, at which the retention that is asked for begins."""
    if asked is not None and not isinstance(asked, timedelta):
        raise InvalidOptionError("retention", repr(asked), "a timedelta, such as timedelta(days=7)")
    least = min(configured, LEAST_RETENTION)
    if asked is not None and asked < least and not allowed:
        raise ShortRetentionError(table, str(asked), str(least))
    wanted = configured if asked is None else asked
    return time.time_ns() // 1_000_000 - wanted // timedelta(milliseconds=1)


def _real(storage: Storage, path: str) -> str | None:
    """Where a file lies once all links are followed; None for a store without links, and for what lies elsewhere."""
    local = None if storage.relative(path) is None else storage.local_path(path)
    return None if local is None else os.path.realpath(local)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _inner_table(path: str) -> str:
    """The folder of another table inside of this one to which a file belongs, with a slash; empty for none."""
    folders = path.split("/")
    depth = next((index for index, folder in enumerate(folders) if index and folder in LOG_FOLDERS), 0)
    return "/".join(folders[:depth]) + "/" if depth else ""
