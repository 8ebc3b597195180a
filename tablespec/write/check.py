"""NOT NULL and CHECK constraints, held against rows before they are written."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import matching
from tablespec.errors import ConstraintViolatedError, TableSpecError, UnsupportedConstraintError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import Predicate
from tablespec.model.schema import Field, Schema, StructType


@attrs.frozen
class Constraints:
    """What every row of a table must satisfy."""

    table: str
    required: tuple[tuple[str, ...], ...]
    checks: tuple[tuple[str, Predicate], ...]


def constraints(table: str, schema: Schema, checks: tuple[tuple[str, str], ...]) -> Constraints:
    """The constraints of a table; one that cannot be evaluated here raises, since rows could not be checked."""
    bound = []
    for name, text in checks:
        try:
            bound.append((f"{name} ({text})", bind(text, schema)))
        except TableSpecError as error:
            raise UnsupportedConstraintError(table, f"{name} ({text})", str(error)) from error
    return Constraints(table, tuple(_required(schema.fields, ())), tuple(bound))


def verified(batches: Iterator[pa.RecordBatch], rules: Constraints) -> Iterator[pa.RecordBatch]:
    """The same batches; the first row that breaks a rule raises."""
    for batch in batches:
        for path in rules.required:
            column = batch.column(path[0])
            # A null struct breaks the NOT NULL of its members, as Delta on Spark has it.
            values = column if len(path) == 1 else pc.struct_field(column, list(path[1:]))
            if values.null_count:
                _refuse(batch, pc.is_valid(values), f"{'.'.join(path)} NOT NULL", rules.table)
        for name, check in rules.checks:
            # Unlike SQL, Delta counts a check that is null as broken.
            held = matching(check, batch)
            if not pc.all(held).as_py():
                _refuse(batch, held, name, rules.table)
        yield batch


def _refuse(batch: pa.RecordBatch, held: pa.BooleanArray, name: str, table: str) -> None:
    row = batch.slice(pc.index(held, False).as_py(), 1).to_pylist()[0]
    raise ConstraintViolatedError(table, name, str(row))


def _required(fields: tuple[Field, ...], prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in fields:
        path = (*prefix, field.name)
        if not field.nullable:
            yield path
        if isinstance(field.type, StructType):
            yield from _required(field.type.fields, path)
