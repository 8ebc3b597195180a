"""Row changes on the driver's side: begin pins a state and plans, workers store changes in sinks, finish commits.

`delete`, `update` and `merge` are written on this, and so may engines be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TypeVar, Unpack

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.arrow.stream import ArrowStream
from tablespec.errors import InvalidPageError, UnsupportedTableError
from tablespec.expr.nodes import Predicate
from tablespec.expr.render import render
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import (
    Change,
    JudgedSlice,
    LiveFile,
    NewFile,
    ReadsWhere,
    TableFormat,
    TableState,
    WritableFormat,
)
from tablespec.index.narrow import Indexes, keyed_slices
from tablespec.model.change import CHANGE_TYPE, SliceChange
from tablespec.model.instant import Instant
from tablespec.model.row import FILE, POSITION, ROW_ID
from tablespec.read.known import Known
from tablespec.read.task import TaskSlice
from tablespec.txn.transaction import new_operation_id
from tablespec.write.append import commit_files, writable
from tablespec.write.change_file import DeletedRows, slice_of
from tablespec.write.change_file import record as write_record
from tablespec.write.change_target import ROW, ChangeTarget, RowOp
from tablespec.write.check import constraints
from tablespec.write.copy_on_write import RewriteTask, joining, rewrite, with_versions
from tablespec.write.data_file import GROUP
from tablespec.write.execution import Execution, Running, Strategy, check_strategy
from tablespec.write.fit import held
from tablespec.write.fragment import Fragment, check_fragments, check_origin, discard_fragments, joined
from tablespec.write.key_handles import key_columns, matching_keys, row_ids
from tablespec.write.merge_sink import CASE, OP, MergeSink, RowChangeParadigm
from tablespec.write.page_source import UpdatablePageSource
from tablespec.write.runner import Runner, gathered

_Task = TypeVar("_Task")

CHANGE_FEED = "delta.enableChangeDataFeed"
MERGE_ON_READ = "tablespec.mergeOnRead"

# What each operation may store; a WRITE replaces rows, and brings its new files itself.
_OPS = {
    "DELETE": frozenset({RowOp.DELETE}),
    "UPDATE": frozenset({RowOp.UPDATE, RowOp.UPDATE_DELETE, RowOp.UPDATE_INSERT}),
    "MERGE": frozenset(RowOp),
    "WRITE": frozenset({RowOp.DELETE}),
}
# These have the rows that change at hand, and record them as they go where the table keeps a change feed.
_RECORDING = ("UPDATE", "MERGE")
# The columns beside those of the table in what is read to find rows, and in pages of new values.
_PLACE_NAMES = {**dict.fromkeys((FILE, POSITION), "where a row lies"), GROUP: "the file group of a row"}
_PAGE_NAMES = {OP: "what to do with a row", CASE: "the clause of a merge", ROW: "the row id", ROW_ID: "the id of a row"}


@attrs.frozen(kw_only=True, eq=False)
class ChangeHandle:
    """A row-changing operation under way, on one pinned state of the table.

    An engine reads `files` by page sources or by itself, stores what happens to rows there or in sinks, on whatever workers, and
    finishes with the fragments of all of them.
    """

    format: WritableFormat = attrs.field(repr=False)
    state: TableState
    operation: str
    predicate: Predicate
    strategy: Strategy
    target: ChangeTarget = attrs.field(repr=False)
    files: tuple[LiveFile, ...] = attrs.field(repr=False)
    operation_id: str
    # What an index knows about the rows of files, by their paths.
    known: Mapping[str, Known] = attrs.field(default={}, repr=False)
    # The files of fragments that were removed again: a commit that named one of them could not be read.
    discarded: set[str] = attrs.field(factory=set, init=False, repr=False)

    @property
    def open_files(self) -> tuple[LiveFile, ...]:
        """The files that must be read to know which rows match."""
        return tuple(file for file in self.files if file.verdict is not Verdict.ALWAYS)

    @property
    def whole_files(self) -> tuple[LiveFile, ...]:
        """The files all of whose rows match, which nobody needs to read."""
        return tuple(file for file in self.files if file.verdict is Verdict.ALWAYS)

    def pieces(self, files: Sequence[LiveFile]) -> list[TaskSlice]:
        """Slices of files to look through for rows that match."""
        return [TaskSlice(file.slice, False, self.known.get(_path(file))) for file in files]

    def page_source(self, file: LiveFile) -> UpdatablePageSource:
        """The rows of a file that match, page by page, with what is done to them; plain data before its first page."""
        return UpdatablePageSource(self.target, file.slice, self.predicate)

    def sink(
        self,
        paradigm: RowChangeParadigm = RowChangeParadigm.DELETE_ROW_AND_INSERT_ROW,
        cases: Mapping[int, Sequence[str]] = {},
    ) -> MergeSink:
        """A sink for changes of any rows of the files; plain data before its first page. `cases`: see MergeSink."""
        return MergeSink(self.target, tuple(file.slice for file in self.files), paradigm, cases)

    def row_ids(self, keys: ArrowStream) -> pa.StructArray:
        """The row ids of the rows with these record keys, one for each; null where no row of this operation has it.

        `keys` has the columns of the record key. A record index saves reading the keys of all files.
        """
        matching = matching_keys(self.target, self.state.record_key, held(keys, self.format.storage.url))
        narrowed = narrowed_by_keys(self, key_columns(matching))
        return row_ids(matching, self.predicate, narrowed.pieces(narrowed.files))

    def finish(self, fragments: Sequence[Fragment], **how: Unpack[Running]) -> ChangeResult:
        """Commit what the workers did, all of it or nothing; without any change nothing is committed."""
        return finish(self, fragments, execution=Execution(**how))

    def abort(self, fragments: Sequence[Fragment]) -> None:
        """Remove what the workers wrote, unless it was committed: of a `finish` that failed, the commit may be durable."""
        check_origin(fragments, self.operation_id)
        commits = self.format.commits_after(self.state.instant.version)
        if all(commit.operation_id != self.operation_id for commit in commits):
            abort(self, fragments)


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
    format_: TableFormat,
    state: TableState,
    operation: str,
    predicate: Predicate,
    *,
    strategy: Strategy | None = None,
    ops: frozenset[RowOp] | None = None,
) -> ChangeHandle:
    """Pin a state, to whose schema the predicate is bound, and find the files that may hold matching rows."""
    check_strategy(strategy)
    target = writable(format_, operation)
    target.check_writable(state, operation)
    if operation != "MERGE":
        target.check_removable(state, operation)
    _check_names(target.storage.url, state, operation)
    on_read = state.properties.get(MERGE_ON_READ, "true") == "true"
    operation_id = new_operation_id()
    files, known = narrowed_files(target, state, predicate)
    change_target = ChangeTarget(
        storage=target.storage,
        read=state.layout,
        codec=state.codec,
        write=target.write_layout(state, state.schema),
        rules=constraints(target.storage.url, state.schema, state.constraints),
        change_feed=operation in _RECORDING and state.properties.get(CHANGE_FEED) == "true",
        operation_id=operation_id,
        ops=_OPS[operation] if ops is None else ops,
        empty_in=_empty_in(state, files),
    )
    return ChangeHandle(
        format=target,
        state=state,
        operation=operation,
        predicate=predicate,
        strategy=strategy or (Strategy.MERGE_ON_READ if on_read else Strategy.COPY_ON_WRITE),
        target=change_target,
        files=files,
        operation_id=operation_id,
        known=known,
    )


def _check_names(url: str, state: TableState, operation: str) -> None:
    """Refuse a table with a column that is called like one of those that go with rows on their way to files."""
    taken = _PLACE_NAMES | (_PAGE_NAMES if operation in _RECORDING else {})
    if state.properties.get(CHANGE_FEED) == "true":
        taken |= {CHANGE_TYPE: "what happened to a row in the change feed"}
    for name in state.schema.names:
        if name in taken:
            feature = f"a column of its own named {name}, the name of {taken[name]}"
            raise UnsupportedTableError(url, feature, "rename it to change rows")


def _empty_in(state: TableState, files: Sequence[LiveFile]) -> tuple[tuple[str, frozenset[str]], ...]:
    """The files whose value of a partition column has no characters, by the columns that have such."""
    found: dict[str, set[str]] = {}
    for file in files:
        for name, value in zip(state.partition_columns, file.slice.partition_values):
            if value in ("", b""):
                found.setdefault(name, set()).add(_logged_path(file))
    return tuple((name, frozenset(paths)) for name, paths in found.items())


def narrowed_files(
    format_: WritableFormat, state: TableState, predicate: Predicate
) -> tuple[tuple[LiveFile, ...], Mapping[str, Known]]:
    """The files that may hold a match, and what indexes know about the rows of some, by their paths."""
    files = format_.live_files(state, predicate)
    judged = [JudgedSlice(file.slice, file.verdict) for file in files]
    seen = {one.judged.slice: one.known for one in Indexes(format_.storage).narrowed(state, predicate, judged)}
    left = tuple(file for file in files if file.slice in seen)
    return left, {_path(file): known for file in left if (known := seen[file.slice]) is not None}


def narrowed_by_keys(handle: ChangeHandle, keys: Mapping[str, pa.Array]) -> ChangeHandle:
    """The handle for changes of rows that have one of some record keys, given by columns, as far as an index knows them."""
    known = keyed_slices(handle.target.storage, handle.state, keys, [file.slice for file in handle.files])
    if known is None:
        return handle
    left = tuple(file for number, file in enumerate(handle.files) if number not in known or known[number])
    rows = {
        _path(file): Known(predicate=handle.predicate, positions=positions.serialize())
        for number, file in enumerate(handle.files)
        if (positions := known.get(number))
    }
    return attrs.evolve(handle, files=left, known={**handle.known, **rows})


def finish(
    handle: ChangeHandle,
    fragments: Sequence[Fragment],
    record: Finish = Finish(),
    *,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Commit what the workers did, all of it or nothing; without any change nothing is committed."""
    check_origin(fragments, handle.operation_id)
    done = [Fragment(added=record.added), *fragments]
    _check_there(handle, done)
    try:
        check_fragments(done)
        leaving = _leaving(handle, fragments, record)
        if not leaving.removed and not leaving.partly and not _brings(done, record):
            abort(handle, done)
            return ChangeResult(instant=None)
        if leaving.removed or leaving.partly:
            # A merge may turn out to remove rows only now.
            handle.format.check_removable(handle.state, handle.operation)
        done, joined_files = _rewritten(handle, done, leaving, execution.runner)
        abort(handle, joined_files)
        if _needs_change_files(handle, leaving):
            for files in write_record(handle.target, _told(leaving, record), execution.runner):
                done.append(Fragment(change_files=files))
        result = _result(handle, done, record, leaving)
        change = _change(handle, done, record, leaving, result)
    except BaseException:
        abort(handle, done)
        raise
    return attrs.evolve(result, instant=commit_files(handle.format, change, handle.state, execution.retries))


def foreseen(handle: ChangeHandle, fragments: Sequence[Fragment], record: Finish) -> ChangeResult:
    """What `finish` would do, found out without writing anything; a file that is written anew is expected to become one."""
    leaving = _leaving(handle, fragments, record)
    result = _result(handle, [Fragment(added=record.added), *fragments], record, leaving)
    if handle.strategy is not Strategy.COPY_ON_WRITE:
        return result
    copied = [dropped_rows(handle, [file]) - len(positions) for file, positions, _ in leaving.partly]
    files = sum(1 for rows in copied if rows)
    return attrs.evolve(result, rows_copied=sum(copied), files_added=result.files_added + files)


def abort(handle: ChangeHandle, fragments: Sequence[Fragment]) -> None:
    """Remove what the workers wrote; only for an operation that no commit was tried of."""
    handle.discarded.update(file.path for fragment in fragments for file in fragment.files)
    discard_fragments(handle.target.storage, fragments)


def _check_there(handle: ChangeHandle, fragments: Sequence[Fragment]) -> None:
    gone = handle.discarded.intersection(file.path for fragment in fragments for file in fragment.files)
    if gone:
        why = f"the file {min(gone)} of a fragment was removed when the operation was aborted or failed"
        raise InvalidPageError(f"{why}; begin it anew")


def run_all(
    handle: ChangeHandle, function: Callable[[_Task], Sequence[Fragment]], tasks: Sequence[_Task], runner: Runner
) -> tuple[Fragment, ...]:
    """Run tasks and gather their fragments; when one fails, what the others wrote is removed."""
    done = gathered(runner.run(function, tasks), lambda found: abort(handle, [*chain.from_iterable(found)]))
    return tuple(chain.from_iterable(done))


@attrs.frozen(eq=False)
class _Leaving:
    """The files that lose all their rows, and those that lose some with the positions of these and of all that are gone then."""

    removed: tuple[LiveFile, ...]
    partly: tuple[tuple[LiveFile, BitMap64, BitMap64], ...]

    @property
    def losing(self) -> tuple[LiveFile, ...]:
        """The files that lose some of their rows."""
        return tuple(file for file, _, _ in self.partly)


def _leaving(handle: ChangeHandle, fragments: Sequence[Fragment], record: Finish) -> _Leaving:
    by_path = {_logged_path(file): file for file in handle.files}
    dropped = {_logged_path(file) for file in record.removed}
    removed, partly = [*record.removed], []
    reader = handle.target.reader(())
    for path, positions in joined(fragment.deleted for fragment in fragments).items():
        if path not in by_path:
            raise InvalidPageError(f"{path} is not among the files of this operation")
        file = by_path[path]
        if path in dropped or not positions:
            continue
        count = None if file.slice.base is None else file.slice.base.rows
        if count is not None and positions.max() >= count:
            raise InvalidPageError(f"there is no row {positions.max()} in {path}, which has {count}")
        before = reader.deleted(file.slice) or BitMap64()
        if before & positions:
            raise InvalidPageError(f"the row {(before & positions).min()} of {path} is deleted already")
        gone = before | positions
        if count is not None and len(gone) >= count:
            removed.append(file)
        else:
            partly.append((file, positions, gone))
    return _Leaving(tuple(removed), tuple(partly))


def _brings(fragments: Sequence[Fragment], record: Finish) -> bool:
    return record.transaction is not None or any(fragment.added for fragment in fragments)


def _path(file: LiveFile) -> str:
    assert file.slice.base is not None
    return file.slice.base.path


def _logged_path(file: LiveFile) -> str:
    """How the log spells the path of a file; it is what row ids name."""
    assert file.slice.base is not None
    return file.slice.base.logged_as


def _rewritten(
    handle: ChangeHandle, done: list[Fragment], leaving: _Leaving, runner: Runner
) -> tuple[list[Fragment], list[Fragment]]:
    """What was done with files written anew where rows are copied, and the files of new versions whose rows went into those."""
    if handle.strategy is not Strategy.COPY_ON_WRITE:
        return done, []
    tracked = handle.target.write.row_id_column
    files = with_versions(handle.format, leaving.losing) if tracked else leaving.losing
    tasks = [
        RewriteTask(target=handle.target, slice=file.slice, deleted=positions.serialize(), joining=new)
        for file, (_, positions, _), new in zip(files, leaving.partly, joining(files, done))
    ]
    rewritten = run_all(handle, rewrite, tasks, runner)
    taken = {file.path for task in tasks for file in task.joining}
    left = [attrs.evolve(one, added=tuple(file for file in one.added if file.path not in taken)) for one in done]
    return [*left, *rewritten], [Fragment(added=task.joining) for task in tasks]


def _needs_change_files(handle: ChangeHandle, leaving: _Leaving) -> bool:
    """Whether the files that go and come would not tell every reader of the change feed what happened.

    Rows that are copied would show as deleted and inserted. Of a file that goes with deleted rows deltalake shows those and not the others.
    """
    if handle.target.change_feed or handle.state.properties.get(CHANGE_FEED) != "true":
        return False
    copied = handle.strategy is Strategy.COPY_ON_WRITE and bool(leaving.partly)
    return copied or any(file.slice.deletes is not None for file in leaving.removed)


def _told(leaving: _Leaving, record: Finish) -> list[SliceChange | DeletedRows]:
    """Everything that the commit does to rows: once it has a change file, all of it must be told there."""
    return [
        *(SliceChange(file.slice, None) for file in leaving.removed),
        *(DeletedRows(file.slice, positions.serialize()) for file, positions, _ in leaving.partly),
        *(SliceChange(None, slice_of(file)) for file in record.added),
    ]


def _change(
    handle: ChangeHandle, fragments: Sequence[Fragment], record: Finish, leaving: _Leaving, result: ChangeResult
) -> Change:
    copying = handle.strategy is Strategy.COPY_ON_WRITE
    removed = (*leaving.removed, *leaving.losing) if copying else leaving.removed
    revised = () if copying else tuple((file.origin, gone) for file, _, gone in leaving.partly)
    return Change(
        operation=handle.operation,
        parameters=tuple({"predicate": render(handle.predicate), **dict(record.parameters)}.items()),
        metrics=result.metrics,
        adds=tuple(file for fragment in fragments for file in fragment.added),
        removes=tuple(file.origin for file in removed),
        revised=tuple(handle.format.revise(handle.state, revised)),
        change_files=tuple(file for fragment in fragments for file in fragment.change_files),
        touched=frozenset(_logged_path(file) for file in (*leaving.removed, *leaving.losing)),
        details=record.details,
        transactions=() if record.transaction is None else (record.transaction,),
        reads=ReadsWhere(handle.predicate, frozenset(_logged_path(file) for file in handle.files)),
        operation_id=handle.operation_id,
    )


def _result(handle: ChangeHandle, fragments: Sequence[Fragment], record: Finish, leaving: _Leaving) -> ChangeResult:
    rewritten = len(leaving.partly) if handle.strategy is Strategy.COPY_ON_WRITE else 0
    return ChangeResult(
        instant=None,
        rows_inserted=sum(fragment.inserted_rows for fragment in fragments)
        + sum(file.stats.rows for file in record.added),
        rows_updated=sum(fragment.updated_rows for fragment in fragments),
        rows_deleted=sum(fragment.deleted_rows for fragment in fragments) + dropped_rows(handle, record.removed),
        rows_copied=sum(fragment.copied_rows for fragment in fragments),
        files_removed=len(leaving.removed) + rewritten,
        files_added=sum(len(fragment.added) for fragment in fragments),
        files_rewritten=rewritten,
        vectors_written=len(leaving.partly) - rewritten,
    )


def dropped_rows(handle: ChangeHandle, files: Sequence[LiveFile]) -> int:
    """The live rows of files; those whose log entry does not tell are counted by their footers."""
    reader = handle.target.reader(())
    told = [(file, file.slice.rows) for file in files]
    return sum(
        sum(batch.num_rows for batch in reader.open(file.slice)) if rows is None else rows for file, rows in told
    )
