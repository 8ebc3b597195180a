"""Between the schemas of tables and those of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import pyarrow as pa

from tablespec.errors import InvalidOptionError, UnsupportedTypeError
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Primitive,
    Schema,
    StructType,
)

FIELD_ID = b"PARQUET:field_id"

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    # Unshredded: the two parts as they lie in the file.
    "variant": pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary())]),
    "void": pa.null(),
}

_FROM_ARROW: tuple[tuple[pa.DataType, DataType], ...] = (
    (pa.bool_(), BOOLEAN),
    (pa.int8(), BYTE),
    (pa.int16(), SHORT),
    (pa.int32(), INTEGER),
    (pa.int64(), LONG),
    # Tables have no unsigned numbers: the next wider signed type holds every value.
    (pa.uint8(), SHORT),
    (pa.uint16(), INTEGER),
    (pa.uint32(), LONG),
    (pa.uint64(), DecimalType(20, 0)),
    (pa.float16(), FLOAT),
    (pa.float32(), FLOAT),
    (pa.float64(), DOUBLE),
    (pa.string(), STRING),
    (pa.large_string(), STRING),
    (pa.string_view(), STRING),
    (pa.binary(), BINARY),
    (pa.large_binary(), BINARY),
    (pa.binary_view(), BINARY),
    (pa.date32(), DATE),
    (pa.date64(), DATE),
    (pa.null(), VOID),
)


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds values of a column type."""
    match data_type:
        case Primitive(name):
            return _PRIMITIVES[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), contains_null))
        case MapType(key, value, value_contains_null):
            return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), value_contains_null))
        case StructType(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case _:
            assert_never(data_type)


def arrow_field(field: Field) -> pa.Field:
    """The Arrow field of a column, under its logical name."""
    return pa.field(field.name, arrow_type(field.type), field.nullable)


def columns_of(schema: Schema | pa.Schema) -> Schema:
    """The columns that somebody gives for a table, as a schema of our own or of Arrow."""
    if isinstance(schema, Schema):
        return schema
    if not isinstance(schema, pa.Schema):
        raise InvalidOptionError("schema", f"a {type(schema).__name__}", "a pyarrow Schema, such as data.schema")
    return schema_of(schema)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table, under logical names."""
    return pa.schema([arrow_field(field) for field in schema])


def stored_field(field: Field) -> pa.Field:
    """The Arrow field of a column as files hold it: physical names and field ids at every level."""
    metadata = {FIELD_ID: str(field.field_id).encode()} if field.field_id is not None else None
    return pa.field(field.stored_name, _stored_type(field.type), field.nullable, metadata)


def _stored_type(data_type: DataType) -> pa.DataType:
    match data_type:
        case StructType(fields):
            return pa.struct([stored_field(field) for field in fields])
        case ArrayType(element, contains_null):
            return pa.list_(pa.field("element", _stored_type(element), contains_null))
        case MapType(key, value, value_contains_null):
            return pa.map_(_stored_type(key), pa.field("value", _stored_type(value), value_contains_null))
        case _:
            return arrow_type(data_type)


def is_text(arrow: pa.DataType) -> bool:
    """Whether a type is one of texts that lie in one piece."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def without_views(arrow: pa.DataType) -> pa.DataType:
    """The type that holds the same values with every text and every binary in one piece."""
    return _with_leaves(arrow, _unviewed)


def as_numbers(arrow: pa.DataType) -> pa.DataType:
    """The type in which days and times are the numbers that they are stored as: Python knows no years beyond 9999."""
    return _with_leaves(arrow, _counted)


def _unviewed(leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(leaf):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(leaf) else leaf


def _counted(leaf: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(leaf):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(leaf) else leaf


def _with_leaves(arrow: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if pa.types.is_struct(arrow):
        members = [arrow.field(index) for index in range(arrow.num_fields)]
        return pa.struct([member.with_type(_with_leaves(member.type, leaf)) for member in members])
    if pa.types.is_map(arrow):
        key, value = (one.with_type(_with_leaves(one.type, leaf)) for one in (arrow.key_field, arrow.item_field))
        return pa.map_(key, value, arrow.keys_sorted)
    if pa.types.is_list(arrow):
        return pa.list_(arrow.value_field.with_type(_with_leaves(arrow.value_type, leaf)))
    if pa.types.is_large_list(arrow):
        return pa.large_list(arrow.value_field.with_type(_with_leaves(arrow.value_type, leaf)))
    return leaf(arrow)


def schema_of(arrow: pa.Schema) -> Schema:
    """The table schema that holds Arrow data of that schema."""
    return Schema(tuple(_field_of(field, field.name) for field in arrow))


def _field_of(field: pa.Field, path: str) -> Field:
    return Field(name=field.name, type=_type_of(field.type, path), nullable=field.nullable)


def _type_of(arrow: pa.DataType, path: str) -> DataType:
    for known, data_type in _FROM_ARROW:
        if arrow.equals(known):
            return data_type
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP if arrow.tz else TIMESTAMP_NTZ
    if pa.types.is_decimal(arrow):
        if arrow.precision > 38 or not 0 <= arrow.scale <= arrow.precision:
            raise UnsupportedTypeError(
                path, str(arrow), "decimals have at most 38 digits and a scale between 0 and their digits"
            )
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return BINARY
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return _type_of(arrow.value_type, path)
    return _nested_type_of(arrow, path)


def _nested_type_of(arrow: pa.DataType, path: str) -> DataType:
    if pa.types.is_struct(arrow):
        if not arrow.num_fields:
            raise UnsupportedTypeError(path, str(arrow), "a struct needs at least one member")
        members = [arrow.field(index) for index in range(arrow.num_fields)]
        return StructType(tuple(_field_of(member, f"{path}.{member.name}") for member in members))
    if pa.types.is_map(arrow):
        key, value = _type_of(arrow.key_type, f"{path}.key"), _type_of(arrow.item_type, f"{path}.value")
        return MapType(key, value, arrow.item_field.nullable)
    if (
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
        or pa.types.is_list_view(arrow)
        or pa.types.is_large_list_view(arrow)
    ):
        return ArrayType(_type_of(arrow.value_type, f"{path}.element"), arrow.value_field.nullable)
    raise UnsupportedTypeError(path, str(arrow))
