import pickle

import pytest

from tablespec.errors import ColumnNotFoundError
from tablespec.model.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    Field,
    MapType,
    Primitive,
    Schema,
    StructType,
    near_names,
    repeated_names,
)

INNER = StructType((Field(name="X", type=LONG), Field(name="deep", type=StructType((Field(name="y", type=STRING),)))))
SCHEMA = Schema(
    (
        Field(name="id", type=LONG, nullable=False),
        Field(name="City", type=STRING),
        Field(name="pos", type=INNER),
        Field(name="tags", type=ArrayType(STRING)),
    )
)


def test_types_are_written_as_delta_writes_them():
    assert str(DecimalType(10, 2)) == "decimal(10,2)"
    assert str(ArrayType(MapType(STRING, INTEGER))) == "array<map<string,integer>>"
    assert str(INNER) == "struct<X:long,deep:struct<y:string>>"


def test_a_primitive_type_must_be_known():
    with pytest.raises(ValueError, match="geometry"):
        Primitive("geometry")


def test_a_column_is_found_by_its_path_in_any_case():
    assert SCHEMA.field("city").name == "City"
    assert SCHEMA.field("POS", "x").name == "X"
    assert SCHEMA.field("pos", "deep", "y").type == STRING


def test_a_name_that_fits_two_columns_in_another_case_finds_neither():
    schema = Schema((Field(name="Ab", type=LONG), Field(name="aB", type=LONG)))

    assert schema.field("aB").name == "aB"
    with pytest.raises(ColumnNotFoundError):
        schema.field("ab")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("cty",), "the table has no column 'cty'; did you mean City?"),
        (("pos", "z"), "the struct pos has no column 'pos.z'"),
        (("tags", "element"), "the struct tags has no column 'tags.element'"),
        (("id", "x"), "the struct id has no column 'id.x'"),
    ],
)
def test_a_column_that_is_not_there_is_told_with_near_names(path, text):
    with pytest.raises(ColumnNotFoundError) as caught:
        SCHEMA.field(*path)

    assert str(caught.value) == text


def test_an_empty_path_names_no_field():
    with pytest.raises(ValueError, match="an empty path names no field"):
        SCHEMA.field()


def test_columns_are_selected_in_the_order_given():
    assert SCHEMA.select(("pos", "id")).names == ("pos", "id")


def test_a_name_is_in_a_schema_exactly_as_it_is_spelled():
    assert "City" in SCHEMA
    assert "city" not in SCHEMA


def test_leaves_are_all_columns_outside_of_structs():
    assert [path for path, _ in SCHEMA.leaves()] == [("id",), ("City",), ("pos", "X"), ("pos", "deep", "y"), ("tags",)]


def test_names_inside_of_files_may_be_others():
    assert Field(name="a", type=LONG).stored_name == "a"
    assert Field(name="a", type=LONG, physical_name="col-1").stored_name == "col-1"


def test_schemas_hash_compare_by_all_fields_and_pickle():
    again = pickle.loads(pickle.dumps(SCHEMA))

    assert (again, hash(again)) == (SCHEMA, hash(SCHEMA))
    assert Schema(SCHEMA.fields[:3]) != SCHEMA
    assert Field(name="a", type=LONG) != Field(name="a", type=LONG, metadata=(("k", "1"),))


def test_near_names_are_few_and_close():
    assert near_names("ctiy", ["city", "country", "id"]) == ("city",)
    assert near_names("zzz", ["city", "country", "id"]) == ()
    assert len(near_names("a", ["aa", "ab", "ac", "ad", "ae"])) <= 3


def test_names_that_stand_twice_are_found_at_any_depth():
    twins = StructType((Field(name="a", type=LONG), Field(name="A", type=LONG)))
    fields = (
        Field(name="id", type=LONG),
        Field(name="ID", type=LONG),
        Field(name="s", type=twins),
        Field(name="m", type=MapType(STRING, ArrayType(twins))),
    )

    assert repeated_names(fields) == ("id", "s.a", "m.value.element.a")
    assert repeated_names(SCHEMA.fields) == ()
