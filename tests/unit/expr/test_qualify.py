"""Columns of several tables are told apart by the names of the tables."""

from __future__ import annotations

import pytest

from tablespec.errors import AmbiguousColumnError, ColumnNotFoundError
from tablespec.expr.bind_value import bind_qualified, bind_value
from tablespec.expr.nodes import Column
from tablespec.expr.render_value import render_value
from tablespec.model.schema import INTEGER, LONG, STRING, DataType, Field, Schema, StructType

INNER = StructType((Field(name="City", type=STRING), Field(name="zip", type=INTEGER)))
PAIR = Schema(
    (
        Field(name="t", type=StructType((Field(name="id", type=INTEGER), Field(name="Only", type=STRING)))),
        Field(
            name="s",
            type=StructType(
                (Field(name="ID", type=LONG), Field(name="extra", type=INNER), Field(name="t", type=INNER))
            ),
        ),
    )
)


@pytest.mark.parametrize(
    ("text", "path", "type_"),
    [
        ("t.id", ("t", "id"), INTEGER),
        ("S.id", ("s", "ID"), LONG),
        ("only", ("t", "Only"), STRING),
        ("extra", ("s", "extra"), INNER),
        ("extra.zip", ("s", "extra", "zip"), INTEGER),
        ("s.extra.zip", ("s", "extra", "zip"), INTEGER),
        ("s.t.zip", ("s", "t", "zip"), INTEGER),
        ("t", ("s", "t"), INNER),
    ],
)
def test_a_column_is_found_in_the_table_it_names_or_in_the_only_one_that_has_it(
    text: str, path: tuple[str, ...], type_: DataType
) -> None:
    assert bind_value(text, PAIR, None, ("t", "s")) == Column(path, type_)


def test_a_column_of_several_tables_is_ambiguous_and_both_are_named() -> None:
    with pytest.raises(AmbiguousColumnError, match=r"'id' is ambiguous; write t\.id or s\.id"):
        bind_value("id + 1", PAIR, None, ("t", "s"))
    with pytest.raises(AmbiguousColumnError):
        bind_qualified("id = 1", PAIR, ("t", "s"))


def test_a_column_of_no_table_is_named_with_its_neighbours() -> None:
    with pytest.raises(ColumnNotFoundError, match="a row of t and s has no column 'onyl'; did you mean Only"):
        bind_value("onyl", PAIR, None, ("t", "s"))
    with pytest.raises(ColumnNotFoundError, match=r"^t has no column 'onyl'; did you mean Only"):
        bind_value("t.onyl", PAIR, None, ("t", "s"))
    with pytest.raises(
        ColumnNotFoundError, match=r"^the struct s\.extra has no column 's\.extra\.zap'; did you mean zip"
    ):
        bind_value("s.extra.zap", PAIR, None, ("t", "s"))


def test_only_the_named_structs_stand_for_tables() -> None:
    assert bind_value("id", PAIR, None, ("s",)) == Column(("s", "ID"), LONG)
    with pytest.raises(ColumnNotFoundError):
        bind_value("id", PAIR)


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("t.id = s.id", "t.id = s.id"),
        ("only IS NULL OR NOT extra.zip IN (1, 2)", "t.only IS NULL OR NOT s.extra.zip IN (1, 2)"),
        ("only LIKE 'a%' AND extra.zip > 1.5", "t.only LIKE 'a%' AND s.extra.zip > 1.5"),
        ("MATCH(only, 'word') AND TRUE", "MATCH(t.only, 'word')"),
        ("1 < extra.zip", "s.extra.zip > 1"),
    ],
)
def test_predicates_about_several_tables_are_bound_with_their_tables(text: str, same_as: str) -> None:
    assert bind_qualified(text, PAIR, ("t", "s")) == bind_qualified(same_as, PAIR, ())


def test_conditions_inside_a_value_see_the_same_tables() -> None:
    bound = bind_value("if(only IS NULL, s.id, t.id + 1)", PAIR, INTEGER, ("t", "s"))

    assert render_value(bound) == (
        "CASE WHEN `t`.`Only` IS NULL THEN CAST(`s`.`ID` AS INTEGER) "
        "ELSE CAST(CAST(`t`.`id` + 1 AS BIGINT) AS INTEGER) END"
    )
