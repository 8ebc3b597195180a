"""The heart of a merge, on a worker: partners are found by their keys, and clauses say what happens to whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tablespec.arrow.evaluate import equal, matching, one_zero
from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.arrow.parquet import no_columns
from tablespec.arrow.row_text import row_text
from tablespec.errors import MultipleMatchesError
from tablespec.expr.nodes import TRUE, Literal, columns_of
from tablespec.write.change_target import ChangeTarget, RowOp
from tablespec.write.merge_keys import NUMBER, key_column
from tablespec.write.merge_plan import SOURCE, TARGET, BoundClause, Kind, MergePlan
from tablespec.write.merge_sink import going, page

_PAIR = "_pair"
# How many pairs are looked at together where there are no keys to find them by.
_PAIRS_AT_ONCE = 1 << 18
_DELETING = (Kind.MATCHED_DELETE, Kind.UNMATCHED_DELETE)


# A clause and the pairs of rows that it applies to.
_Applied = tuple[BoundClause, pa.RecordBatch]


class StoresRows(Protocol):
    """Takes pages of row changes, as a MergeSink does."""

    def store_merged_rows(self, page: pa.RecordBatch, old: pa.RecordBatch | None = None) -> None: ...


@attrs.frozen(kw_only=True, eq=False)
class Matching:
    """A source, held in memory, to hold rows of the table against.

    Its rows are numbered and have their keys once more, in the types of the table's: see `with_keys`. `unique` tells that no two of
    them have the same keys, and `telling` which key alone tells them apart.
    """

    target: ChangeTarget
    merge: MergePlan
    source: pa.Table
    unique: bool
    telling: int | None

    @classmethod
    def of(cls, target: ChangeTarget, merge: MergePlan, source: pa.Table) -> Matching:
        """The source, whose keys are looked at."""
        keys = [key_column(index) for index in range(len(merge.keys))]
        unique = bool(keys) and _is_unique(source, keys)
        telling = next((index for index, key in enumerate(keys) if _is_unique(source, [key])), None)
        return cls(target=target, merge=merge, source=source, unique=unique, telling=telling)


def merge_batch(task: Matching, batch: pa.RecordBatch, ids: pa.Array, sink: StoresRows, matched: BitMap) -> None:
    """Find the partners of rows of the table and store what happens to them; adds the numbers of rows of the source that have one."""
    # Without keys every row is held against every row of the source.
    step = batch.num_rows if task.merge.keys else max(1, _PAIRS_AT_ONCE // max(1, task.source.num_rows))
    for start in range(0, batch.num_rows, max(1, step)):
        _merge_some(task, batch.slice(start, step), ids.slice(start, step), sink, matched)


def _merge_some(task: Matching, batch: pa.RecordBatch, ids: pa.Array, sink: StoresRows, matched: BitMap) -> None:
    left, right = partners(task, batch)
    if task.merge.condition != TRUE:
        looked_at = _pairs(task, batch, left, right, {path[:2] for path in columns_of(task.merge.condition)})
        held = matching(task.merge.condition, _joined(*looked_at))
        left, right = left.filter(held), right.filter(held)
    joined = _joined(*_pairs(task, batch, left, right))
    matched.update(task.source.column(NUMBER).combine_chunks().take(right).to_pylist())
    clauses = [clause for clause in task.merge.clauses if clause.kind.matched]
    changes = list(_by_clause(clauses, _numbered(joined)))
    _store(task, changes if task.unique else _once(task, changes, batch, left), ids.take(left), sink)
    if task.merge.reads_all:
        lonely = pc.invert(pc.is_in(pa.arange(0, batch.num_rows), left))
        rest = [clause for clause in task.merge.clauses if clause.kind.by_source]
        alone = batch.filter(lonely)
        nothing = _take(task.source, pa.nulls(alone.num_rows, pa.int64()))
        _store(task, _by_clause(rest, _numbered(_joined(alone, nothing))), ids.filter(lonely), sink)


def _pairs(
    task: Matching,
    batch: pa.RecordBatch,
    left: pa.Array,
    right: pa.Array,
    columns: Collection[tuple[str, ...]] | None = None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows of both sides by their numbers, in all columns or in some."""
    source = task.source
    if columns is not None:
        batch = batch.select([name for name in batch.schema.names if (TARGET, name) in columns])
        source = source.select([name for name in source.schema.names if (SOURCE, name) in columns])
    return batch.take(left) if batch.num_columns else no_columns(len(left)), _take(source, right)


def insert_rows(merge: MergePlan, source: pa.Table, matched: BitMap, sink: StoresRows) -> None:
    """Store the rows of the source that found no partner, as the insert clauses say."""
    clauses = [clause for clause in merge.clauses if clause.kind is Kind.NOT_MATCHED_INSERT]
    if not clauses:
        return
    alone = pa.array([index for index in range(source.num_rows) if index not in matched], pa.int64())
    for batch in source.take(alone).to_batches(max_chunksize=65_536):
        joined = _joined(None, batch)
        for clause, chosen in _by_clause(clauses, joined):
            sink.store_merged_rows(page(_values(clause, chosen), RowOp.INSERT, None))


def _store(task: Matching, changes: Iterable[_Applied], ids: pa.Array, sink: StoresRows) -> None:
    for clause, chosen in changes:
        rows = ids.take(chosen.column(_PAIR))
        old = _flat(chosen.column(TARGET)) if task.target.change_feed else None
        if clause.kind in _DELETING:
            sink.store_merged_rows(going(rows), old)
        else:
            sink.store_merged_rows(page(_values(clause, chosen), RowOp.UPDATE, rows), old)


def _once(task: Matching, changes: Sequence[_Applied], batch: pa.RecordBatch, left: pa.Array) -> Sequence[_Applied]:
    """The changes of pairs with each row of the table in one of them: which deletes it does not matter, which updates it does."""
    pairs = pa.chunked_array([chosen.column(_PAIR) for _, chosen in changes], pa.int64()).combine_chunks()
    rows = left.take(pairs)
    firsts = pa.table({"row": rows, _PAIR: pairs}).group_by("row").aggregate([(_PAIR, "min")])
    if firsts.num_rows == len(rows):
        return changes
    if any(clause.kind not in _DELETING for clause, _ in changes):
        _refuse_multiple(task, batch, rows)
    kept = firsts.column(f"{_PAIR}_min")
    return [(clause, chosen.filter(pc.is_in(chosen.column(_PAIR), value_set=kept))) for clause, chosen in changes]


def _numbered(joined: pa.RecordBatch) -> pa.RecordBatch:
    return joined.append_column(_PAIR, pa.arange(0, joined.num_rows))


def _by_clause(clauses: Sequence[BoundClause], joined: pa.RecordBatch) -> Iterator[_Applied]:
    """The rows of each clause: those that satisfy its condition and no earlier one's."""
    for clause in clauses:
        if not joined.num_rows:
            return
        held = matching(clause.where, joined)
        chosen = joined.filter(held)
        if chosen.num_rows:
            yield clause, chosen
        joined = joined.filter(pc.invert(held))


def partners(task: Matching, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """The pairs of row numbers, of the batch and of the source, whose keys are equal; null equals nothing."""
    keys = task.merge.keys
    if isinstance(task.merge.condition, Literal) and task.merge.condition != TRUE:
        return pa.array([], pa.int64()), pa.array([], pa.int64())
    if task.telling is not None:
        return _looked_up(task, batch, task.telling)
    if not keys:
        pairs, others = pa.arange(0, batch.num_rows * task.source.num_rows), max(1, task.source.num_rows)
        left = pc.divide(pairs, others)
        return left, pc.subtract(pairs, pc.multiply(left, others))
    mine = pa.table({f"k{index}": one_zero(batch.column(key)) for index, (key, _) in enumerate(keys)})
    theirs = pa.table({f"k{index}": task.source.column(key_column(index)) for index in range(len(keys))})
    mine = mine.append_column("l", pa.arange(0, mine.num_rows))
    theirs = theirs.append_column("r", pa.arange(0, theirs.num_rows))
    pairs = mine.join(theirs, [f"k{index}" for index in range(len(keys))], join_type="inner", use_threads=False)
    return pairs.column("l").combine_chunks(), pairs.column("r").combine_chunks()


def _looked_up(task: Matching, batch: pa.RecordBatch, telling: int) -> tuple[pa.Array, pa.Array]:
    """The pairs by the one key that alone tells the rows of the source apart; the other keys are compared after."""
    values = task.source.column(key_column(telling)).combine_chunks()
    found = pc.index_in(one_zero(batch.column(task.merge.keys[telling][0])), value_set=values, skip_nulls=True)
    left, right = pc.indices_nonzero(pc.is_valid(found)).cast(pa.int64()), found.drop_null().cast(pa.int64())
    for index, (column, _) in enumerate(task.merge.keys):
        if index != telling:
            same = equal(
                batch.column(column).take(left), task.source.column(key_column(index)).combine_chunks().take(right)
            )
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
    if not source.num_columns:
        return no_columns(len(rows))
    taken = source.take(rows).combine_chunks()
    columns = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in taken.columns]
    return pa.RecordBatch.from_arrays(columns, schema=taken.schema)


def _values(clause: BoundClause, joined: pa.RecordBatch) -> pa.RecordBatch:
    columns = [evaluate_value(value, joined) for _, value in clause.values]
    return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in clause.values])


def _refuse_multiple(task: Matching, batch: pa.RecordBatch, left: pa.Array) -> None:
    counts = pc.value_counts(left)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0].as_py()
    keys = [key for key, _ in task.merge.keys] or batch.schema.names
    raise MultipleMatchesError(task.target.storage.url, row_text(batch.select(keys), twice))


def _is_unique(source: pa.Table, keys: list[str]) -> bool:
    return bool(source.select(keys).group_by(keys).aggregate([]).num_rows == source.num_rows)
