"""Inserting rows, or replacing those that have the same record key."""

from __future__ import annotations

import attrs

from tablespec.arrow.schema import schema_of
from tablespec.arrow.stream import ArrowStream
from tablespec.errors import NoRecordKeyError, SchemaMismatchError, UnsupportedTypeError
from tablespec.expr.nodes import Column, Compare, IsNull, Op, Or, Predicate, all_of
from tablespec.formats.base import TableFormat
from tablespec.model.schema import DecimalType, Primitive, Schema
from tablespec.write.execution import Execution
from tablespec.write.fit import column_of_data, held
from tablespec.write.merge import merge, merge_spread
from tablespec.write.merge_plan import SOURCE, TARGET, Clause, Kind
from tablespec.write.merge_spread import SpreadSource
from tablespec.write.newest import Newest
from tablespec.write.row_change import ChangeResult

ORDERING = "tablespec.orderingColumn"


def upsert(
    format_: TableFormat,
    data: ArrowStream | SpreadSource,
    *,
    order_by: str | None = None,
    execution: Execution = Execution(),
) -> ChangeResult:
    """Insert rows whose record key is new, and replace those whose key the table has.

    Among rows of one key the one with the greatest value of the ordering column counts, in the data and between data and table; equal
    values let the newer row win, and so does the later row of the data. Without an ordering column the data always wins. Null orders
    below every value. A key that is null, that is stored as null or that the column would round is refused: no other would equal it.
    """
    state = format_.latest()
    if not state.record_key:
        raise NoRecordKeyError(format_.storage.url, "upsert")
    ordering = order_by or state.properties.get(ORDERING)
    given = data if isinstance(data, SpreadSource) else held(data, format_.storage.url)
    named = schema_of(given.arrow_schema if isinstance(given, SpreadSource) else given.schema)
    for name in (*state.record_key, *(() if ordering is None else (ordering,))):
        field = state.schema.field(name)
        if not isinstance(field.type, Primitive | DecimalType):
            raise UnsupportedTypeError(field.name, str(field.type), "records cannot be told apart or ordered by it")
        column_of_data(named, name)
    ordering = None if ordering is None else state.schema.field(ordering).name
    in_partitions = tuple(name for name in state.record_key if name in state.partition_columns)
    newest = Newest(tuple(map(state.schema.field, state.record_key)), ordering, format_.storage.url, in_partitions)
    on = all_of(tuple(Compare(Op.EQ, Column((TARGET, key)), Column((SOURCE, key))) for key in state.record_key))
    clauses = [Clause(Kind.MATCHED_UPDATE, _newer(ordering)), Clause(Kind.NOT_MATCHED_INSERT)]
    spelled = [_spelled(name, state.schema) for name in named.names]
    strange = [name for name in spelled if name not in state.schema]
    if strange:
        differences = tuple(f"the column {name} is not in the table" for name in strange)
        raise SchemaMismatchError(format_.storage.url, differences, "Rename or drop it, or add it to the table first.")
    if isinstance(given, SpreadSource):
        columns = Schema(tuple(attrs.evolve(field, name=name) for field, name in zip(named, spelled)))
        return merge_spread(format_, given, columns, on, clauses, newest=newest, execution=execution)
    return merge(format_, newest.of(given.rename_columns(spelled)), on, clauses, execution=execution)


def _spelled(name: str, schema: Schema) -> str:
    """A name of the data as the table spells it, where the table has it."""
    return next((one for one in schema.names if one.lower() == name.lower()), name)


def _newer(ordering: str | None) -> Predicate | None:
    if ordering is None:
        return None
    old, new = Column((TARGET, ordering)), Column((SOURCE, ordering))
    return Or((Compare(Op.GE, new, old), IsNull(old)))
