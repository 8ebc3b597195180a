"""Data files and their statistics, as the Delta protocol and the clients of Delta expect them."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.expr.nodes import Column, Compare, Literal, Op
from tests.handmade import actions_of
from tests.interop.every_type import NESTED, SCALARS, SPECIAL

UTC_MICROS = pa.timestamp("us", "UTC")


def written(url: Path, rows: pa.Table, **settings: object) -> list[dict[str, object]]:
    """The adds of a table with these rows."""
    table = tablespec.create_table(str(url), rows.schema, **settings)
    table.append(rows)
    return actions_of(url, 1, "add")


def only_file(url: Path, rows: pa.Table, **settings: object) -> pq.ParquetFile:
    (add,) = written(url, rows, **settings)
    return pq.ParquetFile(url / unquote(add["path"]))


def statistics(url: Path, rows: pa.Table, **settings: object) -> dict[str, object]:
    (add,) = written(url, rows, **settings)
    return json.loads(add["stats"], parse_float=Decimal)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "physical", "logical"),
    [
        ("boolean", "BOOLEAN", "None"),
        ("byte", "INT32", "Int(bitWidth=8, isSigned=true)"),
        ("short", "INT32", "Int(bitWidth=16, isSigned=true)"),
        ("integer", "INT32", "None"),
        ("long", "INT64", "None"),
        ("float", "FLOAT", "None"),
        ("double", "DOUBLE", "None"),
        ("string", "BYTE_ARRAY", "String"),
        ("binary", "BYTE_ARRAY", "None"),
        ("date", "INT32", "Date"),
        ("timestamp", "INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
        ("timestamp_ntz", "INT64", "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"),
        ("decimal(9,2)", "FIXED_LEN_BYTE_ARRAY", "Decimal(precision=9, scale=2)"),
        ("decimal(38,18)", "FIXED_LEN_BYTE_ARRAY", "Decimal(precision=38, scale=18)"),
    ],
)
def test_a_column_has_the_parquet_type_of_its_table_type(tmp_path, name, physical, logical):
    leaf = only_file(tmp_path, pa.table({"v": SCALARS[name]})).schema.column(0)

    assert leaf.physical_type == physical
    assert str(leaf.logical_type).startswith(logical)


def test_timestamps_of_any_unit_and_zone_are_stored_as_utc_microseconds(tmp_path):
    noon = datetime(2020, 7, 1, 12, tzinfo=UTC)
    rows = pa.table(
        {f"{unit}": pa.array([noon], pa.timestamp(unit, "America/New_York")) for unit in ("s", "ms", "us", "ns")}
    )

    file = only_file(tmp_path, rows)

    assert all("microseconds" in str(file.schema.column(index).logical_type) for index in range(4))
    assert file.read().to_pylist() == [dict.fromkeys(rows.column_names, noon)]


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("list", ["v.list.element"]),
        ("map", ["v.key_value.key", "v.key_value.value"]),
        ("struct", ["v.a", "v.b"]),
        ("deep", ["v.list.element.k.key_value.key", "v.list.element.k.key_value.value.list.element.price"]),
    ],
)
def test_collections_have_the_levels_that_parquet_prescribes(tmp_path, name, paths):
    schema = only_file(tmp_path, pa.table({"v": NESTED[name]})).schema

    assert [schema.column(index).path for index in range(len(paths))] == paths


def test_required_columns_are_required_in_the_file(tmp_path):
    schema = pa.schema([pa.field("i", pa.int64(), nullable=False), pa.field("s", pa.string())])

    file = only_file(tmp_path, pa.table({"i": [1], "s": ["a"]}, schema=schema))

    assert [file.schema.column(index).max_definition_level for index in range(2)] == [0, 1]


def test_partition_columns_are_not_in_the_file(tmp_path):
    file = only_file(tmp_path, pa.table({"a": [1], "p": ["x"], "b": [2]}), partition_by=["p"])

    assert file.schema_arrow.names == ["a", "b"]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_have_physical_names_and_field_ids_at_every_level(tmp_path, mode):
    rows = pa.table({"i": [1], "deep": pa.array([[{"a": {"b": 1}}]])})
    (add,) = written(tmp_path, rows, properties={"delta.columnMapping.mode": mode})
    (metadata,) = actions_of(tmp_path, 0, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]

    stored = pq.ParquetFile(tmp_path / unquote(add["path"])).schema_arrow

    def described(field: dict[str, object]) -> tuple[object, bytes]:
        meta = field["metadata"]
        return meta["delta.columnMapping.physicalName"], str(meta["delta.columnMapping.id"]).encode()

    def found(field: pa.Field) -> tuple[str, bytes]:
        return field.name, field.metadata[b"PARQUET:field_id"]

    outer = fields[1]["type"]["elementType"]["fields"][0]
    inner = outer["type"]["fields"][0]
    element = stored.field(1).type.value_type
    assert [found(field) for field in stored] == [described(field) for field in fields]
    assert found(element.field(0)) == described(outer)
    assert found(element.field(0).type.field(0)) == described(inner)
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "4"


def test_columns_that_are_not_mapped_have_no_ids(tmp_path):
    file = only_file(tmp_path, pa.table({"i": [1], "s": [{"a": 1}]}))

    assert [field.metadata for field in file.schema_arrow] == [None, None]
    assert file.schema_arrow.metadata is None


def test_paths_sizes_and_values_in_the_log_are_those_of_the_files(tmp_path):
    rows = pa.table({"i": [1, 2, 3], "p": [SPECIAL, None, "x"], "d": pa.array([date(2020, 1, 1), None, date(1, 1, 1)])})

    adds = written(tmp_path, rows, partition_by=["p", "d"])

    assert {Path(add["path"]).parent.as_posix(): add["partitionValues"] for add in adds} == {
        "p=a%20b%252Fc%2525d%253D%C3%A9%2527%2522/d=2020-01-01": {"p": SPECIAL, "d": "2020-01-01"},
        "p=__HIVE_DEFAULT_PARTITION__/d=__HIVE_DEFAULT_PARTITION__": {"p": None, "d": None},
        "p=x/d=0001-01-01": {"p": "x", "d": "0001-01-01"},
    }
    for add in adds:
        file = tmp_path / unquote(add["path"])
        assert (add["size"], add["dataChange"]) == (file.stat().st_size, True)


# --- statistics -------------------------------------------------------------------------------------------------------


def test_strings_are_cut_and_the_upper_bound_gets_a_tie_breaker(tmp_path):
    rows = pa.table({"s": ["b" * 40, "z" * 40], "t": ["short", "text"]})

    assert statistics(tmp_path, rows) == {
        "numRecords": 2,
        "minValues": {"s": "b" * 32, "t": "short"},
        "maxValues": {"s": "z" * 32 + "\U0010ffff", "t": "text"},
        "nullCount": {"s": 0, "t": 0},
    }


def test_timestamps_have_milliseconds_and_the_upper_bound_is_rounded_up(tmp_path):
    low, high = datetime(2020, 1, 1, 0, 0, 0, 1500), datetime(2020, 1, 1, 0, 0, 0, 7001)
    rows = pa.table(
        {
            "z": pa.array([low.replace(tzinfo=UTC), high.replace(tzinfo=UTC)], UTC_MICROS),
            "n": pa.array([low, high], pa.timestamp("us")),
        }
    )

    found = statistics(tmp_path, rows)

    assert found["minValues"] == {"z": "2020-01-01T00:00:00.001Z", "n": "2020-01-01T00:00:00.001"}
    assert found["maxValues"] == {"z": "2020-01-01T00:00:00.008Z", "n": "2020-01-01T00:00:00.008"}


def test_columns_that_hold_nan_or_infinity_have_no_bounds(tmp_path):
    rows = pa.table(
        {
            "nan": [1.0, math.nan, None],
            "infinite": [1.0, math.inf, None],
            "f": pa.array([1.5, math.nan, 2.5], pa.float32()),
            "s": [{"x": math.nan}, {"x": 1.0}, None],
            "fine": [1.0, -0.5, None],
        }
    )

    found = statistics(tmp_path, rows)

    assert (found["minValues"], found["maxValues"]) == ({"fine": Decimal("-0.5")}, {"fine": Decimal("1.0")})
    assert found["nullCount"] == {"nan": 1, "infinite": 1, "f": 0, "s": {"x": 1}, "fine": 1}


@pytest.mark.parametrize("checkpointed", [False, True], ids=["from the commit", "from a checkpoint"])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_files_are_found_by_the_nan_and_the_infinity_that_they_hold(tmp_path, kind, checkpointed):
    table = tablespec.create_table(str(tmp_path), pa.schema([("i", pa.int64()), ("x", kind)]))
    values = [[1.0, math.nan], [math.inf, 2.0], [-math.inf, 3.0], [4.0, None], [math.nan, math.nan]]
    for number, some in enumerate(values):
        table.append(pa.table({"i": [number, number], "x": pa.array(some, kind)}))
    if checkpointed:
        table.checkpoint()
        table = tablespec.open_table(str(tmp_path))

    def found(op: Op, value: float) -> list[int]:
        rows = table.scan(where=Compare(op, Column(("x",)), Literal(value))).to_table()
        return sorted(rows.column("i").to_pylist())

    assert found(Op.EQ, math.nan) == [0, 4, 4]
    assert found(Op.GE, math.nan) == [0, 4, 4]
    assert found(Op.LT, math.nan) == [0, 1, 1, 2, 2, 3]
    assert found(Op.EQ, math.inf) == [1]
    assert found(Op.GE, math.inf) == [0, 1, 4, 4]
    assert found(Op.LE, -math.inf) == [2]
    assert found(Op.GT, 3.0) == [0, 1, 3, 4, 4]


def test_other_types_have_bounds_where_clients_know_them(tmp_path):
    rows = pa.table(
        {
            "dec": pa.array([Decimal("-1.50"), Decimal("2.00")], pa.decimal128(38, 2)),
            "day": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
            "flag": [True, None],
            "raw": [b"a", None],
            "all_null": pa.array([None, None], pa.int64()),
            "tags": [["a"], None],
            "byte": pa.array([-128, 127], pa.int8()),
        }
    )

    found = statistics(tmp_path, rows)

    assert found["minValues"] == {"dec": Decimal("-1.50"), "day": "0001-01-01", "byte": -128}
    assert found["maxValues"] == {"dec": Decimal("2.00"), "day": "9999-12-31", "byte": 127}
    assert found["nullCount"] == {"dec": 0, "day": 0, "flag": 1, "raw": 1, "all_null": 2, "byte": 0}


def test_nested_leaves_have_statistics_and_count_the_nulls_of_their_parents(tmp_path):
    rows = pa.table({"s": pa.array([{"a": 1, "t": {"b": "x"}}, {"a": None, "t": None}, None])})

    assert statistics(tmp_path, rows) == {
        "numRecords": 3,
        "minValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "maxValues": {"s": {"a": 1, "t": {"b": "x"}}},
        "nullCount": {"s": {"a": 2, "t": {"b": 2}}},
    }


def test_only_the_first_32_leaves_that_are_not_partition_columns_have_statistics(tmp_path):
    names = [f"c{number:02}" for number in range(40)]
    rows = pa.table({"p": ["x"], **{name: [1] for name in names}, "s": [{"a": 1}]})

    found = statistics(tmp_path, rows, partition_by=["p"])

    assert list(found["minValues"]) == list(found["maxValues"]) == list(found["nullCount"]) == names[:32]


def test_mapped_columns_have_statistics_and_partition_values_under_physical_names(tmp_path):
    rows = pa.table({"i": [5], "s": [{"a": 7}], "p": ["x"]})
    (add,) = written(tmp_path, rows, partition_by=["p"], properties={"delta.columnMapping.mode": "name"})
    (metadata,) = actions_of(tmp_path, 0, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    physical = {field["name"]: field["metadata"]["delta.columnMapping.physicalName"] for field in fields}
    member = fields[1]["type"]["fields"][0]["metadata"]["delta.columnMapping.physicalName"]

    bounds = {physical["i"]: 5, physical["s"]: {member: 7}}
    assert json.loads(add["stats"])["minValues"] == json.loads(add["stats"])["maxValues"] == bounds
    assert add["partitionValues"] == {physical["p"]: "x"}
    assert Path(add["path"]).parent.as_posix() == f"{physical['p']}=x"


def test_timestamps_outside_of_the_calendar_are_kept_without_bounds(tmp_path):
    rows = pa.table({"i": [1, 2], "t": pa.array([0, 2**62], UTC_MICROS)})

    found = statistics(tmp_path, rows)

    assert found["minValues"] == {"i": 1}
    table = tablespec.open_table(str(tmp_path))
    assert table.scan().to_table().equals(rows)
    assert table.scan(where="t > TIMESTAMP '2020-01-01 00:00:00'").count() == 1


def test_columns_with_dots_in_their_names_are_told_from_members_of_structs(tmp_path):
    rows = pa.table({"a.b": [1, 2], "a": pa.array([{"b": 100}, {"b": 200}]), "c.d": [5, 6]})

    found = statistics(tmp_path, rows)

    assert found["minValues"] == {"c.d": 5}
    table = tablespec.open_table(str(tmp_path))
    for checkpointed in (False, True):
        if checkpointed:
            table.checkpoint()
            table = tablespec.open_table(str(tmp_path))
        assert table.scan(where="`a.b` = 2").to_table().to_pylist() == rows.slice(1).to_pylist()
        assert table.scan(where="a.b = 200").to_table().to_pylist() == rows.slice(1).to_pylist()
        assert table.scan(where="`c.d` = 7").to_table().num_rows == 0
