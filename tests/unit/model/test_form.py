"""The forms of files."""

from __future__ import annotations

import attrs
import pytest

from tablespec.model.form import stored_form
from tablespec.model.schema import INTEGER, LONG, STRING, ArrayType, DataType, Field, MapType, StructType

ID = Field(name="id", type=LONG)
NAME = Field(name="name", type=STRING)


def _struct(**members: DataType) -> StructType:
    return StructType(tuple(Field(name=name, type=kind) for name, kind in members.items()))


def test_files_with_the_same_columns_have_the_same_form() -> None:
    nullable = attrs.evolve(ID, nullable=False, metadata=(("comment", '"a key"'),))

    assert stored_form([ID, NAME]) == stored_form((nullable, NAME))


def test_a_column_that_is_renamed_in_the_table_alone_leaves_the_form_as_it_is() -> None:
    assert stored_form([attrs.evolve(ID, name="key", physical_name="id")]) == stored_form([ID])


@pytest.mark.parametrize(
    "fields",
    [
        [ID],
        [NAME, ID],
        [attrs.evolve(ID, type=INTEGER), NAME],
        [attrs.evolve(ID, physical_name="col-1"), NAME],
        [ID, NAME, Field(name="more", type=LONG)],
        [Field(name='id":long,"name', type=STRING)],
    ],
    ids=["fewer", "other order", "other type", "other name in files", "more", "a name like two columns"],
)
def test_other_columns_make_another_form(fields: list[Field]) -> None:
    assert stored_form(fields) != stored_form([ID, NAME])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_struct(a=LONG), _struct(b=LONG)),
        (_struct(a=LONG), _struct(a=LONG, b=LONG)),
        (ArrayType(_struct(a=LONG)), ArrayType(_struct(a=STRING))),
        (MapType(STRING, _struct(a=LONG)), MapType(STRING, _struct(b=LONG))),
    ],
    ids=["named otherwise", "more", "in arrays", "in maps"],
)
def test_other_members_make_another_form(one: DataType, other: DataType) -> None:
    assert stored_form([Field(name="s", type=one)]) != stored_form([Field(name="s", type=other)])
