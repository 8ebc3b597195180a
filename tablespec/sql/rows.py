"""Rows that a statement brings, as Arrow data."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablespec.arrow.convert import nulls
from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.arrow.schema import arrow_field, arrow_type
from tablespec.arrow.stream import ArrowStream, ReadableStream, record_batches
from tablespec.errors import TypeMismatchError
from tablespec.expr.bind_value import bind_value
from tablespec.expr.value import Value, type_of
from tablespec.expr.value_type import common_type
from tablespec.model.schema import VOID, DataType, Field, Schema
from tablespec.read.scan import Scan

_NOTHING = Schema(())
_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["_"])


def value_rows(rows: Sequence[Sequence[Value]], fields: Sequence[Field]) -> pa.Table:
    """Rows that are written out, in columns of the given types; raises TypeMismatchError for values that do not fit."""
    columns = [
        pa.concat_arrays([_cell(row[index], field) for row in rows]).cast(arrow_type(field.type))
        for index, field in enumerate(fields)
    ]
    return pa.Table.from_arrays(columns, names=[field.name for field in fields])


def value_fields(rows: Sequence[Sequence[Value]], names: Sequence[str], table: Schema) -> list[Field]:
    """The columns of rows that are written out: those that the table has too are of its type, others of what the values have in common."""
    return [
        Field(name=name, type=table.field(name).type if name in table else _type([row[index] for row in rows], name))
        for index, name in enumerate(names)
    ]


def renamed(rows: pa.RecordBatchReader, names: Sequence[str]) -> pa.RecordBatchReader:
    """The same rows under other names, in order."""
    schema = pa.schema([field.with_name(name) for field, name in zip(rows.schema, names)])
    batches = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def completed(rows: ArrowStream, table: Schema) -> pa.RecordBatchReader | ArrowStream:
    """The same rows with nulls in the columns that they lack and that may be null.

    Rows that an engine holds elsewhere, and does not read out here, stay as they are.
    """
    if not isinstance(rows, pa.RecordBatchReader | ReadableStream):
        return rows
    reader = record_batches(rows)
    given = {name.lower() for name in reader.schema.names}
    lacking = [field for field in table if field.nullable and field.name.lower() not in given]
    schema = pa.schema([*reader.schema, *map(arrow_field, lacking)])
    batches = (
        pa.RecordBatch.from_arrays(
            [*batch.columns, *(nulls(batch.num_rows, field.type) for field in lacking)], schema=schema
        )
        for batch in reader
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def projected(scan: Scan, positions: Sequence[int], names: Sequence[str]) -> pa.RecordBatchReader:
    """Columns of a scan by their positions, under other names."""
    schema = pa.schema([scan.arrow_schema.field(position).with_name(name) for position, name in zip(positions, names)])
    batches = (
        pa.RecordBatch.from_arrays([batch.column(position) for position in positions], schema=schema)
        for batch in scan.to_batches()
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _cell(value: Value, field: Field) -> pa.Array:
    return evaluate_value(bind_value(value, _NOTHING, field.type, column=field.name), _ONE_ROW)


def _type(values: Sequence[Value], name: str) -> DataType:
    found: DataType = VOID
    for value in values:
        type_ = type_of(bind_value(value, _NOTHING))
        common = common_type(found, type_)
        if common is None:
            raise TypeMismatchError(name, str(found), f"a value of type {type_} in another row")
        found = common
    return found
