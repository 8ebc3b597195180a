"""Inserting rows, or replacing those that have the same record key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import one_zero
from tablespec.arrow.schema import schema_of
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import NoRecordKeyError
from tablespec.expr.nodes import Column, Compare, IsNull, Op, Or, Predicate, all_of
from tablespec.formats.base import TableFormat
from tablespec.model.schema import Schema
from tablespec.write.execution import Execution
from tablespec.write.merge import merge
from tablespec.write.merge_plan import SOURCE, TARGET, Clause, Kind
from tablespec.write.row_change import ChangeResult

ORDERING = "tablespec.orderingColumn"


def upsert(
    format_: TableFormat,
    data: ArrowStream,
    *,
    order_by: str | None = None,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Insert rows whose record key is new, and replace those whose key the table has.

    Among rows of one key the one with the greatest value of the ordering column counts, in the data and between data and table; equal
    values let the newer row win, and so does the later row of the data. Without an ordering column the data always wins. Null orders
    below every value.
    """
    state = format_.latest()
    if not state.record_key:
        raise NoRecordKeyError(format_.storage.url, "upsert")
    ordering = order_by or state.properties.get(ORDERING)
    given = record_batches(data).read_all()
    named = schema_of(given.schema)
    given = given.rename_columns([_spelled(name, state.schema) for name in given.column_names])
    for name in (*state.record_key, *(() if ordering is None else (ordering,))):
        named.field(name)
        state.schema.field(name)
    ordering = None if ordering is None else state.schema.field(ordering).name
    rows = _newest(given, state.record_key, ordering)
    on = all_of(tuple(Compare(Op.EQ, Column((TARGET, key)), Column((SOURCE, key))) for key in state.record_key))
    clauses = [Clause(Kind.MATCHED_UPDATE, _newer(ordering)), Clause(Kind.NOT_MATCHED_INSERT)]
    return merge(format_, rows, on, clauses, execution=execution)


def _spelled(name: str, schema: Schema) -> str:
    """A name of the data as the table spells it, where the table has it."""
    return next((one for one in schema.names if one.lower() == name.lower()), name)


def _newer(ordering: str | None) -> Predicate | None:
    if ordering is None:
        return None
    old, new = Column((TARGET, ordering)), Column((SOURCE, ordering))
    return Or((Compare(Op.GE, new, old), IsNull(old)))


def _newest(rows: pa.Table, key: tuple[str, ...], ordering: str | None) -> pa.Table:
    """The row of each key that counts."""
    numbered = rows.append_column("_number", pa.arange(0, rows.num_rows))
    for name in key:
        index = numbered.schema.get_field_index(name)
        numbered = numbered.set_column(index, name, one_zero(numbered.column(name)))
    if ordering is not None:
        # Null orders below every value, and false below true.
        numbered = numbered.append_column("_given", pc.is_valid(numbered.column(ordering)))
        by = [("_given", "ascending"), (ordering, "ascending"), ("_number", "ascending")]
        numbered = numbered.take(pc.sort_indices(numbered, sort_keys=by))
    last = numbered.select([*key, "_number"]).group_by(list(key), use_threads=False).aggregate([("_number", "last")])
    return rows.take(last.column("_number_last").combine_chunks().sort())
