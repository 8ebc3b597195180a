"""NOT NULL and CHECK constraints and lengths of texts, held against rows before they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import matching
from tablespec.arrow.row_text import row_text
from tablespec.errors import ConstraintViolatedError, TableSpecError, UnsupportedConstraintError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import Predicate
from tablespec.model.schema import STRING, ArrayType, DataType, Field, MapType, Schema, StructType

# Spark keeps the types char(n) and varchar(n) of columns here, whose type in the schema is string.
DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_SHORT_TEXT = re.compile(r"(?:var)?char\(([0-9]+)\)")


@attrs.frozen
class Constraints:
    """What every row of a table must satisfy.

    `lengths` are the columns of text with the type that says how long they may be, and how many characters that are.
    """

    table: str
    required: tuple[Field, ...]
    checks: tuple[tuple[str, Predicate], ...]
    lengths: tuple[tuple[str, str, int], ...] = ()


def constraints(table: str, schema: Schema, checks: tuple[tuple[str, str], ...]) -> Constraints:
    """The constraints of a table; one that cannot be evaluated here raises, since rows could not be checked."""
    bound = []
    for name, text in checks:
        try:
            bound.append((f"{name} ({text})", bind(text, schema)))
        except TableSpecError as error:
            raise UnsupportedConstraintError(table, f"{name} ({text})", str(error)) from error
    required = tuple(field for field in schema if _demanding(field))
    return Constraints(table, required, tuple(bound), tuple(_lengths(table, schema)))


def verified(batches: Iterator[pa.RecordBatch], rules: Constraints) -> Iterator[pa.RecordBatch]:
    """The same batches; the first row that breaks a rule raises."""
    for batch in batches:
        for field in rules.required:
            for path, row in _missing(batch.column(field.name), field, field.name, None):
                _refuse(batch, row, f"{path} NOT NULL", rules.table)
        for name, check in rules.checks:
            # Unlike SQL, Delta counts a check that is null as broken.
            held = matching(check, batch)
            if not pc.all(held).as_py():
                _refuse(batch, pc.index(held, False).as_py(), name, rules.table)
        for column, declared, most in rules.lengths:
            longer = pc.fill_null(pc.greater(pc.utf8_length(batch.column(column)), most), False)
            if pc.any(longer).as_py():
                _refuse(batch, pc.index(longer, True).as_py(), f"{column} {declared}", rules.table)
        yield batch


def _lengths(table: str, schema: Schema) -> Iterator[tuple[str, str, int]]:
    for field in schema:
        declared = str(msgspec.json.decode(dict(field.metadata).get(DECLARED_TYPE, '""')))
        found = _SHORT_TEXT.fullmatch(declared)
        if found and field.type == STRING:
            yield field.name, declared, int(found[1])
        elif "char(" in declared:
            why = "the length of texts is only checked where they are whole columns"
            raise UnsupportedConstraintError(table, f"{field.name} {declared}", why)


def _refuse(batch: pa.RecordBatch, row: int, name: str, table: str) -> None:
    raise ConstraintViolatedError(table, name, row_text(batch, row))


def _missing(values: pa.Array, field: Field, path: str, rows: pa.Array | None) -> Iterator[tuple[str, int]]:
    """Where a value that must be there is null: its path and the first such row; `rows` tells the row of each value."""
    if not field.nullable and values.null_count:
        first = pc.index(values.is_null(), True).as_py()
        yield path, first if rows is None else rows[first].as_py()
    if isinstance(field.type, MapType):
        values = values.cast(pa.list_(values.type.field(0)))
    elif isinstance(field.type, StructType):
        for member in filter(_demanding, field.type.fields):
            # A null struct breaks the NOT NULL of its members, as Delta on Spark has it.
            yield from _missing(pc.struct_field(values, [member.name]), member, f"{path}.{member.name}", rows)
        return
    parts = _parts(field.type)
    if any(map(_demanding, parts)):
        parents = pc.list_parent_indices(values)
        rows = parents if rows is None else rows.take(parents)
        flat = pc.list_flatten(values)
        for index, part in enumerate(parts):
            inner = flat.field(index) if isinstance(field.type, MapType) else flat
            yield from _missing(inner, part, f"{path}.{part.name}", rows)


def _demanding(field: Field) -> bool:
    """Whether the field, or something inside of it, must not be null."""
    return not field.nullable or any(map(_demanding, _parts(field.type)))


def _parts(data_type: DataType) -> tuple[Field, ...]:
    match data_type:
        case StructType(fields):
            return fields
        case ArrayType(element, contains_null):
            return (Field(name="element", type=element, nullable=contains_null),)
        case MapType(key, value, value_contains_null):
            return (Field(name="key", type=key), Field(name="value", type=value, nullable=value_contains_null))
        case _:
            return ()
