"""Schemas between the text of the log and values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from tablespec.errors import CorruptLogError, UnsupportedTableError
from tablespec.formats.delta.schema_json import format_schema, metadata_of, parse_schema
from tablespec.model.schema import (
    DATE,
    INTEGER,
    LONG,
    STRING,
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


def column(type_: object, **given: object) -> str:
    """The text of a schema with one column `x`."""
    return json.dumps({"type": "struct", "fields": [{"name": "x", "type": type_, "nullable": True, **given}]})


def type_of(type_: object) -> DataType:
    return parse_schema(column(type_, metadata={}), "table", mapped=False).fields[0].type


@given(schema=schemas)
def test_a_schema_is_read_back_from_its_text(schema):
    assert parse_schema(format_schema(schema), "table", mapped=False) == schema


def test_the_text_is_what_spark_writes():
    member = Field(name="day", type=DATE, nullable=False)
    schema = Schema(
        (
            Field(name="id", type=LONG, nullable=False, metadata=(("comment", '"the key"'),)),
            Field(name="price", type=DecimalType(10, 2)),
            Field(name="tags", type=MapType(STRING, ArrayType(StructType((member,)), contains_null=False))),
        )
    )

    assert json.loads(format_schema(schema)) == {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}},
            {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}},
            {
                "name": "tags",
                "type": {
                    "type": "map",
                    "keyType": "string",
                    "valueType": {
                        "type": "array",
                        "elementType": {
                            "type": "struct",
                            "fields": [{"name": "day", "type": "date", "nullable": False, "metadata": {}}],
                        },
                        "containsNull": False,
                    },
                    "valueContainsNull": True,
                },
                "nullable": True,
                "metadata": {},
            },
        ],
    }


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("decimal(38,18)", DecimalType(38, 18)),
        ("decimal( 5 , 2 )", DecimalType(5, 2)),
        ("decimal", DecimalType(10, 0)),
        ("int", INTEGER),
        ("bigint", LONG),
        ("null", VOID),
        ({"type": "array", "elementType": "int"}, ArrayType(INTEGER)),
        ({"type": "map", "keyType": "string", "valueType": "long"}, MapType(STRING, LONG)),
    ],
)
def test_types_as_old_writers_spell_them_are_understood(text, data_type):
    assert type_of(text) == data_type


@pytest.mark.parametrize(
    "text",
    ["interval", "geometry(4326)", "varchar(5)", "decimal(39,0)", "decimal(5,6)", "decimal(0,0)", {"type": "udt"}],
)
def test_a_type_that_tables_here_cannot_have_is_refused_by_name(text):
    with pytest.raises(UnsupportedTableError) as raised:
        type_of(text)

    assert (text if isinstance(text, str) else text["type"]) in raised.value.feature


def test_a_field_without_metadata_or_nullability_has_the_usual_ones():
    text = '{"type":"struct","fields":[{"name":"x","type":"long"},{"name":"y","type":"long","metadata":null}]}'

    assert parse_schema(text, "table", mapped=False).fields == (
        Field(name="x", type=LONG),
        Field(name="y", type=LONG),
    )


MAPPED = {"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "col-1"}


def test_physical_names_and_ids_count_at_every_depth_of_a_mapped_table():
    inner = {"type": "struct", "fields": [{"name": "y", "type": "long", "nullable": True, "metadata": MAPPED}]}
    text = column({"type": "array", "elementType": inner}, metadata=MAPPED)

    (field,) = parse_schema(text, "table", mapped=True)

    assert (field.name, field.stored_name, field.field_id) == ("x", "col-1", 7)
    (member,) = field.type.element.fields
    assert (member.name, member.stored_name, member.field_id) == ("y", "col-1", 7)


def test_physical_names_and_ids_are_only_remembered_by_a_table_that_is_not_mapped():
    text = column("long", metadata=MAPPED)

    schema = parse_schema(text, "table", mapped=False)

    assert (schema.fields[0].stored_name, schema.fields[0].field_id) == ("x", None)
    assert json.loads(format_schema(schema)) == json.loads(text)


def test_metadata_of_a_field_is_given_as_values():
    (field,) = parse_schema(column("long", metadata={"a": {"b": [1, "x"]}, "c": None}), "table", mapped=False)

    assert metadata_of(field, "a") == {"b": [1, "x"]}
    assert metadata_of(field, "c") is None
    assert metadata_of(field, "missing") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "5",
        "null",
        "{}",
        '{"fields":5}',
        '{"fields":[5]}',
        '{"fields":[{"name":"x"}]}',
        '{"fields":[{"type":"long"}]}',
        column(5),
        column(None),
        column({}),
        column({"type": "array"}),
        column({"type": "map", "keyType": "string"}),
        column({"type": "struct", "fields": None}),
        column("long", metadata=5),
        column("long", metadata={"delta.columnMapping.id": "seven"}),
    ],
)
def test_a_text_that_is_no_schema_is_a_damaged_log(text):
    with pytest.raises(CorruptLogError, match=r"metaData\.schemaString"):
        parse_schema(text, "table", mapped=True)
