"""Replacing the rows that have the same values in some columns as new ones."""

from __future__ import annotations

import datetime as dt
import math
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablespec
from tablespec import Strategy
from tablespec.errors import (
    ColumnNotFoundError,
    InvalidSchemaError,
    ReplaceWhereMismatchError,
    TypeMismatchError,
    UnsupportedTypeError,
)
from tablespec.write.merge_plan import LISTED_KEYS
from tablespec.write.replace_using import replace_listed, replace_looked_up
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string(), "n": pa.int64()})
ROWS = [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, None, 2), (5, "d/e%", 1)]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["p"])
    made.append(rows(*ROWS))
    return made


@both
def test_replace_using_replaces_rows_with_the_same_values(table, strategy):
    table.replace_using(["p", "n"], rows((6, "a", 1), (7, "b", 1)), strategy=strategy)

    assert_same_rows(table.scan(), [(2, "a", 2), (4, None, 2), (5, "d/e%", 1), (6, "a", 1), (7, "b", 1)])


def test_replace_using_finds_columns_whatever_their_case(table):
    table.replace_using(["P"], pa.table({"ID": [6], "P": ["a"], "N": [9]}))

    assert_same_rows(table.scan("p = 'a'"), [(6, "a", 9)])


@pytest.mark.parametrize("more", [(), ((6, "a", 1),)], ids=["alone", "beside others"])
def test_replace_using_refuses_rows_without_the_value_that_they_replace_by(table, tmp_path, more):
    before = contents(tmp_path)

    with pytest.raises(ReplaceWhereMismatchError, match="None"):
        table.replace_using(["p"], rows((7, None, 1), *more))

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ([], InvalidSchemaError("rows are replaced by the values of one column or more, each named once")),
        (["n", "N"], InvalidSchemaError("rows are replaced by the values of one column or more, each named once")),
        (["zz"], ColumnNotFoundError("zz", (), "the table")),
        (["id"], ColumnNotFoundError("id", (), "the data")),
        (["s"], UnsupportedTypeError("s", "struct<x:long>", "rows cannot be replaced by its values")),
    ],
    ids=["none", "twice", "unknown", "not in the data", "nested"],
)
def test_replace_using_refuses_columns_that_rows_cannot_be_told_by(tmp_path, columns, error):
    schema = SCHEMA.append(pa.field("s", pa.struct({"x": pa.int64()})))
    table = tablespec.create_table(str(tmp_path), schema)

    with pytest.raises(type(error)) as refused:
        table.replace_using(columns, pa.table({"n": [1], "s": [{"x": 1}]}, schema=schema.remove(0).remove(0)))

    assert str(refused.value) == str(error)


def test_replace_using_takes_keys_that_leave_no_row_out(tmp_path):
    schema = pa.schema([pa.field("flag", pa.bool_(), nullable=False), ("n", pa.int64())])
    table = tablespec.create_table(str(tmp_path), schema)
    table.append(pa.table({"flag": [True, False, True], "n": [1, 2, 3]}, schema=schema))

    table.replace_using(["flag"], pa.table({"flag": [False, True], "n": [4, 5]}, schema=schema))

    assert_same_rows(table.scan(), [(False, 4), (True, 5)])


def test_overwrite_partitions_replaces_those_that_the_data_has(table):
    table.overwrite_partitions(rows((6, "a", 1), (7, None, 1)))

    assert_same_rows(table.scan(columns=["id"]), [(3,), (5,), (6,), (7,)])


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_overwrite_partitions_replaces_the_partition_without_a_value_however_the_data_writes_it(table, text):
    new = rows((7, "", 1), (8, "b", 1))
    table.overwrite_partitions(new.set_column(1, "p", new["p"].cast(text)))

    assert_same_rows(table.scan(), [(1, "a", 1), (2, "a", 2), (5, "d/e%", 1), (7, None, 1), (8, "b", 1)])


def test_data_without_rows_replaces_nothing(table):
    assert table.overwrite_partitions(rows()).instant is None
    assert table.replace_using(["p"], rows()).instant is None


MANY = LISTED_KEYS + 500


@both
@pytest.mark.parametrize("columns", [["id"], ["id", "n"]], ids=["one column", "two columns"])
def test_replace_using_looks_many_keys_up(table, strategy, columns):
    table.append(rows(*((number, "a", number) for number in range(10, 10 + MANY)), (9, "b", 10), (10, "b", 9)))
    new = [(number, "c", number) for number in range(10, 10 + 2 * MANY, 2)]

    result = table.replace_using(columns, rows(*new), strategy=strategy)

    old = [(number, "a", number) for number in range(11, 10 + MANY, 2)]
    untouched = [(9, "b", 10)] if columns == ["id"] else [(9, "b", 10), (10, "b", 9)]
    gone = MANY // 2 + (len(columns) == 1)
    assert (result.rows_deleted, result.rows_inserted) == (gone, MANY)
    assert_same_rows(table.scan(), [*ROWS, *old, *untouched, *new])


@pytest.mark.parametrize("text", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_many_keys_may_be_texts_of_every_kind(table, text):
    names = [f"x{number}" for number in range(MANY)]
    table.append(rows(*((number, name, number) for number, name in enumerate(names[:3]))))
    data = pa.table({"id": pa.repeat(pa.scalar(0), MANY), "p": pa.array(names).cast(text), "n": pa.arange(0, MANY)})

    result = table.replace_using(["n", "p"], data)

    assert (result.rows_deleted, result.rows_inserted) == (3, MANY)
    assert_same_rows(table.scan("p = 'x1'"), [(0, "x1", 1)])


def test_the_log_names_the_columns_of_many_keys_and_not_their_values(table, tmp_path):
    table.replace_using(["id"], rows(*((number, "a", number) for number in range(MANY))))

    (info,) = actions_of(tmp_path, 2, "commitInfo")
    told = info["tablespec"]["replaceUsing"]
    assert (info["operation"], info["operationParameters"]["replaceUsing"]) == ("WRITE", "id")
    assert (told["columns"], told["keys"], told["dataChange"]) == (["id"], MANY, True)
    assert (info["operationMetrics"]["numDeletedRows"], info["operationMetrics"]["numOutputRows"]) == ("5", str(MANY))


def test_many_keys_of_another_type_are_refused_and_nothing_changes(table, tmp_path):
    before = contents(tmp_path)
    odd = pa.table({"id": pa.array([f"x{number}" for number in range(MANY)]), "p": pa.repeat("a", MANY)})

    with pytest.raises(TypeMismatchError, match="id"):
        table.replace_using(["id"], odd)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("count", [3, MANY], ids=["few", "many"])
def test_keys_are_refused_that_are_null_once_they_are_stored_as_partition_values(table, tmp_path, count):
    before = contents(tmp_path)
    data = pa.table({"id": pa.arange(0, count), "p": pa.repeat("", count)})

    with pytest.raises(ReplaceWhereMismatchError, match="equality of p, id"):
        table.replace_using(["p", "id"], data)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("values", [[["a"]], [{"a": 1}]], ids=["list", "struct"])
def test_nested_values_are_no_keys_and_no_partitions(table, tmp_path, values):
    before = contents(tmp_path)
    data = pa.table({"id": [1], "p": values})

    with pytest.raises(TypeMismatchError, match="column p is of type string"):
        table.replace_using(["p"], data)
    with pytest.raises(TypeMismatchError, match="column p is of type string"):
        table.overwrite_partitions(data)

    assert contents(tmp_path) == before


VALUES = {
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    pa.int32(): st.integers(-2, 2),
    pa.string(): st.sampled_from(["", "a", "'", "%"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.sampled_from([dt.date(1970, 1, 1), dt.date(2026, 2, 28)]),
    pa.binary(): st.sampled_from([b"", b"\0"]),
    pa.decimal128(9, 2): st.integers(-2, 2).map(lambda number: number / 2).map(lambda number: f"{number:.2f}"),
}


@st.composite
def keyed_rows(draw):
    """Types of two columns, rows of a table and rows of data; those of the data have no nulls."""
    types = [draw(st.sampled_from(list(VALUES))) for _ in range(2)]
    present = st.tuples(*(VALUES[type_] for type_ in types))
    stored = st.tuples(*(st.none() | VALUES[type_] for type_ in types))
    return types, draw(st.lists(stored, max_size=8)), draw(st.lists(present, min_size=1, max_size=5))


@given(keyed_rows())
def test_keys_that_are_looked_up_and_keys_that_are_listed_replace_the_same_rows(case):
    types, stored, new = case

    def filled(rows, start):
        columns = [
            pa.array([row[index] for row in rows], pa.string()).cast(type_)
            if pa.types.is_decimal(type_)
            else pa.array([row[index] for row in rows], type_)
            for index, type_ in enumerate(types)
        ]
        return pa.table([*columns, pa.arange(start, start + len(rows))], names=["a", "b", "number"])

    left = []
    for replace in (lambda table, keys, data: replace_listed(table, keys.to_pylist(), data), replace_looked_up):
        table = tablespec.create_table(f"memory://{uuid.uuid4()}/t", filled([], 0).schema)
        if stored:
            table.append(filled(stored, 0))
        data = filled(new, 100)
        replace(table.format, data.select(["a", "b"]).group_by(["a", "b"]).aggregate([]), data)
        left.append(sorted(table.scan(columns=["number"]).to_table().column("number").to_pylist()))

    assert left[0] == left[1]
