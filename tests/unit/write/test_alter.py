import pyarrow as pa
import pytest

import tablespec
from tablespec.arrow.schema import schema_of
from tablespec.errors import (
    ColumnNotFoundError,
    ConstraintViolatedError,
    InvalidOptionError,
    InvalidPredicateError,
    InvalidPropertyError,
    InvalidSchemaError,
    SchemaMismatchError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tablespec.model.schema import DATE, LONG, STRING, VOID, ArrayType, Field, Schema, StructType
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2], "city": ["sf", None]})


@pytest.fixture
def table(tmp_path):
    table = tablespec.create_table(str(tmp_path), ROWS.schema)
    table.append(ROWS)
    return table


def columns(**types):
    return Schema(tuple(Field(name=name, type=kind) for name, kind in types.items()))


# --- columns ---


def test_added_columns_are_null_in_the_rows_that_are_there(table, tmp_path):
    changed = table.add_columns(columns(day=DATE, tags=ArrayType(STRING)))

    assert changed == table.timeline.latest()
    assert_same_rows(table.scan(), [(1, "sf", None, None), (2, None, None, None)])
    assert table.scan("day is null").count() == 2
    assert_same_rows(table.scan(at=1), [(1, "sf"), (2, None)])
    assert actions_of(tmp_path, 2, "add") == []


def test_added_columns_may_be_given_as_arrow(table):
    table.add_columns(pa.schema({"n": pa.int64(), "s": pa.struct({"x": pa.string()})}))

    wanted = schema_of(pa.schema({"n": pa.int64(), "s": pa.struct({"x": pa.string()})}))
    assert table.schema.fields[-2:] == wanted.fields


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda table: table.add_columns([pa.field("n", pa.int64())]),
            "schema is a list; expected a pyarrow Schema",
        ),
        (lambda table: table.add_constraint(5, "id > 0"), "name is 5; expected what the constraint is called"),
        (lambda table: table.add_constraint("", "id > 0"), "name is ''; expected what the constraint is called"),
        (lambda table: table.upgrade_protocol([1]), "features is .1.; expected the names of features"),
        (lambda table: table.upgrade_protocol(None), "features is None; expected the names of features"),
        (lambda table: table.set_properties([("a", "b")]), "properties is .*; expected names with values"),
    ],
)
def test_arguments_that_mean_nothing_are_refused_and_nothing_changes(table, tmp_path, change, told):
    before = contents(tmp_path)

    with pytest.raises(InvalidOptionError, match=told):
        change(table)

    assert contents(tmp_path) == before


def test_added_columns_of_a_mapped_table_get_ids(tmp_path):
    table = tablespec.create_table(str(tmp_path), ROWS.schema, properties={"delta.columnMapping.mode": "name"})
    table.append(ROWS)
    inner = StructType((Field(name="a", type=LONG),))

    table.add_columns(columns(s=inner))
    table.append(pa.table({"id": [3], "s": [{"a": 7}]}))

    assert_same_rows(table.scan(), [(1, "sf", None), (2, None, None), (3, None, {"a": 7})])
    assert [field.field_id for field in table.schema] == [1, 2, 3]
    assert table.schema.field("s", "a").field_id == 4
    assert table.properties["delta.columnMapping.maxColumnId"] == "4"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_no_two_columns_ever_share_an_id(tmp_path, mode):
    table = tablespec.create_table(str(tmp_path), ROWS.schema, properties={"delta.columnMapping.mode": mode})
    table.append(pa.table({"id": [1], "a": ["x"]}), merge_schema=True)
    table.append(pa.table({"id": [2], "b": ["y"]}), merge_schema=True)
    table.add_columns(columns(c=STRING))
    table.append(pa.table({"id": [3], "a": ["p"], "b": ["q"], "c": ["r"]}))

    assert [field.field_id for field in table.schema] == [1, 2, 3, 4, 5]
    assert_same_rows(
        table.scan(columns=["id", "a", "b", "c"]), [(1, "x", None, None), (2, None, "y", None), (3, "p", "q", "r")]
    )


@pytest.mark.parametrize(
    ("new", "error", "why"),
    [
        (
            Schema((Field(name="x", type=LONG, nullable=False),)),
            InvalidSchemaError,
            "the new columns x must be nullable",
        ),
        (columns(CITY=STRING), InvalidSchemaError, "the table has the columns CITY already"),
        (Schema((Field(name="x", type=LONG), Field(name="X", type=LONG))), SchemaMismatchError, "more than once"),
        (columns(x=VOID), SchemaMismatchError, "the new column x has no type"),
    ],
    ids=["not null", "there already", "twice", "no type"],
)
def test_columns_that_cannot_be_added_are_refused_and_nothing_changes(table, tmp_path, new, error, why):
    before = contents(tmp_path)

    with pytest.raises(error, match=why):
        table.add_columns(new)

    assert contents(tmp_path) == before


# --- constraints ---


def test_a_constraint_holds_for_later_rows(table, tmp_path):
    table.add_constraint("Positive", "id > 0")

    assert table.properties["delta.constraints.positive"] == "id > 0"
    with pytest.raises(ConstraintViolatedError, match="positive"):
        table.append(pa.table({"id": [-1]}))
    (info,) = actions_of(tmp_path, 2, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == (
        "ADD CONSTRAINT",
        {"name": "positive", "expr": "id > 0"},
    )


@pytest.mark.parametrize("predicate", ["id > 1", "city = 'sf'"], ids=["false", "null"])
def test_a_constraint_that_a_row_breaks_already_is_refused(table, tmp_path, predicate):
    before = contents(tmp_path)

    with pytest.raises(ConstraintViolatedError, match="c \\("):
        table.add_constraint("c", predicate)

    assert contents(tmp_path) == before


def test_a_constraint_is_named_once(table, tmp_path):
    table.add_constraint("c", "id > 0")
    before = contents(tmp_path)

    with pytest.raises(InvalidSchemaError, match="the table has a constraint c already: id > 0"):
        table.add_constraint("C", "id > -1")

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("idd > 0", ColumnNotFoundError),
        ("id >", InvalidPredicateError),
        ("id = 'x'", TypeMismatchError),
        ("soundex(city) = 'S100'", UnsupportedOperatorError),
    ],
)
def test_a_constraint_that_cannot_be_understood_is_refused_as_any_predicate(table, tmp_path, predicate, error):
    before = contents(tmp_path)

    with pytest.raises(error):
        table.add_constraint("c", predicate)

    assert contents(tmp_path) == before


def test_a_constraint_can_be_dropped_as_a_property(table):
    table.add_constraint("c", "id > 0")

    table.set_properties({"delta.constraints.c": None})
    table.append(pa.table({"id": [-1]}))

    assert table.scan("id < 0").count() == 1


# --- properties ---


@pytest.mark.parametrize("text", ["id > 1", "id >", "id > 0"])
def test_a_constraint_is_no_property_to_set(table, tmp_path, text):
    table.add_constraint("positive", "id > 0")
    before = contents(tmp_path)

    with pytest.raises(InvalidPropertyError, match="add_constraint looks whether all rows satisfy it"):
        table.set_properties({"delta.constraints.other": text})
    with pytest.raises(InvalidPropertyError, match="add_constraint looks whether all rows satisfy it"):
        table.set_properties({"DELTA.Constraints.other": text})
    assert contents(tmp_path) == before

    table.set_properties({"delta.constraints.positive": "id > 0", "owner": "me"})
    assert table.properties["owner"] == "me"


def test_properties_are_set_and_dropped(table, tmp_path):
    table.set_properties({"a": "1", "b": "2"})
    table.set_properties({"a": None, "c": "3"})

    assert {name: value for name, value in table.properties.items() if len(name) == 1} == {"b": "2", "c": "3"}
    (info,) = actions_of(tmp_path, 3, "commitInfo")
    assert info["operationParameters"] == {"properties": "['a', 'c']"}


def test_properties_that_are_given_out_are_a_copy(table):
    table.properties["a"] = "1"

    assert "a" not in table.properties


def test_an_upgrade_is_an_operation_of_its_own(table, tmp_path):
    table.upgrade_protocol(["deletionVectors"])

    (info,) = actions_of(tmp_path, 2, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("UPGRADE PROTOCOL", {"features": "deletionVectors"})
    assert_same_rows(table.scan(), [(1, "sf"), (2, None)])
