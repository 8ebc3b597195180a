"""The commands that look after files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec import Table
from tests.handmade import contents
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "day": pa.int64()})


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three files of one day, and row 2 deleted by a vector."""
    made = tablespec.create_table(str(tmp_path / "t"), SCHEMA, partition_by=["day"])
    for number in range(3):
        made.append(pa.table({"id": [number, number + 10], "day": [1, 1]}, SCHEMA))
    made.delete("id = 2")
    return made


def rows(table: Table) -> list[tuple[int]]:
    return [(row["id"],) for row in table.scan(columns=["id"]).to_table().to_pylist()]


def test_compact_makes_small_files_into_one(command, table):
    before = rows(table)

    done = command("compact", table.url, "--json")

    document = json.loads(done.out)
    assert (done.code, document["version"], document["files_removed"], document["files_added"]) == (0, 5, 3, 1)
    assert (document["rows_moved"], document["vectors_removed"], document["skipped"]) == (5, 1, [])
    assert_same_rows(rows(table), before)


def test_compact_says_when_there_is_nothing_to_do(command, table):
    table.compact()

    done = command("compact", table.url)

    assert (done.code, done.out.strip()) == (0, "outcome  nothing to do, nothing was committed")
    assert json.loads(command("compact", table.url, "--json").out)["version"] is None


def test_compact_tells_what_it_could_not_read_and_skips_shows_it_later(command, table, tmp_path):
    broken = table.scan().slices[0].slice.base.path
    (tmp_path / "t" / broken).write_bytes(b"")

    document = json.loads(command("compact", table.url, "--json").out)
    shown = command("skips", table.url)
    listed = json.loads(command("skips", table.url, "--json").out)

    assert [one["path"] for one in document["skipped"]] == [broken]
    assert [one["path"] for one in listed["skips"]] == [broken]
    assert broken in shown.out


def test_cluster_puts_rows_in_order(command, table):
    before = rows(table)

    done = command("cluster", table.url, "--by", "id", "--json")

    assert json.loads(done.out)["files_added"] == 1
    assert rows(table) == sorted(before)
    assert table.history(1)[0].parameters[-1] == ("clusterBy", '["id"]')


def test_cluster_needs_columns(command, table):
    done = command("cluster", table.url)

    assert done.code == 2
    assert "--by" in done.err


def test_vacuum_shows_what_would_go_and_removes_it(command, table, tmp_path):
    table.compact()
    options = ("--retention", "0d", "--allow-short-retention", "--json")
    before = contents(tmp_path)

    told = json.loads(command("vacuum", table.url, "--dry-run", *options).out)
    assert contents(tmp_path) == before
    removed = json.loads(command("vacuum", table.url, *options).out)

    assert told == removed | {"dry_run": True}
    assert (removed["files"], len(removed["paths"])) == (4, 4)
    assert set(before) - set(contents(tmp_path)) == {f"t/{path}" for path in removed["paths"]}


@pytest.mark.parametrize("name", ["vacuum", "expire-log"])
def test_a_retention_that_is_too_short_is_refused(command, table, tmp_path, name):
    before = contents(tmp_path)

    done = command(name, table.url, "--retention", "30m")

    assert done.code == 2
    assert done.err.startswith("error: ")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("text", ["week", "-1d", "7", "1.5.h", ""])
def test_a_retention_that_is_no_time_is_refused(command, table, text):
    done = command("vacuum", table.url, f"--retention={text}")

    assert done.code == 2
    assert "is not a time such as 30d, 12h or 15m" in " ".join(done.err.split())


def test_a_retention_that_is_longer_than_all_times_is_refused(command, table):
    done = command("vacuum", table.url, "--retention", "9999999999d")

    assert done.code == 2
    assert "'9999999999d' is longer than the longest time there is, 999999999d" in " ".join(done.err.split())


def test_expire_log_removes_what_a_checkpoint_stands_in_for(command, table):
    table.checkpoint()
    options = ("--retention", "0s", "--allow-short-retention")

    told = command("expire-log", table.url, "--dry-run", *options)
    removed = json.loads(command("expire-log", table.url, "--json", *options).out)

    assert told.out.startswith("would be removed")
    assert removed["files"] > 0
    assert_same_rows(rows(tablespec.open_table(table.url)), [(0,), (10,), (1,), (11,), (12,)])


def test_restore_makes_the_table_what_it_was(command, table):
    document = json.loads(command("restore", table.url, "--at", "1", "--json").out)

    assert (document["version"], document["restored"], document["files_removed"]) == (5, 1, 2)
    assert_same_rows(rows(table), [(0,), (10,)])


def test_restore_says_when_nothing_changed(command, table):
    done = command("restore", table.url, "--at", "4")

    assert done.code == 0
    assert "the table is as it was then, nothing was committed" in done.out


def test_restore_of_a_version_that_is_not_there_is_an_error(command, table):
    done = command("restore", table.url, "--at", "9")

    assert (done.code, done.out) == (2, "")
    assert "9" in done.err


def test_checkpoint_tells_how_many_files_it_lists(command, table, tmp_path):
    document = json.loads(command("checkpoint", table.url, "--json").out)

    assert (document["version"], document["files"]) == (4, 3)
    assert list((tmp_path / "t" / "_delta_log").glob("*4.checkpoint*.parquet"))
