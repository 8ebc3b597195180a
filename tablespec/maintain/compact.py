"""Many small files, and files with many deleted rows, made into few whole ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import attrs
import pyarrow as pa

from tablespec.errors import InvalidOptionError
from tablespec.formats.base import LiveFile, NewFile, TableFormat
from tablespec.maintain.rewrite import (
    RewriteFragment,
    RewriteResult,
    Rewriting,
    begin,
    by_partition,
    check_cooldown,
    finish,
    new_file_bytes,
    run,
    surviving,
    whole_number,
)
from tablespec.maintain.rewrite_target import RewriteTarget, logged_path
from tablespec.maintain.skip import COOLDOWN
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.read.file_index import Filters
from tablespec.txn.transaction import Retries
from tablespec.write.data_file import GROUP, Buffers, write_files
from tablespec.write.runner import Runner, Threads

# A worker fills one file at a time, so what waits is one row group.
BUFFERS = Buffers(row_group_bytes=32 << 20, waiting_bytes=32 << 20)
# A group is one base file however large its rows make it, unless they would make more than this many files.
LARGEST_GROUP = 2
UNBOUNDED = 1 << 62


@attrs.frozen(kw_only=True)
class Limits:
    """What is worth being compacted.

    Groups smaller than three quarters of `target_bytes` are put together, where at least `min_files` files come together. A group is
    written anew for its own sake when it has as many files, or a file of whose rows more than `max_deleted_fraction` are deleted.
    """

    target_bytes: int
    min_files: int = 2
    max_deleted_fraction: float = 0.1

    def __attrs_post_init__(self) -> None:
        whole_number("target_bytes", self.target_bytes, 1)
        whole_number("min_files", self.min_files, 2)
        fraction = self.max_deleted_fraction
        if not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise InvalidOptionError("max_deleted_fraction", repr(fraction), "a number between 0 and 1")


@attrs.frozen(kw_only=True)
class CompactTask:
    """Slices of one partition whose rows go into one new file, or a few where they make more."""

    target: RewriteTarget
    slices: tuple[FileSlice, ...]
    limits: Limits


class Compacting(Rewriting, total=False):
    """Keywords of a compaction."""

    min_files: int
    max_deleted_fraction: float


def compact(
    format_: TableFormat,
    where: Filters = None,
    *,
    target_bytes: int | None = None,
    min_files: int = 2,
    max_deleted_fraction: float = 0.1,
    cooldown: timedelta = COOLDOWN,
    runner: Runner = Threads(),
    retries: Retries = Retries(),
) -> RewriteResult:
    """Write small files and files with many deleted rows anew, among those that may hold rows that match `where`.

    Rows, their ids and their commit versions stay the same, and nothing counts as changed. Files become as large as the table asks
    for, or `target_bytes`. A file that cannot be read stays in the table and is left alone for `cooldown`.
    """
    check_cooldown(cooldown)
    job = begin(format_, "compact", where, beside=GROUP)
    limits = Limits(
        target_bytes=new_file_bytes(job, target_bytes),
        min_files=min_files,
        max_deleted_fraction=max_deleted_fraction,
    )
    tasks = [
        CompactTask(target=job.target, slices=tuple(file.slice for file in files), limits=limits)
        for files in plan(job.files, limits)
    ]
    fragments = run(job, write_anew, tasks, runner)
    parameters = (("targetBytes", str(limits.target_bytes)), ("minFiles", str(min_files)))
    return finish(job, fragments, parameters, cooldown=cooldown, retries=retries)


def plan(files: Sequence[LiveFile], limits: Limits) -> list[tuple[LiveFile, ...]]:
    """The files that are worth being written anew, together with those that they are written with."""
    chosen: list[tuple[LiveFile, ...]] = []
    for partition in by_partition(files):
        small: list[tuple[LiveFile, ...]] = []
        large: list[tuple[LiveFile, ...]] = []
        for group in _groups(partition):
            (small if _live_bytes(group) * 4 < limits.target_bytes * 3 else large).append(group)
        lots = (*_packed(small, limits.target_bytes), *large)
        chosen += [lot for lot in lots if needed([file.slice for file in lot], limits)]
    return chosen


def needed(slices: Sequence[FileSlice], limits: Limits) -> bool:
    """Whether slices that belong together are worth being written anew."""
    return len(slices) >= limits.min_files or any(
        _deleted_fraction(slice_) > limits.max_deleted_fraction for slice_ in slices
    )


def write_anew(task: CompactTask) -> RewriteFragment:
    """Write the live rows of a task's slices into new files; on a worker."""

    def write(slices: tuple[FileSlice, ...]) -> tuple[NewFile, ...] | None:
        if not needed(slices, task.limits):
            return None
        group = _kept_group(slices, task.limits)
        file_bytes = task.limits.target_bytes if group is None else UNBOUNDED
        layout = attrs.evolve(task.target.write, file_bytes=file_bytes)
        return write_files(task.target.storage, layout, _rows(task.target, slices, group), BUFFERS)

    return surviving(task.slices, write)


def _rows(target: RewriteTarget, slices: tuple[FileSlice, ...], group: FileGroupId | None) -> Iterator[pa.RecordBatch]:
    for slice_ in slices:
        for batch in target.rows(slice_, target.columns):
            if group is not None:
                batch = batch.append_column(GROUP, pa.repeat(pa.scalar(group.id), batch.num_rows))
            yield batch


def _kept_group(slices: tuple[FileSlice, ...], limits: Limits) -> FileGroupId | None:
    """The group that goes on in the new file; None where groups are put together, or one is cut up."""
    groups = {slice_.group for slice_ in slices}
    whole = sum(map(_live_size, slices)) <= LARGEST_GROUP * limits.target_bytes
    return groups.pop() if len(groups) == 1 and whole else None


def _groups(files: Sequence[LiveFile]) -> list[tuple[LiveFile, ...]]:
    """The files of each group apart, oldest rows first."""
    found: dict[FileGroupId, list[LiveFile]] = {}
    for file in sorted(files, key=lambda file: _age(file.slice)):
        found.setdefault(file.slice.group, []).append(file)
    return [tuple(group) for group in found.values()]


def _age(slice_: FileSlice) -> tuple[int, str]:
    first = None if slice_.base is None else slice_.base.base_row_id
    return -1 if first is None else first, logged_path(slice_)


def _packed(groups: Sequence[tuple[LiveFile, ...]], capacity: int) -> list[tuple[LiveFile, ...]]:
    """Groups put together, each into the first lot that has room: no two lots would then fit into one."""
    lots: list[list[LiveFile]] = []
    room: list[int] = []
    for group in groups:
        size = _live_bytes(group)
        number = next((index for index, left in enumerate(room) if left >= size), None)
        if number is None:
            number = len(lots)
            lots.append([])
            room.append(capacity)
        lots[number] += group
        room[number] -= size
    return [tuple(lot) for lot in lots]


def _live_bytes(group: Sequence[LiveFile]) -> int:
    return sum(_live_size(file.slice) for file in group)


def _live_size(slice_: FileSlice) -> int:
    """The bytes that the live rows of a slice take, more or less."""
    return slice_.size - int(slice_.size * _deleted_fraction(slice_))


def _deleted_fraction(slice_: FileSlice) -> float:
    if slice_.deletes is None or slice_.base is None:
        return 0.0
    # Where the log does not say how many rows there are, there is no telling: better to write the file anew.
    return slice_.deletes.cardinality / slice_.base.rows if slice_.base.rows else 1.0
