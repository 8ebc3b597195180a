"""Deleting the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tablespec.arrow.tautology import is_always_true
from tablespec.errors import FullTableChangeError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.expr.rewrite import simplify
from tablespec.formats.base import TableFormat, TableState
from tablespec.read.file_index import Filters, bound_filters
from tablespec.read.task import TaskSlice, shares
from tablespec.write.append import writable
from tablespec.write.change_target import ChangeTarget
from tablespec.write.execution import Execution, Strategy
from tablespec.write.fragment import Fragment
from tablespec.write.merge_sink import MergeSink, going
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, begin, finish, run_all


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
    execution: Execution = Execution(),
) -> ChangeResult:
    """Delete the rows for which the predicate is true; those for which it is null stay.

    Without a condition, or with one that is always true, it must be allowed by name.
    """
    state = writable(format_, "DELETE").latest()
    bound = checked_predicate(format_, state, predicate, "delete", allow_full_table=allow_full_table)
    handle = begin(format_, state, "DELETE", bound, strategy=execution.strategy)
    fragments = run_all(handle, find_deleted, delete_tasks(handle), execution.runner)
    return finish(handle, fragments, Finish(removed=handle.whole_files), execution=execution)


def begin_delete(format_: TableFormat, where: Filters, strategy: Strategy | None) -> ChangeHandle:
    """Pin the newest state for deletes of some of the rows that match."""
    state = writable(format_, "DELETE").latest()
    return begin(format_, state, "DELETE", bound_filters(where, state.schema), strategy=strategy)


def delete_tasks(handle: ChangeHandle) -> list[DeleteTask]:
    """The reading that a delete needs, in pieces of about equal size."""
    return [
        DeleteTask(target=handle.target, predicate=handle.predicate, slices=group)
        for group in shares(handle.pieces(handle.open_files))
    ]


def find_deleted(task: DeleteTask) -> Sequence[Fragment]:
    """Find the rows that go; on a worker."""
    sink = MergeSink(task.target)
    rows = task.target.placed(()).push_down_filters(task.predicate)
    for piece in task.slices:
        for batch in rows.open(piece.slice, piece.known):
            sink.store_merged_rows(going(task.target.row_ids(batch, piece.slice.group.id)))
    return sink.finish()


def checked_predicate(
    format_: TableFormat,
    state: TableState,
    predicate: Predicate | str | None,
    operation: str,
    *,
    allow_full_table: bool,
) -> Predicate:
    """The predicate bound to the schema of a state; one that is missing or always true must be allowed by name."""
    bound = TRUE if predicate is None or predicate == "" else simplify(bind(predicate, state.schema))
    if not allow_full_table:
        check_leaves_rows(format_, state, bound, operation)
    return bound


def check_leaves_rows(format_: TableFormat, state: TableState, predicate: Predicate, operation: str) -> None:
    """Refuse a bound predicate that is true for every row there can be; the rows that are there do not matter."""
    if is_always_true(predicate, state.schema):
        raise FullTableChangeError(format_.storage.url, operation)
