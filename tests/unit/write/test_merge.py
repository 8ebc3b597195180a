"""Merging and upserting rows."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
from tablespec import Strategy
from tablespec.errors import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    ConstraintViolatedError,
    EmptyKeyError,
    InvalidOptionError,
    InvalidPredicateError,
    InvalidSchemaError,
    MultipleMatchesError,
    NoRecordKeyError,
    SchemaMismatchError,
    TableSpecError,
    TypeMismatchError,
    UnsupportedTableError,
    UnsupportedTypeError,
)
from tablespec.expr.nodes import Column
from tests.handmade import contents
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.float64()})
ROWS = [(1, "sf", 10.0), (2, "la", 20.0), (3, None, None)]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path), SCHEMA, key=["id"])
    made.append(rows(*ROWS))
    return made


@both
def test_the_first_clause_that_applies_counts(table, strategy):
    result = table.merge(
        rows((1, "x", 0.0), (2, "x", 1.0), (3, "x", 2.0), (4, "x", 3.0), (5, "x", 0.0)),
        "t.id = s.id",
        tablespec.when_matched_delete("s.fare = 0"),
        tablespec.when_matched_update({"fare": "t.fare + s.fare"}, "t.city is not null"),
        tablespec.when_matched_update(),
        tablespec.when_not_matched_insert(where="s.fare > 0"),
        strategy=strategy,
    )

    assert (result.rows_deleted, result.rows_updated, result.rows_inserted) == (1, 2, 1)
    assert_same_rows(table.scan(), [(2, "la", 21.0), (3, "x", 2.0), (4, "x", 3.0)])


@both
def test_rows_that_the_source_lacks_change_or_go(table, strategy):
    table.merge(
        rows((1, "x", 1.0)),
        "t.id = s.id",
        tablespec.when_not_matched_by_source_update({"city": "'gone'"}, "t.id = 2"),
        tablespec.when_not_matched_by_source_delete(),
        strategy=strategy,
    )

    assert_same_rows(table.scan(), [(1, "sf", 10.0), (2, "gone", 20.0)])


@both
def test_rows_that_match_twice_are_no_matter_where_only_others_are_inserted(table, strategy):
    found = rows((1, "x", 1.0), (1, "y", 2.0), (4, "z", 3.0))

    result = table.merge(found, "t.id = s.id", tablespec.when_not_matched_insert(), strategy=strategy)

    assert (result.rows_updated, result.rows_inserted) == (0, 1)
    assert_same_rows(table.scan(), [*ROWS, (4, "z", 3.0)])


@both
def test_a_row_that_several_rows_delete_goes_once(table, strategy):
    found = rows((1, "x", 1.0), (1, "y", 2.0), (2, "y", 2.0), (1, "z", 0.0))
    either = (tablespec.when_matched_delete("s.fare > 1"), tablespec.when_matched_delete())

    result = table.merge(found, "t.id = s.id", *either, strategy=strategy)

    assert result.rows_deleted == 2
    assert_same_rows(table.scan(), [(3, None, None)])


def test_a_row_that_matches_twice_is_updated_where_one_clause_applies_once(table):
    found = rows((1, "x", 1.0), (1, "y", 2.0), (2, "y", 5.0))

    result = table.merge(found, "t.id = s.id", tablespec.when_matched_update(where="s.city = 'y'"))

    assert result.rows_updated == 2
    assert_same_rows(table.scan(), [(1, "y", 2.0), (2, "y", 5.0), (3, None, None)])


@pytest.mark.parametrize(
    "clauses",
    [
        (tablespec.when_matched_update(),),
        (tablespec.when_matched_delete("s.fare > 1"), tablespec.when_matched_update()),
    ],
    ids=["two updates", "a delete and an update"],
)
def test_a_row_that_two_rows_would_change_is_named_and_nothing_changes(table, tmp_path, clauses):
    before = contents(tmp_path)

    with pytest.raises(MultipleMatchesError, match="'id': 1"):
        table.merge(rows((2, "y", 1.0), (1, "x", 1.0), (1, "y", 2.0)), "t.id = s.id", *clauses)

    assert contents(tmp_path) == before


@pytest.mark.parametrize("never", ["false", "1 = 0", "t.id = s.id and null", "t.id = s.id and s.fare > 1 and false"])
def test_under_a_condition_that_never_holds_every_row_is_inserted_and_none_matches(table, never):
    table.merge(
        rows((1, "x", 1.0)),
        never,
        tablespec.when_matched_delete(),
        tablespec.when_not_matched_insert(),
        tablespec.when_not_matched_by_source_update({"fare": "0.0"}, "t.id = 2"),
    )

    assert_same_rows(table.scan(), [(1, "sf", 10.0), (1, "x", 1.0), (2, "la", 0.0), (3, None, None)])


def test_a_condition_without_equal_columns_finds_all_pairs_that_satisfy_it(table):
    bands = pa.table({"low": [0.0, 15.0], "high": [15.0, 30.0], "name": ["cheap", "dear"]})

    table.merge(
        bands,
        "t.fare >= s.low and t.fare < s.high and s.name != 'none' and t.id < 9",
        tablespec.when_matched_update({"city": "s.name"}),
        tablespec.when_not_matched_by_source_update({"city": "'nowhere'"}),
    )

    assert_same_rows(table.scan(), [(1, "cheap", 10.0), (2, "dear", 20.0), (3, "nowhere", None)])


def test_a_source_without_rows_matches_nothing(table):
    nothing = rows()

    done = table.merge(nothing, "t.id = s.id", tablespec.when_matched_delete(), tablespec.when_not_matched_insert())
    assert done.instant is None
    table.merge(nothing, "t.id = s.id", tablespec.when_not_matched_by_source_delete("t.id = 2"))

    assert_same_rows(table.scan(), [(1, "sf", 10.0), (3, None, None)])


def test_null_keys_match_nothing(table):
    table.merge(
        pa.table({"city": pa.array([None], pa.string()), "id": [9]}),
        "t.city = s.city",
        tablespec.when_matched_delete(),
        tablespec.when_not_matched_insert(),
    )

    assert_same_rows(table.scan(), [*ROWS, (9, None, None)])


def test_columns_are_found_whatever_their_case(table):
    source = pa.table({"ID": [1, 4], "City": ["x", "y"]})

    table.merge(source, "t.id = s.id", tablespec.when_matched_update(), tablespec.when_not_matched_insert())

    assert_same_rows(table.scan(), [(1, "x", 10.0), (2, "la", 20.0), (3, None, None), (4, "y", None)])


@pytest.mark.parametrize(
    "clause",
    [
        tablespec.when_not_matched_insert(),
        tablespec.when_matched_update(),
        tablespec.when_not_matched_insert({}),
        tablespec.when_matched_update({}),
    ],
    ids=["insert", "update", "insert of nothing", "update of nothing"],
)
def test_a_clause_that_sets_no_column_is_refused(table, clause):
    with pytest.raises(InvalidPredicateError, match="sets at least one column"):
        table.merge(pa.table({"number": [1]}), "t.id = s.number", clause)


@pytest.mark.parametrize(
    ("on", "error"),
    [
        ("t.id = s.nothing", ColumnNotFoundError),
        ("id = s.id", AmbiguousColumnError),
        ("t.id =", InvalidPredicateError),
        (None, InvalidPredicateError),
        (True, InvalidPredicateError),
    ],
)
def test_a_condition_that_cannot_be_understood_is_refused(table, on, error):
    with pytest.raises(error):
        table.merge(rows((1, "x", 1.0)), on, tablespec.when_matched_delete())


@pytest.mark.parametrize(
    ("clause", "sentence"),
    [
        (
            tablespec.when_not_matched_by_source_delete("t.id = 1 and\n  s.fare > 1"),
            "cannot read the predicate, line 2 column 3: rows without a row of the source can look at columns of the "
            "table only\n    s.fare > 1\n    ^",
        ),
        (
            tablespec.when_not_matched_insert({"fare": "1 + t.fare"}),
            "cannot read the predicate, line 1 column 5: an insert can look at columns of the source only\n"
            "  1 + t.fare\n      ^",
        ),
        (
            tablespec.when_not_matched_insert({"fare": Column(("t", "fare"))}),
            "cannot read the predicate 't.fare': an insert can look at columns of the source only",
        ),
        (tablespec.when_matched_delete("s.faer = 1"), "s has no column 'faer'; did you mean fare?"),
    ],
    ids=["condition", "value", "column that is not text", "unknown column"],
)
def test_a_column_that_a_clause_cannot_look_at_is_told_with_its_place_if_it_has_one(table, clause, sentence):
    with pytest.raises(TableSpecError) as caught:
        table.merge(rows((1, "x", 1.0)), "t.id = s.id", clause)

    assert str(caught.value) == sentence


def test_a_merge_without_a_clause_is_refused_without_a_place(table):
    with pytest.raises(InvalidPredicateError, match=r"^cannot read the predicate: a merge has at least one clause$"):
        table.merge(rows((1, "x", 1.0)), "t.id = s.id")


def test_constraints_hold_for_merged_rows_and_nothing_is_left(table, tmp_path):
    table.add_constraint("cheap", "fare < 100 or fare is null")
    before = contents(tmp_path)

    for row in ((1, "x", 500.0), (9, "x", 500.0)):
        with pytest.raises(ConstraintViolatedError, match="cheap"):
            table.merge(rows(row), "t.id = s.id", tablespec.when_matched_update(), tablespec.when_not_matched_insert())

    assert contents(tmp_path) == before


# --- upsert ---


@both
def test_an_upsert_replaces_known_keys_and_inserts_others(table, strategy):
    result = table.upsert(rows((2, "x", 2.0), (4, "y", 4.0)), strategy=strategy)

    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    assert_same_rows(table.scan(), [(1, "sf", 10.0), (2, "x", 2.0), (3, None, None), (4, "y", 4.0)])


def test_the_greatest_value_of_the_ordering_column_counts_and_null_is_below_all(table):
    late = [
        (1, "lower", 9.0),
        (2, "first", 30.0),
        (2, "last", 30.0),
        (3, "known", 1.0),
        (4, "null", None),
        (4, "x", 0.0),
    ]

    table.upsert(rows(*late), order_by="fare")

    assert_same_rows(table.scan(), [(1, "sf", 10.0), (2, "last", 30.0), (3, "known", 1.0), (4, "x", 0.0)])


def test_the_table_may_name_the_ordering_column(table):
    table.set_properties({"tablespec.orderingColumn": "fare"})

    table.upsert(rows((1, "late", 9.0)))

    assert_same_rows(table.scan("id = 1"), [(1, "sf", 10.0)])


def test_an_upsert_finds_columns_whatever_their_case(table):
    table.upsert(pa.table({"ID": [1], "FARE": [11.0]}), order_by="Fare")

    assert_same_rows(table.scan("id = 1"), [(1, "sf", 11.0)])


@pytest.mark.parametrize(
    ("data", "order_by", "lacking"),
    [(pa.table({"fare": [1.0]}), None, "id"), (rows((1, "x", 1.0)), "nothing", "nothing")],
    ids=["key", "ordering column"],
)
def test_a_column_that_an_upsert_needs_is_named(table, data, order_by, lacking):
    with pytest.raises(ColumnNotFoundError) as caught:
        table.upsert(data, order_by=order_by)

    assert caught.value.column == lacking


@pytest.mark.parametrize("name", ["id", "ID", "fare"])
def test_data_in_which_a_column_stands_twice_is_refused_by_every_verb_that_looks_for_keys(table, name):
    data = pa.Table.from_arrays([[1], ["x"], [1.0], [2]], names=[*SCHEMA.names, name])

    for change in (
        lambda: table.merge(data, "t.id = s.id", tablespec.when_matched_update(), tablespec.when_not_matched_insert()),
        lambda: table.upsert(data),
        lambda: table.replace_using(["id"], data),
    ):
        with pytest.raises(SchemaMismatchError, match=f"{name.lower()} stands more than once"):
            change()

    assert_same_rows(table.scan(), ROWS)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_an_upsert_refuses_a_key_that_is_null_once_it_is_stored(tmp_path, text):
    keyed = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"], key=["id", "city"])
    keyed.upsert(rows((1, "sf", 1.0)))
    new = rows((1, "sf", 3.0), (2, "", 4.0))
    before = contents(tmp_path)

    with pytest.raises(EmptyKeyError, match=r"no value in city.*'fare': 4.0"):
        keyed.upsert(new.set_column(1, "City", new["city"].cast(text)))

    assert contents(tmp_path) == before


@pytest.mark.parametrize("key", [["id"], ["id", "city"], ["city", "id"]], ids=str)
@pytest.mark.parametrize("partition_by", [[], ["city"]], ids=["one partition", "partitions"])
def test_an_upsert_refuses_a_key_that_is_null_which_it_would_insert_again_each_time(tmp_path, key, partition_by):
    keyed = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=partition_by, key=key)
    keyed.append(rows((1, "sf", 1.0)))
    lacking = (None, "sf", 2.0) if key == ["id"] else (2, None, 2.0)
    before = contents(tmp_path)

    with pytest.raises(EmptyKeyError, match=r"no value in (id|city).*'fare': 2.0"):
        keyed.upsert(rows((1, "la", 3.0), lacking))

    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (pa.decimal128(10, 2), pa.array([Decimal("1.004"), Decimal("1.000")], pa.decimal128(10, 3))),
        (pa.float32(), pa.array([0.1, 0.10000000001])),
        (pa.int32(), pa.array([1.5, 1.0])),
        (pa.int8(), pa.array([300, 1])),
    ],
    ids=["decimal", "float", "fraction", "too large"],
)
def test_an_upsert_refuses_keys_that_would_be_others_once_they_are_stored(tmp_path, stored, given):
    keyed = tablespec.create_table(str(tmp_path), pa.schema({"id": stored, "n": pa.int64()}), key=["id"])
    before = contents(tmp_path)

    with pytest.raises(TypeMismatchError, match="would be another one; cast the column"):
        keyed.upsert(pa.table({"id": given, "n": [1, 2]}))

    assert contents(tmp_path) == before


def test_an_upsert_takes_keys_of_another_type_that_the_column_holds_as_they_are(tmp_path):
    schema = pa.schema({"id": pa.float32(), "n": pa.int64()})
    keyed = tablespec.create_table(str(tmp_path), schema, key=["id"])
    for number in range(2):
        keyed.upsert(pa.table({"id": [0.5, math.nan, -0.0], "n": [number] * 3}))

    assert_same_rows(keyed.scan(), [(0.5, 1), (math.nan, 1), (-0.0, 1)])


def test_an_upsert_of_columns_that_the_table_has_not_is_refused(table, tmp_path):
    before = contents(tmp_path)

    with pytest.raises(SchemaMismatchError, match="the column fair is not in the table"):
        table.upsert(pa.table({"id": [1, 4], "fair": [9.0, 8.0]}))

    assert contents(tmp_path) == before


@both
@pytest.mark.parametrize(
    ("on", "left"),
    [
        ("t.id = s.id and t.city = 'sf'", [1]),
        ("t.id = s.id and t.city is null", [3]),
        ("t.fare >= 20", [2]),
        ("t.id = s.id and s.city = 'y'", [2]),
        ("s.city = 'y'", [1, 2, 3]),
        ("t.id = s.id and t.city = 'sf' and s.city = 'x'", [1]),
    ],
)
def test_a_condition_may_have_parts_about_one_side_alone(table, strategy, on, left):
    source = rows((1, "x", 0.0), (2, "y", 0.0), (3, "x", 0.0))

    done = table.merge(source, on, tablespec.when_matched_delete(), strategy=strategy)

    assert done.rows_deleted == len(left)
    assert_same_rows(table.scan(), [row for row in ROWS if row[0] not in left])


def test_an_upsert_finds_a_key_without_characters_outside_of_partitions(tmp_path):
    keyed = tablespec.create_table(str(tmp_path), SCHEMA, key=["city"])
    for number in range(2):
        keyed.upsert(rows((number, "", 1.0)))

    assert_same_rows(keyed.scan(), [(1, "", 1.0)])


def test_a_table_without_a_record_key_cannot_be_upserted(tmp_path):
    keyless = tablespec.create_table(str(tmp_path / "keyless"), SCHEMA)

    with pytest.raises(NoRecordKeyError):
        keyless.upsert(rows((1, "x", 1.0)))


@pytest.mark.parametrize("clause", ["x", [tablespec.when_matched_update()]], ids=["text", "list"])
def test_what_is_no_clause_is_refused(table, clause):
    with pytest.raises(InvalidOptionError, match=r"clauses is .*; expected clauses one by one"):
        table.merge(rows((1, "x", 1.0)), "t.id = s.id", clause)


def test_a_condition_in_the_place_of_values_is_refused_with_the_way_out():
    with pytest.raises(InvalidPredicateError, match="where="):
        tablespec.when_not_matched_insert("s.id > 1")


@both
@pytest.mark.parametrize(
    "name", ["_number", "_given", "_group", "_old", "_source_row", "_key0", "_row_commit_version", "t", "s"]
)
def test_columns_of_the_table_may_be_named_like_anything_that_a_merge_makes_by_itself(tmp_path, name, strategy):
    schema = pa.schema({"id": pa.int64(), name: pa.int64()})
    table = tablespec.create_table(str(tmp_path), schema, key=["id"], properties={"delta.enableChangeDataFeed": "true"})
    table.append(pa.table([[1, 2, 3], [10, 20, 30]], schema=schema))

    table.upsert(pa.table([[1, 1, 4], [11, 12, 40]], schema=schema), order_by=name, strategy=strategy)
    table.merge(
        pa.table([[2, 5], [21, 50]], schema=schema),
        f"t.id = s.id and t.`{name}` < s.`{name}`",
        tablespec.when_matched_update(),
        tablespec.when_not_matched_insert(),
        tablespec.when_not_matched_by_source_delete(f"t.`{name}` = 30"),
        strategy=strategy,
    )

    assert_same_rows(table.scan(), [(1, 12), (2, 21), (4, 40), (5, 50)])


@pytest.mark.parametrize("name", ["_op", "_case", "_row", "_row_id", "_file", "_position", "_change_type"])
def test_columns_named_like_those_of_a_page_are_refused_by_name(tmp_path, name):
    schema = pa.schema({"id": pa.int64(), name: pa.int64()})
    table = tablespec.create_table(str(tmp_path), schema, key=["id"], properties={"delta.enableChangeDataFeed": "true"})
    data = pa.table([[1, 2], [10, 20]], schema=schema)
    table.append(data)
    before = contents(tmp_path)

    for change in (
        lambda: table.upsert(data),
        lambda: table.merge(data, "t.id = s.id", tablespec.when_matched_update()),
        lambda: table.update({name: 1}, "id = 1"),
        table.begin_update,
        table.begin_merge,
    ):
        with pytest.raises(UnsupportedTableError, match=rf"named {name}, .* rename it"):
            change()

    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["__tablespec_number", "__tablespec_key0", "__tablespec_old"])
@pytest.mark.parametrize("side", ["table", "source"])
def test_columns_named_like_those_of_a_merge_are_refused_by_name(tmp_path, name, side):
    columns = {"id": pa.int64()} | ({name: pa.int64()} if side == "table" else {})
    table = tablespec.create_table(str(tmp_path), pa.schema(columns), key=["id"])
    table.append(pa.table({column: [1] for column in columns}))
    before = contents(tmp_path)

    with pytest.raises(InvalidSchemaError, match=f"the {side} has a column {name}, .* rename it"):
        source = pa.table({"id": [1], name if side == "source" else "x": [1]})
        table.merge(source, "t.id = s.id", tablespec.when_matched_update(), tablespec.when_not_matched_insert())

    assert contents(tmp_path) == before


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_column_named_like_the_group_of_a_row_is_refused_by_name(tmp_path, strategy):
    schema = pa.schema({"id": pa.int64(), "__tablespec_group": pa.int64()})
    table = tablespec.create_table(str(tmp_path), schema)
    table.append(pa.table([[1, 2], [10, 20]], schema=schema))
    before = contents(tmp_path)

    for change in (table.delete, lambda where, **how: table.update({"id": 3}, where, **how)):
        with pytest.raises(UnsupportedTableError, match=r"named __tablespec_group, .* rename it"):
            change("id = 1", strategy=strategy)

    assert contents(tmp_path) == before


def test_an_upsert_names_what_the_data_lacks(table):
    with pytest.raises(ColumnNotFoundError, match="the data has no column 'id'"):
        table.upsert(rows((1, "sf", 1.0)).drop(["id"]))
    with pytest.raises(ColumnNotFoundError, match="the data has no column 'fare'"):
        table.upsert(rows((1, "sf", 1.0)).drop(["fare"]), order_by="fare")
    with pytest.raises(ColumnNotFoundError, match="the table has no column 'when'"):
        table.upsert(rows((1, "sf", 1.0)), order_by="when")


@pytest.mark.parametrize("nested", [pa.struct({"x": pa.int64()}), pa.list_(pa.int64())], ids=str)
def test_records_are_neither_told_apart_nor_ordered_by_nested_values(tmp_path, nested):
    schema = pa.schema({"id": pa.int64(), "v": nested})
    data = pa.table([[1], pa.array([None], nested)], schema=schema)

    with pytest.raises(UnsupportedTypeError, match="column v"):
        tablespec.create_table(f"{tmp_path}/keyed", schema, key=["v"]).upsert(data)
    with pytest.raises(UnsupportedTypeError, match="column v"):
        tablespec.create_table(f"{tmp_path}/ordered", schema, key=["id"]).upsert(data, order_by="v")


def test_a_clause_that_sets_a_column_twice_is_refused(table):
    for clause in (tablespec.when_matched_update, tablespec.when_not_matched_insert):
        with pytest.raises(InvalidPredicateError, match="fare is set twice"):
            table.merge(rows((1, "x", 1.0)), "t.id = s.id", clause({"fare": "1", "FARE": "2"}))


def test_a_source_with_the_same_column_twice_is_refused(table):
    source = pa.table({"id": [1], "ID": [2], "fare": [1.0]})

    with pytest.raises(SchemaMismatchError, match="the column id stands more than once"):
        table.merge(source, "t.id = s.id", tablespec.when_matched_update({"fare": "s.fare"}))


def test_a_value_that_does_not_fit_is_told_with_its_column(table):
    with pytest.raises(TypeMismatchError, match="column fare is of type double"):
        table.merge(rows((1, "x", 1.0)), "t.id = s.id", tablespec.when_matched_update({"Fare": "s.city"}))
    with pytest.raises(TypeMismatchError, match="column fare is of type double"):
        table.update({"Fare": "city"}, "id = 1")
