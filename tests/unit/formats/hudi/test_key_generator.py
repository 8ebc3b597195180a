from datetime import date

import pytest

from tablespec.formats.hudi.key_generator import (
    FieldKind,
    KeyGenerator,
    PartitionField,
    key_generator_of,
    partition_values,
    shown_schema,
)
from tablespec.formats.hudi.properties import table_properties
from tablespec.model.schema import BOOLEAN, BYTE, DATE, DOUBLE, INTEGER, LONG, STRING, TIMESTAMP, Field, Schema

SCHEMA = Schema(
    (
        Field(name="id", type=STRING, nullable=False),
        Field(name="part", type=STRING, nullable=False),
        Field(name="sub", type=INTEGER),
        Field(name="at", type=LONG),
    )
)


def generator(*names, hive_style=False, url_encoded=False, kind=FieldKind.SIMPLE):
    fields = tuple(PartitionField(name, kind) for name in names)
    return KeyGenerator(fields=fields, hive_style=hive_style, url_encoded=url_encoded)


def generator_of(name, fields, **entries):
    given = {
        "hoodie.table.version": "6",
        "hoodie.table.keygenerator.class": name,
        "hoodie.table.partition.fields": fields,
    }
    return key_generator_of(table_properties(tuple({**given, **entries}.items())))


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", "part", [("part", FieldKind.SIMPLE)]),
        ("SIMPLE_AVRO", "part", [("part", FieldKind.SIMPLE)]),
        ("COMPLEX", "part,sub", [("part", FieldKind.SIMPLE), ("sub", FieldKind.SIMPLE)]),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", "part", [("part", FieldKind.SIMPLE)]),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", "at", [("at", FieldKind.TIMESTAMP)]),
        ("CUSTOM", "part:SIMPLE,at:TIMESTAMP", [("part", FieldKind.SIMPLE), ("at", FieldKind.TIMESTAMP)]),
        (
            "org.apache.hudi.keygen.CustomKeyGenerator",
            "part,at",
            [("part", FieldKind.UNKNOWN), ("at", FieldKind.UNKNOWN)],
        ),
        ("NON_PARTITION", "", []),
        ("org.apache.hudi.keygen.NonpartitionedKeyGenerator", "", []),
        ("com.example.OwnKeyGenerator", "part", [("part", FieldKind.UNKNOWN)]),
        ("", "part", [("part", FieldKind.UNKNOWN)]),
    ],
)
def test_the_key_generator_is_known_by_class_or_type(name, fields, expected):
    assert [(field.name, field.kind) for field in generator_of(name, fields).fields] == expected


def test_a_plain_path_holds_the_values_in_order():
    assert partition_values(generator("part", "sub"), SCHEMA, ["q/2"]) == [["q"], [2]]


def test_a_hive_style_path_names_them():
    assert partition_values(generator("part", "sub", hive_style=True), SCHEMA, ["part=q/sub=2"]) == [["q"], [2]]


def test_a_path_whose_style_is_not_as_announced_tells_nothing():
    assert partition_values(generator("part", hive_style=True), SCHEMA, ["q"]) == [None]
    assert partition_values(generator("part"), SCHEMA, ["part=q"]) == [None]


def test_an_equals_sign_in_a_plain_path_belongs_to_the_value():
    assert partition_values(generator("part"), SCHEMA, ["q=1&r"]) == [["q=1&r"]]


@pytest.mark.parametrize(
    ("segment", "value"),
    [
        ("a%2Fb", "a/b"),
        ("colon%3Ax", "colon:x"),
        ("per%25cent", "per%cent"),
        ("q%3D1&r", "q=1&r"),
        ("with space", "with space"),
    ],
)
def test_an_encoded_path_is_decoded(segment, value):
    assert partition_values(generator("part", url_encoded=True), SCHEMA, [segment]) == [[value]]


def test_a_percent_sign_stays_where_paths_are_not_encoded():
    assert partition_values(generator("part"), SCHEMA, ["per%25cent"]) == [["per%25cent"]]


def test_the_default_partition_holds_nulls():
    assert partition_values(generator("sub"), SCHEMA, ["__HIVE_DEFAULT_PARTITION__"]) == [[None]]


def test_levels_that_do_not_fit_the_fields_tell_nothing():
    assert partition_values(generator("part"), SCHEMA, ["2024/01/15"]) == [None]
    assert partition_values(generator("part", "sub"), SCHEMA, ["a/b/2"]) == [None, None]


def test_a_field_is_told_by_all_paths_or_by_none():
    paths = ["q/2", "r/x", "__HIVE_DEFAULT_PARTITION__/3"]

    assert partition_values(generator("part", "sub"), SCHEMA, paths) == [["q", "r", None], None]
    assert partition_values(generator("part", "sub"), SCHEMA, [*paths, "s"]) == [None, None]
    assert partition_values(generator("part", "sub"), SCHEMA, []) == [[], []]


def test_a_formatted_time_does_not_tell_the_time():
    assert partition_values(generator("at", kind=FieldKind.TIMESTAMP), SCHEMA, ["20240115"]) == [None]


def test_a_column_inside_a_struct_is_told_by_files_alone():
    assert partition_values(generator("person.name"), SCHEMA, ["ann"]) == [None]


@pytest.mark.parametrize(
    ("data_type", "segment", "expected"),
    [
        (LONG, "-5", [-5]),
        (BYTE, "127", [127]),
        (BYTE, "128", None),
        (LONG, "1.0", None),
        (BOOLEAN, "true", [True]),
        (BOOLEAN, "TRUE", None),
        (DATE, "2024-02-29", [date(2024, 2, 29)]),
        (DATE, "19782", None),
        (DATE, "2024-02-30", None),
        (DOUBLE, "1.5", None),
        (TIMESTAMP, "2024-02-29 00:00:00", None),
    ],
)
def test_a_value_is_told_only_where_its_text_leaves_no_doubt(data_type, segment, expected):
    schema = Schema((Field(name="c", type=data_type),))

    assert partition_values(generator("c"), schema, [segment]) == [expected]


def test_partition_columns_are_nullable():
    assert shown_schema(SCHEMA, generator("part")).field("part").nullable
    assert not shown_schema(SCHEMA, generator("part")).field("id").nullable


def test_the_timestamp_generator_shows_its_column_as_a_string():
    timed = generator_of("TIMESTAMP", "at")

    assert [str(field.type) for field in shown_schema(SCHEMA, timed)] == ["string", "string", "integer", "string"]


def test_the_custom_generator_shows_its_columns_as_they_are():
    assert shown_schema(SCHEMA, generator_of("CUSTOM", "part:SIMPLE,at:TIMESTAMP")).field("at").type == LONG
