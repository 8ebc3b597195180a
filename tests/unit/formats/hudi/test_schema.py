import json

import pytest

from tablespec.errors import UnsupportedTypeError
from tablespec.formats.hudi.schema import parse_avro_schema
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)


def columns(*fields):
    return parse_avro_schema(json.dumps({"type": "record", "name": "row", "namespace": "h", "fields": list(fields)}))


def type_of(avro):
    (field,) = columns({"name": "c", "type": avro})
    return field.type


@pytest.mark.parametrize(
    ("avro", "expected"),
    [
        ("boolean", BOOLEAN),
        ("int", INTEGER),
        ("long", LONG),
        ("float", FLOAT),
        ("double", DOUBLE),
        ("string", STRING),
        ("bytes", BINARY),
        ({"type": "string", "avro.java.string": "String"}, STRING),
        ({"type": "string", "logicalType": "uuid"}, STRING),
        ({"type": "int", "logicalType": "date"}, DATE),
        ({"type": "long", "logicalType": "timestamp-micros"}, TIMESTAMP),
        ({"type": "long", "logicalType": "timestamp-millis"}, TIMESTAMP),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, TIMESTAMP_NTZ),
        ({"type": "long", "logicalType": "time-micros"}, LONG),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, DecimalType(9, 2)),
        ({"type": "fixed", "name": "d", "size": 9, "logicalType": "decimal", "precision": 20}, DecimalType(20, 0)),
        ({"type": "fixed", "name": "f", "size": 4}, BINARY),
        ({"type": "enum", "name": "e", "symbols": ["a", "b"]}, STRING),
        ({"type": "array", "items": ["null", "int"]}, ArrayType(INTEGER, True)),
        ({"type": "array", "items": "int"}, ArrayType(INTEGER, False)),
        ({"type": "map", "values": ["null", "long"]}, MapType(STRING, LONG, True)),
        ({"type": {"type": "long", "logicalType": "timestamp-micros"}}, TIMESTAMP),
    ],
    ids=str,
)
def test_an_avro_type_becomes_a_column_type(avro, expected):
    assert type_of(avro) == expected


def test_a_union_with_null_is_a_nullable_column():
    assert columns(
        {"name": "a", "type": ["null", "int"]}, {"name": "b", "type": ["int", "null"]}, {"name": "c", "type": "int"}
    ) == Schema(
        (
            Field(name="a", type=INTEGER, nullable=True),
            Field(name="b", type=INTEGER, nullable=True),
            Field(name="c", type=INTEGER, nullable=False),
        )
    )


def test_records_nest():
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "string"]}]}

    assert type_of(["null", {"type": "array", "items": inner}]) == ArrayType(
        StructType((Field(name="x", type=STRING),)), False
    )


def test_a_named_type_can_be_referred_to_with_or_without_its_namespace():
    fixed = {"type": "fixed", "name": "amount", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}

    schema = columns(
        {"name": "a", "type": fixed}, {"name": "b", "type": "amount"}, {"name": "c", "type": ["null", "h.amount"]}
    )

    assert [field.type for field in schema] == [DecimalType(9, 2)] * 3


def test_meta_columns_of_hudi_are_left_out():
    schema = columns(
        {"name": "_hoodie_commit_time", "type": "string"},
        {"name": "_hoodie_operation", "type": "string"},
        {"name": "_hoodie_is_deleted", "type": "boolean"},
        {"name": "id", "type": "string"},
    )

    assert schema.names == ("_hoodie_is_deleted", "id")


@pytest.mark.parametrize(
    "avro",
    [
        ["null", "int", "string"],
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "fixed", "name": "v", "size": 8, "logicalType": "vector"},
    ],
)
def test_a_type_that_a_table_cannot_hold_is_refused(avro):
    with pytest.raises(UnsupportedTypeError, match="column c "):
        type_of(avro)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"int"',
        '{"type": "record"}',
        '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "nope"}]}',
    ],
)
def test_text_that_is_no_avro_record_is_an_error(text):
    with pytest.raises(ValueError):
        parse_avro_schema(text)
