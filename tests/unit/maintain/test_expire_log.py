import json
import os
from datetime import timedelta

import pytest

import tablespec
from tablespec.errors import InstantNotFoundError, ShortRetentionError
from tests.handmade import checkpoint_file, commit_file, contents, versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import aged, append, compacted, deltalake_rows, new_table


def test_old_entries_go_up_to_the_newest_checkpoint_that_is_old_enough(tmp_path):
    table = new_table(tmp_path, delta__checkpointInterval="3")
    for number in range(8):
        append(table, (number, "sf", 1))
    aged(tmp_path, days=40)
    append(table, (8, "sf", 1))

    removed = table.expire_log()

    assert versions_of(tmp_path) == [6, 7, 8, 9]
    assert not checkpoint_file(tmp_path, 3).exists()
    assert checkpoint_file(tmp_path, 6).exists()
    assert len(removed.paths) == 7
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(at=7), [(number, "sf", 1) for number in range(7)])
    assert_same_rows(deltalake_rows(tmp_path), [(number, "sf", 1) for number in range(9)])
    with pytest.raises(InstantNotFoundError):
        tablespec.open_table(str(tmp_path)).scan(at=5)


def test_young_entries_stay(tmp_path):
    table = new_table(tmp_path, delta__checkpointInterval="3")
    for number in range(8):
        append(table, (number, "sf", 1))

    assert table.expire_log().paths == ()


def test_without_a_checkpoint_that_is_old_enough_nothing_goes(tmp_path):
    table = compacted(tmp_path)
    aged(tmp_path, days=40)

    assert table.expire_log().paths == ()


def test_a_checkpoint_that_cannot_be_read_stands_in_for_nothing(tmp_path):
    table = compacted(tmp_path)
    table.checkpoint()
    checkpoint_file(tmp_path, 4).write_bytes(b"PAR1")
    aged(tmp_path, days=40)
    append(table, (31, "sf", 1))

    with pytest.raises(tablespec.TableSpecError, match="00000000000000000004"):
        table.expire_log()
    assert versions_of(tmp_path) == [0, 1, 2, 3, 4, 5]


def test_foreign_files_in_the_log_stay(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    table.checkpoint()
    stray = tmp_path / "_delta_log" / "notes.json"
    stray.write_text(json.dumps({}))
    aged(tmp_path, days=40)
    os.utime(commit_file(tmp_path, 1))

    table.expire_log(timedelta(days=1), allow_short_retention=True)

    assert stray.exists()


def test_a_retention_below_a_week_must_be_allowed_by_name(tmp_path):
    table = compacted(tmp_path)

    with pytest.raises(ShortRetentionError, match="allow_short_retention=True"):
        table.expire_log(timedelta(days=6))


def test_a_dry_run_tells_the_same_and_changes_nothing(tmp_path):
    table = compacted(tmp_path)
    table.checkpoint()
    aged(tmp_path, days=40)
    before = contents(tmp_path)

    told = table.expire_log(dry_run=True)

    assert contents(tmp_path) == before
    assert told == table.expire_log()
    assert len(told.paths) == 4


def test_what_killed_writers_left_in_the_log_goes_with_the_entries_of_its_time(tmp_path):
    table = new_table(tmp_path, delta__checkpointInterval="3")
    old, young = (tmp_path / "_delta_log" / f".{digit * 32}.tmp" for digit in "01")
    old.write_bytes(b"{")
    for number in range(4):
        append(table, (number, "sf", 1))
    aged(tmp_path, days=40)
    os.utime(old, (1, 1))
    young.write_bytes(b"{")

    removed = table.expire_log()

    assert f"_delta_log/{old.name}" in removed.paths
    assert (old.exists(), young.exists()) == (False, True)
    assert versions_of(tmp_path) == [3, 4]
    assert_same_rows(table.scan(), [(number, "sf", 1) for number in range(4)])
