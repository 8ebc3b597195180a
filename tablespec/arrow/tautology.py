"""Predicates that are true for every row there can be."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import matching
from tablespec.arrow.schema import arrow_type, as_numbers
from tablespec.expr.nodes import TRUE, Column, Literal, Predicate, Scalar
from tablespec.expr.samples import samples
from tablespec.model.schema import Schema


def is_always_true(predicate: Predicate, schema: Schema) -> bool:
    """Whether a predicate bound to a schema is true for every row that the schema allows.

    False where nobody can tell: of full-text queries, and of predicates that name very many values of several columns.
    """
    if isinstance(predicate, Literal):
        return predicate == TRUE
    found = samples(predicate, schema)
    if found is None:
        return False
    columns = [_array(values, column) for values, column in zip(zip(*found.rows), found.columns)]
    names = [column.name for column in found.columns]
    return bool(pc.all(matching(found.predicate, pa.RecordBatch.from_arrays(columns, names=names))).as_py())


def _array(values: tuple[Scalar, ...], column: Column) -> pa.Array:
    assert column.type is not None
    wanted = arrow_type(column.type)
    return pa.array(values, as_numbers(wanted)).cast(wanted)
