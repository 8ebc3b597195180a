"""Values over Arrow data are what SQL says they are."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.arrow.schema import arrow_schema, arrow_type
from tablespec.errors import ValueOverflowError
from tablespec.expr.bind_value import bind_value
from tablespec.expr.value import Value, type_of
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    Schema,
    StructType,
)
from tests.unit.expr.random_predicates import SCHEMA, Row, rows
from tests.unit.expr.random_values import Overflow, numbers, outcome, texts


def computed(text: str, type_: DataType, *values: object, target: DataType | None = None) -> list[object]:
    """What an expression about the column `x` gives for each of the values."""
    schema = Schema((Field(name="x", type=type_),))
    batch = pa.RecordBatch.from_pylist([{"x": value} for value in values], schema=arrow_schema(schema))
    found: list[object] = evaluate_value(bind_value(text, schema, target), batch).to_pylist()
    return found


def expected(value: Value, data: list[Row]) -> list[object] | None:
    try:
        return [outcome(value, row) for row in data]
    except Overflow:
        return None


def same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and left == right


@settings(max_examples=500, deadline=None)
@given(numbers() | texts(), st.lists(rows(), max_size=4))
def test_every_row_gets_the_value_that_sql_gives_it_or_the_overflow_is_named(value: Value, data: list[Row]) -> None:
    batch = pa.RecordBatch.from_pylist(data, schema=arrow_schema(SCHEMA))
    bound = bind_value(value, SCHEMA)
    wanted = expected(bound, data)

    if wanted is None:
        with pytest.raises(ValueOverflowError):
            evaluate_value(bound, batch)
        return
    found = evaluate_value(bound, batch)

    assert found.type == arrow_type(type_of(bound))
    assert len(found) == len(wanted) and all(map(same, found.to_pylist(), wanted)), (found.to_pylist(), wanted)


@pytest.mark.parametrize(
    ("text", "type_", "values", "expected"),
    [
        ("x / 0", INTEGER, [1, None], [None, None]),
        ("x % 0", LONG, [1, None], [None, None]),
        ("x / 0.0", DecimalType(5, 2), [Decimal(1)], [None]),
        ("1 / x", DOUBLE, [0.0, -0.0, 2.0], [None, None, 0.5]),
        ("x % -1", LONG, [-(2**63), 5], [0, 0]),
        ("x % 3", INTEGER, [7, -7], [1, -1]),
        ("x % 3", DOUBLE, [7.5, -7.5, math.inf], [1.5, -1.5, math.nan]),
    ],
)
def test_division_by_zero_is_null_and_remainders_have_the_sign_of_the_dividend(
    text: str, type_: DataType, values: list[object], expected: list[object]
) -> None:
    assert all(map(same, computed(text, type_, *values), expected))


@pytest.mark.parametrize(
    ("text", "type_", "value", "named"),
    [
        ("x + x", BYTE, 100, "`x` + `x`"),
        ("upper(CAST(x * 2 AS STRING))", LONG, 2**62, "`x` * 2"),
        ("-x", INTEGER, -(2**31), "-(`x`)"),
        ("abs(x)", BYTE, -128, "abs(`x`)"),
        ("round(x, -1)", BYTE, 127, "round(`x`, -1)"),
        ("floor(x)", DOUBLE, 1e300, "floor(`x`)"),
        ("ceil(x)", DOUBLE, math.nan, "ceil(`x`)"),
        ("x + x", DecimalType(38, 0), Decimal(9 * 10**37), "`x` + `x`"),
        ("x * x", DecimalType(38, 0), Decimal(10**30), "`x` * `x`"),
        ("CAST(x AS INT)", DOUBLE, math.inf, "CAST(`x` AS INTEGER)"),
        ("CAST(x AS INT)", STRING, "1.5", "CAST(`x` AS INTEGER)"),
        ("CAST(x AS FLOAT)", DOUBLE, 1e300, "CAST(`x` AS FLOAT)"),
        ("CAST(x AS STRING)", BINARY, b"\xff", "CAST(`x` AS STRING)"),
    ],
)
def test_what_a_type_cannot_hold_is_an_error_that_names_the_part(
    text: str, type_: DataType, value: object, named: str
) -> None:
    with pytest.raises(ValueOverflowError) as caught:
        computed(text, type_, None, value)

    assert caught.value.expression == named


@pytest.mark.parametrize(
    ("text", "type_", "value", "target"),
    [
        ("x + 1", BYTE, 127, BYTE),
        ("x", LONG, 2**40, INTEGER),
        ("x * 10", DecimalType(5, 2), Decimal("999.99"), DecimalType(5, 2)),
        ("x", INTEGER, 1000, DecimalType(4, 2)),
        ("x", DOUBLE, 1e300, FLOAT),
    ],
)
def test_values_that_do_not_fit_the_target_are_an_error(
    text: str, type_: DataType, value: object, target: DataType
) -> None:
    with pytest.raises(ValueOverflowError) as caught:
        computed(text, type_, value, target=target)

    assert caught.value.type == str(target)


def test_decimals_are_rounded_to_the_digits_of_the_target_with_halves_away_from_zero() -> None:
    price = DecimalType(5, 2)

    found = computed("x * 1.1", price, Decimal("0.05"), Decimal("-0.05"), Decimal("9.99"), None, target=price)

    assert found == [Decimal("0.06"), Decimal("-0.06"), Decimal("10.99"), None]


@pytest.mark.parametrize(
    ("text", "type_", "values", "expected"),
    [
        ("round(x)", DOUBLE, [2.5, -2.5, math.nan, 1e300], [3.0, -3.0, math.nan, 1e300]),
        ("round(x, 2)", DOUBLE, [2.675, 1e300, math.inf, None], [2.68, 1e300, math.inf, None]),
        ("round(x, -2)", DOUBLE, [150.0, -149.0], [200.0, -100.0]),
        ("round(x, 1)", FLOAT, [0.25], [0.30000001192092896]),
        ("round(x, 30)", DOUBLE, [1e15, 0.1], [1e15, 0.1]),
        ("round(x)", DecimalType(3, 2), [Decimal("9.99"), Decimal("-0.50")], [Decimal(10), Decimal(-1)]),
        ("round(x, 1)", DecimalType(3, 2), [Decimal("9.95")], [Decimal("10.0")]),
        ("round(x, -30)", DecimalType(38, 2), [Decimal(10**31)], [Decimal(10**31)]),
        ("round(x, -1)", INTEGER, [15, -15, 14], [20, -20, 10]),
        ("round(x, 2)", INTEGER, [15], [15]),
    ],
)
def test_halves_are_rounded_away_from_zero(
    text: str, type_: DataType, values: list[object], expected: list[object]
) -> None:
    assert all(map(same, computed(text, type_, *values), expected))


def test_only_the_branch_that_a_row_takes_is_computed() -> None:
    assert computed("if(x < 100, x + x, NULL)", BYTE, 5, 127, None) == [10, None, None]
    assert computed("CASE WHEN x = 127 THEN 0 WHEN x > 0 THEN x + x END", BYTE, 5, 127, -1) == [10, 0, None]


def test_only_rows_without_a_value_compute_the_next_argument_of_coalesce() -> None:
    schema = Schema((Field(name="x", type=BYTE), Field(name="y", type=BYTE)))
    data = [{"x": 1, "y": 127}, {"x": None, "y": 5}, {"x": None, "y": None}]
    batch = pa.RecordBatch.from_pylist(data, schema=arrow_schema(schema))

    assert evaluate_value(bind_value("coalesce(x, y + y, 7)", schema), batch).to_pylist() == [1, 10, 7]


def test_nan_is_greatest_and_equal_to_itself() -> None:
    assert same(computed("greatest(x, 1)", DOUBLE, math.nan)[0], math.nan)
    assert computed("least(x, 1)", DOUBLE, math.nan, None) == [1.0, 1.0]
    assert computed("nullif(x, CAST('NaN' AS DOUBLE))", DOUBLE, math.nan, 1.0) == [None, 1.0]


@pytest.mark.parametrize(
    ("text", "type_", "values", "expected"),
    [
        ("CAST(x AS INT)", STRING, [" 7 ", "-7", None], [7, -7, None]),
        ("CAST(x AS BOOLEAN)", STRING, ["true", "FALSE"], [True, False]),
        ("CAST(x AS DATE)", STRING, ["2020-02-29"], [date(2020, 2, 29)]),
        ("CAST(x AS TIMESTAMP)", STRING, ["2020-01-01 05:00:00+05:00"], [datetime(2020, 1, 1, tzinfo=UTC)]),
        ("CAST(x AS BINARY)", STRING, ["é"], ["é".encode()]),
        ("CAST(x AS STRING)", BINARY, ["é".encode()], ["é"]),
        ("CAST(x AS STRING)", DOUBLE, [1.0, 1e20], ["1.0", "1.0E20"]),
        ("CAST(x AS STRING)", BOOLEAN, [True, None], ["true", None]),
        ("CAST(x AS STRING)", DATE, [date(2020, 1, 1)], ["2020-01-01"]),
        ("CAST(x AS STRING)", DecimalType(20, 10), [Decimal("1e-10")], ["0.0000000001"]),
        ("CAST(x AS INT)", BOOLEAN, [True, False], [1, 0]),
        ("CAST(x AS DOUBLE)", BOOLEAN, [True], [1.0]),
        ("CAST(x AS DECIMAL(3,1))", BOOLEAN, [True], [Decimal("1.0")]),
        ("CAST(x AS BOOLEAN)", DecimalType(3, 2), [Decimal("0.50"), Decimal(0)], [True, False]),
        ("CAST(x AS DECIMAL(5,2))", DOUBLE, [2.675, -0.005], [Decimal("2.68"), Decimal("-0.01")]),
        ("CAST(x AS INT)", DecimalType(1, 1), [Decimal("-0.9")], [0]),
        ("CAST(x AS DATE)", TIMESTAMP, [datetime(1969, 12, 31, 23, tzinfo=UTC)], [date(1969, 12, 31)]),
        ("CAST(x AS TIMESTAMP_NTZ)", TIMESTAMP, [datetime(2020, 1, 1, 5, tzinfo=UTC)], [datetime(2020, 1, 1, 5)]),
        ("CAST(x AS TIMESTAMP)", TIMESTAMP_NTZ, [datetime(2020, 1, 1, 5)], [datetime(2020, 1, 1, 5, tzinfo=UTC)]),
        ("CAST(x AS TIMESTAMP)", DATE, [date(2020, 1, 1)], [datetime(2020, 1, 1, tzinfo=UTC)]),
        ("CAST(1.5 AS INT)", STRING, ["any"], [1]),
    ],
)
def test_casts_go_between_numbers_text_and_times(
    text: str, type_: DataType, values: list[object], expected: list[object]
) -> None:
    assert computed(text, type_, *values) == expected


def test_conditions_are_true_false_or_null() -> None:
    assert computed("x > 1 OR x IS NULL", INTEGER, 1, 2, None) == [False, True, True]
    assert computed("NOT x > 1", INTEGER, 1, 2, None) == [True, False, None]


def test_replacing_nothing_changes_nothing() -> None:
    assert computed("replace(x, '', 'y')", STRING, "abc") == ["abc"]


def test_constants_fill_every_row_and_no_rows_give_an_empty_array() -> None:
    assert computed("'a' || 'b'", INTEGER, 1, 2) == ["ab", "ab"]
    assert computed("if(x > 0, x, NULL)", INTEGER) == []
    assert computed("if(TRUE, 1, 2)", INTEGER, 5) == [1]


def test_nested_values_take_the_names_and_types_of_the_target() -> None:
    given_type = ArrayType(StructType((Field(name="B", type=INTEGER), Field(name="a", type=STRING))))
    target = ArrayType(StructType((Field(name="a", type=STRING), Field(name="b", type=LONG, physical_name="c-1"))))
    schema = Schema((Field(name="x", type=given_type),))
    batch = pa.RecordBatch.from_pylist([{"x": [{"B": 1, "a": "z"}, None]}, {"x": None}], schema=arrow_schema(schema))

    found = evaluate_value(bind_value("coalesce(x, NULL)", schema, target), batch)

    assert found.type == arrow_type(target)
    assert found.to_pylist() == [[{"a": "z", "b": 1}, None], None]


def test_fields_of_a_null_struct_are_null_and_columns_may_be_encoded() -> None:
    inner = StructType((Field(name="n", type=INTEGER), Field(name="s", type=STRING)))
    schema = Schema((Field(name="t", type=inner),))
    # The values below a null struct may be anything.
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 2], pa.int32()), pa.array(["a", "b"]).dictionary_encode()],
        ["n", "s"],
        mask=pa.array([False, True]),
    )
    batch = pa.RecordBatch.from_arrays([hidden], ["t"])

    assert evaluate_value(bind_value("n + 1", schema, None, ("t",)), batch).to_pylist() == [2, None]
    assert evaluate_value(bind_value("t.s", schema), batch).equals(pa.array(["a", None]))
