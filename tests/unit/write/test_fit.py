import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tablespec.arrow.schema import schema_of
from tablespec.errors import SchemaMismatchError, TypeMismatchError, UnsupportedTypeError
from tablespec.model.schema import (
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)
from tablespec.write.fit import as_stored, fit, fitted
from tests.rows import assert_same_rows

TABLE = "memory://m/t"


def arrow(**columns):
    return pa.schema(list(columns.items()))


def differences(data, table, *, partition_by=(), merge_schema=False):
    with pytest.raises(SchemaMismatchError) as caught:
        fit(data, schema_of(table), TABLE, partition_by, merge_schema=merge_schema)
    return caught.value.differences


def merged(data, table):
    return fit(data, schema_of(table), TABLE, (), merge_schema=True)


# --- data that fits ---


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.int8(), pa.int64()),
        (pa.int32(), pa.int64()),
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.int64(), pa.decimal128(20, 0)),
        (pa.int32(), pa.decimal128(12, 2)),
        (pa.decimal128(5, 2), pa.decimal128(7, 3)),
        (pa.float32(), pa.float64()),
        (pa.int32(), pa.float64()),
        (pa.int16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("ns", "Asia/Tokyo"), pa.timestamp("us", "UTC")),
        (pa.null(), pa.string()),
        (pa.null(), pa.list_(pa.int64())),
        (pa.large_list(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("b", pa.int32())]), pa.struct([("a", pa.string()), ("b", pa.int64())])),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
    ],
    ids=str,
)
def test_a_type_whose_every_value_fits_needs_no_change_of_the_table(given, wanted):
    table = schema_of(arrow(x=wanted))

    found = fit(arrow(x=given), table, TABLE, (), merge_schema=False)

    assert (found.schema, found.changed) == (table, False)


def test_columns_are_found_by_name_in_any_order_and_case():
    table = schema_of(arrow(id=pa.int64(), city=pa.string()))

    found = fit(arrow(CITY=pa.string(), Id=pa.int64()), table, TABLE, ("city",), merge_schema=False)

    assert not found.changed


def test_columns_that_may_be_null_may_be_left_out():
    assert not fit(
        arrow(id=pa.int64()), schema_of(arrow(id=pa.int64(), x=pa.int64())), TABLE, (), merge_schema=False
    ).changed


# --- data that does not ---


@pytest.mark.parametrize(
    ("given", "wanted", "difference"),
    [
        (pa.string(), pa.int64(), "x is long and the data has string"),
        (pa.int64(), pa.string(), "x is string and the data has long"),
        (pa.float64(), pa.int64(), "x is long and the data has double"),
        (pa.int64(), pa.float64(), "x is double and the data has long"),
        (pa.bool_(), pa.int8(), "x is byte and the data has boolean"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "x is timestamp and the data has timestamp_ntz"),
        (pa.list_(pa.string()), pa.list_(pa.int64()), "x.element is long and the data has string"),
        (
            pa.map_(pa.string(), pa.bool_()),
            pa.map_(pa.string(), pa.int64()),
            "x.value is long and the data has boolean",
        ),
        (pa.struct([("a", pa.bool_())]), pa.struct([("a", pa.int64())]), "x.a is long and the data has boolean"),
        (pa.int64(), pa.struct([("a", pa.int64())]), "x is struct<a:long> and the data has long"),
        (pa.decimal128(10, 3), pa.decimal128(10, 2), "x is decimal(10,2) and the data has decimal(10,3)"),
    ],
    ids=str,
)
@pytest.mark.parametrize("merge_schema", [False, True])
def test_a_type_that_does_not_fit_is_named_with_its_column(given, wanted, difference, merge_schema):
    assert differences(arrow(x=given), arrow(x=wanted), merge_schema=merge_schema) == (difference,)


def test_every_difference_is_named_at_once():
    table = pa.schema([("id", pa.int64()), pa.field("must", pa.string(), False), ("small", pa.int32())])

    found = differences(arrow(id=pa.string(), small=pa.int64(), more=pa.int64()), table)

    assert found == (
        "id is long and the data has string",
        "the column must is missing and must not be null",
        "small is integer and the data's type long is wider",
        "the column more is not in the table",
    )


def test_the_way_out_offers_to_grow_only_where_that_helps():
    with pytest.raises(SchemaMismatchError) as caught:
        fit(arrow(id=pa.int64(), more=pa.int64()), schema_of(arrow(id=pa.int64())), TABLE, (), merge_schema=False)
    with pytest.raises(SchemaMismatchError) as hopeless:
        fit(arrow(id=pa.string()), schema_of(arrow(id=pa.int64())), TABLE, (), merge_schema=False)

    assert caught.value.way_out == "Cast or rename the columns, or let the table grow with merge_schema=True."
    assert hopeless.value.way_out == "Cast or rename the columns."
    assert str(hopeless.value) == (
        "the data does not fit memory://m/t: id is long and the data has string. Cast or rename the columns."
    )


def test_a_partition_column_must_be_in_the_data():
    found = differences(arrow(id=pa.int64()), arrow(id=pa.int64(), p=pa.string()), partition_by=("p",))

    assert found == ("the partition column p is missing",)


@pytest.mark.parametrize(
    ("data", "twice"),
    [
        (pa.schema([("a", pa.int64()), ("a", pa.int64())]), "a"),
        (pa.schema([("a", pa.int64()), ("A", pa.int64())]), "a"),
        (pa.schema([("S", pa.struct([("x", pa.int64()), ("X", pa.int64())]))]), "s.x"),
        (pa.schema([("l", pa.list_(pa.struct([("x", pa.int64()), ("X", pa.int64())])))]), "l.element.x"),
    ],
)
def test_columns_that_stand_twice_in_the_data_are_refused_at_any_depth(data, twice):
    with pytest.raises(SchemaMismatchError, match=f"the column {twice} stands more than once") as caught:
        fit(data, schema_of(arrow(a=pa.int64())), TABLE, (), merge_schema=True)

    assert caught.value.way_out == "Rename one of them."


@pytest.mark.parametrize(
    "kind",
    [pa.time32("s"), pa.time64("us"), pa.duration("us"), pa.month_day_nano_interval(), pa.list_(pa.duration("s"))],
    ids=str,
)
def test_types_that_tables_cannot_hold_are_named_with_their_column(kind):
    with pytest.raises(UnsupportedTypeError, match="column x") as caught:
        fit(arrow(x=kind), schema_of(arrow(x=pa.int64())), TABLE, (), merge_schema=True)

    assert "tables cannot hold it" in str(caught.value)


# --- tables that grow ---


def test_new_columns_come_at_the_end_and_may_be_null():
    data = pa.schema([pa.field("new", pa.int64(), False), ("id", pa.int64())])

    found = merged(data, arrow(id=pa.int64()))

    assert found.changed
    assert found.schema == Schema((Field(name="id", type=LONG), Field(name="new", type=LONG, nullable=True)))


def test_nothing_in_a_new_column_must_be_there_since_older_rows_have_none_of_it():
    inner = pa.struct(
        [pa.field("a", pa.int64(), False), pa.field("l", pa.list_(pa.field("e", pa.int64(), False)), False)]
    )

    found = merged(pa.schema([("id", pa.int64()), pa.field("s", inner, False)]), arrow(id=pa.int64()))

    members = (Field(name="a", type=LONG), Field(name="l", type=ArrayType(LONG)))
    assert found.schema.field("s") == Field(name="s", type=StructType(members))


def test_new_members_of_structs_are_added_at_any_depth():
    table = arrow(s=pa.struct([("a", pa.int64())]), l=pa.list_(pa.struct([("b", pa.int64())])))
    data = arrow(
        s=pa.struct([("a", pa.int64()), ("z", pa.string())]),
        l=pa.list_(pa.struct([("y", pa.string()), ("b", pa.int64())])),
    )

    found = merged(data, table)

    assert str(found.schema.field("s").type) == "struct<a:long,z:string>"
    assert str(found.schema.field("l").type) == "array<struct<b:long,y:string>>"


def test_a_new_column_of_nulls_has_no_type():
    assert differences(arrow(id=pa.int64(), x=pa.null()), arrow(id=pa.int64()), merge_schema=True) == (
        "the new column x has no type, only nulls",
    )


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (pa.int8(), pa.int16(), "short"),
        (pa.int32(), pa.int64(), "long"),
        (pa.float32(), pa.float64(), "double"),
        (pa.int32(), pa.float64(), "double"),
        (pa.date32(), pa.timestamp("us"), "timestamp_ntz"),
        (pa.decimal128(5, 2), pa.decimal128(10, 4), "decimal(10,4)"),
        (pa.int32(), pa.decimal128(12, 0), "decimal(12,0)"),
        (pa.int64(), pa.decimal128(20, 0), "decimal(20,0)"),
    ],
    ids=str,
)
def test_a_column_becomes_wider_and_remembers_what_it_was(old, new, kind):
    found = merged(arrow(x=new), arrow(x=old))

    (column,) = found.schema.fields
    assert str(column.type) == kind
    assert json.loads(dict(column.metadata)["delta.typeChanges"]) == [
        {"fromType": str(schema_of(arrow(x=old)).field("x").type), "toType": kind}
    ]


def test_every_step_of_widening_is_remembered():
    first = merged(arrow(x=pa.int16()), arrow(x=pa.int8())).schema

    (column,) = fit(arrow(x=pa.int64()), first, TABLE, (), merge_schema=True).schema.fields

    assert json.loads(dict(column.metadata)["delta.typeChanges"]) == [
        {"fromType": "byte", "toType": "short"},
        {"fromType": "short", "toType": "long"},
    ]


@pytest.mark.parametrize(
    ("old", "new", "kind", "paths"),
    [
        (pa.list_(pa.int32()), pa.list_(pa.int64()), ArrayType(LONG), ["element"]),
        (
            pa.list_(pa.list_(pa.int32())),
            pa.list_(pa.list_(pa.int64())),
            ArrayType(ArrayType(LONG)),
            ["element.element"],
        ),
        (
            pa.map_(pa.int32(), pa.list_(pa.float32())),
            pa.map_(pa.int64(), pa.list_(pa.float64())),
            MapType(LONG, ArrayType(DOUBLE)),
            ["key", "value.element"],
        ),
    ],
    ids=["list", "list of lists", "map"],
)
def test_what_becomes_wider_inside_of_lists_and_maps_is_remembered_by_its_path(old, new, kind, paths):
    (column,) = merged(arrow(x=new), arrow(x=old)).schema.fields

    assert column.type == kind
    changes = json.loads(dict(column.metadata)["delta.typeChanges"])
    assert [change["fieldPath"] for change in changes] == paths


def test_a_member_of_a_struct_in_a_list_remembers_for_itself():
    found = merged(arrow(x=pa.list_(pa.struct([("a", pa.int64())]))), arrow(x=pa.list_(pa.struct([("a", pa.int32())]))))

    (column,) = found.schema.fields
    assert column.metadata == ()
    (member,) = column.type.element.fields
    assert json.loads(dict(member.metadata)["delta.typeChanges"]) == [{"fromType": "integer", "toType": "long"}]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.string()),
        (pa.float32(), pa.decimal128(38, 10)),
        (pa.int16(), pa.float32()),
    ],
    ids=str,
)
def test_changes_that_the_protocol_does_not_know_are_refused(old, new):
    assert len(differences(arrow(x=new), arrow(x=old), merge_schema=True)) == 1


def test_merging_data_that_fits_changes_nothing():
    assert not merged(arrow(x=pa.int32()), arrow(x=pa.int64())).changed


# --- rows ---


def rows_as(data, schema):
    reader = pa.RecordBatchReader.from_batches(data.schema, data.to_batches())
    return pa.Table.from_batches(fitted(reader, schema))


def test_rows_come_in_the_columns_and_types_of_the_table():
    data = pa.table(
        {
            "B": pa.array(["x", None]).dictionary_encode(),
            "a": pa.array([1, 2], pa.int8()),
            "s": pa.array([{"n": 1}, None], pa.struct([("n", pa.int8())])),
        }
    )
    members = StructType((Field(name="m", type=STRING), Field(name="n", type=LONG)))
    schema = Schema(
        (
            Field(name="a", type=LONG),
            Field(name="b", type=STRING),
            Field(name="missing", type=DecimalType(5, 2)),
            Field(name="s", type=members),
        )
    )

    found = rows_as(data, schema)

    assert found.schema.types[:3] == [pa.int64(), pa.string(), pa.decimal128(5, 2)]
    assert_same_rows(found, [(1, "x", None, {"m": None, "n": 1}), (2, None, None, None)])


def test_runs_are_unrolled():
    data = pa.table({"x": pa.RunEndEncodedArray.from_arrays([2, 3], ["a", None])})

    assert_same_rows(rows_as(data, Schema((Field(name="x", type=STRING),))), [("a",), ("a",), (None,)])


def test_values_keep_every_digit():
    data = pa.table(
        {
            "d": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
            "day": pa.array([date(2020, 2, 29)], pa.date64()),
            "at": pa.array([datetime(2020, 2, 29, 1, 2, 3, 456789)], pa.timestamp("ns")),
        }
    )
    schema = schema_of(arrow(d=pa.decimal128(10, 4), day=pa.date32(), at=pa.timestamp("us")))

    found = rows_as(data, schema)

    assert_same_rows(found, [(Decimal("1.2500"), date(2020, 2, 29), datetime(2020, 2, 29, 1, 2, 3, 456789))])


def test_nanoseconds_that_a_table_cannot_hold_are_an_error_and_not_a_rounding():
    data = pa.table({"at": pa.array([1], pa.timestamp("ns"))})

    with pytest.raises(TypeMismatchError, match="column at"):
        rows_as(data, schema_of(arrow(at=pa.timestamp("us"))))


def test_an_empty_text_in_a_partition_column_is_null_as_it_will_be_read_back():
    batch = pa.RecordBatch.from_pydict({"p": ["", "x", None], "b": [b"", b"x", None], "q": ["", "y", None]})

    found = as_stored(batch, ("p", "b"))

    assert_same_rows(pa.Table.from_batches([found]), [(None, None, ""), ("x", b"x", "y"), (None, None, None)])


def test_integers_that_need_no_change_of_type_are_taken_as_they_are():
    schema = Schema((Field(name="x", type=INTEGER),))

    assert_same_rows(
        rows_as(pa.table({"x": pa.array([2**31 - 1, -(2**31)], pa.int32())}), schema), [(2**31 - 1,), (-(2**31),)]
    )
