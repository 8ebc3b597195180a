"""Incremental windows and changes of Hudi tables."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import ChangesGoneError, InstantNotFoundError, UnsupportedTableError
from tests.unit.formats.hudi.conftest import COLUMNS, avro_schema, time
from tests.unit.formats.hudi.test_merge_on_read import BY_EVENT, MOR, update


def opened(table):
    return tablespec.open_table(table.storage.url)


def new_rows(table, after, upto=None, **options):
    found = opened(table).incremental(after, upto, **options).to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def changed(table, after, upto=None):
    columns = ["_change_type", "_commit_version", "id", "qty"]
    found = opened(table).changes(after, upto, columns=columns).to_table().to_pylist()
    return sorted((row["_commit_version"] % 10**6 // 1000, row["_change_type"], row["id"], row["qty"]) for row in found)


@pytest.fixture
def logged(new_table):
    """Two rows at 10, one of them updated and one added at 20; every write completes five seconds later."""

    def make(**entries):
        table = new_table(9, **{**MOR, **entries})
        table.write(10, "a", "f", [("1", "a", 10), ("2", "a", 20)])
        table.append(20, "a", "f", update(20, ("2", 15), ("3", 30)))
        return table

    return make


def test_a_window_holds_the_rows_that_its_writes_made(logged):
    table = logged()

    assert new_rows(table, int(time(10))) == [("2", "a", 15), ("3", "a", 30)]
    assert new_rows(table, None, int(time(10))) == [("1", "a", 10), ("2", "a", 20)]
    assert new_rows(table, int(time(20))) == []


def test_a_window_before_the_first_write_is_empty(logged):
    assert new_rows(logged(), None, int(time(5))) == []
    assert new_rows(logged(), int(time(3)), int(time(4))) == []


def test_a_table_that_was_never_written_has_nothing_new(new_table):
    table = new_table(9, hoodie_table_create_schema=avro_schema(COLUMNS))

    assert new_rows(table, None) == []
    assert changed(table, None) == []


def test_a_late_record_that_lost_is_new_all_the_same(logged):
    assert new_rows(logged(**BY_EVENT), int(time(10)), columns=["id", "qty"]) == [("2", 15), ("3", 30)]


def test_a_number_that_is_no_instant_and_a_time_mean_completion(logged):
    table = logged()

    assert len(new_rows(table, int(time(24)))) == 2
    assert new_rows(table, int(time(25))) == []
    assert len(new_rows(table, datetime(2024, 1, 1, 0, 0, 24, tzinfo=UTC))) == 2
    assert new_rows(table, datetime(2024, 1, 1, 0, 0, 25, tzinfo=UTC)) == []


def test_a_write_that_was_requested_earlier_and_completed_later_is_in_the_later_window(new_table):
    table = new_table(9, **MOR)
    table.write(10, "a", "f", [("1", "a", 10)])
    slow = table.base("a", "g", 20, [("2", "a", 20)])
    table.write(22, "a", "h", [("3", "a", 30)])
    first = opened(table).incremental(None)
    assert sorted(row["id"] for row in first.to_table().to_pylist()) == ["1", "3"]
    table.complete(20, written=[("a", "g", slow)], completed=40)

    assert new_rows(table, first.instant, columns=["id"]) == [("2",)]
    assert opened(table).incremental(None).instant.version == int(time(20))
    assert new_rows(table, int(time(10)), int(time(22)), columns=["id"]) == [("3",)]


def test_a_window_that_ends_before_it_begins_is_an_error(logged):
    with pytest.raises(InstantNotFoundError):
        new_rows(logged(), int(time(20)), int(time(10)))


def test_windows_need_meta_fields(logged):
    with pytest.raises(UnsupportedTableError, match="incremental reads without meta fields"):
        new_rows(logged(hoodie_populate_meta_fields="false"), int(time(10)))


def test_changes_of_rows_without_meta_fields_are_told_by_their_keys_and_values(logged):
    table = logged(hoodie_populate_meta_fields="false", hoodie_table_recordkey_fields="id,part")
    table.append(30, "a", "f", update(30, ("2", 15), ("1", 11)))

    assert changed(table, None) == [
        (10, "insert", "1", 10),
        (10, "insert", "2", 20),
        (20, "insert", "3", 30),
        (20, "update_postimage", "2", 15),
        (20, "update_preimage", "2", 20),
        (30, "update_postimage", "1", 11),
        (30, "update_preimage", "1", 10),
    ]


def test_changes_need_meta_fields_or_a_record_key(logged):
    table = logged(hoodie_populate_meta_fields="false", hoodie_table_recordkey_fields="")

    with pytest.raises(UnsupportedTableError, match="changes without meta fields and without a record key"):
        changed(table, int(time(10)))


def archived(table, *instants):
    """Move instants from the timeline to the archive."""
    rows = [{"instantTime": time(one), "completionTime": time(one + 5), "action": "commit"} for one in instants]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    folder = ".hoodie/timeline/history"
    table.storage.put(f"{folder}/a_0.parquet", sink.getvalue())
    table.storage.put(f"{folder}/manifest_1", json.dumps({"files": [{"fileName": "a_0.parquet"}]}).encode())
    table.storage.put(f"{folder}/_version_", b"1")
    for one in instants:
        table.storage.delete(f".hoodie/timeline/{time(one)}_{time(one + 5)}.commit")


def test_a_window_into_the_archive_gives_the_newest_rows_of_its_writes(logged):
    table = logged()
    archived(table, 10)

    assert new_rows(table, None, int(time(14)), columns=["id"]) == []
    assert new_rows(table, None, int(time(10)), columns=["id", "qty"]) == [("1", 10)]
    assert new_rows(table, None, columns=["id", "qty"]) == [("1", 10), ("2", 15), ("3", 30)]


def test_changes_are_told_by_the_states_of_groups(logged):
    table = logged()

    assert changed(table, None) == [
        (10, "insert", "1", 10),
        (10, "insert", "2", 20),
        (20, "insert", "3", 30),
        (20, "update_postimage", "2", 15),
        (20, "update_preimage", "2", 20),
    ]
    assert changed(table, int(time(20))) == []


def test_a_record_that_lost_changed_nothing(logged):
    assert changed(logged(**BY_EVENT), int(time(10))) == [(20, "insert", "3", 30)]


def test_changes_before_the_active_timeline_are_gone(logged):
    table = logged()
    archived(table, 10)

    with pytest.raises(ChangesGoneError) as gone:
        changed(table, None)
    assert gone.value.left == int(time(10))
    assert len(changed(table, int(time(10)))) == 3


def test_changes_are_gone_where_the_state_before_was_cleaned_up(new_table):
    table = new_table(9)
    old = table.write(10, "a", "f", [("1", "a", 10)])
    new = table.base("a", "f", 20, [("1", "a", 11)])
    table.complete(20, written=[("a", "f", new)], previous=10)
    table.storage.delete(old)

    with pytest.raises(ChangesGoneError, match="before it was cleaned up"):
        changed(table, int(time(10)))


def test_a_predicate_leaves_out_the_groups_of_other_partitions(new_table):
    table = new_table(9)
    written = [(part, part, table.base(part, part, 10, [("1", part, 10)])) for part in ("a", "b")]
    table.complete(10, written=written)

    (commit,) = opened(table).file_index.list_changes_between(None, None, "part = 'b'")

    assert [change.slice.group.partition for change in commit.slices] == ["b"]
