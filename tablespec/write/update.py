"""Changing columns of the rows that match a predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.errors import InvalidOptionError, InvalidPredicateError
from tablespec.expr.bind_value import bind_value
from tablespec.expr.nodes import Predicate, Scalar
from tablespec.expr.value import Value
from tablespec.formats.base import TableFormat
from tablespec.model.schema import Schema
from tablespec.read.file_index import Filters, bound_filters
from tablespec.read.task import TaskSlice, by_group, shares
from tablespec.write.append import writable
from tablespec.write.change_target import ChangeTarget, RowOp
from tablespec.write.delete import checked_predicate
from tablespec.write.execution import Execution, Strategy
from tablespec.write.fragment import Fragment
from tablespec.write.merge_sink import MergeSink, RowChangeParadigm, page
from tablespec.write.row_change import ChangeHandle, ChangeResult, begin, finish, run_all

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
    execution: Execution = Execution(),
) -> ChangeResult:
    """Set columns of the rows for which the predicate is true; all expressions see the row as it was.

    Without a condition, or with one that is always true, it must be allowed by name.
    """
    state = writable(format_, "UPDATE").latest()
    new = bound_assignments(state.schema, assignments)
    bound = checked_predicate(format_, state, predicate, "update", allow_full_table=allow_full_table)
    handle = begin(format_, state, "UPDATE", bound, strategy=execution.strategy)
    fragments = run_all(handle, change_rows, update_tasks(handle, new), execution.runner)
    return finish(handle, fragments, execution=execution)


def begin_update(format_: TableFormat, where: Filters, strategy: Strategy | None) -> ChangeHandle:
    """Pin the newest state for updates of some of the rows that match."""
    state = writable(format_, "UPDATE").latest()
    return begin(format_, state, "UPDATE", bound_filters(where, state.schema), strategy=strategy)


def bound_assignments(schema: Schema, assignments: Assignments) -> tuple[tuple[str, Value], ...]:
    """The columns to set with expressions bound to a schema."""
    if not isinstance(assignments, Mapping):
        raise InvalidOptionError(
            "values", repr(assignments), "columns with what they are set to, such as {'fare': 'fare * 2'}"
        )
    if not assignments:
        raise InvalidPredicateError("", None, "an update sets at least one column")
    bound: dict[str, Value] = {}
    for name, value in assignments.items():
        field = schema.field(name)
        if field.name in bound:
            raise InvalidPredicateError(name, None, f"the column {field.name} is set twice")
        bound[field.name] = bind_value(value, schema, field.type, column=field.name)
    return tuple(bound.items())


def update_tasks(handle: ChangeHandle, assignments: tuple[tuple[str, Value], ...]) -> list[UpdateTask]:
    """The reading and writing that an update needs, in pieces of about equal size."""
    return [
        UpdateTask(target=handle.target, predicate=handle.predicate, assignments=assignments, slices=group)
        for group in shares(handle.pieces(handle.files))
    ]


def change_rows(task: UpdateTask) -> Sequence[Fragment]:
    """Find the rows that change and write their new versions; on a worker."""
    sink = MergeSink(task.target, paradigm=RowChangeParadigm.CHANGE_ONLY_UPDATED_COLUMNS)
    rows = task.target.placed(task.target.schema.names).push_down_filters(task.predicate)
    try:
        for group, pieces in by_group(task.slices):
            for batch in (batch for piece in pieces for batch in rows.open(piece.slice, piece.known)):
                new = _new_values(batch, task.assignments)
                sink.store_merged_rows(page(new, RowOp.UPDATE, task.target.row_ids(batch, group)), batch)
            sink.settle(group)
        return sink.finish()
    except BaseException:
        sink.abort()
        raise


def _new_values(batch: pa.RecordBatch, assignments: tuple[tuple[str, Value], ...]) -> pa.RecordBatch:
    columns = [evaluate_value(value, batch) for _, value in assignments]
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in assignments])
