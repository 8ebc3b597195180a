"""Predicates over Arrow data say what SQL says."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.arrow.evaluate import evaluate, matching
from tablespec.arrow.schema import arrow_schema
from tablespec.expr.bind import bind
from tablespec.expr.nodes import Predicate
from tablespec.model.schema import DOUBLE, INTEGER, STRING, DecimalType, Field, Schema, StructType
from tests.unit.expr.random_predicates import SCHEMA, Row, predicates, rows, truth

FACTS = Schema((Field(name="x", type=DOUBLE), Field(name="y", type=DOUBLE), Field(name="s", type=STRING)))


def batch(*facts: tuple[float | None, float | None, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(("x", "y", "s"), fact)) for fact in facts], schema=arrow_schema(FACTS))


@settings(max_examples=400, deadline=None)
@given(predicates(), st.lists(rows(), max_size=4))
def test_every_row_gets_the_truth_value_that_sql_gives_it(predicate: Predicate, data: list[Row]) -> None:
    given_rows = pa.RecordBatch.from_pylist(data, schema=arrow_schema(SCHEMA))

    outcome = evaluate(bind(predicate, SCHEMA), given_rows)

    assert outcome.to_pylist() == [truth(predicate, row) for row in data]


@pytest.mark.parametrize("type_", [DecimalType(5, 2), DecimalType(18, 6), DecimalType(38, 38)], ids=str)
@pytest.mark.parametrize("text", ["0.1", "-0.29", "0.57"])
def test_a_decimal_equals_the_double_that_is_nearest_to_it(type_, text):
    schema = Schema((Field(name="x", type=DOUBLE), Field(name="d", type=type_)))
    row = pa.RecordBatch.from_pylist([{"x": float(text), "d": Decimal(text)}], schema=arrow_schema(schema))

    assert evaluate(bind("x = d", schema), row).to_pylist() == [True]


@settings(max_examples=50, deadline=None)
@given(predicates(), st.lists(rows(), max_size=4))
def test_tables_and_batches_agree(predicate: Predicate, data: list[Row]) -> None:
    given_rows = pa.RecordBatch.from_pylist(data, schema=arrow_schema(SCHEMA))
    bound = bind(predicate, SCHEMA)

    chunked = evaluate(bound, pa.Table.from_batches([given_rows, given_rows]))

    assert isinstance(chunked, pa.ChunkedArray)
    assert chunked.to_pylist() == evaluate(bound, given_rows).to_pylist() * 2


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("x = CAST('NaN' AS DOUBLE)", [True, False, False, None]),
        ("x > 1e300", [True, True, False, None]),
        ("x <= 1e300", [False, False, True, None]),
        ("x < CAST('NaN' AS DOUBLE)", [False, True, True, None]),
        ("x IN (CAST('NaN' AS DOUBLE), 0)", [True, False, True, None]),
        ("x = y", [True, False, True, None]),
        ("x > y", [False, True, False, None]),
    ],
)
def test_nan_equals_itself_and_is_greater_than_every_number(predicate: str, expected: list[bool | None]) -> None:
    data = batch((math.nan, math.nan, ""), (math.inf, 1.0, ""), (-0.0, 0.0, ""), (None, 1.0, ""))

    assert evaluate(bind(predicate, FACTS), data).to_pylist() == expected


def test_strings_are_ordered_by_their_bytes_and_not_by_their_utf_16() -> None:
    data = batch((None, None, "\uffff"), (None, None, "😀"))

    assert evaluate(bind("s > '\uffff'", FACTS), data).to_pylist() == [False, True]


def test_rows_for_which_the_predicate_is_null_do_not_match() -> None:
    data = batch((1.0, None, ""), (None, None, ""))

    assert matching(bind("x = 1", FACTS), data).to_pylist() == [True, False]
    assert matching(bind("NOT x = 2", FACTS), data).to_pylist() == [True, False]


def test_a_field_of_a_null_struct_is_null() -> None:
    schema = Schema((Field(name="a", type=StructType((Field(name="b", type=INTEGER),))),))
    # The values below a null struct may be anything.
    hidden = pa.StructArray.from_arrays([pa.array([7, 7], pa.int32())], ["b"], mask=pa.array([False, True]))
    data = pa.RecordBatch.from_arrays([hidden], ["a"])

    assert evaluate(bind("a.b = 7", schema), data).to_pylist() == [True, None]
    assert evaluate(bind("a.b IS NULL", schema), data).to_pylist() == [False, True]


def test_columns_encoded_with_a_dictionary_are_compared_by_value() -> None:
    data = pa.RecordBatch.from_arrays([pa.array(["b", "a", None]).dictionary_encode()], ["s"])

    assert evaluate(bind("s < 'b'", FACTS), data).to_pylist() == [False, True, None]
    assert evaluate(bind("s LIKE 'b%'", FACTS), data).to_pylist() == [True, False, None]


def test_full_text_tests_are_null_for_null_and_go_together_with_others() -> None:
    rows = batch((1.0, 1.0, "a word"), (2.0, 2.0, "words"), (3.0, 3.0, None))

    assert evaluate(bind("MATCH(s, 'WORD')", FACTS), rows).to_pylist() == [True, False, None]
    assert evaluate(bind("NOT MATCH(s, 'word') OR x = 1", FACTS), rows).to_pylist() == [True, True, None]
