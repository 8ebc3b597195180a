"""The two zeros of floating numbers: equal to each other, and each stored as it was written."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tablespec
from tests.rows import assert_same_rows

floats = pytest.mark.parametrize("type_", [pa.float32(), pa.float64()], ids=str)
NAN = float("nan")


def partitioned(folder, type_):
    table = tablespec.create_table(str(folder), pa.schema({"id": pa.int64(), "p": type_}), partition_by=["p"])
    values = [0.0, -0.0, NAN, None, 0.0, -NAN, -0.0]
    table.append(pa.table({"id": range(7), "p": pa.array(values, type_)}))
    return table


@floats
def test_the_two_zeros_are_partitions_of_their_own_and_every_nan_is_one(tmp_path, type_):
    table = partitioned(tmp_path, type_)

    folders = {path.name for path in tmp_path.iterdir()} - {"_delta_log"}
    assert folders == {"p=0.0", "p=-0.0", "p=NaN", "p=__HIVE_DEFAULT_PARTITION__"}
    expected = [(0, 0.0), (1, -0.0), (2, NAN), (3, None), (4, 0.0), (5, NAN), (6, -0.0)]
    assert_same_rows(table.scan(), expected)
    assert_same_rows(DeltaTable(str(tmp_path)).to_pyarrow_table().select(["id", "p"]), expected)


@floats
@pytest.mark.parametrize("zero", ["0.0", "-0.0"])
def test_a_predicate_finds_both_zeros(tmp_path, type_, zero):
    table = partitioned(tmp_path, type_)

    assert_same_rows(table.scan(f"p = {zero}", columns=["id"]), [(0,), (1,), (4,), (6,)])
    assert table.delete(f"p in ({zero}, 5.0)").rows_deleted == 4


def test_compaction_keeps_each_zero(tmp_path):
    table = partitioned(tmp_path, pa.float64())
    table.append(pa.table({"id": [7, 8], "p": [0.0, -0.0]}))

    assert table.compact().files_removed == 4

    zeros = table.scan("p = 0").to_table().to_pylist()
    assert {row["id"]: math.copysign(1, row["p"]) for row in zeros} == {0: 1, 4: 1, 7: 1, 1: -1, 6: -1, 8: -1}


@floats
@pytest.mark.parametrize("strategy", list(tablespec.Strategy), ids=lambda strategy: strategy.value)
def test_overwriting_the_partition_of_one_zero_leaves_that_of_the_other(tmp_path, type_, strategy):
    table = partitioned(tmp_path, type_)

    table.overwrite_partitions(pa.table({"id": [8], "p": pa.array([-0.0], type_)}), strategy=strategy)
    table.overwrite_partitions(pa.table({"id": [9], "p": pa.array([NAN], type_)}), strategy=strategy)

    assert_same_rows(table.scan(), [(0, 0.0), (3, None), (4, 0.0), (8, -0.0), (9, NAN)])


def test_overwriting_takes_zeros_together_with_the_other_partition_columns(tmp_path):
    schema = pa.schema({"id": pa.int64(), "p": pa.float64(), "q": pa.string()})
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p", "q"])
    table.append(pa.table({"id": range(5), "p": [0.0, -0.0, 0.0, -0.0, 0.0], "q": ["a", "a", "b", "b", None]}))

    table.overwrite_partitions(pa.table({"id": [8, 9, 10], "p": [0.0, -0.0, 0.0], "q": ["a", "b", ""]}))

    expected = [(1, -0.0, "a"), (2, 0.0, "b"), (8, 0.0, "a"), (9, -0.0, "b"), (10, 0.0, None)]
    assert_same_rows(table.scan(), expected)


# --- keys ---


@pytest.fixture
def keyed(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"k": pa.float64(), "v": pa.int64()}), key=["k"])
    table.append(pa.table({"k": [0.0, 1.0, NAN], "v": [1, 2, 3]}))
    return table


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_merge_matches_both_zeros_and_nan(keyed, zero):
    keyed.append(pa.table({"k": [-0.0], "v": [4]}))

    result = keyed.merge(
        pa.table({"k": [zero, NAN], "v": [8, 9]}), "t.k = s.k", tablespec.when_matched_update({"v": "s.v"})
    )

    assert result.rows_updated == 3
    assert_same_rows(keyed.scan(), [(0.0, 8), (-0.0, 8), (1.0, 2), (NAN, 9)])


def test_a_merge_on_several_keys_matches_zeros_and_nan(tmp_path):
    schema = pa.schema({"k": pa.float64(), "p": pa.float64(), "v": pa.int64()})
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p"])
    table.append(pa.table({"k": [0.0, NAN, 1.0], "p": [NAN, -0.0, 0.0], "v": [1, 2, 3]}))

    source = pa.table({"k": [-0.0, NAN, 1.0, 1.0], "p": [NAN, 0.0, -0.0, 5.0], "v": [7, 8, 9, 10]})
    table.merge(source, "t.k = s.k and t.p = s.p", tablespec.when_matched_update({"v": "s.v"}))

    assert_same_rows(table.scan(), [(0.0, NAN, 7), (NAN, -0.0, 8), (1.0, 0.0, 9)])


def test_more_keys_than_can_be_listed_still_match_nan(keyed):
    many = pa.table({"k": [*map(float, range(100, 30_100)), NAN], "v": range(30_001)})

    assert keyed.merge(many, "t.k = s.k", tablespec.when_matched_update({"v": "s.v"})).rows_updated == 1
    assert_same_rows(keyed.scan(), [(0.0, 1), (1.0, 2), (NAN, 30_000)])


def test_an_upsert_takes_the_two_zeros_for_one_key(keyed):
    keyed.upsert(pa.table({"k": [0.0, -0.0], "v": [5, 6]}))

    assert_same_rows(keyed.scan(), [(-0.0, 6), (1.0, 2), (NAN, 3)])
