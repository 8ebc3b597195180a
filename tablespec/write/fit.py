"""Whether data fits a table, and how the table must grow where it may."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.convert import by_logical_name, convert, nulls
from tablespec.arrow.schema import arrow_schema, schema_of
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import ColumnNotFoundError, SchemaMismatchError
from tablespec.model.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
    repeated_names,
)

TYPE_CHANGES = "delta.typeChanges"
_DIGITS = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}


@attrs.frozen
class Fit:
    """The schema that the table must have to take the data; `changed` says whether it is another than before."""

    schema: Schema
    changed: bool


def fit(data: pa.Schema, table: Schema, url: str, partition_columns: tuple[str, ...], *, merge_schema: bool) -> Fit:
    """How data of that Arrow schema goes into a table; raises naming every difference that stands in the way."""
    incoming = schema_of(data)
    check_names(incoming, url)
    grown, problems = _merged(incoming.fields, table.fields, "", merge=merge_schema)
    given = {field.name.lower() for field in incoming}
    lacking = [name for name in partition_columns if name.lower() not in given]
    problems += [f"the partition column {name} is missing" for name in lacking]
    if problems:
        raise SchemaMismatchError(url, tuple(problems), _way_out(problems))
    schema = Schema(grown)
    return Fit(schema, schema != table)


def check_names(incoming: Schema, url: str) -> None:
    """Raise for data in which a name stands more than once, case aside."""
    twice = repeated_names(incoming.fields)
    if twice:
        raise SchemaMismatchError(
            url, tuple(f"the column {name} stands more than once in the data" for name in twice), "Rename one of them."
        )


def fitted(batches: pa.RecordBatchReader, schema: Schema) -> Iterator[pa.RecordBatch]:
    """The rows in the columns and types of the table; columns that the data lacks are null."""
    wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
    for batch in batches:
        place = by_logical_name(list(batch.schema))
        columns = []
        for field in schema:
            index = place(field)
            columns.append(
                nulls(batch.num_rows, field.type)
                if index is None
                else convert(batch.column(index), field, by_logical_name)
            )
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)


def held(source: ArrowStream, url: str) -> pa.Table:
    """All rows of a source for the table at `url`, in the types that tables have."""
    stream = record_batches(source)
    schema = schema_of(stream.schema)
    check_names(schema, url)
    wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
    return pa.Table.from_batches(fitted(stream, schema), wanted)


def as_stored(batch: pa.RecordBatch, partition_columns: tuple[str, ...]) -> pa.RecordBatch:
    """The rows as they will be read back: a partition value without characters becomes null, as the protocol has it."""
    for name in partition_columns:
        index = batch.schema.get_field_index(name)
        values = batch.column(index)
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            emptied = pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)
            batch = batch.set_column(index, batch.schema.field(index), emptied)
    return batch


def column_of_data(data: Schema, name: str) -> Field:
    """The column of data that has the name of a column of the table."""
    try:
        return data.field(name)
    except ColumnNotFoundError as error:
        raise attrs.evolve(error, where="the data") from None


def _way_out(problems: list[str]) -> str:
    grows = any("not in the table" in problem or "is wider" in problem for problem in problems)
    return "Cast or rename the columns" + (", or let the table grow with merge_schema=True." if grows else ".")


def _merged(
    incoming: tuple[Field, ...], table: tuple[Field, ...], prefix: str, *, merge: bool
) -> tuple[tuple[Field, ...], list[str]]:
    by_name = {field.name.lower(): field for field in incoming}
    merged, problems = [], []
    for field in table:
        given = by_name.pop(field.name.lower(), None)
        if given is None:
            if not field.nullable:
                problems.append(f"the column {prefix}{field.name} is missing and must not be null")
            merged.append(field)
            continue
        grown, found = _merged_field(given, field, prefix, merge=merge)
        merged.append(grown)
        problems += found
    for extra in by_name.values():
        if not merge:
            problems.append(f"the column {prefix}{extra.name} is not in the table")
        elif extra.type == VOID:
            problems.append(f"the new column {prefix}{extra.name} has no type, only nulls")
        else:
            # Rows that are there already have no value for it.
            merged.append(_nullable(extra))
    return tuple(merged), problems


def _nullable(field: Field) -> Field:
    return attrs.evolve(field, nullable=True, type=_nullable_type(field.type))


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_nullable(field) for field in fields))
        case ArrayType(element):
            return ArrayType(_nullable_type(element))
        case MapType(key, value):
            return MapType(_nullable_type(key), _nullable_type(value))
        case _:
            return data_type


def _merged_field(given: Field, field: Field, prefix: str, *, merge: bool) -> tuple[Field, list[str]]:
    path = f"{prefix}{field.name}"
    if given.type == field.type or given.type == VOID or _fits_into(given.type, field.type):
        return field, []
    if isinstance(given.type, StructType) and isinstance(field.type, StructType):
        members, problems = _merged(given.type.fields, field.type.fields, f"{path}.", merge=merge)
        return attrs.evolve(field, type=StructType(members)), problems
    nested = _merged_nested(given.type, field, path, merge=merge)
    if nested is not None:
        return nested
    if _widens(field.type, given.type):
        if merge:
            change = {"fromType": str(field.type), "toType": str(given.type)}
            return _recorded(attrs.evolve(field, type=given.type), [change]), []
        return field, [f"{path} is {field.type} and the data's type {given.type} is wider"]
    return field, [f"{path} is {field.type} and the data has {given.type}"]


def _merged_nested(given: DataType, field: Field, path: str, *, merge: bool) -> tuple[Field, list[str]] | None:
    def inner(have: DataType, want: DataType, name: str) -> tuple[Field, list[str]]:
        return _merged_field(Field(name=name, type=have), Field(name=name, type=want), f"{path}.", merge=merge)

    if isinstance(given, ArrayType) and isinstance(field.type, ArrayType):
        element, problems = inner(given.element, field.type.element, "element")
        array = ArrayType(element.type, field.type.contains_null)
        return _recorded(attrs.evolve(field, type=array), _changes_below(element)), problems
    if isinstance(given, MapType) and isinstance(field.type, MapType):
        key, problems = inner(given.key, field.type.key, "key")
        value, more = inner(given.value, field.type.value, "value")
        both = MapType(key.type, value.type, field.type.value_contains_null)
        changes = [*_changes_below(key), *_changes_below(value)]
        return _recorded(attrs.evolve(field, type=both), changes), problems + more
    return None


def _fits_into(given: DataType, wanted: DataType) -> bool:
    """Whether every value of the one type is a value of the other."""
    if given in INTEGRAL and wanted in INTEGRAL:
        return INTEGRAL.index(given) <= INTEGRAL.index(wanted)
    if given in INTEGRAL and isinstance(wanted, DecimalType):
        return wanted.precision - wanted.scale >= _DIGITS[given]
    if isinstance(given, DecimalType) and isinstance(wanted, DecimalType):
        return wanted.scale >= given.scale and wanted.precision - wanted.scale >= given.precision - given.scale
    if wanted == DOUBLE:
        return given == FLOAT or given in (BYTE, SHORT, INTEGER)
    return wanted == FLOAT and given in (BYTE, SHORT)


def _widens(old: DataType, new: DataType) -> bool:
    """Whether the protocol lets a column of the one type become the other."""
    return (old == DATE and new == TIMESTAMP_NTZ) or (
        (old != FLOAT or new == DOUBLE) and _fits_into(old, new) and new != FLOAT
    )


def _recorded(field: Field, changes: list[dict[str, str]]) -> Field:
    if not changes:
        return field
    known = [*_changes(field), *changes]
    metadata = {**dict(field.metadata), TYPE_CHANGES: msgspec.json.encode(known).decode()}
    return attrs.evolve(field, metadata=tuple(metadata.items()))


def _changes_below(inner: Field) -> list[dict[str, str]]:
    # Elements, keys and values have no metadata of their own: the field around them tells by a path.
    return [
        {**change, "fieldPath": f"{inner.name}.{change['fieldPath']}" if "fieldPath" in change else inner.name}
        for change in _changes(inner)
    ]


def _changes(field: Field) -> list[dict[str, str]]:
    changes: list[dict[str, str]] = msgspec.json.decode(dict(field.metadata).get(TYPE_CHANGES, "[]"))
    return changes
