"""Deleting the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tablespec.errors import FullTableChangeError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.expr.rewrite import simplify
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import LiveFile, TableFormat
from tablespec.read.task import TaskSlice, balanced
from tablespec.txn.transaction import Retries
from tablespec.write.merge_sink import ChangeTarget, Fragment, MergeSink, Op, page, row_ids
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, Strategy, begin, finish, reader, run_all
from tablespec.write.runner import Runner, Threads

TASK_BYTES = 64 << 20


@attrs.frozen(kw_only=True)
class DeleteTask:
    """Slices in which the rows that match a predicate go."""

    target: ChangeTarget
    predicate: Predicate
    slices: tuple[TaskSlice, ...]


def delete(
    format_: TableFormat,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
    runner: Runner = Threads(),
    retries: Retries = Retries(),
) -> ChangeResult:
    """Delete the rows for which the predicate is true; those for which it is null stay."""
    handle = begin_delete(format_, predicate, allow_full_table=allow_full_table, strategy=strategy)
    fragments = run_all(handle, find_deleted, delete_tasks(handle), runner)
    return finish(handle, fragments, Finish(removed=all_matching(handle)), runner=runner, retries=retries)


def begin_delete(
    format_: TableFormat,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeHandle:
    """Pin a state and plan a delete; without a condition it must be allowed by name."""
    bound = checked_predicate(format_, predicate, "delete", allow_full_table=allow_full_table)
    return begin(format_, "DELETE", bound, strategy=strategy, change_feed=False)


def delete_tasks(handle: ChangeHandle) -> list[DeleteTask]:
    """The reading that a delete needs, in pieces of about equal size."""
    return [
        DeleteTask(target=handle.target, predicate=handle.predicate, slices=group)
        for group in balanced([TaskSlice(file.slice, False) for file in handle.open_files], TASK_BYTES)
    ]


def find_deleted(task: DeleteTask) -> Sequence[Fragment]:
    """Find the rows that go; on a worker."""
    sink = MergeSink(task.target)
    rows = reader(task.target, ()).push_down_filters(task.predicate)
    for piece in task.slices:
        for batch in rows.open(piece.slice):
            ids = row_ids(batch, piece.slice.group.id)
            sink.store_merged_rows(page(batch, Op.DELETE, ids, task.target.schema))
    return sink.finish()


def all_matching(handle: ChangeHandle) -> tuple[LiveFile, ...]:
    """The files that go as a whole, without being read."""
    return tuple(file for file in handle.files if file.verdict is Verdict.ALWAYS)


def checked_predicate(
    format_: TableFormat, predicate: Predicate | str | None, operation: str, *, allow_full_table: bool
) -> Predicate:
    """The predicate bound to the newest schema; one that is missing or always true must be allowed by name."""
    bound = TRUE if predicate is None or predicate == "" else bind(predicate, format_.latest().schema)
    bound = simplify(bound)
    if bound == TRUE and not allow_full_table:
        raise FullTableChangeError(format_.storage.url, operation)
    return bound
