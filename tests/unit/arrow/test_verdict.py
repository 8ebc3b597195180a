"""What is concluded from bounds holds for every row, and enough is concluded to be worth it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import attrs
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, outcomes, verdicts
from tablespec.expr.bind import bind
from tablespec.expr.nodes import Column, In, Literal, Predicate
from tablespec.expr.verdict import Verdict
from tablespec.model.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    Field,
    Schema,
)
from tests.unit.expr.random_predicates import SCHEMA, Row, predicates, rows, truth

FACTS = Schema(
    (
        Field(name="x", type=LONG),
        Field(name="y", type=LONG),
        Field(name="f", type=DOUBLE),
        Field(name="g", type=DOUBLE),
        Field(name="s", type=STRING),
        Field(name="d", type=DATE),
        Field(name="t", type=TIMESTAMP),
        Field(name="p", type=DecimalType(5, 2)),
        Field(name="b", type=BOOLEAN),
    )
)


@attrs.frozen(kw_only=True)
class Fact:
    """What is known of one column of one file."""

    min: object = None
    max: object = None
    nulls: int | None = 0
    nan_free: bool = False


def judge(predicate: str | Predicate, files: Sequence[Mapping[str, Fact]], rows_each: int | None = 10) -> list[Verdict]:
    def bounds_of(path: tuple[str, ...]) -> ColumnBounds:
        return columnar([file.get(path[0], Fact(nulls=None)) for file in files], FACTS.field(*path).type)

    counts = pa.array([rows_each] * len(files), pa.int64())
    return named(verdicts(bind(predicate, FACTS), bounds_of, counts, len(files)))


def judge_one(predicate: str | Predicate, rows_each: int | None = 10, **columns: Fact) -> Verdict:
    return judge(predicate, [columns], rows_each)[0]


def columnar(facts: Iterable[Fact], type_: DataType) -> ColumnBounds:
    facts, arrow = tuple(facts), arrow_type(type_)
    return ColumnBounds(
        pa.array([fact.min for fact in facts], arrow),
        pa.array([fact.max for fact in facts], arrow),
        pa.array([fact.nulls for fact in facts], pa.int64()),
        nan_free=pa.array([fact.nan_free for fact in facts], pa.bool_()),
    )


def named(found: tuple[pa.BooleanArray, pa.BooleanArray]) -> list[Verdict]:
    pairs = zip(found[0].to_pylist(), found[1].to_pylist())
    return [Verdict.ALWAYS if always else Verdict.MAYBE if may else Verdict.NEVER for may, always in pairs]


NEVER, ALWAYS, MAYBE = Verdict.NEVER, Verdict.ALWAYS, Verdict.MAYBE


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("x = 5", MAYBE),
        ("x = 21", NEVER),
        ("x = 0", NEVER),
        ("x != 21", ALWAYS),
        ("x != 5", MAYBE),
        ("x < 1", NEVER),
        ("x < 2", MAYBE),
        ("x < 21", ALWAYS),
        ("x <= 0", NEVER),
        ("x <= 1", MAYBE),
        ("x <= 20", ALWAYS),
        ("x > 20", NEVER),
        ("x > 19", MAYBE),
        ("x > 0", ALWAYS),
        ("x >= 21", NEVER),
        ("x >= 20", MAYBE),
        ("x >= 1", ALWAYS),
        ("x <=> 21", NEVER),
        ("x IS NULL", NEVER),
        ("x IS NOT NULL", ALWAYS),
        ("x IN (0, 21, 30)", NEVER),
        ("x IN (0, 5, 30)", MAYBE),
        ("x NOT IN (0, 21, 30)", ALWAYS),
        ("x BETWEEN 0 AND 30", ALWAYS),
        ("x NOT BETWEEN 0 AND 30", NEVER),
        ("x < 1 OR x > 20", NEVER),
        ("NOT (x < 1 OR x > 20)", ALWAYS),
        ("x > 0.5", ALWAYS),
        ("x < 99999999999999999999", ALWAYS),
        ("x = 1.5", NEVER),
        ("TRUE", ALWAYS),
        ("FALSE", NEVER),
        ("NULL", NEVER),
        ("NOT NULL", NEVER),
    ],
)
def test_a_file_with_values_from_1_to_20(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, x=Fact(min=1, max=20)) is verdict


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("x = 5", ALWAYS),
        ("x != 5", NEVER),
        ("x IN (1, 5)", ALWAYS),
        ("x NOT IN (1, 5)", NEVER),
        ("x <=> 5", ALWAYS),
        ("NOT x <=> 5", NEVER),
    ],
)
def test_a_file_with_one_value_only(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, x=Fact(min=5, max=5)) is verdict


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [("x = 5", MAYBE), ("x != 5", NEVER), ("x <=> 5", MAYBE), ("x IS NULL", MAYBE), ("x = 5 OR x IS NULL", MAYBE)],
)
def test_rows_that_are_null_are_never_counted_as_matching(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, x=Fact(min=5, max=5, nulls=3)) is verdict


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("x = 5", NEVER),
        ("x != 5", NEVER),
        ("NOT x = 5", NEVER),
        ("x IN (5)", NEVER),
        ("x IS NULL", ALWAYS),
        ("x IS NOT NULL", NEVER),
        ("x <=> 5", NEVER),
        ("NOT x <=> 5", ALWAYS),
        ("s LIKE 'a%'", NEVER),
        ("x = y", NEVER),
    ],
)
def test_a_file_with_nulls_only(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, x=Fact(nulls=10), y=Fact(min=1, max=2), s=Fact(nulls=10)) is verdict


@pytest.mark.parametrize(
    "predicate", ["x = 5", "x < 5", "x IN (1, 2)", "s LIKE 'a%'", "x IS NULL", "x = y", "NOT x > 3"]
)
def test_nothing_is_concluded_from_nothing(predicate: str) -> None:
    assert judge_one(predicate, rows_each=None) is MAYBE
    everything = outcomes(bind(predicate, FACTS), lambda path: None, pa.array([None], pa.int64()), 1)
    assert everything.true.values.to_pylist() == [True]


def test_one_known_bound_is_enough_for_one_side() -> None:
    assert judge_one("x > 5", x=Fact(max=4, nulls=None)) is NEVER
    assert judge_one("x = 5", x=Fact(max=4, nulls=None)) is NEVER
    assert judge_one("x IN (5, 6)", x=Fact(max=4, nulls=None)) is NEVER
    assert judge_one("x < 5", x=Fact(max=4, nulls=None)) is MAYBE


def test_a_file_without_rows_never_matches() -> None:
    assert judge_one("TRUE", rows_each=0) is NEVER
    assert judge_one("x IS NULL", rows_each=0, x=Fact(nulls=0)) is NEVER


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("f = 5", NEVER),
        ("f < 0", NEVER),
        ("f < 5", MAYBE),
        ("f > 5", MAYBE),
        ("f != 3", MAYBE),
        ("f != 9", ALWAYS),
        ("f = CAST('NaN' AS DOUBLE)", MAYBE),
        ("f IN (5, 6)", NEVER),
        ("f IN (5, CAST('NaN' AS DOUBLE))", MAYBE),
        ("f NOT IN (5, 6)", ALWAYS),
    ],
)
def test_bounds_of_floating_point_say_nothing_about_nan(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, f=Fact(min=1.0, max=4.0)) is verdict


def test_where_nan_is_known_to_be_absent_bounds_of_floating_point_are_as_good_as_others() -> None:
    free = Fact(min=1.0, max=4.0, nan_free=True)

    assert judge_one("f > 5", f=free) is NEVER
    assert judge_one("f <= 4", f=free) is ALWAYS
    assert judge_one("f = CAST('NaN' AS DOUBLE)", f=free) is NEVER
    assert judge_one("f < CAST('NaN' AS DOUBLE)", f=free) is ALWAYS


@pytest.mark.parametrize("predicate", ["f = 5", "f IN (5, 6)", "f != 5", "NOT f IN (5, 6)"])
def test_one_number_within_bounds_may_have_nan_beside_it(predicate: str) -> None:
    assert judge_one(predicate, f=Fact(min=5.0, max=5.0)) is MAYBE


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("x < f", MAYBE),
        ("x = f", NEVER),
        ("f > x", MAYBE),
        ("f <= g", MAYBE),
        ("f = g", MAYBE),
        ("f > g", MAYBE),
    ],
)
def test_columns_that_may_hold_nan_are_compared_with_care(predicate: str, verdict: Verdict) -> None:
    facts = {"x": Fact(min=5, max=6), "f": Fact(min=1.0, max=2.0), "g": Fact(min=5.0, max=6.0)}

    assert judge_one(predicate, **facts) is verdict


def test_bounds_that_are_nan_are_no_bounds() -> None:
    assert judge_one("f < 5", f=Fact(min=math.nan, max=math.nan)) is MAYBE
    assert judge_one("f = 5", f=Fact(min=math.nan, max=math.nan, nan_free=True)) is MAYBE


def test_the_two_zeros_are_one_value() -> None:
    assert judge_one("f = 0", f=Fact(min=-0.0, max=-0.0, nan_free=True)) is ALWAYS
    assert judge_one("f IN (0, 1)", f=Fact(min=-0.0, max=-0.0, nan_free=True)) is ALWAYS


@pytest.mark.parametrize(
    ("predicate", "verdict"),
    [
        ("s LIKE 'b%'", NEVER),
        ("s LIKE 'ab%'", ALWAYS),
        ("s LIKE 'abc%'", MAYBE),
        ("s LIKE 'a%'", ALWAYS),
        ("s NOT LIKE 'a%'", NEVER),
        ("s LIKE 'aa%'", NEVER),
        ("s LIKE '%c%'", MAYBE),
        ("s = 'abd'", MAYBE),
        ("s = 'abz'", NEVER),
        ("s LIKE '%'", ALWAYS),
    ],
)
def test_a_prefix_is_a_range_of_text(predicate: str, verdict: Verdict) -> None:
    assert judge_one(predicate, s=Fact(min="abc", max="abx")) is verdict


def test_a_prefix_of_the_last_character_has_no_upper_end() -> None:
    last = "\U0010ffff"

    assert judge_one(f"s LIKE '{last}%'", s=Fact(min="a", max=last * 2)) is MAYBE
    assert judge_one(f"s LIKE '{last}%'", s=Fact(min="a", max="b")) is NEVER
    assert judge_one("s LIKE '\ud7ff%'", s=Fact(min="\ue000", max="\ue001")) is NEVER


def test_text_inside_is_found_only_in_the_one_value_of_a_file() -> None:
    one = Fact(min="abc", max="abc")

    assert judge_one("s LIKE '%b%'", s=one) is ALWAYS
    assert judge_one("s LIKE '%c'", s=one) is ALWAYS
    assert judge_one("s LIKE '%x%'", s=one) is NEVER


def test_columns_are_compared_by_their_ranges() -> None:
    assert judge_one("x < y", x=Fact(min=1, max=2), y=Fact(min=3, max=4)) is ALWAYS
    assert judge_one("x >= y", x=Fact(min=1, max=2), y=Fact(min=3, max=4)) is NEVER
    assert judge_one("x = y", x=Fact(min=1, max=2), y=Fact(min=3, max=4)) is NEVER
    assert judge_one("x = y", x=Fact(min=1, max=3), y=Fact(min=3, max=4)) is MAYBE
    assert judge_one("x < f", x=Fact(min=1, max=2), f=Fact(min=3.0, max=4.0)) is ALWAYS
    assert judge_one("x <=> y", x=Fact(nulls=10), y=Fact(nulls=10)) is ALWAYS
    assert judge_one("NOT x <=> y", x=Fact(min=1, max=2), y=Fact(nulls=10)) is ALWAYS
    assert judge_one("NOT x <=> y", x=Fact(nulls=10), y=Fact(min=1, max=2)) is ALWAYS


@pytest.mark.parametrize(
    ("predicate", "fact"),
    [
        ("d = '2020-01-05'", Fact(min=date(2020, 1, 1), max=date(2020, 1, 4))),
        ("t > '2020-01-05'", Fact(min=datetime(2020, 1, 1, tzinfo=UTC), max=datetime(2020, 1, 4, tzinfo=UTC))),
        ("p IN (0.5, 3)", Fact(min=Decimal("1.00"), max=Decimal("2.00"))),
        ("b", Fact(min=False, max=False)),
    ],
)
def test_every_type_is_pruned(predicate: str, fact: Fact) -> None:
    column = predicate[0]

    assert judge_one(predicate, **{column: fact}) is NEVER


def test_full_text_search_may_match_anywhere() -> None:
    assert judge_one("MATCH(s, 'word')", s=Fact(min="a", max="b")) is MAYBE


def test_one_of_many_values_is_found_in_the_right_files() -> None:
    wanted = In(Column(("x",)), tuple(Literal(value) for value in range(0, 10_000, 10)))
    files = [{"x": Fact(min=low, max=low + 5)} for low in (-6, -5, 3, 11, 13, 9_985, 9_991, 20_000)]

    assert judge(wanted, files) == [NEVER, MAYBE, NEVER, NEVER, NEVER, MAYBE, NEVER, NEVER]


@attrs.frozen
class File:
    """Rows, some of which have been deleted since the statistics were taken, and how exact those are."""

    live: list[Row]
    deleted: list[Row]
    vague: frozenset[str]
    forgotten: frozenset[str]


NAMES = st.frozensets(st.sampled_from(SCHEMA.names), max_size=4)
FILES = st.lists(
    st.builds(File, st.lists(rows(), max_size=3), st.lists(rows(), max_size=2), NAMES, NAMES), min_size=1, max_size=4
)


def fact_about(file: File, path: tuple[str, ...], field: Field) -> Fact:
    found = [value_at(row, path) for row in (*file.live, *file.deleted)]
    numbers = [value for value in found if value is not None and value == value]
    nulls = None if path[0] in file.forgotten else found.count(None)
    if not numbers or path[0] in file.forgotten:
        return Fact(nulls=nulls)
    low, high = min(numbers, key=_sortable), max(numbers, key=_sortable)
    free = all(value == value for value in found)
    if path[0] in file.vague and field.type == STRING:
        low, high = str(low)[:1], str(high)[:1] + "\U0010ffff" * 3
    return Fact(min=low, max=high, nulls=nulls, nan_free=free and path[0] not in file.vague)


def _sortable(value: object) -> object:
    return value.encode() if isinstance(value, str) else value


def value_at(row: object, path: tuple[str, ...]) -> object:
    for name in path:
        row = row[name] if isinstance(row, Mapping) else None
    return row


@settings(max_examples=300, deadline=None)
@given(predicates(), FILES)
def test_no_verdict_is_ever_wrong(predicate: Predicate, files: list[File]) -> None:
    fields = dict(SCHEMA.leaves())

    def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
        if path not in fields:
            return None
        return columnar((fact_about(file, path, fields[path]) for file in files), fields[path].type)

    counts = pa.array([len(file.live) + len(file.deleted) for file in files], pa.int64())
    possible = outcomes(bind(predicate, SCHEMA), bounds_of, counts, len(files))

    for index, file in enumerate(files):
        seen = {truth(predicate, row) for row in file.live}
        allowed = {True: possible.true, False: possible.false, None: possible.null}
        assert seen <= {outcome for outcome, mask in allowed.items() if mask.values[index].as_py()}


@settings(max_examples=200, deadline=None)
@given(predicates(), rows())
def test_one_row_with_exact_bounds_is_judged_as_it_is(predicate: Predicate, row: Row) -> None:
    assume(not any(value != value for value in row.values()))
    fields = dict(SCHEMA.leaves())
    file = File([row], [], frozenset(), frozenset())

    def bounds_of(path: tuple[str, ...]) -> ColumnBounds:
        if path not in fields:
            return ColumnBounds(None, None, pa.array([int(value_at(row, path) is None)], pa.int64()))
        return columnar([fact_about(file, path, fields[path])], fields[path].type)

    found = verdicts(bind(predicate, SCHEMA), bounds_of, pa.array([1], pa.int64()), 1)

    assert named(found) == [ALWAYS if truth(predicate, row) else NEVER]
