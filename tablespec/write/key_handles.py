"""Rows by their record keys: what an engine has at hand that knows keys, and no row ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.row_text import row_text
from tablespec.arrow.schema import schema_of
from tablespec.errors import InvalidPageError, NoRecordKeyError
from tablespec.expr.nodes import Column, Compare, Op, Predicate, all_of
from tablespec.read.task import TaskSlice
from tablespec.write.change_target import ROW_TYPE, ChangeTarget
from tablespec.write.fit import column_of_data
from tablespec.write.merge_keys import key_column, with_keys
from tablespec.write.merge_match import Matching, partners
from tablespec.write.merge_plan import SOURCE, TARGET, Clause, Kind, plan


def matching_keys(target: ChangeTarget, record_key: Sequence[str], keys: pa.Table) -> Matching:
    """Keys to hold rows of the table against, in the types of its columns."""
    if not record_key:
        raise NoRecordKeyError(target.storage.url, "finding rows by their keys")
    given = schema_of(keys.schema)
    names = [column_of_data(given, name).name for name in record_key]
    source = keys.select(names).rename_columns(list(record_key))
    on = all_of(tuple(Compare(Op.EQ, Column((TARGET, name)), Column((SOURCE, name))) for name in record_key))
    merge = plan(on, [Clause(Kind.MATCHED_DELETE)], target.schema, schema_of(source.schema))
    return Matching.of(target, merge, with_keys(source, merge, target.schema))


def key_columns(matching: Matching) -> dict[str, pa.Array]:
    """The keys by the columns of the table that they are of."""
    named = enumerate(column for column, _ in matching.merge.keys)
    return {column: matching.source.column(key_column(index)).combine_chunks() for index, column in named}


def row_ids(matching: Matching, predicate: Predicate, pieces: Iterable[TaskSlice]) -> pa.StructArray:
    """The row id of each key, null where no row of the slices that matches has it; raises where several have it."""
    rows = matching.target.placed(list(key_columns(matching))).push_down_filters(predicate)
    numbers, found = [pa.array([], pa.int64())], [pa.array([], ROW_TYPE)]
    for piece in pieces:
        for batch in rows.open(piece.slice, piece.known):
            left, right = partners(matching, batch)
            numbers.append(right)
            found.append(matching.target.row_ids(batch, piece.slice.group.id).take(left))
    of_keys, ids = pa.concat_arrays(numbers), pa.concat_arrays(found)
    counts = pc.value_counts(of_keys)
    twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(twice):
        row = matching.source.select([column for _, column in matching.merge.keys]).slice(twice[0].as_py(), 1)
        raise InvalidPageError(
            f"several rows have the record key {row_text(row.to_batches()[0], 0)}; name them by row ids"
        )
    return ids.take(pc.index_in(pa.arange(0, matching.source.num_rows), value_set=of_keys))
