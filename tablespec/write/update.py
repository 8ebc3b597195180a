"""Changing columns of the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.errors import InvalidPredicateError
from tablespec.expr.bind_value import bind_value
from tablespec.expr.nodes import Predicate, Scalar
from tablespec.expr.value import Value
from tablespec.formats.base import TableFormat
from tablespec.read.task import TaskSlice, balanced
from tablespec.txn.transaction import Retries
from tablespec.write.delete import TASK_BYTES, checked_predicate
from tablespec.write.merge_sink import ChangeTarget, Fragment, MergeSink, Op, page, row_ids
from tablespec.write.row_change import ChangeHandle, ChangeResult, Strategy, begin, finish, reader, run_all
from tablespec.write.runner import Runner, Threads

Assignments = Mapping[str, Value | str | Scalar]


@attrs.frozen(kw_only=True)
class UpdateTask:
    """Slices in which columns of the rows that match a predicate change."""

    target: ChangeTarget
    predicate: Predicate
    assignments: tuple[tuple[str, Value], ...]
    slices: tuple[TaskSlice, ...]


def update(
    format_: TableFormat,
    assignments: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
    runner: Runner = Threads(),
    retries: Retries = Retries(),
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true; all expressions see the row as it was."""
    handle = begin_update(format_, assignments, predicate, allow_full_table=allow_full_table, strategy=strategy)
    fragments = run_all(handle, change_rows, update_tasks(handle, bound_assignments(format_, assignments)), runner)
    return finish(handle, fragments, runner=runner, retries=retries)


def begin_update(
    format_: TableFormat,
    assignments: Assignments,
    predicate: Predicate | str | None,
    *,
    allow_full_table: bool = False,
    strategy: Strategy | None = None,
) -> ChangeHandle:
    """Pin a state and plan an update; without a condition it must be allowed by name."""
    bound_assignments(format_, assignments)
    bound = checked_predicate(format_, predicate, "update", allow_full_table=allow_full_table)
    return begin(format_, "UPDATE", bound, strategy=strategy, change_feed=True)


def bound_assignments(format_: TableFormat, assignments: Assignments) -> tuple[tuple[str, Value], ...]:
    """The columns to set with expressions bound to the newest schema."""
    schema = format_.latest().schema
    if not assignments:
        raise InvalidPredicateError("", 0, "an update sets at least one column")
    bound: dict[str, Value] = {}
    for name, value in assignments.items():
        field = schema.field(name)
        if field.name in bound:
            raise InvalidPredicateError(name, 0, f"the column {field.name} is set twice")
        bound[field.name] = bind_value(value, schema, field.type)
    return tuple(bound.items())


def update_tasks(handle: ChangeHandle, assignments: tuple[tuple[str, Value], ...]) -> list[UpdateTask]:
    """The reading and writing that an update needs, in pieces of about equal size."""
    return [
        UpdateTask(target=handle.target, predicate=handle.predicate, assignments=assignments, slices=group)
        for group in balanced([TaskSlice(file.slice, False) for file in handle.files], TASK_BYTES)
    ]


def change_rows(task: UpdateTask) -> Sequence[Fragment]:
    """Find the rows that change and write their new versions; on a worker."""
    sink = MergeSink(task.target)
    schema = task.target.schema
    rows = reader(task.target, schema.names).push_down_filters(task.predicate)
    try:
        for piece in task.slices:
            for batch in rows.open(piece.slice):
                ids = row_ids(batch, piece.slice.group.id)
                sink.store_merged_rows(page(batch, Op.UPDATE_DELETE, ids, schema))
                sink.store_merged_rows(page(_changed(batch, task.assignments), Op.UPDATE_INSERT, ids, schema))
        return sink.finish()
    except BaseException:
        sink.abort()
        raise


def _changed(batch: pa.RecordBatch, assignments: tuple[tuple[str, Value], ...]) -> pa.RecordBatch:
    new = {name: evaluate_value(value, batch) for name, value in assignments}
    columns = [new.get(name, batch.column(index)) for index, name in enumerate(batch.schema.names)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
