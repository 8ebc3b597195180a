"""Bound values have a type in every part, and the whole has that of the column it goes into."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tablespec.errors import (
    ColumnNotFoundError,
    TypeMismatchError,
    UnsupportedOperatorError,
)
from tablespec.expr.bind_value import bind_value
from tablespec.expr.nodes import Column, Compare, Literal, Op, Scalar
from tablespec.expr.value import Call, Case, Cast, Function, Value, type_of
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

INNER = StructType((Field(name="City", type=STRING), Field(name="zip", type=INTEGER)))
TYPES: dict[str, DataType] = {
    "tiny": BYTE,
    "small": SHORT,
    "Month": INTEGER,
    "big": LONG,
    "single": FLOAT,
    "double": DOUBLE,
    "price": DecimalType(10, 2),
    "huge": DecimalType(38, 10),
    "name": STRING,
    "raw": BINARY,
    "flag": BOOLEAN,
    "day": DATE,
    "at": TIMESTAMP,
    "local": TIMESTAMP_NTZ,
    "address": INNER,
    "tags": ArrayType(STRING),
    "json": VARIANT,
    "nothing": VOID,
}
SCHEMA = Schema(tuple(Field(name=name, type=type_) for name, type_ in TYPES.items()))


def bound_type(text: str) -> str:
    return str(type_of(bind_value(text, SCHEMA)))


def test_columns_get_the_spelling_and_type_of_the_schema() -> None:
    assert bind_value("MONTH", SCHEMA) == Column(("Month",), INTEGER)
    assert bind_value("Address.CITY", SCHEMA) == Column(("address", "City"), STRING)


def test_unknown_columns_are_named_with_their_neighbours() -> None:
    with pytest.raises(ColumnNotFoundError, match="did you mean Month"):
        bind_value("mnth + 1", SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tiny + tiny", "byte"),
        ("tiny + 1", "integer"),
        ("tiny * small", "short"),
        ("month - 1", "integer"),
        ("month - big", "long"),
        ("month + 3000000000", "long"),
        ("month / 2", "double"),
        ("month % tiny", "integer"),
        ("single + single", "float"),
        ("single + 1", "double"),
        ("single / single", "double"),
        ("double * price", "double"),
        ("month + 1e0", "double"),
        ("price + price", "decimal(11,2)"),
        ("price * 1.1", "decimal(13,3)"),
        ("price * 2", "decimal(12,2)"),
        ("price * month", "decimal(21,2)"),
        ("price / 3", "decimal(14,6)"),
        ("price % 7", "decimal(3,2)"),
        ("huge * huge", "decimal(38,6)"),
        ("month * 0.5", "decimal(12,1)"),
        ("-price", "decimal(10,2)"),
        ("abs(tiny)", "byte"),
        ("month + NULL", "integer"),
        ("NULL + NULL", "integer"),
        ("nothing + price", "decimal(11,2)"),
    ],
)
def test_arithmetic_has_the_types_of_spark_and_keeps_integers_but_for_division(text: str, expected: str) -> None:
    assert bound_type(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("round(price)", "decimal(9,0)"),
        ("round(price, 1)", "decimal(10,1)"),
        ("round(price, 5)", "decimal(11,2)"),
        ("round(price, -3)", "decimal(9,0)"),
        ("round(double, 2)", "double"),
        ("round(month, -1)", "integer"),
        ("floor(double)", "long"),
        ("ceil(price)", "decimal(9,0)"),
        ("floor(tiny)", "byte"),
        ("upper(name)", "string"),
        ("length(name)", "integer"),
        ("name || NULL", "string"),
        ("substring(name, 1, 2)", "string"),
        ("replace(name, 'a', '')", "string"),
        ("nullif(tiny, 300)", "byte"),
        ("nullif(name, '')", "string"),
        ("nullif(NULL, 1)", "void"),
        ("coalesce(NULL, NULL)", "void"),
        ("month > 1 AND flag", "boolean"),
    ],
)
def test_functions_have_the_type_of_what_they_give(text: str, expected: str) -> None:
    assert bound_type(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("coalesce(tiny, big)", "long"),
        ("coalesce(tiny, 0)", "byte"),
        ("coalesce(tiny, 1000)", "integer"),
        ("coalesce(price, 0)", "decimal(10,2)"),
        ("coalesce(price, 0.001)", "decimal(11,3)"),
        ("coalesce(price, month)", "decimal(12,2)"),
        ("coalesce(price, double)", "double"),
        ("coalesce(single, month)", "double"),
        ("coalesce(day, '2020-01-01')", "date"),
        ("coalesce('2020-01-01', at)", "timestamp"),
        ("coalesce(day, local)", "timestamp_ntz"),
        ("coalesce(name, 'x')", "string"),
        ("coalesce(tags, NULL)", "array<string>"),
        ("greatest(1, 2.5, 3000000000)", "decimal(11,1)"),
        ("least(name, 'x')", "string"),
        ("if(flag, 1, big)", "long"),
        ("CASE WHEN flag THEN NULL ELSE price END", "decimal(10,2)"),
        ("CASE WHEN flag THEN 1 WHEN month > 1 THEN 2.5 END", "decimal(11,1)"),
    ],
)
def test_choices_have_one_type_that_constants_follow(text: str, expected: str) -> None:
    assert bound_type(text) == expected


def test_conditions_inside_are_bound_too() -> None:
    assert bind_value("CASE WHEN month > 1.5 THEN 'x' END", SCHEMA) == Case(
        ((Compare(Op.GT, Column(("Month",), INTEGER), Literal(1, INTEGER)), Literal("x", STRING)),),
        Literal(None, STRING),
        STRING,
    )


@pytest.mark.parametrize(
    ("text", "column", "type_"),
    [
        ("name + 1", "name", "string"),
        ("month + flag", "flag", "boolean"),
        ("day + 1", "day", "date"),
        ("'a' + 1", "'a'", "string"),
        ("upper(month)", "Month", "integer"),
        ("name || 1", "1", "integer"),
        ("abs(name)", "name", "string"),
        ("coalesce(name, month)", "name", "string"),
        ("if(flag, day, 5)", "5", "integer"),
        ("coalesce(at, local)", "local", "timestamp_ntz"),
        ("greatest(tags, tags)", "tags", "array<string>"),
        ("least(json, json)", "json", "variant"),
        ("nullif(name, 1)", "1", "integer"),
        ("CAST(month AS DATE)", "`Month`", "integer"),
        ("CAST(tags AS STRING)", "`tags`", "array<string>"),
        ("CAST(flag AS TIMESTAMP)", "`flag`", "boolean"),
    ],
)
def test_arguments_that_make_no_sense_are_named(text: str, column: str, type_: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        bind_value(text, SCHEMA)

    assert (caught.value.column, caught.value.type) == (column, type_)


def test_a_constant_with_a_sign_follows_the_type_beside_it_as_in_text() -> None:
    value = Call(Function.COALESCE, (Column(("month",)), Call(Function.NEGATE, (Literal(2.0),))))

    assert bind_value(value, SCHEMA) == bind_value("coalesce(month, -2e0)", SCHEMA)


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("substring(name, month)", "substring with a number"),
        ("substring(name, 1.5)", "substring with a number"),
        ("round(price, month)", "round with a number"),
        ("round(price, 31)", "round to 31 digits"),
        ("replace(name, name, 'x')", "replace of or by"),
        ("replace(name, 'x', NULL)", "replace of or by"),
    ],
)
def test_some_arguments_must_be_constants(text: str, operator: str) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        bind_value(text, SCHEMA)

    assert caught.value.operator.startswith(operator)


@pytest.mark.parametrize(
    ("value", "target", "held"),
    [
        (5, BYTE, 5),
        (5, DecimalType(5, 2), Decimal("5.00")),
        (5, DOUBLE, 5.0),
        (Decimal("5.0"), INTEGER, 5),
        (Decimal("0.1"), FLOAT, 0.10000000149011612),
        (0.1, DecimalType(3, 2), Decimal("0.10")),
        (float("inf"), FLOAT, float("inf")),
        (True, BOOLEAN, True),
        (b"x", BINARY, b"x"),
        (None, ArrayType(STRING), None),
        (None, DATE, None),
        (date(2020, 1, 1), TIMESTAMP, datetime(2020, 1, 1, tzinfo=UTC)),
        (datetime(2020, 1, 1, 5), TIMESTAMP, datetime(2020, 1, 1, 5, tzinfo=UTC)),
        (Literal("x"), STRING, "x"),
        ("'2020-01-01'", DATE, date(2020, 1, 1)),
        ("'2020-01-01 05:00:00'", TIMESTAMP, datetime(2020, 1, 1, 5, tzinfo=UTC)),
        ("'2020-01-01'", TIMESTAMP_NTZ, datetime(2020, 1, 1)),
        ("CAST('7' AS BIGINT)", INTEGER, 7),
    ],
)
def test_constants_become_values_of_the_target(value: Value | Scalar, target: DataType, held: Scalar) -> None:
    assert bind_value(value, SCHEMA, target) == Literal(held, target)


@pytest.mark.parametrize(
    ("value", "target"),
    [
        (300, BYTE),
        (10**400, DOUBLE),
        (Decimal("1.5"), INTEGER),
        (Decimal("1.005"), DecimalType(5, 2)),
        (10**6, DecimalType(5, 2)),
        (1e300, FLOAT),
        (float("nan"), INTEGER),
        (1, BOOLEAN),
        (True, INTEGER),
        (1, STRING),
        ("'1'", INTEGER),
        ("'soon'", DATE),
        (b"x", STRING),
        (5, INNER),
    ],
)
def test_constants_that_the_target_does_not_hold_exactly_are_refused(value: Scalar, target: DataType) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        bind_value(value, SCHEMA, target, column="c")

    assert (caught.value.column, caught.value.type) == ("c", str(target))


def test_numbers_that_no_type_holds_are_refused() -> None:
    with pytest.raises(TypeMismatchError, match="no type"):
        bind_value(10**39, SCHEMA)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("tiny", LONG),
        ("big", INTEGER),
        ("tiny + 1", BYTE),
        ("big * 2", DOUBLE),
        ("month", DecimalType(5, 2)),
        ("price * 1.1", DecimalType(10, 2)),
        ("round(price)", INTEGER),
        ("floor(double)", INTEGER),
        ("double", FLOAT),
        ("price", DOUBLE),
        ("day", TIMESTAMP),
        ("day", TIMESTAMP_NTZ),
        ("nothing", INNER),
    ],
)
def test_values_go_into_wider_types_and_whole_numbers_and_decimals_into_narrower_ones(
    text: str, target: DataType
) -> None:
    bound = bind_value(text, SCHEMA, target)

    assert bound == Cast(bind_value(text, SCHEMA), target)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("double", INTEGER),
        ("month / 2", INTEGER),
        ("price", INTEGER),
        ("double", DecimalType(10, 2)),
        ("month", STRING),
        ("name", INTEGER),
        ("name", DATE),
        ("at", DATE),
        ("at", TIMESTAMP_NTZ),
        ("flag", INTEGER),
        ("raw", STRING),
        ("tags", STRING),
        ("tags", ArrayType(INTEGER)),
        ("if(flag, month, 1.5)", INTEGER),
    ],
)
def test_values_that_need_a_cast_are_refused_with_both_types(text: str, target: DataType) -> None:
    with pytest.raises(TypeMismatchError, match="column c is of type") as caught:
        bind_value(text, SCHEMA, target, column="c")

    assert caught.value.type == str(target)


def test_every_branch_of_a_case_goes_into_the_target_by_itself() -> None:
    bound = bind_value("CASE WHEN flag THEN '2020-01-01' WHEN month > 1 THEN NULL ELSE '2021-01-01' END", SCHEMA, DATE)

    assert isinstance(bound, Case) and bound.type == DATE
    assert [value for _, value in bound.branches] == [Literal(date(2020, 1, 1), DATE), Literal(None, DATE)]
    assert bound.otherwise == Literal(date(2021, 1, 1), DATE)


def test_structs_go_into_structs_with_the_same_names_and_wider_types() -> None:
    wanted = StructType(
        (Field(name="zip", type=LONG, physical_name="col-1"), Field(name="city", type=STRING, nullable=False))
    )
    arrays = ArrayType(wanted, contains_null=False), MapType(STRING, wanted)
    schema = Schema(
        (
            Field(name="one", type=INNER),
            Field(name="many", type=ArrayType(INNER)),
            Field(name="keyed", type=MapType(STRING, INNER)),
        )
    )

    assert bind_value("one", schema, wanted) == Cast(Column(("one",), INNER), wanted)
    assert type_of(bind_value("many", schema, arrays[0])) == arrays[0]
    assert type_of(bind_value("keyed", schema, arrays[1])) == arrays[1]
    with pytest.raises(TypeMismatchError):
        bind_value("one", schema, StructType(wanted.fields[:1]))


def test_python_trees_are_bound_like_text() -> None:
    tree = Call(Function.ADD, (Column(("month",)), Literal(1)))

    assert bind_value(tree, SCHEMA) == bind_value("month + 1", SCHEMA)


def test_binding_twice_changes_nothing() -> None:
    once = bind_value("coalesce(price * 2, month, 0.5)", SCHEMA, DecimalType(20, 4))

    assert bind_value(once, SCHEMA, DecimalType(20, 4)) == once
