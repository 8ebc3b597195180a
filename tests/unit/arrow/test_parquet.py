"""Parquet files read through a table's eyes: the right columns, rows with their positions, and no row group too few."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.arrow.convert import Finder, by_field_id, by_stored_name
from tablespec.arrow.evaluate import matching
from tablespec.arrow.parquet import group_bounds, read_positioned
from tablespec.arrow.schema import FIELD_ID, arrow_schema, schema_of
from tablespec.errors import TypeMismatchError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.model.schema import (
    DOUBLE,
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
from tests.unit.expr.random_predicates import SCHEMA, Row, predicates, rows

SHORT = Schema((Field(name="id", type=LONG),))


def file_of(table: pa.Table, rows_per_group: int = 3, **settings_: object) -> pq.ParquetFile:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows_per_group, **settings_)
    return pq.ParquetFile(sink, coerce_int96_timestamp_unit="us")


def read(
    file: pq.ParquetFile,
    schema: Schema,
    where: str | Predicate = TRUE,
    find: Finder = by_stored_name,
    batch_rows: int = 1000,
) -> list[tuple[int, list[dict[str, object]]]]:
    """The batches of a file: the position of the first row, and the rows."""
    predicate = bind(where, schema)
    found = read_positioned(file, schema, find, predicate, batch_rows)
    return [(piece.start, piece.batch.to_pylist()) for piece in found]


def columns(*fields: tuple[str, DataType]) -> Schema:
    return Schema(tuple(Field(name=name, type=type_) for name, type_ in fields))


# --- rows and their positions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 4, 100])
def test_every_row_comes_once_with_its_position(batch_rows):
    file = file_of(pa.table({"id": list(range(10))}))

    pieces = read(file, SHORT, batch_rows=batch_rows)

    found = [(start + index, row["id"]) for start, rows_ in pieces for index, row in enumerate(rows_)]
    assert found == [(number, number) for number in range(10)]
    assert all(len(rows_) <= batch_rows for _, rows_ in pieces)


def test_wide_rows_come_a_few_at_a_time():
    notes = [f"{number:08d}" * 512 for number in range(4096)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(4096), "note": notes}), sink, use_dictionary=False)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))

    def sizes(schema: Schema) -> list[int]:
        return [piece.batch.num_rows for piece in read_positioned(file, schema, by_stored_name)]

    assert sizes(columns(("id", LONG))) == [4096]
    assert sizes(columns(("id", LONG), ("note", STRING))) == [1024] * 4


def test_positions_count_the_rows_of_row_groups_that_are_left_out():
    file = file_of(pa.table({"id": list(range(10))}))

    assert read(file, SHORT, "id = 7") == [(6, [{"id": 6}, {"id": 7}, {"id": 8}])]
    assert read(file, SHORT, "id < 1 OR id > 8") == [(0, [{"id": 0}, {"id": 1}, {"id": 2}]), (9, [{"id": 9}])]
    assert read(file, SHORT, "id = 50") == []


@pytest.mark.parametrize("batch_rows", [2, 100])
def test_rows_come_with_their_positions_when_no_column_is_asked_for(batch_rows):
    file = file_of(pa.table({"id": list(range(5))}))

    pieces = read(file, Schema(()), batch_rows=batch_rows)

    assert [(start + index, row) for start, rows_ in pieces for index, row in enumerate(rows_)] == [
        (number, {}) for number in range(5)
    ]


def test_columns_that_the_file_lacks_are_null_for_every_row():
    file = file_of(pa.table({"id": [1, 2, 3, 4]}))
    nested = StructType((Field(name="a", type=LONG),))

    assert read(file, columns(("new", STRING), ("s", nested))) == [
        (0, [{"new": None, "s": None}] * 3),
        (3, [{"new": None, "s": None}]),
    ]
    assert read(file, columns(("new", STRING), ("id", LONG)))[1] == (3, [{"new": None, "id": 4}])


def test_an_empty_file_has_no_rows():
    assert read(file_of(pa.table({"id": pa.array([], pa.int64())})), SHORT) == []


# --- columns ----------------------------------------------------------------------------------------------------------


def test_columns_come_in_the_order_and_the_types_asked_for():
    file = file_of(
        pa.table({"a": pa.array([1], pa.int32()), "b": ["x"], "extra": [1.5], "c": pa.array([5], pa.int16())})
    )
    schema = columns(("c", DecimalType(7, 2)), ("b", STRING), ("a", LONG))

    (piece,) = read_positioned(file, schema, by_stored_name)

    assert piece.batch.schema.equals(arrow_schema(schema))
    assert piece.batch.to_pylist() == [{"c": Decimal("5.00"), "b": "x", "a": 1}]


def test_a_required_column_may_still_be_null_in_old_files():
    schema = Schema((Field(name="id", type=LONG, nullable=False), Field(name="new", type=LONG, nullable=False)))

    (piece,) = read_positioned(file_of(pa.table({"id": [1]})), schema, by_stored_name)

    assert piece.batch.to_pylist() == [{"id": 1, "new": None}]
    assert all(field.nullable for field in piece.batch.schema)


def test_columns_are_found_by_id_where_the_table_wants_it():
    inner = pa.struct([pa.field("old inner", pa.int64(), metadata={FIELD_ID: b"3"})])
    stored = pa.schema(
        [
            pa.field("b", pa.int64(), metadata={FIELD_ID: b"1"}),
            pa.field("a", pa.int64(), metadata={FIELD_ID: b"2"}),
            pa.field("s", pa.list_(pa.field("element", inner)), metadata={FIELD_ID: b"4"}),
            pa.field("c", pa.int64()),
        ]
    )
    file = file_of(pa.table([[1, 10], [2, 20], [[{"old inner": 3}], []], [4, 40]], schema=stored))
    member = Field(name="inner", type=LONG, field_id=3)
    schema = Schema(
        (
            Field(name="a", type=LONG, field_id=1),
            Field(name="b", type=LONG, field_id=2),
            Field(name="t", type=ArrayType(StructType((member,))), field_id=4),
            Field(name="c", type=LONG, field_id=5),
        )
    )

    ((_, found),) = read(file, schema, find=by_field_id)

    assert found == [
        {"a": 1, "b": 2, "t": [{"inner": 3}], "c": None},
        {"a": 10, "b": 20, "t": [], "c": None},
    ]
    assert read(file, schema, "a = 2", find=by_field_id)[0][0] == 0
    assert read(file, schema, "a > 10", find=by_field_id) == []


def test_names_with_dots_are_columns_and_not_paths():
    table = pa.table({"a.b": [1, 2], "a": pa.array([{"b": 10}, {"b": 20}]), "a.c": [5, 6]})
    struct = StructType((Field(name="b", type=LONG),))
    file = file_of(table, rows_per_group=1)

    assert read(file, columns(("a", struct), ("a.b", LONG))) == [
        (0, [{"a": {"b": 10}, "a.b": 1}]),
        (1, [{"a": {"b": 20}, "a.b": 2}]),
    ]
    assert rows_where(file, columns(("a", struct)), "a.b = 20") == [{"a": {"b": 20}}]
    assert rows_where(file, columns(("a.b", LONG)), "`a.b` = 2") == [{"a.b": 2}]
    assert read(file, columns(("a.c", LONG)), "`a.c` = 6") == [(1, [{"a.c": 6}])]


def rows_where(file: pq.ParquetFile, schema: Schema, where: str | Predicate) -> list[dict[str, object]]:
    """The rows that match: those of the chosen row groups, filtered."""
    predicate = bind(where, schema)
    found = []
    for piece in read_positioned(file, schema, by_stored_name, predicate):
        found += piece.batch.filter(matching(predicate, piece.batch)).to_pylist()
    return found


@pytest.mark.parametrize("year", [1678, 1970, 2261])
def test_timestamps_of_the_old_kind_of_96_bits_are_read(year):
    moment = datetime(year, 6, 1, 12, 30, 15, 123456, tzinfo=UTC)
    table = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    file = file_of(table, use_deprecated_int96_timestamps=True)

    assert file.schema.column(0).physical_type == "INT96"
    assert read(file, columns(("at", TIMESTAMP))) == [(0, [{"at": moment}])]
    assert rows_where(file, columns(("at", TIMESTAMP)), "at > TIMESTAMP '1600-01-01 00:00:00'") == [{"at": moment}]


# --- row groups -------------------------------------------------------------------------------------------------------


@given(rows_=st.lists(rows(), max_size=6), predicate=predicates(), size=st.integers(1, 4))
def test_leaving_row_groups_out_never_changes_the_rows_that_match(
    rows_: Sequence[Row], predicate: Predicate, size: int
):
    file = file_of(pa.Table.from_pylist([dict(row) for row in rows_], arrow_schema(SCHEMA)), size)
    (everything, chosen) = (
        [piece.batch for piece in read_positioned(file, SCHEMA, by_stored_name, pushed)]
        for pushed in (TRUE, bind(predicate, SCHEMA))
    )

    def matches(batches: Sequence[pa.RecordBatch]) -> list[str]:
        bound = bind(predicate, SCHEMA)
        return [repr(row) for batch in batches for row in batch.filter(matching(bound, batch)).to_pylist()]

    assert matches(chosen) == matches(everything)


@given(rows_=st.lists(rows(), max_size=6), predicate=predicates(), size=st.integers(1, 4))
def test_the_position_of_a_row_does_not_depend_on_the_row_groups_left_out(rows_, predicate, size):
    file = file_of(pa.Table.from_pylist([dict(row) for row in rows_], arrow_schema(SCHEMA)), size)
    at = dict(read(file, SCHEMA))

    for start, batch in read(file, SCHEMA, predicate):
        assert repr(at[start]) == repr(batch)


@pytest.mark.parametrize(
    ("array", "type_", "where", "groups"),
    [
        (pa.array([1, 2, 3], pa.int32()), LONG, "x > 2", [2]),
        (pa.array([1, 2, 3], pa.int32()), DecimalType(12, 2), "x = 2.00", [1]),
        (
            pa.array([date(2020, 1, 1), date(2021, 1, 1), None]),
            TIMESTAMP_NTZ,
            "x > TIMESTAMP '2020-06-01 00:00:00'",
            [1],
        ),
        (pa.array([1, None, 3]), LONG, "x IS NULL", [1]),
        (pa.array(["a", "b", "c"]), STRING, "x = 'b'", [1]),
        (pa.array([1, 2, 10]), STRING, "x = '10'", [0, 1, 2]),
        (pa.array([1.5, float("nan"), 3.0]), DOUBLE, "x < 2", [0, 1]),
        (pa.array([5, 6, 7], pa.timestamp("ms", "UTC")), TIMESTAMP, "x = TIMESTAMP '1970-01-01 00:00:00.006'", [1]),
        (pa.array([0, 2**62, 1], pa.timestamp("us")), TIMESTAMP_NTZ, "x > TIMESTAMP '2000-01-01 00:00:00'", [1]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_row_groups_are_chosen_by_bounds_in_the_type_of_the_column(array, type_, where, groups):
    schema = columns(("x", type_))
    file = file_of(pa.table({"x": array}), rows_per_group=1)

    pieces = read_positioned(file, schema, by_stored_name, bind(where, schema))

    assert [piece.start for piece in pieces] == groups


def test_nanoseconds_that_a_table_cannot_hold_are_told_and_not_rounded():
    file = file_of(pa.table({"x": pa.array([1000, 1001, 5000], pa.timestamp("ns"))}), rows_per_group=1)
    schema = columns(("x", TIMESTAMP_NTZ))

    assert read(file, schema, "x IS NULL") == []
    with pytest.raises(TypeMismatchError, match="x"):
        read(file, schema, "x > TIMESTAMP '2000-01-01 00:00:00'")


def test_a_file_without_statistics_is_read_whole():
    file = file_of(pa.table({"id": list(range(6))}), write_statistics=False)

    assert [start for start, _ in read(file, SHORT, "id = 1")] == [0, 3]


def test_bounds_of_nested_leaves_are_found():
    file = file_of(pa.table({"s": pa.array([{"n": 1}, None, {"n": 5}, {"n": None}])}), rows_per_group=2)
    schema = columns(("s", StructType((Field(name="n", type=LONG),))))

    bounds = group_bounds(file, schema, by_stored_name, ("s", "n"))

    assert (bounds.min.to_pylist(), bounds.max.to_pylist(), bounds.null_count.to_pylist()) == ([1, 5], [1, 5], [1, 1])


@pytest.mark.parametrize("path", [("missing",), ("s", "missing"), ("s",), ("list",)])
def test_columns_without_bounds_have_none(path):
    file = file_of(pa.table({"s": pa.array([{"n": 1}]), "list": [[1]]}))
    schema = columns(
        ("missing", LONG), ("s", StructType((Field(name="missing", type=LONG),))), ("list", ArrayType(LONG))
    )

    assert group_bounds(file, schema, by_stored_name, path) is None


VIEW = pa.string_view()


@pytest.mark.parametrize(
    ("views", "plain", "values"),
    [
        (VIEW, pa.string(), ["a", None, "c"]),
        (pa.binary_view(), pa.binary(), [b"a", None, b"\x00"]),
        (pa.list_(VIEW), pa.list_(pa.string()), [["a", None], None, []]),
        (pa.large_list(VIEW), pa.list_(pa.string()), [["a", None], None, []]),
        (pa.map_(VIEW, VIEW), pa.map_(pa.string(), pa.string()), [[("k", "v")], None, []]),
        (pa.struct({"a": VIEW}), pa.struct({"a": pa.string()}), [{"a": "x"}, None, {"a": None}]),
        (
            pa.struct({"l": pa.list_(VIEW)}),
            pa.struct({"l": pa.list_(pa.string())}),
            [{"l": ["x"]}, None, {"l": [None]}],
        ),
    ],
    ids=str,
)
def test_rows_of_files_that_call_their_texts_views_can_be_chosen(views, plain, values):
    file = file_of(pa.table({"v": pa.array(values, views)}))
    schema = schema_of(pa.schema({"v": plain}))
    assert file.schema_arrow.field("v").type == views

    (piece,) = read_positioned(file, schema, by_stored_name)

    assert (
        piece.take(pa.array([2, 0])).batch.column("v").to_pylist()
        == pa.array([values[2], values[0]], plain).to_pylist()
    )
