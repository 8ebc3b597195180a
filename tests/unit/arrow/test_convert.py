"""Arrays turned into the types of a table, however deep, wherever they are cut and whatever is null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.arrow.convert import by_field_id, by_logical_name, by_stored_name, convert, nulls, relabelled
from tablespec.arrow.schema import FIELD_ID, arrow_type
from tablespec.errors import TypeMismatchError
from tablespec.model.schema import (
    BINARY,
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
    MapType,
    StructType,
)


def converted(array: pa.Array, data_type: DataType) -> list[object]:
    found = convert(array, Field(name="x", type=data_type), by_stored_name)
    found.validate(full=True)
    assert found.type.equals(arrow_type(data_type))
    return found.to_pylist()


# --- leaves -----------------------------------------------------------------------------------------------------------


def _categories(values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint32()), values)


@pytest.mark.parametrize(
    ("array", "data_type", "values"),
    [
        (pa.array([1, None], pa.int8()), LONG, [1, None]),
        (pa.array([1, None], pa.uint64()), DecimalType(20, 0), [Decimal(1), None]),
        (pa.array([2**53 + 1], pa.int64()), DOUBLE, [2.0**53]),
        (pa.array([1.5, math.inf], pa.float32()), DOUBLE, [1.5, math.inf]),
        (pa.array([1.5], pa.float16()), FLOAT, [1.5]),
        (pa.array([7], pa.int32()), DecimalType(12, 2), [Decimal("7.00")]),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), DecimalType(38, 3), [Decimal("1.500")]),
        (pa.array([Decimal("1.5")], pa.decimal256(50, 1)), DecimalType(38, 1), [Decimal("1.5")]),
        (pa.array(["a", None, "b", "a"]).dictionary_encode(), STRING, ["a", None, "b", "a"]),
        (_categories(pa.array(["a", "b"], pa.string_view())), STRING, ["b", None, "a"]),
        (_categories(pa.array([b"a", b"b"], pa.binary_view())), BINARY, [b"b", None, b"a"]),
        (pa.array(["a", None], pa.large_string()), STRING, ["a", None]),
        (pa.array(["a", None], pa.string_view()), STRING, ["a", None]),
        (pa.array([b"ab", None], pa.binary(2)), BINARY, [b"ab", None]),
        (pa.array([b"ab", None], pa.large_binary()), BINARY, [b"ab", None]),
        (pa.array([date(2020, 1, 1)], pa.date64()), DATE, [date(2020, 1, 1)]),
        (pa.array([date(2020, 1, 1)]), TIMESTAMP_NTZ, [datetime(2020, 1, 1)]),
        (
            pa.array([5, None], pa.timestamp("ms", "UTC")),
            TIMESTAMP,
            [datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC), None],
        ),
        (pa.array([5000], pa.timestamp("ns")), TIMESTAMP_NTZ, [datetime(1970, 1, 1, 0, 0, 0, 5)]),
        (pa.array([0], pa.timestamp("us", "Europe/Berlin")), TIMESTAMP, [datetime(1970, 1, 1, tzinfo=UTC)]),
        (pa.array([None, None], pa.null()), LONG, [None, None]),
        (pa.array([None], pa.null()), ArrayType(LONG), [None]),
        (pa.array([12, None]), STRING, ["12", None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_leaf_becomes_its_wider_type(array, data_type, values):
    assert converted(array, data_type) == values


@pytest.mark.parametrize(
    ("array", "data_type"),
    [
        (pa.array([300]), BYTE),
        (pa.array([1.5]), LONG),
        (pa.array(["a"]), LONG),
        (pa.array([5], pa.timestamp("ns")), TIMESTAMP_NTZ),
        (pa.array([2**62], pa.timestamp("s")), TIMESTAMP_NTZ),
        (pa.array([Decimal("1.55")]), DecimalType(5, 1)),
        (pa.array([b"\xff"]), STRING),
        (pa.array([[1]]), LONG),
        (pa.array([1]), ArrayType(LONG)),
        (pa.array([{"a": 1}]), MapType(STRING, LONG)),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else str(value),
)
def test_a_value_that_the_type_cannot_hold_is_told_with_its_column(array, data_type):
    with pytest.raises(TypeMismatchError) as raised:
        converted(array, data_type)

    assert raised.value.column == "x"


def test_the_column_of_a_value_deep_inside_is_told_by_its_path():
    deep = StructType((Field(name="m", type=MapType(STRING, ArrayType(StructType((Field(name="z", type=LONG),))))),))
    array = pa.array(
        [{"m": [("k", [{"z": "not a number"}])]}],
        pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.struct([("z", pa.string())]))))]),
    )

    with pytest.raises(TypeMismatchError) as raised:
        converted(array, deep)

    assert raised.value.column == "x.m.value.element.z"


# --- collections ------------------------------------------------------------------------------------------------------

LISTS = [[1, None, 2], None, [], [3], [None], [4, 5]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int32()),
        pa.large_list(pa.int32()),
        pa.list_view(pa.int32()),
        pa.large_list_view(pa.int32()),
        pa.list_(pa.field("array", pa.int32(), nullable=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize(("start", "length"), [(0, 6), (1, 4), (2, 1), (3, 3), (2, 0)])
def test_lists_of_every_kind_are_converted_wherever_they_are_cut(kind, start, length):
    array = pa.array(LISTS, kind).slice(start, length)

    assert converted(array, ArrayType(LONG)) == LISTS[start : start + length]


@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 2), (2, 1)])
def test_lists_of_a_fixed_length_are_converted_wherever_they_are_cut(start, length):
    values = [[1, 2], None, [None, 4]]

    assert (
        converted(pa.array(values, pa.list_(pa.int32(), 2)).slice(start, length), ArrayType(LONG))
        == values[start : start + length]
    )


def test_values_under_a_null_list_do_not_appear():
    lists = pa.ListArray.from_arrays([0, 2, 4], pa.array([1, 2, 3, 4], pa.int32()), mask=pa.array([True, False]))

    assert converted(lists, ArrayType(LONG)) == [None, [3, 4]]


@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 3), (2, 1), (3, 1)])
def test_maps_are_converted_wherever_they_are_cut(start, length):
    values = [[("a", 1), ("b", None)], None, [], [("c", 3)]]
    array = pa.array(values, pa.map_(pa.large_string(), pa.int32())).slice(start, length)

    assert converted(array, MapType(STRING, LONG)) == values[start : start + length]


def test_members_of_structs_are_found_by_name_whatever_their_order_and_missing_ones_are_null():
    array = pa.array(
        [{"extra": 1, "b": 2, "A": 3}, None], pa.struct([("extra", pa.int8()), ("b", pa.int8()), ("A", pa.int8())])
    )
    wanted = StructType(
        (Field(name="a", type=LONG), Field(name="b", type=LONG), Field(name="new", type=ArrayType(STRING)))
    )

    assert converted(array, wanted) == [{"a": 3, "b": 2, "new": None}, None]


def test_a_struct_without_members_keeps_its_nulls():
    assert converted(pa.array([{"a": 1}, None]), StructType(())) == [{}, None]


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.uint32(), pa.int64(), pa.uint64()], ids=str)
def test_dictionaries_inside_of_null_structs_are_decoded(index):
    kind = pa.struct([("s", pa.struct([("a", pa.dictionary(index, pa.string()))]))])
    wanted = StructType((Field(name="s", type=StructType((Field(name="a", type=STRING),))),))

    assert converted(pa.array([None], kind), wanted) == [None]
    assert converted(pa.array([None, {"s": {"a": "x"}}, {"s": None}], kind), wanted) == [
        None,
        {"s": {"a": "x"}},
        {"s": None},
    ]


def test_members_that_swapped_their_names_are_swapped():
    array = pa.array([{"a": 1, "b": 2}])
    wanted = StructType((Field(name="a", type=LONG, physical_name="b"), Field(name="b", type=LONG, physical_name="a")))

    assert converted(array, wanted) == [{"a": 2, "b": 1}]
    assert converted(pa.array([[{"a": 1, "b": 2}]]), ArrayType(wanted)) == [[{"a": 2, "b": 1}]]


# --- at random --------------------------------------------------------------------------------------------------------

LEAVES: Mapping[DataType, tuple[st.SearchStrategy[object], tuple[pa.DataType, ...]]] = {
    LONG: (st.integers(-128, 127), (pa.int64(), pa.int8(), pa.int32(), pa.dictionary(pa.int32(), pa.int64()))),
    STRING: (st.text(max_size=3), (pa.string(), pa.large_string(), pa.string_view())),
    DecimalType(9, 2): (st.decimals(-99, 99, places=2), (pa.decimal128(9, 2), pa.decimal128(4, 2))),
    TIMESTAMP_NTZ: (
        st.dates().map(lambda day: datetime(day.year, day.month, day.day)),
        (pa.timestamp("us"), pa.timestamp("s")),
    ),
}
types: st.SearchStrategy[DataType] = st.recursive(
    st.sampled_from(list(LEAVES)),
    lambda inner: (
        st.builds(ArrayType, inner)
        | st.builds(MapType, st.just(STRING), inner)
        | st.lists(inner, min_size=1, max_size=3).map(
            lambda found: StructType(
                tuple(Field(name=f"m{n}", type=type_, physical_name=f"p{n}") for n, type_ in enumerate(found))
            )
        )
    ),
    max_leaves=4,
)


def values_of(type_: DataType) -> st.SearchStrategy[object]:
    match type_:
        case StructType(fields):
            some: st.SearchStrategy[object] = st.fixed_dictionaries(
                {field.name: values_of(field.type) for field in fields}
            )
        case ArrayType(element):
            some = st.lists(values_of(element), max_size=3)
        case MapType(key, value):
            some = st.lists(st.tuples(LEAVES[key][0], values_of(value)), max_size=2, unique_by=lambda pair: pair[0])
        case _:
            some = LEAVES[type_][0]
    return st.none() | some


@st.composite
def stored_types(draw: st.DrawFn, type_: DataType) -> pa.DataType:
    """One of the Arrow types under which a file or a frame may hold values of a type."""
    match type_:
        case StructType(fields):
            members = [pa.field(field.stored_name, draw(stored_types(field.type))) for field in fields]
            return pa.struct(draw(st.permutations([*members, pa.field("extra", pa.int8())])))
        case ArrayType(element):
            kind = draw(st.sampled_from([pa.list_, pa.large_list, pa.list_view]))
            return kind(pa.field("item", draw(stored_types(element))))
        case MapType(key, value):
            return pa.map_(draw(stored_types(key)), draw(stored_types(value)))
        case _:
            return draw(st.sampled_from(LEAVES[type_][1]))


def under_stored_names(value: object, type_: DataType) -> object:
    if value is None:
        return None
    match type_:
        case StructType(fields):
            return {field.stored_name: under_stored_names(value[field.name], field.type) for field in fields}
        case ArrayType(element):
            return [under_stored_names(item, element) for item in value]
        case MapType(_, item):
            return [(key, under_stored_names(one, item)) for key, one in value]
        case _:
            return value


@given(data=st.data())
def test_values_of_any_depth_survive_any_way_to_store_them_and_any_cut(data):
    type_ = data.draw(types)
    values = data.draw(st.lists(values_of(type_), max_size=5))
    stored = pa.array([under_stored_names(value, type_) for value in values], data.draw(stored_types(type_)))
    start = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - start))

    assert converted(stored.slice(start, length), type_) == values[start : start + length]


# --- finding and naming -----------------------------------------------------------------------------------------------


def test_columns_are_found_exactly_or_else_by_the_only_name_that_differs_in_case():
    field = Field(name="Id", type=LONG)

    def found(*names: str) -> int | None:
        return by_stored_name([pa.field(name, pa.int64()) for name in names])(field)

    assert found("ID", "Id") == 1
    assert found("x", "iD") == 1
    assert found("ID", "iD") is None
    assert found("x") is None


def test_a_mapped_column_is_found_by_its_physical_name_in_files_and_by_its_own_in_data():
    field = Field(name="id", type=LONG, physical_name="col-1")
    candidates = [pa.field("id", pa.int64()), pa.field("col-1", pa.int64())]

    assert by_stored_name(candidates)(field) == 1
    assert by_logical_name(candidates)(field) == 0


def test_a_column_is_found_by_its_id_only():
    candidates = [
        pa.field("x", pa.int64()),
        pa.field("x", pa.int64(), metadata={FIELD_ID: b"12"}),
        pa.field("y", pa.int64(), metadata={FIELD_ID: b"1"}),
    ]

    assert by_field_id(candidates)(Field(name="x", type=LONG, field_id=1)) == 2
    assert by_field_id(candidates)(Field(name="x", type=LONG, field_id=2)) is None


@pytest.mark.parametrize("type_", [LONG, DATE, ArrayType(LONG), StructType((Field(name="a", type=INTEGER),))], ids=str)
def test_nulls_have_the_type_asked_for(type_):
    found = nulls(3, type_)

    assert (found.type, found.null_count) == (arrow_type(type_), 3)


@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 2), (1, 1)])
def test_relabelled_values_stay_under_other_names(start, length):
    array = pa.array([{"a": [{"b": 1}]}, None, {"a": None}]).slice(start, length)
    inner = pa.struct([pa.field("y", pa.int64(), metadata={FIELD_ID: b"2"})])
    wanted = pa.struct([pa.field("x", pa.list_(pa.field("element", inner)), metadata={FIELD_ID: b"1"})])

    found = relabelled(array, wanted)

    found.validate(full=True)
    assert found.type.equals(wanted, check_metadata=True)
    assert found.to_pylist() == [{"x": [{"y": 1}]}, None, {"x": None}][start : start + length]


def test_nothing_is_copied_to_relabel():
    array = pa.array([{"a": 1}, {"a": 2}])

    found = relabelled(array, pa.struct([("b", pa.int64())]))

    assert found.field(0).buffers()[1].address == array.field(0).buffers()[1].address
