"""Column mapping: every field under an id and a physical name of its own, for ever."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs
from hypothesis import given

from tablespec.formats.delta.mapping import mapped
from tablespec.formats.delta.schema_json import format_schema, parse_schema
from tablespec.model.schema import LONG, STRING, ArrayType, DataType, Field, MapType, Schema, StructType
from tests.unit.formats.delta.random_schemas import schemas


def every_field(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        yield field
        yield from below(field.type)


def below(data_type: DataType) -> Iterator[Field]:
    match data_type:
        case StructType(fields):
            yield from every_field(fields)
        case ArrayType(element):
            yield from below(element)
        case MapType(key, value):
            yield from itertools.chain(below(key), below(value))


def test_fields_of_every_depth_get_ids_in_their_order():
    inner = StructType((Field(name="a", type=LONG), Field(name="b", type=STRING)))
    schema = Schema((Field(name="x", type=MapType(inner, ArrayType(inner))), Field(name="y", type=LONG)))
    names = (f"col-{number}" for number in itertools.count())

    found, greatest = mapped(schema, 4, lambda: next(names))

    given = [(field.name, field.field_id, field.physical_name) for field in every_field(found.fields)]
    assert given == [
        ("x", 5, "col-0"),
        ("a", 6, "col-1"),
        ("b", 7, "col-2"),
        ("a", 8, "col-3"),
        ("b", 9, "col-4"),
        ("y", 10, "col-5"),
    ]
    assert greatest == 10


@given(schema=schemas)
def test_ids_and_physical_names_are_unique(schema):
    found, greatest = mapped(schema, 100)

    every = list(every_field(found.fields))
    assert sorted(field.field_id for field in every) == list(range(101, greatest + 1))
    assert len({field.physical_name for field in every}) == len(every)


@given(schema=schemas)
def test_a_mapped_schema_is_read_back_from_its_text(schema):
    found, _ = mapped(schema, 0)

    assert parse_schema(format_schema(found), "table", mapped=True) == found


@given(schema=schemas)
def test_mapping_again_changes_nothing(schema):
    found = mapped(schema, 0)

    assert mapped(*found) == found


def test_only_new_fields_get_an_id_when_a_table_grows():
    old, greatest = mapped(Schema((Field(name="s", type=StructType((Field(name="a", type=LONG),))),)), 0)
    (struct,) = old.fields
    grown = attrs.evolve(struct, type=StructType((*struct.type.fields, Field(name="b", type=LONG))))

    found, now = mapped(Schema((grown, Field(name="t", type=LONG))), greatest)

    assert [(field.name, field.field_id) for field in every_field(found.fields)] == [
        ("s", 1),
        ("a", 2),
        ("b", 3),
        ("t", 4),
    ]
    assert now == 4
    assert found.fields[0].physical_name == struct.physical_name


def test_a_field_keeps_the_physical_name_that_it_has():
    found, _ = mapped(Schema((Field(name="new", type=LONG, physical_name="old"),)), 0)

    assert (found.fields[0].stored_name, found.fields[0].field_id) == ("old", 1)
