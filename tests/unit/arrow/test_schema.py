"""Schemas between tables, Arrow and files."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from tablespec.arrow.schema import FIELD_ID, arrow_schema, arrow_type, schema_of, stored_field
from tablespec.errors import UnsupportedTypeError
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
    VARIANT,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)
from tests.unit.formats.delta.random_schemas import schemas


def type_of(arrow: pa.DataType) -> DataType:
    return schema_of(pa.schema([pa.field("x", arrow)])).fields[0].type


@pytest.mark.parametrize(
    ("data_type", "arrow"),
    [
        (BOOLEAN, pa.bool_()),
        (BYTE, pa.int8()),
        (SHORT, pa.int16()),
        (INTEGER, pa.int32()),
        (LONG, pa.int64()),
        (FLOAT, pa.float32()),
        (DOUBLE, pa.float64()),
        (STRING, pa.string()),
        (BINARY, pa.binary()),
        (DATE, pa.date32()),
        (TIMESTAMP, pa.timestamp("us", "UTC")),
        (TIMESTAMP_NTZ, pa.timestamp("us")),
        (DecimalType(38, 18), pa.decimal128(38, 18)),
        (VOID, pa.null()),
        (ArrayType(LONG, contains_null=False), pa.list_(pa.field("element", pa.int64(), nullable=False))),
        (MapType(STRING, LONG), pa.map_(pa.string(), pa.int64())),
        (
            StructType((Field(name="a", type=LONG, nullable=False), Field(name="b", type=ArrayType(STRING)))),
            pa.struct(
                [
                    pa.field("a", pa.int64(), nullable=False),
                    pa.field("b", pa.list_(pa.field("element", pa.string()))),
                ]
            ),
        ),
    ],
    ids=lambda value: str(value) if not isinstance(value, pa.DataType) else "",
)
def test_every_type_has_its_arrow_type_and_back(data_type, arrow):
    assert arrow_type(data_type).equals(arrow)
    assert type_of(arrow) == data_type


@pytest.mark.parametrize(
    ("arrow", "data_type"),
    [
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.float16(), FLOAT),
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.binary(16), BINARY),
        (pa.date64(), DATE),
        (pa.timestamp("ns", "Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.decimal256(38, 2), DecimalType(38, 2)),
        (pa.decimal32(5, 2), DecimalType(5, 2)),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.large_list(pa.int32()), ArrayType(INTEGER)),
        (pa.list_(pa.int32(), 3), ArrayType(INTEGER)),
        (pa.list_view(pa.int32()), ArrayType(INTEGER)),
        (pa.large_list_view(pa.int32()), ArrayType(INTEGER)),
        (pa.list_(pa.dictionary(pa.int32(), pa.large_string())), ArrayType(STRING)),
    ],
    ids=str,
)
def test_other_arrow_types_become_the_type_that_holds_all_their_values(arrow, data_type):
    assert type_of(arrow) == data_type


@pytest.mark.parametrize(
    ("arrow", "column"),
    [
        (pa.time64("us"), "x"),
        (pa.duration("us"), "x"),
        (pa.month_day_nano_interval(), "x"),
        (pa.decimal256(39, 0), "x"),
        (pa.decimal128(5, -2), "x"),
        (pa.struct([("t", pa.time32("s"))]), "x.t"),
        (pa.list_(pa.time32("s")), "x.element"),
        (pa.map_(pa.string(), pa.duration("s")), "x.value"),
    ],
    ids=str,
)
def test_a_type_that_tables_cannot_hold_is_told_with_its_column(arrow, column):
    with pytest.raises(UnsupportedTypeError) as raised:
        type_of(arrow)

    assert raised.value.column == column


@given(schema=schemas)
def test_a_schema_is_read_back_from_its_arrow_schema(schema):
    def plain(type_: DataType) -> DataType:
        # Metadata stays in the log, and a variant is a struct of its two parts to Arrow.
        match type_:
            case StructType(fields):
                return StructType(tuple(bare(field) for field in fields))
            case ArrayType(element, contains_null):
                return ArrayType(plain(element), contains_null)
            case MapType(key, value, value_contains_null):
                return MapType(plain(key), plain(value), value_contains_null)
            case _ if type_ == VARIANT:
                return schema_of(pa.schema([pa.field("v", arrow_type(VARIANT))])).fields[0].type
            case _:
                return type_

    def bare(field: Field) -> Field:
        return Field(name=field.name, type=plain(field.type), nullable=field.nullable)

    assert schema_of(arrow_schema(schema)) == Schema(tuple(bare(field) for field in schema))


def test_files_hold_physical_names_and_ids_at_every_level():
    def field(name: str, type_: DataType, number: int) -> Field:
        return Field(name=name, type=type_, physical_name=f"col-{number}", field_id=number)

    inner = StructType((field("a", LONG, 3),))
    stored = stored_field(field("x", MapType(STRING, ArrayType(inner)), 1))

    assert (stored.name, stored.metadata) == ("col-1", {FIELD_ID: b"1"})
    member = stored.type.item_type.value_type.field(0)
    assert (member.name, member.metadata) == ("col-3", {FIELD_ID: b"3"})


def test_files_of_a_table_that_is_not_mapped_hold_no_ids():
    stored = stored_field(Field(name="x", type=StructType((Field(name="a", type=LONG),))))

    assert stored.metadata is None
    assert stored.type.field(0).metadata is None
    assert stored.type.equals(arrow_type(StructType((Field(name="a", type=LONG),))))
