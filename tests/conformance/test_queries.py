"""What an engine pushes down never changes the rows that come out."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tablespec
from tests.conformance.cells import cells, engines
from tests.rows import assert_same_rows

NAN = float("nan")
SCHEMA = pa.schema(
    {
        "n": pa.int64(),
        "x": pa.float64(),
        "s": pa.string(),
        "d": pa.date32(),
        "m": pa.decimal128(6, 2),
        "p": pa.string(),
        "q": pa.int32(),
    }
)
ROWS = [
    (1, 0.0, "a", date(2024, 1, 1), Decimal("1.50"), "x", 1),
    (2, -0.0, "b%", date(2024, 1, 2), Decimal("-1.50"), "x", 2),
    (3, NAN, None, None, None, "y", 1),
    (4, None, "_b", date(2024, 1, 2), Decimal("0.00"), None, 1),
    (None, 1.5, "", date(1999, 12, 31), Decimal("9999.99"), "y", None),
    (6, float("inf"), "a", None, Decimal("1.50"), None, None),
    (7, -1.5, "ab", date(2024, 1, 3), None, "x", 2),
]
CONSTANTS = {
    "n": ["1", "3", "6"],
    "x": ["0.0", "1.5", "-1.5"],
    "s": ["'a'", "'b%'", "''"],
    "d": ["DATE '2024-01-02'", "DATE '1999-12-31'"],
    "m": ["1.50", "0.00"],
    "p": ["'x'", "'y'"],
    "q": ["1", "2"],
}
COMPARED = st.sampled_from(sorted(CONSTANTS)).flatmap(
    lambda column: st.one_of(
        st.builds(
            lambda op, value: f"{column} {op} {value}",
            st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
            st.sampled_from(CONSTANTS[column]),
        ),
        st.builds(
            lambda values: f"{column} IN ({', '.join(values)})",
            st.lists(st.sampled_from(CONSTANTS[column]), min_size=1, max_size=2),
        ),
        st.sampled_from([f"{column} IS NULL", f"{column} IS NOT NULL"]),
    )
)
PREDICATES = st.recursive(
    COMPARED | st.sampled_from(["s LIKE 'a%'", "s LIKE '%b'"]),
    lambda inner: st.one_of(
        st.builds(lambda left, right: f"({left} AND {right})", inner, inner),
        st.builds(lambda left, right: f"({left} OR {right})", inner, inner),
        st.builds(lambda one: f"(NOT {one})", inner),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> tablespec.Table:
    """A partitioned table of several files, some with deleted rows."""
    made = tablespec.create_table(str(tmp_path_factory.mktemp("queries") / "t"), SCHEMA, partition_by=["p", "q"])
    made.append(_arrow([*ROWS[:4], (100, 1.0, "gone", None, None, "x", 1)]))
    made.append(_arrow(ROWS[4:]))
    made.delete("n = 100")
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tablespec.Table:
    """The same rows in one file of an unpartitioned table."""
    made = tablespec.create_table(str(tmp_path_factory.mktemp("queries") / "whole"), SCHEMA)
    made.append(_arrow(ROWS))
    return made


def _arrow(rows) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA)


@pytest.mark.parametrize(("engine", "capability"), cells("Queries"))
def test_an_engine_answers_queries(started, engine, capability, table):
    with started(engine) as running:
        match capability:
            case "projection":
                found = running.query(table, ["q", "n"], "true", None)
                assert_same_rows(found, [(row[6], row[0]) for row in ROWS])
            case "filters":
                found = running.query(table, ["n"], "p = 'x' AND (x < 0.5 OR s = 'ab')", None)
                assert_same_rows(found, [(1,), (2,), (7,)])
            case "limit":
                assert running.query(table, ["n"], "true", 3).num_rows == 3
                assert running.query(table, ["n"], "p = 'x'", 2).num_rows == 2
            case "time travel":
                assert_same_rows(running.read("scan", table, at=1, columns=["n"]), [(1,), (2,), (3,), (4,), (100,)])


@pytest.mark.parametrize("engine", engines())
def test_filters_give_the_rows_that_match_whatever_is_pushed_down(started, engine, table, whole):
    """The filter of a scan and that of the engine itself, beside a table where nothing can be left out."""

    @settings(max_examples=12 if engine == "spark" else 40)
    @given(PREDICATES, st.sampled_from([SCHEMA.names, ["n", "s"], ["p"]]))
    def check(running, predicate, columns):
        expected = whole.scan(predicate, columns).to_table()

        assert_same_rows(running.read("scan", table, where=predicate, columns=columns), expected)
        assert_same_rows(running.query(table, columns, predicate, None), expected)

    with started(engine) as running:
        check(running)


@pytest.mark.parametrize("engine", engines())
def test_a_nan_beside_numbers_is_greater_than_each_of_them(started, engine, tmp_path):
    """Footers leave NaN out of their bounds, by which engines would leave out the whole row group."""
    member = pa.struct({"x": pa.float32()})
    table = tablespec.create_table(str(tmp_path / "t"), pa.schema({"n": pa.int64(), "x": pa.float64(), "m": member}))
    values = [0.0, NAN, None, -1.0]
    table.append(pa.table({"n": range(4), "x": values, "m": pa.array([{"x": value} for value in values], member)}))

    with started(engine) as running:
        assert_same_rows(running.query(table, ["n"], "x > 0", None), [(1,)])
        assert_same_rows(running.query(table, ["n"], "m.x > 0", None), [(1,)])
        assert_same_rows(running.read("scan", table, where="x >= 0", columns=["n"]), [(0,), (1,)])


@pytest.mark.parametrize("engine", engines())
def test_a_nan_in_files_of_other_writers_is_found_by_the_filter_of_a_read(started, engine, tmp_path):
    """Theirs have bounds that leave NaN out."""
    member = pa.struct({"x": pa.float32()})
    values = [0.5, NAN]
    data = pa.table({"n": range(2), "x": values, "m": pa.array([{"x": value} for value in values], member)})
    deltalake.write_deltalake(tmp_path / "t", data)
    table = tablespec.open_table(str(tmp_path / "t"))

    with started(engine) as running:
        for where in ("x > 1.0", "x >= 1.0", "x <> 0.5", "not x <= 0.5", "not x in (0.5)", "m.x > 1", "m.x <> 0.5"):
            assert_same_rows(running.read("scan", table, where=where, columns=["n"]), [(1,)])
