"""Merging rows of a source into a table: matched rows change or go, others come."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tablespec.arrow.evaluate import equal
from tablespec.arrow.schema import schema_of
from tablespec.arrow.stream import ArrowStream
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import TableFormat
from tablespec.model.file import FileSlice
from tablespec.model.schema import Schema
from tablespec.read.file_index import Filters, bound_filters
from tablespec.read.task import TaskSlice, shares
from tablespec.write.append import writable
from tablespec.write.change_target import RowOp
from tablespec.write.execution import Execution, Strategy
from tablespec.write.fit import check_names, held
from tablespec.write.fragment import Fragment
from tablespec.write.merge_keys import key_column, with_keys
from tablespec.write.merge_match import Matching, insert_rows, merge_batch
from tablespec.write.merge_plan import Clause, KeyValues, MergePlan, needed_columns, plan, pruning
from tablespec.write.merge_sink import MergeSink
from tablespec.write.merge_spread import SpreadMerge, SpreadSource
from tablespec.write.newest import Newest
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, abort, begin, finish, narrowed_by_keys


@attrs.frozen(eq=False)
class MergeTask:
    """Slices of the table, held against the source."""

    matching: Matching
    predicate: Predicate
    slices: tuple[TaskSlice, ...]


@attrs.frozen
class MergedSlices:
    """What a merge task did, and which rows of the source it found a partner for."""

    fragments: tuple[Fragment, ...]
    matched: bytes


def merge(
    format_: TableFormat,
    source: ArrowStream | SpreadSource,
    on: Predicate | str,
    clauses: Sequence[Clause],
    *,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Merge the rows of `source` into the table; the first clause that applies to a row counts.

    They are held in memory, unless they lie in many places, where those that a worker gets are.
    """
    if isinstance(source, SpreadSource):
        return merge_spread(format_, source, schema_of(source.arrow_schema), on, clauses, execution=execution)
    rows = held(source, format_.storage.url)
    source_schema = schema_of(rows.schema)
    state = writable(format_, "MERGE").latest()
    merge_plan = plan(on, clauses, state.schema, source_schema)
    rows = with_keys(rows, merge_plan, state.schema)
    known = [KeyValues.of(rows.column(key_column(index))) for index in range(len(merge_plan.keys))]
    handle = begin(format_, state, "MERGE", pruning(merge_plan, known, state.schema), strategy=execution.strategy)
    handle = _with_known_keys(handle, merge_plan, rows)
    done: list[MergedSlices] = []
    inserted: tuple[Fragment, ...] = ()
    try:
        done += execution.runner.run(merge_slices, merge_tasks(handle, merge_plan, rows))
        matched = BitMap()
        for one in done:
            matched |= BitMap.deserialize(one.matched)
        inserted = _inserted(handle, merge_plan, rows, matched)
    except BaseException:
        abort(handle, [fragment for one in done for fragment in one.fragments])
        raise
    fragments = [*(fragment for one in done for fragment in one.fragments), *inserted]
    return finish(handle, fragments, Finish(parameters=merge_plan.parameters), execution=execution)


def merge_spread(
    format_: TableFormat,
    source: SpreadSource,
    source_schema: Schema,
    on: Predicate | str,
    clauses: Sequence[Clause],
    *,
    newest: Newest | None = None,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Merge rows that an engine holds in many places; `source_schema` may spell its columns otherwise than it does itself.

    Among rows of one record key only the `newest` count, where that is given. Without keys to send rows by, all are held here.
    """
    check_names(source_schema, format_.storage.url)
    state = writable(format_, "MERGE").latest()
    merge_plan = plan(on, clauses, state.schema, source_schema)
    if not merge_plan.keys:
        return merge(format_, source.read_all(), on, clauses, execution=execution)
    spelled = dict(zip(source_schema.names, source.arrow_schema.names))
    known = source.key_values([spelled[column] for _, column in merge_plan.keys])
    handle = begin(format_, state, "MERGE", pruning(merge_plan, known, state.schema), strategy=execution.strategy)
    work = SpreadMerge(
        target=handle.target, merge=merge_plan, predicate=handle.predicate, source=source_schema, newest=newest
    )
    fragments = source.merge(work, work.table_rows(handle.pieces(handle.files)))
    return finish(handle, fragments, Finish(parameters=merge_plan.parameters), execution=execution)


def begin_merge(format_: TableFormat, where: Filters, ops: frozenset[RowOp], strategy: Strategy | None) -> ChangeHandle:
    """Pin the newest state for changes of some of the rows that match, and for inserts."""
    state = writable(format_, "MERGE").latest()
    return begin(format_, state, "MERGE", bound_filters(where, state.schema), strategy=strategy, ops=ops)


def merge_tasks(handle: ChangeHandle, merge_plan: MergePlan, source: pa.Table) -> list[MergeTask]:
    """The reading and matching that a merge needs, in pieces of about equal size."""
    matching = Matching.of(handle.target, merge_plan, source)
    return [MergeTask(matching, handle.predicate, group) for group in shares(handle.pieces(handle.files))]


def merge_slices(task: MergeTask) -> MergedSlices:
    """Find the partners in some slices and store what happens to them; on a worker."""
    target, merge_plan = task.matching.target, task.matching.merge
    sink = MergeSink(target)
    matched = BitMap()
    names = needed_columns(merge_plan, target.schema, all_columns=target.change_feed)
    rows = target.placed(names).push_down_filters(task.predicate)
    try:
        for piece in task.slices:
            here = attrs.evolve(task.matching, source=_of_partition(task.matching, piece.slice))
            if not here.source.num_rows and not merge_plan.reads_all:
                continue
            for batch in rows.open(piece.slice, piece.known):
                ids = target.row_ids(batch, piece.slice.group.id)
                merge_batch(here, target.unplaced(batch), ids, sink, matched)
        return MergedSlices(sink.finish(), matched.serialize())
    except BaseException:
        sink.abort()
        raise


def _of_partition(task: Matching, slice_: FileSlice) -> pa.Table:
    """The rows of the source whose keys fit the partition of a slice."""
    values = dict(zip(task.target.read.constants, slice_.partition_values))
    source = task.source
    for index, (column, _) in enumerate(task.merge.keys):
        if column in values:
            keys = source.column(key_column(index))
            source = source.filter(pc.fill_null(equal(keys, pa.scalar(values[column], keys.type)), False))
    return source


def _inserted(handle: ChangeHandle, merge_plan: MergePlan, source: pa.Table, matched: BitMap) -> tuple[Fragment, ...]:
    sink = MergeSink(handle.target)
    try:
        insert_rows(merge_plan, source, matched, sink)
        return sink.finish()
    except BaseException:
        sink.abort()
        raise


def _with_known_keys(handle: ChangeHandle, merge_plan: MergePlan, source: pa.Table) -> ChangeHandle:
    """The handle without files that a record index knows to hold none of the keys, and with the rows that hold one."""
    numbers = {column: index for index, (column, _) in enumerate(merge_plan.keys)}
    record_key = handle.state.record_key
    if merge_plan.reads_all or not record_key or any(name not in numbers for name in record_key):
        return handle
    columns = {name: source.column(key_column(numbers[name])).combine_chunks() for name in record_key}
    return narrowed_by_keys(handle, columns)
