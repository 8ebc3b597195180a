"""What compaction and clustering share: rows move into new files and stay the same rows.

Their ids and commit versions move with them, in hidden columns. Files that cannot be read are left where they are.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeVar

import attrs

from tablespec.errors import InvalidOptionError, ReadOnlyFormatError, UnsupportedTableError
from tablespec.expr.nodes import TRUE, Predicate, columns_of
from tablespec.expr.render import render
from tablespec.formats.base import Change, LiveFile, NewFile, TableFormat, TableState
from tablespec.formats.maintenance import MaintainableFormat
from tablespec.maintain import skip
from tablespec.maintain.rewrite_target import RewriteTarget, UnreadableSliceError, logged_path
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.read.file_index import Filters, bound_filters
from tablespec.txn.transaction import Retries, new_operation_id
from tablespec.write.append import commit_files, discard
from tablespec.write.copy_on_write import with_versions
from tablespec.write.execution import Retrying
from tablespec.write.runner import Runner, gathered

_Task = TypeVar("_Task")

OPERATION = "OPTIMIZE"


class Rewriting(Retrying, total=False):
    """Keywords of verbs that write files anew."""

    target_bytes: int | None
    cooldown: timedelta


@attrs.frozen(kw_only=True, eq=False)
class RewriteJob:
    """A rewriting operation under way, on one pinned state of the table; files that rest are not among its files."""

    format: MaintainableFormat
    state: TableState
    operation: str
    predicate: Predicate
    target: RewriteTarget
    files: tuple[LiveFile, ...]
    skips: tuple[skip.Skip, ...]
    now: int


@attrs.frozen(kw_only=True)
class RewriteFragment:
    """What one worker has done: plain data. Slices are named as the log spells the paths of their base files."""

    rewritten: tuple[str, ...] = ()
    added: tuple[NewFile, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True)
class RewriteResult:
    """What a compaction or clustering did; `instant` is None when there was nothing to do.

    `skipped` are the files that could not be read this time. They are still in the table.
    """

    instant: Instant | None
    rows_moved: int = 0
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    vectors_removed: int = 0
    skipped: tuple[skip.Skip, ...] = ()

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        """The counts under the names that commits record."""
        return (
            ("numCopiedRows", self.rows_moved),
            ("numRemovedFiles", self.files_removed),
            ("numAddedFiles", self.files_added),
            ("numRemovedBytes", self.bytes_removed),
            ("numAddedBytes", self.bytes_added),
            ("numDeletionVectorsRemoved", self.vectors_removed),
            ("numSkippedFiles", len(self.skipped)),
        )


def maintainable(format_: TableFormat, operation: str) -> MaintainableFormat:
    """The format as one whose files can be looked after, or an error that names it."""
    if isinstance(format_, MaintainableFormat):
        return format_
    kind = format_.info(format_.latest()).format
    raise ReadOnlyFormatError(format_.storage.url, kind, operation)


def begin(
    format_: TableFormat, operation: str, where: Filters, *, beside: str = "", whole_partitions: bool = False
) -> RewriteJob:
    """Pin the newest state and find the files that may hold matching rows, or all files of the partitions that have one.

    `beside` names the column that rows have on their way beside those of the table.
    """
    target = maintainable(format_, operation)
    state = target.latest()
    target.check_writable(state, operation)
    if beside in state.schema:
        feature = f"a column of its own named {beside}, which goes with rows on their way"
        raise UnsupportedTableError(format_.storage.url, feature, f"rename it to {operation} the table")
    predicate = bound_filters(where, state.schema)
    found = target.live_files(state, predicate)
    if whole_partitions and not _decided_by_partitions(predicate, state):
        partitions = {partition_of(file) for file in found}
        found = [file for file in target.live_files(state, TRUE) if partition_of(file) in partitions]
    skips = skip.skips_of(target, state)
    now = time.time_ns() // 1_000_000
    rest = skip.resting(skips, now)
    moving = _target(target, state)
    files = [file for file in found if _movable(file, rest)]
    return RewriteJob(
        format=target,
        state=state,
        operation=operation,
        predicate=predicate,
        target=moving,
        files=tuple(with_versions(target, files) if moving.write.row_id_column else files),
        skips=skips,
        now=now,
    )


def check_cooldown(cooldown: timedelta) -> None:
    """Raise for what is no time for which a file can be left alone."""
    if not isinstance(cooldown, timedelta):
        raise InvalidOptionError("cooldown", repr(cooldown), "a timedelta, such as timedelta(hours=24)")


def whole_number(option: str, value: int, least: int) -> int:
    """The value of an option that counts something; raises InvalidOptionError where it counts nothing."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InvalidOptionError(option, repr(value), f"a whole number from {least} on")
    return number


def new_file_bytes(job: RewriteJob, target_bytes: int | None) -> int:
    """How large new files become: what is asked for, or what the table asks for."""
    return job.target.write.file_bytes if target_bytes is None else whole_number("target_bytes", target_bytes, 1)


def surviving(
    slices: tuple[FileSlice, ...], write: Callable[[tuple[FileSlice, ...]], tuple[NewFile, ...] | None]
) -> RewriteFragment:
    """Write slices anew, and once more without each that turns out to be unreadable; on a worker.

    `write` gives None when what is left need not be written.
    """
    unreadable: dict[str, str] = {}
    while slices:
        try:
            added = write(slices)
        except UnreadableSliceError as error:
            unreadable[error.path] = error.why
            slices = tuple(slice_ for slice_ in slices if logged_path(slice_) != error.path)
            continue
        if added is None:
            break
        rewritten = tuple(logged_path(slice_) for slice_ in slices)
        return RewriteFragment(rewritten=rewritten, added=added, unreadable=tuple(unreadable.items()))
    return RewriteFragment(unreadable=tuple(unreadable.items()))


def run(
    job: RewriteJob, function: Callable[[_Task], RewriteFragment], tasks: Sequence[_Task], runner: Runner
) -> tuple[RewriteFragment, ...]:
    """Run tasks and gather their fragments; when one fails, what the others wrote is removed."""

    def undo(fragments: Sequence[RewriteFragment]) -> None:
        discard(job.format, tuple(file for fragment in fragments for file in fragment.added))

    return tuple(gathered(runner.run(function, tasks), undo))


def finish(
    job: RewriteJob,
    fragments: Sequence[RewriteFragment],
    parameters: tuple[tuple[str, str], ...],
    *,
    cooldown: timedelta,
    retries: Retries,
) -> RewriteResult:
    """Commit what the workers did, all of it or nothing; what could not be read is told, be there anything else or not."""
    moved = {path for fragment in fragments for path in fragment.rewritten}
    removed = [file for file in job.files if logged_path(file.slice) in moved]
    added = tuple(file for fragment in fragments for file in fragment.added)
    unreadable = {path: why for fragment in fragments for path, why in fragment.unreadable}
    new = skip.failed(job.skips, unreadable, job.operation, job.now, cooldown)
    if not removed and not new:
        return RewriteResult(instant=None)
    result = _result(removed, added, new)
    kept = skip.carried(job.skips, new, moved | _vanished(job))
    change = Change(
        operation=OPERATION,
        parameters=(("predicate", render(job.predicate)), *parameters),
        metrics=result.metrics,
        adds=added,
        removes=tuple(file.origin for file in removed),
        touched=frozenset(moved),
        data_change=False,
        details=((skip.DETAIL, skip.detail_text(new)),) if new else (),
        domains=() if kept == job.skips else ((skip.DOMAIN, skip.domain_text(kept)),),
        operation_id=new_operation_id(),
    )
    return attrs.evolve(result, instant=commit_files(job.format, change, job.state, retries))


def partition_of(file: LiveFile) -> tuple[str, tuple[object, ...]]:
    """What the files of one partition have in common."""
    return file.slice.group.partition, file.slice.partition_values


def by_partition(files: Sequence[LiveFile]) -> list[tuple[LiveFile, ...]]:
    """The files of each partition apart, in the order given."""
    groups: dict[tuple[str, tuple[object, ...]], list[LiveFile]] = {}
    for file in files:
        groups.setdefault(partition_of(file), []).append(file)
    return [tuple(group) for group in groups.values()]


def _decided_by_partitions(predicate: Predicate, state: TableState) -> bool:
    return {path[0] for path in columns_of(predicate)} <= set(state.partition_columns)


def _target(format_: MaintainableFormat, state: TableState) -> RewriteTarget:
    layout = format_.write_layout(state, state.schema)
    hiding = [name for name in (ROW_ID, ROW_COMMIT_VERSION) if name in state.schema]
    if hiding and layout.row_id_column:
        way_out = "rename it, so that the ids of rows can be kept"
        raise UnsupportedTableError(format_.storage.url, f"a column named {hiding[0]}", way_out)
    return RewriteTarget(storage=format_.storage, read=state.layout, codec=state.codec, write=layout)


def _movable(file: LiveFile, resting: frozenset[str]) -> bool:
    # Text partitions of other writers may be empty, which would be written as null: their files stay as they are.
    return logged_path(file.slice) not in resting and "" not in file.slice.partition_values


def _vanished(job: RewriteJob) -> set[str]:
    """The skipped files that the table no longer has, as far as a look at all its files tells."""
    if job.predicate != TRUE:
        return set()
    live = {logged_path(file.slice) for file in job.files} | skip.resting(job.skips, job.now)
    return {one.path for one in job.skips if one.path not in live}


def _result(removed: Sequence[LiveFile], added: Sequence[NewFile], new: tuple[skip.Skip, ...]) -> RewriteResult:
    return RewriteResult(
        instant=None,
        rows_moved=sum(file.stats.rows for file in added),
        files_removed=len(removed),
        files_added=len(added),
        bytes_removed=sum(file.slice.size for file in removed),
        bytes_added=sum(file.size for file in added),
        vectors_removed=sum(file.slice.deletes is not None for file in removed),
        skipped=new,
    )
