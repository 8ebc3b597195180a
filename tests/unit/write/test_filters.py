"""The filters of engines as conditions of verbs, on names and values with every sign that means something in SQL."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec import Table, from_filter
from tablespec.errors import ReplaceWhereMismatchError, UnsupportedOperatorError
from tests.rows import assert_same_rows

NAME = "it's `100%`_\\"
VALUES = ["a", "b'c", "100%", "1000", "a_b", "axb", "back\\slash", "`", None]
ROWS = list(enumerate(VALUES))
BEGINS = from_filter("StringStartsWith", NAME, "b")
# Each filter with the numbers of the rows for which it is true.
FILTERS = {
    "EqualTo": (from_filter("EqualTo", NAME, "b'c"), [1]),
    "LessThan": (from_filter("LessThan", "id", 2), [0, 1]),
    "GreaterThan": (from_filter("GreaterThan", "id", 6), [7, 8]),
    "LessThanOrEqual": (from_filter("LessThanOrEqual", "id", 2), [0, 1, 2]),
    "GreaterThanOrEqual": (from_filter("GreaterThanOrEqual", "id", 6), [6, 7, 8]),
    "IsNull": (from_filter("IsNull", NAME), [8]),
    "IsNotNull": (from_filter("IsNotNull", NAME), [0, 1, 2, 3, 4, 5, 6, 7]),
    "StringStartsWith": (from_filter("StringStartsWith", NAME, "100%"), [2]),
    "StringEndsWith": (from_filter("StringEndsWith", NAME, "_b"), [4]),
    "StringContains": (from_filter("StringContains", NAME, "k\\s"), [6]),
    "In": (from_filter("In", NAME, ["`", "%", None]), [7]),
    "Not": (from_filter("Not", BEGINS), [0, 2, 3, 4, 5, 7]),
    "Or": (from_filter("Or", BEGINS, from_filter("IsNull", NAME)), [1, 6, 8]),
    "And": (from_filter("And", BEGINS, from_filter("LessThan", "id", 5)), [1]),
}


@pytest.fixture(params=["data_column", "partition_column"])
def table(request, tmp_path) -> Table:
    """Texts with odd signs in a column with an odd name."""
    data = pa.table({"id": range(len(VALUES)), NAME: pa.array(VALUES, pa.string())})
    table = tablespec.create_table(
        str(tmp_path / "table"),
        data.schema,
        partition_by=[NAME] if request.param == "partition_column" else [],
        properties={"delta.columnMapping.mode": "name"},
    )
    table.append(data)
    return table


def test_every_filter_there_is_has_a_case():
    with pytest.raises(UnsupportedOperatorError, match=f"there are the filters {', '.join(FILTERS)}$"):
        from_filter("Another", "id", 1)


@pytest.mark.parametrize("kind", FILTERS)
def test_the_rows_for_which_a_filter_is_true_are_read(kind, table):
    predicate, numbers = FILTERS[kind]

    assert_same_rows(table.scan(predicate), [ROWS[number] for number in numbers])


@pytest.mark.parametrize("kind", FILTERS)
def test_the_rows_for_which_a_filter_is_true_are_deleted(kind, table):
    predicate, numbers = FILTERS[kind]

    result = table.delete(predicate)

    assert result.rows_deleted == len(numbers)
    assert_same_rows(table.scan(), [row for row in ROWS if row[0] not in numbers])


@pytest.mark.parametrize("kind", FILTERS)
def test_the_rows_for_which_a_filter_is_true_are_replaced(kind, table):
    predicate, numbers = FILTERS[kind]
    row, outside = ROWS[numbers[0]], next(row for row in ROWS if row[0] not in numbers)
    new = pa.table({"id": [row[0]], NAME: pa.array([row[1]], pa.string())})
    refused = pa.table({"id": [outside[0]], NAME: pa.array([outside[1]], pa.string())})

    with pytest.raises(ReplaceWhereMismatchError):
        table.replace_where(predicate, refused, data_columns=True)
    result = table.replace_where(predicate, new, data_columns=True)

    assert (result.rows_deleted, result.rows_inserted) == (len(numbers), 1)
    assert_same_rows(table.scan(), [one for one in ROWS if one == row or one[0] not in numbers])


@pytest.mark.parametrize("kind", FILTERS)
def test_the_text_of_a_filter_that_a_commit_records_finds_the_same_rows_again(kind, table):
    predicate, numbers = FILTERS[kind]
    table.delete(predicate)

    parameters = dict(table.history(1)[0].parameters)

    assert_same_rows(table.scan(parameters["predicate"], at=1), [ROWS[number] for number in numbers])


def test_several_filters_must_all_be_true(table):
    filters = [from_filter("StringStartsWith", NAME, "a"), from_filter("GreaterThan", "id", 0)]

    assert_same_rows(table.scan(filters), [ROWS[4], ROWS[5]])
    assert table.delete(tablespec.all_of(filters)).rows_deleted == 2
