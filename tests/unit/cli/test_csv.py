"""The rows of CSV files, as replace-where puts them into a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Table
from tests.rows import assert_same_rows

NAN = float("nan")
INFINITY = float("inf")


@pytest.fixture
def replaced(command, tmp_path) -> Callable[..., Table]:
    """Puts the rows of a CSV file into a new table with columns of these types, by the command."""

    def replace(types: dict[str, pa.DataType], text: str) -> Table:
        table = tablespec.create_table(str(tmp_path / "table"), pa.schema({"day": pa.int32(), **types}))
        file = tmp_path / "new.csv"
        file.write_text(text, encoding="utf-8")
        outcome = command("replace-where", table.url, "--where", "day = 1", "--data", file, "--data-columns")
        assert (outcome.code, outcome.err) == (0, "")
        return table

    return replace


@pytest.fixture
def refused(command, tmp_path, monkeypatch) -> Callable[..., str]:
    """What the command says to a CSV file that it refuses."""

    def refuse(types: dict[str, pa.DataType], text: str) -> str:
        monkeypatch.chdir(tmp_path)
        table = tablespec.create_table("table", pa.schema({"day": pa.int32(), **types}))
        Path("new.csv").write_text(text, encoding="utf-8")
        outcome = command("replace-where", "table", "--where", "day = 1", "--data", "new.csv", "--data-columns")
        assert (outcome.code, outcome.out, table.instant().version) == (2, "", 0)
        return str(outcome.err)

    return refuse


@pytest.mark.parametrize(
    "type_",
    [
        pa.bool_(),
        pa.int64(),
        pa.float64(),
        pa.decimal128(9, 2),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
    ],
    ids=str,
)
def test_a_cell_with_nothing_in_it_is_null_in_every_type(type_, replaced):
    assert_same_rows(replaced({"a": type_}, "day,a\n1,\n").scan(), [(1, None)])


def test_a_quoted_cell_with_nothing_in_it_is_the_empty_text(replaced):
    table = replaced({"a": pa.string(), "b": pa.binary()}, 'day,a,b\n1,"",\n1,,""\n')

    assert_same_rows(table.scan(), [(1, "", None), (1, None, b"")])


def test_nan_and_infinities_are_numbers_of_floating_columns(replaced):
    text = "day,a,b\n1,NaN,nan\n1,Infinity,inf\n1,-Infinity,-inf\n"

    table = replaced({"a": pa.float64(), "b": pa.float32()}, text)

    assert_same_rows(table.scan(), [(1, NAN, NAN), (1, INFINITY, INFINITY), (1, -INFINITY, -INFINITY)])


@pytest.mark.parametrize("text", ["NA", "null", "NULL", "NaN", "N/A", "#N/A", "nan", "-", " "])
def test_no_word_stands_for_null_in_a_column_of_text(text, replaced):
    assert_same_rows(
        replaced({"a": pa.string(), "b": pa.binary()}, f"day,a,b\n1,{text},{text}\n").scan(), [(1, text, text.encode())]
    )


def test_lines_of_a_file_with_one_column_may_be_empty(command, tmp_path):
    table = tablespec.create_table(str(tmp_path / "table"), pa.schema({"a": pa.string()}))
    file = tmp_path / "new.csv"
    file.write_text('a\nx\n\n""\n')

    command("replace-where", table.url, "--where", "a = 'x' OR a = '' OR a IS NULL", "--data", file, "--data-columns")

    assert_same_rows(table.scan(), [("x",), (None,), ("",)])


def test_columns_are_those_of_the_table_whatever_their_case(replaced):
    types = {"Code": pa.string(), "price": pa.decimal128(9, 2), "when": pa.date32()}

    table = replaced(types, "DAY,WHEN,code,Price\n1,2026-01-31,007,1.5\n")

    assert_same_rows(table.scan(), [(1, "007", Decimal("1.50"), date(2026, 1, 31))])


def test_quoted_cells_may_go_over_lines_in_a_file_of_any_size(replaced):
    long = "x\n" * 400
    rows = 4000

    table = replaced({"a": pa.string()}, "day,a\n" + f'1,"{long}"\n' * rows)

    assert_same_rows(table.scan(columns=["a"]), [(long,)] * rows)


@pytest.mark.parametrize(
    ("type_", "cell", "why"),
    [
        (pa.float64(), "NA", "invalid value 'NA'; the column is double"),
        (pa.int64(), "null", "invalid value 'null'; the column is long"),
        (pa.int64(), "NaN", "invalid value 'NaN'; the column is long"),
        (pa.int8(), "300", "invalid value '300'; the column is byte"),
        (pa.float64(), '""', "invalid value ''; the column is double"),
        (pa.decimal128(9, 2), "1.234", "would cause data loss; the column is decimal(9,2)"),
        (pa.date32(), "soon", "invalid value 'soon'; the column is date"),
        (pa.timestamp("us", "UTC"), "2026-01-31 12:00:00", "expected a zone offset in '2026-01-31 12:00:00'; the"),
    ],
)
def test_a_cell_that_is_no_value_of_the_column_is_refused_with_its_file_line_and_column(type_, cell, why, refused):
    said = refused({"Fare": type_, "note": pa.string()}, f'day,note,fare\n1,"a\nb",\n\n1,c,{cell}\n')

    assert said.startswith("error: new.csv line 5 column fare: ")
    assert why in said


def test_a_line_with_too_few_cells_is_refused_with_its_number(refused):
    said = refused({"note": pa.string()}, 'day,note\n1,"a\nb"\n1\n')

    assert said == "error: new.csv line 4: Expected 2 columns, got 1: 1\n"


def test_a_column_that_the_table_lacks_is_refused_whatever_it_holds(refused):
    assert "the column other is not in the table" in refused({}, "day,other\n1,1\n" + "1,2\n" * 300_000 + "1,x\n")


def test_a_bad_cell_below_a_cell_of_great_length_is_refused_with_its_row(refused):
    said = refused({"note": pa.string()}, f"day,note\n1,{'x' * 200_000}\nsoon,\n")

    assert said.startswith("error: new.csv row 3 column day: invalid value 'soon'")
