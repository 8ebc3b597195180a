"""Checkpoints as they are written: everything that lives, sorted, with statistics in columns, for any client."""

from __future__ import annotations

import json
import math
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tests.handmade import actions_of, add, checkpoint_file, commit, commit_file, metadata, protocol
from tests.rows import assert_same_rows
from tests.unit.formats.delta.checkpoints import KINDS, ROWS, without_commits, write_log

DAY = 24 * 3600 * 1000


def written(folder: Path, version: int) -> pa.Table:
    return pq.read_table(checkpoint_file(folder, version))


def actions(folder: Path, version: int, kind: str) -> list[dict[str, object]]:
    rows = written(folder, version).column(kind).to_pylist(maps_as_pydicts="strict")
    return [row for row in rows if row is not None]


@pytest.fixture
def folder(tmp_path) -> Path:
    """A table of seven versions that a checkpoint covers."""
    write_log(tmp_path)
    tablespec.open_table(str(tmp_path)).checkpoint()
    return tmp_path


def test_what_a_checkpoint_holds_is_what_the_commits_add_up_to(folder):
    without_commits(folder, 6)

    table = tablespec.open_table(str(folder))

    assert_same_rows(table.scan(), ROWS[6])
    assert table.scan().count() == len(ROWS[6])


def test_the_number_of_listed_files_is_told(folder):
    assert tablespec.open_table(str(folder)).checkpoint() == 4


def test_live_adds_are_sorted_by_their_typed_partition_values(folder):
    adds = actions(folder, 6, "add")

    values = [(add["partitionValues_parsed"]["p"], add["partitionValues_parsed"]["n"]) for add in adds]
    assert values == [("a b/é%", 2), ("blue", 3), ("red", None), (None, 2)]
    assert [add["path"] for add in adds] == ["d.parquet", "f.parquet", "b.parquet", "c.parquet"]
    assert [add["partitionValues"] for add in adds] == [{"p": p, "n": None if n is None else str(n)} for p, n in values]


def test_adds_keep_everything_and_change_no_data(folder):
    (original,) = actions_of(folder, 6, "add")

    (kept,) = (one for one in actions(folder, 6, "add") if one["path"] == "c.parquet")

    assert not kept["dataChange"]
    assert {name: value for name, value in kept["deletionVector"].items() if value is not None} == original[
        "deletionVector"
    ]
    assert json.loads(kept["stats"]) == json.loads(original["stats"])
    assert (kept["size"], kept["modificationTime"]) == (original["size"], 1)


def test_statistics_stand_in_columns_too(folder):
    (one,) = (one for one in actions(folder, 6, "add") if one["path"] == "b.parquet")

    assert one["stats_parsed"] == {
        "numRecords": 1,
        "tightBounds": None,
        "minValues": {"id": 3, "x": 7.5, "s": "fig"},
        "maxValues": {"id": 3, "x": 7.5, "s": "fig"},
        "nullCount": {"id": 0, "x": 0, "s": 0},
    }


def test_statistics_in_columns_have_the_types_of_their_columns(tmp_path):
    rows = pa.table(
        {
            "price": pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            "day": pa.array([date(2026, 1, 31)]),
            "at": pa.array([datetime(2026, 1, 31, 12, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "local": pa.array([datetime(2026, 1, 31, 12)], pa.timestamp("us")),
            "trip": pa.array([{"stop": 7}], pa.struct({"stop": pa.int16()})),
            "flag": [True],
        }
    )
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows)
    table.checkpoint()

    (one,) = actions(tmp_path, 1, "add")

    (row,) = rows.drop_columns("flag").to_pylist()
    assert one["stats_parsed"]["minValues"] == one["stats_parsed"]["maxValues"] == row
    assert one["stats_parsed"]["nullCount"] == {
        "price": 0,
        "day": 0,
        "at": 0,
        "local": 0,
        "trip": {"stop": 0},
        "flag": 0,
    }


def test_statistics_are_made_text_where_only_columns_had_them(tmp_path):
    write_log(tmp_path)
    KINDS["with parsed columns only"](tmp_path)
    without_commits(tmp_path)
    tablespec.open_table(str(tmp_path)).checkpoint()

    texts = {one["path"]: json.loads(one["stats"]) for one in actions(tmp_path, 6, "add")}

    assert texts["b.parquet"] == {
        "numRecords": 1,
        "minValues": {"id": 3, "x": 7.5, "s": "fig"},
        "maxValues": {"id": 3, "x": 7.5, "s": "fig"},
        "nullCount": {"id": 0, "x": 0, "s": 0},
    }


def test_the_actions_about_the_table_are_kept(folder):
    (kept,) = actions(folder, 6, "protocol")
    (described,) = actions(folder, 6, "metaData")
    (original,) = actions_of(folder, 0, "metaData")

    assert kept == actions_of(folder, 0, "protocol")[0]
    assert {name: value for name, value in described.items() if value is not None} == original
    assert actions(folder, 6, "txn") == [{"appId": "loader", "version": 7, "lastUpdated": 1}]
    assert actions(folder, 6, "domainMetadata") == [{"domain": "io.test", "configuration": "{}", "removed": False}]


def test_every_row_holds_one_action(folder):
    for row in written(folder, 6).to_pylist():
        assert len([value for value in row.values() if value is not None]) == 1


def test_the_actions_about_the_table_stand_in_a_row_group_of_their_own(folder):
    file = pq.ParquetFile(checkpoint_file(folder, 6))

    present = [
        {name for name in file.schema_arrow.names if file.read_row_group(group).column(name).null_count < rows}
        for group in range(file.num_row_groups)
        for rows in [file.metadata.row_group(group).num_rows]
    ]
    assert present == [{"protocol", "metaData", "txn", "domainMetadata"}, {"add"}]


def test_removed_files_are_remembered_as_long_as_a_reader_may_still_use_them(tmp_path):
    now = time.time_ns() // 1_000_000
    moments = {"old": now - 8 * DAY, "new": now - 6 * DAY, "timeless": None}
    rows = pa.table({"id": [1]})
    commit(tmp_path, 0, protocol(1, 2), metadata(), *(add(tmp_path, name, rows) for name in moments))
    removes = [{"path": name, "dataChange": True, "deletionTimestamp": moment} for name, moment in moments.items()]
    commit(tmp_path, 1, *({"remove": one} for one in removes))

    tablespec.open_table(str(tmp_path)).checkpoint()
    kept = actions(tmp_path, 1, "remove")

    assert [(one["path"], one["deletionTimestamp"], one["dataChange"]) for one in kept] == [
        ("new", moments["new"], False)
    ]


def test_tombstones_of_the_checkpoint_before_are_kept(tmp_path):
    now = time.time_ns() // 1_000_000
    rows = pa.table({"id": [1]})
    commit(tmp_path, 0, protocol(1, 2), metadata(), add(tmp_path, "a", rows), add(tmp_path, "b", rows))
    commit(tmp_path, 1, {"remove": {"path": "a", "dataChange": True, "deletionTimestamp": now}})
    tablespec.open_table(str(tmp_path)).checkpoint()
    commit(tmp_path, 2, {"remove": {"path": "b", "dataChange": True, "deletionTimestamp": now}})
    commit(tmp_path, 3, add(tmp_path, "a", rows))
    for version in (0, 1):
        commit_file(tmp_path, version).unlink()

    tablespec.open_table(str(tmp_path)).checkpoint()

    assert [one["path"] for one in actions(tmp_path, 3, "remove")] == ["b"]
    assert [one["path"] for one in actions(tmp_path, 3, "add")] == ["a"]


def test_the_hint_points_at_the_checkpoint(folder):
    hint = json.loads(folder.joinpath("_delta_log/_last_checkpoint").read_text())

    assert hint["version"] == 6
    assert hint["size"] == written(folder, 6).num_rows
    assert hint["numOfAddFiles"] == 4
    assert hint["sizeInBytes"] == checkpoint_file(folder, 6).stat().st_size


def test_an_empty_table_has_a_checkpoint_too(tmp_path):
    table = tablespec.create_table(
        str(tmp_path), pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_by=["p"]
    )

    assert table.checkpoint() == 0
    commit_file(tmp_path, 0).unlink()

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), [])
    assert tablespec.open_table(str(tmp_path)).schema.names == ("id", "p")


def test_only_the_first_leaves_have_statistics(tmp_path):
    names = [f"c{number}" for number in range(40)]
    nested = pa.array([{"a": 1, "b": 2}])
    rows = pa.table({"list": [[1]], "s": nested, **{name: [5] for name in names}})
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows)
    table.checkpoint()

    (one,) = actions(tmp_path, 1, "add")

    assert list(one["stats_parsed"]["nullCount"]) == ["s", *names[:30]]
    assert list(json.loads(one["stats"])["minValues"]) == ["s", *names[:30]]
    assert_same_rows(table.scan(where="c39 = 5"), rows)
    assert_same_rows(table.scan(where="c39 = 6"), [])


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A table of many files, of which only the log exists."""
    folder = tmp_path_factory.mktemp("large")
    columns = {"id": "long", "x": "double", "p": "integer"}
    commit(folder, 0, protocol(1, 2), metadata(columns, partition_by=["p"]))
    adds = []
    for number in range(45_000):
        bounds = {"id": number, "x": number / 2}
        stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "x": 0}}
        value = None if number % 1000 == 0 else str(number % 7)
        adds.append(
            {"add": {"path": f"f{number}", "partitionValues": {"p": value}, "size": 1, "modificationTime": 1,
                     "dataChange": True, "stats": json.dumps(stats)}}
        )  # fmt: skip
    commit(folder, 1, *adds)
    tablespec.open_table(str(folder)).checkpoint()
    commit_file(folder, 0).unlink()
    commit_file(folder, 1).unlink()
    return folder


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        ("id = 31234", [31234]),
        ("id IN (3, 44999, 50000)", [3, 44999]),
        ("p = 3 AND id < 100", list(range(3, 100, 7))),
        ("p IS NULL AND id >= 43000", [43000, 44000]),
        ("p = 9", []),
        ("x < 2 AND p = 1", [1]),
    ],
)
def test_a_filter_lists_the_right_files_of_a_large_checkpoint(large, where, numbers):
    table = tablespec.open_table(str(large))

    found = [one.slice.base.path for one in table.scan(where=where).slices]

    assert sorted(found) == sorted(f"f{number}" for number in numbers)


def test_a_large_checkpoint_is_cut_into_row_groups_by_partition(large):
    file = pq.ParquetFile(checkpoint_file(large, 1))
    edges: list[float] = []
    for group in range(1, file.num_row_groups):
        adds = file.read_row_group(group, columns=["add.partitionValues_parsed"]).column("add").combine_chunks()
        values = adds.field("partitionValues_parsed").field("p").to_pylist()
        edges += [math.inf if value is None else value for value in (values[0], values[-1])]

    assert len(edges) > 2
    assert edges == sorted(edges)
    assert tablespec.open_table(str(large)).scan().count() == 45_000


def test_a_checkpoint_that_is_written_again_under_an_open_table_reads_right(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    table.checkpoint()
    reader = tablespec.open_table(str(tmp_path))
    assert_same_rows(reader.scan("id = 2"), [(2,)])

    path = tmp_path / "_delta_log" / "00000000000000000001.checkpoint.parquet"
    pq.write_table(pq.read_table(path), path, compression="gzip", row_group_size=2)

    assert_same_rows(reader.scan("id = 2"), [(2,)])


def test_partitions_with_nan_have_no_statistics_by_which_an_engine_would_pass_over_them(tmp_path):
    rows = pa.table({"x": [0.0, math.nan], "y": [1.0, 2.0], "n": [1, 2]})
    table = tablespec.create_table(str(tmp_path), rows.schema, partition_by=["x", "y"])
    table.append(rows)

    table.checkpoint()

    footer = pq.read_metadata(checkpoint_file(tmp_path, 1))
    group = footer.row_group(footer.num_row_groups - 1)
    columns = {one.path_in_schema: one.statistics for one in map(group.column, range(group.num_columns))}
    assert columns["add.partitionValues_parsed.x"] is None
    assert columns["add.partitionValues_parsed.y"].max == 2.0
    without_commits(tmp_path, 1)
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan("x > 7"), rows.slice(1))
