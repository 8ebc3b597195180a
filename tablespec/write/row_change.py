"""Row changes on the driver's side: begin pins a state and plans, workers store changes in sinks, finish commits.

`delete`, `update` and `merge` are written on this, and so may engines be.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.errors import TableSpecError
from tablespec.expr.nodes import Predicate
from tablespec.expr.render import render
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import (
    Change,
    LiveFile,
    NewFile,
    ReadsWhere,
    SliceCodec,
    TableFormat,
    TableState,
    WritableFormat,
)
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.row import FILE, POSITION, ROW_COMMIT_VERSION, ROW_ID
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage
from tablespec.txn.transaction import Retries, new_operation_id
from tablespec.write.append import commit_files, writable
from tablespec.write.check import constraints
from tablespec.write.data_file import GROUP, FileWriter
from tablespec.write.merge_sink import ChangeTarget, Fragment, joined
from tablespec.write.runner import Runner, Threads

_Task = TypeVar("_Task")

CHANGE_FEED = "delta.enableChangeDataFeed"
MERGE_ON_READ = "tablespec.mergeOnRead"


class Strategy(enum.Enum):
    """How rows go: by deletion vectors beside the files, or by writing the files anew."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@attrs.frozen(kw_only=True, eq=False)
class ChangeHandle:
    """A row-changing operation under way, on one pinned state of the table."""

    format: WritableFormat
    state: TableState
    operation: str
    predicate: Predicate
    strategy: Strategy
    target: ChangeTarget
    files: tuple[LiveFile, ...]
    operation_id: str

    @property
    def open_files(self) -> tuple[LiveFile, ...]:
        """The files that must be read to know which rows match."""
        return tuple(file for file in self.files if file.verdict is not Verdict.ALWAYS)


@attrs.frozen(kw_only=True)
class ChangeResult:
    """What a row-changing operation did; `instant` is None when no row matched and nothing was committed."""

    instant: Instant | None
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_copied: int = 0
    files_removed: int = 0
    files_added: int = 0
    files_rewritten: int = 0
    vectors_written: int = 0

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        """The counts under the names that commits record."""
        return (
            ("numDeletedRows", self.rows_deleted),
            ("numUpdatedRows", self.rows_updated),
            ("numOutputRows", self.rows_inserted),
            ("numCopiedRows", self.rows_copied),
            ("numRemovedFiles", self.files_removed),
            ("numAddedFiles", self.files_added),
            ("numRewrittenFiles", self.files_rewritten),
            ("numDeletionVectorsAdded", self.vectors_written),
        )


@attrs.frozen(kw_only=True)
class Finish:
    """What a commit records besides the row changes themselves."""

    parameters: tuple[tuple[str, str], ...] = ()
    details: tuple[tuple[str, str], ...] = ()
    added: tuple[NewFile, ...] = ()
    removed: tuple[LiveFile, ...] = ()
    transaction: tuple[str, int] | None = None


def begin(
    format_: TableFormat, operation: str, predicate: Predicate, *, strategy: Strategy | None, change_feed: bool
) -> ChangeHandle:
    """Pin the newest state and find the files that may hold matching rows."""
    target = writable(format_, operation)
    state = target.latest()
    target.check_writable(state, operation)
    if operation != "MERGE":
        target.check_removable(state, operation)
    on_read = state.properties.get(MERGE_ON_READ, "true") == "true"
    change_target = ChangeTarget(
        storage=target.storage,
        read=state.layout,
        codec=state.codec,
        write=target.write_layout(state, state.schema),
        rules=constraints(target.storage.url, state.schema, state.constraints),
        change_feed=change_feed and state.properties.get(CHANGE_FEED) == "true",
    )
    return ChangeHandle(
        format=target,
        state=state,
        operation=operation,
        predicate=predicate,
        strategy=strategy or (Strategy.MERGE_ON_READ if on_read else Strategy.COPY_ON_WRITE),
        target=change_target,
        files=tuple(target.live_files(state, predicate)),
        operation_id=new_operation_id(),
    )


def finish(
    handle: ChangeHandle,
    fragments: Sequence[Fragment],
    record: Finish = Finish(),
    *,
    runner: Runner = Threads(),
    retries: Retries = Retries(),
) -> ChangeResult:
    """Commit what the workers did, all of it or nothing; without any change nothing is committed."""
    by_path = {logged_path(file): file for file in handle.files}
    whole, partly = _sorted_out(joined(fragments), by_path, {logged_path(file) for file in record.removed})
    removed = (*record.removed, *(by_path[path] for path in whole))
    if removed or partly:
        _check_removable(handle, fragments)
    rewritten = _rewrite(handle, partly, by_path, runner) if handle.strategy is Strategy.COPY_ON_WRITE else ()
    fragments = (*fragments, *rewritten)
    added = (*record.added, *(file for fragment in fragments for file in fragment.added))
    revise = [] if rewritten else [_all_deleted(handle, by_path[path], positions) for path, positions in partly.items()]
    if not removed and not added and not partly and record.transaction is None:
        return ChangeResult(instant=None)
    result = _result(handle, fragments, record, removed, len(partly), bool(rewritten))
    change = Change(
        operation=handle.operation,
        parameters=(("predicate", render(handle.predicate)), *record.parameters),
        metrics=result.metrics,
        adds=added,
        removes=tuple(file.origin for file in removed)
        + (tuple(by_path[path].origin for path in partly) if rewritten else ()),
        revised=tuple(handle.format.revise(handle.state, revise)),
        change_files=tuple(file for fragment in fragments for file in fragment.change_files),
        touched=frozenset((*partly, *(logged_path(file) for file in removed))),
        details=record.details,
        transactions=() if record.transaction is None else (record.transaction,),
        reads=ReadsWhere(handle.predicate, frozenset(by_path)),
        operation_id=handle.operation_id,
    )
    instant = commit_files(handle.format, change, handle.state, retries)
    return attrs.evolve(result, instant=instant)


def _check_removable(handle: ChangeHandle, fragments: Sequence[Fragment]) -> None:
    # A merge may turn out to remove rows only now; nothing of it stays where that is not allowed.
    try:
        handle.format.check_removable(handle.state, handle.operation)
    except TableSpecError:
        abort(handle, fragments)
        raise


def abort(handle: ChangeHandle, fragments: Sequence[Fragment]) -> None:
    """Remove what the workers wrote; call it only when `finish` was not called."""
    for fragment in fragments:
        for file in (*fragment.added, *fragment.change_files):
            handle.target.storage.delete(file.path)


def logged_path(file: LiveFile) -> str:
    """How the log spells the path of a file; it is what row ids name."""
    assert file.slice.base is not None
    return file.slice.base.logged_as


def reader(target: ChangeTarget, columns: Sequence[str]) -> FileSliceReader:
    """A reader of the given columns and of where each row lies."""
    plain = FileSliceReader(storage=target.storage, layout=target.read, codec=target.codec)
    return plain.project((*columns, FILE, POSITION, ROW_ID))


def _sorted_out(
    deleted: dict[str, BitMap64], by_path: dict[str, LiveFile], gone: set[str]
) -> tuple[list[str], dict[str, BitMap64]]:
    """The files that lose all their rows, and those that lose some with every deleted position."""
    whole: list[str] = []
    partly: dict[str, BitMap64] = {}
    for path, positions in deleted.items():
        if path in gone or not positions:
            continue
        slice_ = by_path[path].slice
        assert slice_.base is not None
        already = slice_.deletes.cardinality if slice_.deletes else 0
        if slice_.base.rows is not None and len(positions) + already >= slice_.base.rows:
            whole.append(path)
        else:
            partly[path] = positions
    return whole, partly


def _all_deleted(handle: ChangeHandle, file: LiveFile, positions: BitMap64) -> tuple[bytes, BitMap64]:
    """The origin of a file with the rows that go now and those that went before."""
    before = handle.target.codec.deleted_positions(handle.target.storage, file.slice)
    return file.origin, positions if before is None else positions | before


@attrs.frozen
class _WithoutRows:
    """A codec that takes further rows as deleted."""

    codec: SliceCodec
    deleted: bytes

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64:
        before = self.codec.deleted_positions(storage, slice_)
        more = BitMap64.deserialize(self.deleted)
        return more if before is None else more | before


@attrs.frozen(kw_only=True)
class RewriteTask:
    """A file to be written anew without some of its rows."""

    target: ChangeTarget
    slice: FileSlice
    deleted: bytes


def rewrite(task: RewriteTask) -> Fragment:
    """Write the rows of a file that stay into a new file of the same group; ids and commit versions are kept."""
    target = task.target
    tracked = [
        name for name in (ROW_ID, ROW_COMMIT_VERSION) if target.write.row_id_column and name in target.read.hidden
    ]
    codec = _WithoutRows(target.codec, task.deleted)
    rows = FileSliceReader(storage=target.storage, layout=target.read, codec=codec).project(
        (*target.schema.names, *tracked)
    )
    writer = FileWriter(target.storage, target.write)
    copied = 0
    try:
        for batch in rows.open(task.slice):
            copied += batch.num_rows
            writer.write(batch.append_column(GROUP, pa.repeat(pa.scalar(task.slice.group.id), batch.num_rows)))
        return Fragment(added=writer.finish(), copied_rows=copied)
    except BaseException:
        writer.abort()
        raise


def _rewrite(
    handle: ChangeHandle, partly: dict[str, BitMap64], by_path: dict[str, LiveFile], runner: Runner
) -> tuple[Fragment, ...]:
    tasks = [
        RewriteTask(target=handle.target, slice=by_path[path].slice, deleted=positions.serialize())
        for path, positions in partly.items()
    ]
    return tuple(runner.run(rewrite, tasks))


def _result(
    handle: ChangeHandle,
    fragments: Sequence[Fragment],
    record: Finish,
    removed: Sequence[LiveFile],
    partly: int,
    rewritten: bool,
) -> ChangeResult:
    whole = sum(file.slice.rows or 0 for file in record.removed)
    return ChangeResult(
        instant=None,
        rows_inserted=sum(fragment.inserted_rows for fragment in fragments)
        + sum(file.stats.rows for file in record.added),
        rows_updated=sum(fragment.updated_rows for fragment in fragments),
        rows_deleted=sum(fragment.deleted_rows for fragment in fragments) + whole,
        rows_copied=sum(fragment.copied_rows for fragment in fragments),
        files_removed=len(removed) + (partly if rewritten else 0),
        files_added=sum(len(fragment.added) for fragment in fragments) + len(record.added),
        files_rewritten=partly if rewritten else 0,
        vectors_written=0 if rewritten else partly,
    )


def run_all(
    handle: ChangeHandle, function: Callable[[_Task], Sequence[Fragment]], tasks: Sequence[_Task], runner: Runner
) -> tuple[Fragment, ...]:
    """Run tasks and gather their fragments; when one fails, what the others wrote is removed."""
    fragments: list[Fragment] = []
    try:
        for done in runner.run(function, tasks):
            fragments += done
    except BaseException:
        abort(handle, fragments)
        raise
    return tuple(fragments)
