"""Merging rows of a source into a table: matched rows change or go, others come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tablespec.arrow.evaluate import equal, matching, one_zero
from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.arrow.schema import arrow_schema, arrow_type, schema_of
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import MultipleMatchesError, TypeMismatchError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.base import TableFormat
from tablespec.model.file import FileSlice
from tablespec.model.row import FILE, POSITION, ROW_ID
from tablespec.model.schema import Field, Schema
from tablespec.read.file_index import Filters, bound_filters
from tablespec.read.task import TaskSlice, shares
from tablespec.write.append import writable
from tablespec.write.change_target import ChangeTarget, RowOp, row_ids
from tablespec.write.execution import Execution, Strategy
from tablespec.write.fit import fitted
from tablespec.write.merge_plan import (
    SOURCE,
    TARGET,
    BoundClause,
    Clause,
    Kind,
    MergePlan,
    needed_columns,
    plan,
    pruning,
)
from tablespec.write.merge_sink import Fragment, MergeSink, going, page
from tablespec.write.row_change import ChangeHandle, ChangeResult, abort, begin, finish, narrowed_by_keys

_NUMBER = "_source_row"
_DELETING = (Kind.MATCHED_DELETE, Kind.UNMATCHED_DELETE)


@attrs.frozen(kw_only=True, eq=False)
class MergeTask:
    """Slices of the table, held against the source."""

    target: ChangeTarget
    merge: MergePlan
    predicate: Predicate
    source: pa.Table
    unique: bool
    telling: int | None
    slices: tuple[TaskSlice, ...]


@attrs.frozen
class MergedSlices:
    """What a merge task did, and which rows of the source it found a partner for."""

    fragments: tuple[Fragment, ...]
    matched: bytes


def merge(
    format_: TableFormat,
    source: ArrowStream,
    on: Predicate | str,
    clauses: Sequence[Clause],
    *,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Merge the rows of `source`, which are held in memory, into the table; the first clause that applies to a row counts."""
    stream = record_batches(source)
    source_schema = schema_of(stream.schema)
    wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(source_schema)])
    rows = pa.Table.from_batches(fitted(stream, source_schema), wanted)
    state = writable(format_, "MERGE").latest()
    merge_plan = plan(on, clauses, state.schema, source_schema)
    predicate = pruning(merge_plan, rows, state.schema)
    handle = begin(format_, state, "MERGE", predicate, strategy=execution.strategy)
    rows = _with_keys(rows, merge_plan, state.schema)
    handle = _with_known_keys(handle, merge_plan, rows)
    done: list[MergedSlices] = []
    inserted: tuple[Fragment, ...] = ()
    try:
        done += execution.runner.run(merge_slices, merge_tasks(handle, merge_plan, rows))
        matched = BitMap()
        for one in done:
            matched |= BitMap.deserialize(one.matched)
        inserted = insert_rows(handle.target, merge_plan, rows, matched)
    except BaseException:
        abort(handle, [fragment for one in done for fragment in one.fragments])
        raise
    fragments = [*(fragment for one in done for fragment in one.fragments), *inserted]
    return finish(handle, fragments, execution=execution)


def begin_merge(format_: TableFormat, where: Filters, ops: frozenset[RowOp], strategy: Strategy | None) -> ChangeHandle:
    """Pin the newest state for changes of some of the rows that match, and for inserts."""
    state = writable(format_, "MERGE").latest()
    return begin(format_, state, "MERGE", bound_filters(where, state.schema), strategy=strategy, ops=ops)


def merge_tasks(handle: ChangeHandle, merge_plan: MergePlan, source: pa.Table) -> list[MergeTask]:
    """The reading and matching that a merge needs, in pieces of about equal size."""
    keys = [_key(index) for index in range(len(merge_plan.keys))]
    unique = bool(keys) and _is_unique(source, keys)
    telling = next((index for index, key in enumerate(keys) if _is_unique(source, [key])), None)
    return [
        MergeTask(
            target=handle.target,
            merge=merge_plan,
            predicate=handle.predicate,
            source=source,
            unique=unique,
            telling=telling,
            slices=group,
        )
        for group in shares(handle.pieces(handle.files))
    ]


def _is_unique(source: pa.Table, keys: list[str]) -> bool:
    return bool(source.select(keys).group_by(keys).aggregate([]).num_rows == source.num_rows)


def merge_slices(task: MergeTask) -> MergedSlices:
    """Find the partners in some slices and store what happens to them; on a worker."""
    sink = MergeSink(task.target)
    matched = BitMap()
    names = needed_columns(task.merge, task.target.schema, all_columns=task.target.change_feed)
    rows = task.target.placed(names).push_down_filters(task.predicate)
    try:
        for piece in task.slices:
            here = attrs.evolve(task, source=_of_partition(task, piece.slice))
            if not here.source.num_rows and not task.merge.reads_all:
                continue
            for batch in rows.open(piece.slice, piece.known):
                ids = row_ids(batch, piece.slice.group.id)
                _merge_batch(here, batch.drop_columns([FILE, POSITION, ROW_ID]), ids, sink, matched)
        return MergedSlices(sink.finish(), matched.serialize())
    except BaseException:
        sink.abort()
        raise


def _of_partition(task: MergeTask, slice_: FileSlice) -> pa.Table:
    """The rows of the source whose keys fit the partition of a slice."""
    values = dict(zip(task.target.read.constants, slice_.partition_values))
    source = task.source
    for index, (column, _) in enumerate(task.merge.keys):
        if column in values:
            keys = source.column(_key(index))
            source = source.filter(pc.fill_null(equal(keys, pa.scalar(values[column], keys.type)), False))
    return source


def insert_rows(target: ChangeTarget, merge_plan: MergePlan, source: pa.Table, matched: BitMap) -> tuple[Fragment, ...]:
    """Store the rows of the source that found no partner, as the insert clauses say."""
    clauses = [clause for clause in merge_plan.clauses if clause.kind is Kind.NOT_MATCHED_INSERT]
    if not clauses:
        return ()
    alone = pa.array([index for index in range(source.num_rows) if index not in matched], pa.int64())
    sink = MergeSink(target)
    try:
        for batch in source.take(alone).to_batches(max_chunksize=65_536):
            joined = _joined(None, batch)
            for clause, chosen in _by_clause(clauses, joined):
                values = _values(clause, chosen)
                sink.store_merged_rows(page(values, RowOp.INSERT, None))
        return sink.finish()
    except BaseException:
        sink.abort()
        raise


def _merge_batch(task: MergeTask, batch: pa.RecordBatch, ids: pa.Array, sink: MergeSink, matched: BitMap) -> None:
    left, right = _partners(task, batch)
    joined = _joined(batch.take(left), _take(task.source, right))
    if task.merge.residual != TRUE or task.merge.source_filter != TRUE or task.merge.target_filter != TRUE:
        held = pc.and_(matching(task.merge.residual, joined), matching(task.merge.source_filter, joined))
        held = pc.and_(held, matching(task.merge.target_filter, joined))
        left, right, joined = left.filter(held), right.filter(held), joined.filter(held)
    matched.update(task.source.column(_NUMBER).combine_chunks().take(right).to_pylist())
    if not task.unique and len(pc.unique(left)) != len(left):
        _refuse_multiple(task, batch, left)
    clauses = [clause for clause in task.merge.clauses if clause.kind.matched]
    _store(task, clauses, joined, ids.take(left), sink)
    if task.merge.reads_all:
        lonely = pc.invert(pc.is_in(pa.arange(0, batch.num_rows), left))
        rest = [clause for clause in task.merge.clauses if clause.kind.by_source]
        alone = batch.filter(lonely)
        nothing = _take(task.source, pa.nulls(alone.num_rows, pa.int64()))
        _store(task, rest, _joined(alone, nothing), ids.filter(lonely), sink)


def _store(
    task: MergeTask, clauses: Sequence[BoundClause], joined: pa.RecordBatch, ids: pa.Array, sink: MergeSink
) -> None:
    numbered = joined.append_column("_number", pa.arange(0, joined.num_rows))
    for clause, chosen in _by_clause(clauses, numbered):
        rows = ids.take(chosen.column("_number"))
        old = _flat(chosen.column(TARGET)) if task.target.change_feed else None
        if clause.kind in _DELETING:
            sink.store_merged_rows(going(rows), old)
        else:
            sink.store_merged_rows(page(_values(clause, chosen), RowOp.UPDATE, rows), old)


def _by_clause(clauses: Sequence[BoundClause], joined: pa.RecordBatch) -> Iterator[tuple[BoundClause, pa.RecordBatch]]:
    """The rows of each clause: those that satisfy its condition and no earlier one's."""
    for clause in clauses:
        if not joined.num_rows:
            return
        held = matching(clause.where, joined)
        chosen = joined.filter(held)
        if chosen.num_rows:
            yield clause, chosen
        joined = joined.filter(pc.invert(held))


def _partners(task: MergeTask, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The pairs of row numbers, of the batch and of the source, whose keys are equal; null equals nothing."""
    keys = task.merge.keys
    if task.telling is not None:
        return _looked_up(task, batch, task.telling)
    if not keys:
        left = [row for row in range(batch.num_rows) for _ in range(task.source.num_rows)]
        return pa.array(left, pa.int64()), pa.array(list(range(task.source.num_rows)) * batch.num_rows, pa.int64())
    mine = pa.table({f"k{index}": one_zero(batch.column(key)) for index, (key, _) in enumerate(keys)})
    theirs = pa.table({f"k{index}": task.source.column(_key(index)) for index in range(len(keys))})
    mine = mine.append_column("l", pa.arange(0, mine.num_rows))
    theirs = theirs.append_column("r", pa.arange(0, theirs.num_rows))
    pairs = mine.join(theirs, [f"k{index}" for index in range(len(keys))], join_type="inner", use_threads=False)
    return pairs.column("l").combine_chunks(), pairs.column("r").combine_chunks()


def _looked_up(task: MergeTask, batch: pa.RecordBatch, telling: int) -> tuple[pa.Array, pa.Array]:
    """The pairs by the one key that alone tells the rows of the source apart; the other keys are compared after."""
    values = task.source.column(_key(telling)).combine_chunks()
    found = pc.index_in(one_zero(batch.column(task.merge.keys[telling][0])), value_set=values, skip_nulls=True)
    left, right = pc.indices_nonzero(pc.is_valid(found)).cast(pa.int64()), found.drop_null().cast(pa.int64())
    for index, (column, _) in enumerate(task.merge.keys):
        if index != telling:
            same = equal(batch.column(column).take(left), task.source.column(_key(index)).combine_chunks().take(right))
            same = pc.fill_null(same, False)
            left, right = left.filter(same), right.filter(same)
    return left, right


def _joined(target: pa.RecordBatch | None, source: pa.RecordBatch) -> pa.RecordBatch:
    """One column `t` of rows of the table beside one column `s` of rows of the source."""
    columns = {} if target is None else {TARGET: _struct(target)}
    columns[SOURCE] = _struct(source)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _struct(batch: pa.RecordBatch) -> pa.StructArray:
    fields = [field.with_nullable(True) for field in batch.schema]
    if not fields:
        return pa.array([{}] * batch.num_rows, pa.struct([]))
    return pa.StructArray.from_arrays(batch.columns, fields=fields)


def _flat(rows: pa.StructArray) -> pa.RecordBatch:
    if not rows.type.num_fields:
        return pa.RecordBatch.from_arrays([pa.nulls(len(rows))], names=["_"])
    return pa.RecordBatch.from_struct_array(rows)


def _take(source: pa.Table, rows: pa.Array) -> pa.RecordBatch:
    taken = source.take(rows).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in taken.columns]
    return pa.RecordBatch.from_arrays(columns, schema=taken.schema)


def _values(clause: BoundClause, joined: pa.RecordBatch) -> pa.RecordBatch:
    columns = [evaluate_value(value, joined) for _, value in clause.values]
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in clause.values])


def _with_keys(source: pa.Table, merge_plan: MergePlan, table: Schema) -> pa.Table:
    """The source with its rows numbered and its keys once more, in the types of the table's keys."""
    source = source.append_column(_NUMBER, pa.arange(0, source.num_rows))
    for index, (target_column, source_column) in enumerate(merge_plan.keys):
        field = table.field(target_column)
        keys = one_zero(_key_values(source.column(source_column).combine_chunks(), field))
        source = source.append_column(_key(index), keys)
    return source


def _with_known_keys(handle: ChangeHandle, merge_plan: MergePlan, source: pa.Table) -> ChangeHandle:
    """The handle without files that a record index knows to hold none of the keys, and with the rows that hold one."""
    numbers = {column: index for index, (column, _) in enumerate(merge_plan.keys)}
    record_key = handle.state.record_key
    if merge_plan.reads_all or not record_key or any(name not in numbers for name in record_key):
        return handle
    columns = {name: source.column(_key(numbers[name])).combine_chunks() for name in record_key}
    return narrowed_by_keys(handle, columns)


def _key(index: int) -> str:
    return f"_key{index}"


def _key_values(values: pa.Array, field: Field) -> pa.Array:
    wanted = arrow_type(field.type)
    if values.type.equals(wanted):
        return values
    if pa.types.is_integer(values.type) and pa.types.is_integer(wanted):
        # A number that the column cannot hold has no partner, like null.
        bits = wanted.bit_width - 1
        held = pc.and_(pc.greater_equal(values, -(2**bits)), pc.less_equal(values, 2**bits - 1))
        return pc.if_else(held, values, None).cast(wanted)
    try:
        return values.cast(wanted)
    except pa.ArrowInvalid as error:
        raise TypeMismatchError(field.name, str(field.type), f"keys of type {values.type} ({error})") from error


def _refuse_multiple(task: MergeTask, batch: pa.RecordBatch, left: pa.Array) -> None:
    counts = pc.value_counts(left)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
    keys = [key for key, _ in task.merge.keys] or batch.schema.names
    row = batch.select(keys).slice(twice, 1).to_pylist()[0]
    raise MultipleMatchesError(task.target.storage.url, str(row))
