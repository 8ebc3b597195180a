"""Slices with logs, read through a table."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import CorruptFileError, DataFileMissingError, TableSpecWarning, UnsupportedTableError
from tests.unit.formats.hudi.conftest import COLUMNS, time
from tests.unit.formats.hudi.log_writing import AVRO, avro_block, block, delete_block, parquet_block, rollback_block

MOR = {"hoodie_table_type": "MERGE_ON_READ", "hoodie_table_recordkey_fields": "id"}
BY_EVENT = {
    **MOR,
    "hoodie_record_merge_mode": "EVENT_TIME_ORDERING",
    "hoodie_table_ordering_fields": "qty",
}


@pytest.fixture
def mor(new_table):
    """A table with two rows in one group, written at 10."""

    def make(version: int = 9, **entries: str):
        table = new_table(version, **{**MOR, **entries})
        table.write(10, "a", "f", [("1", "a", 10), ("2", "a", 20)])
        return table

    return make


def rows(table, **options):
    found = tablespec.open_table(table.storage.url).scan(**options).to_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def update(instant, *records, **options):
    """A block of whole rows of the partition a."""
    return avro_block(
        time(instant), COLUMNS, [(key, {"id": key, "part": "a", "qty": qty}) for key, qty in records], **options
    )


def test_log_records_replace_and_add_rows(mor):
    table = mor()
    table.append(20, "a", "f", update(20, ("2", 21), ("3", 30)))

    assert rows(table) == [("1", "a", 10), ("2", "a", 21), ("3", "a", 30)]
    assert rows(table, at=int(time(10))) == [("1", "a", 10), ("2", "a", 20)]


def test_a_filter_sees_merged_rows_alone(mor):
    table = mor()
    table.append(20, "a", "f", update(20, ("2", 5)))

    assert rows(table, where="qty > 15") == []
    assert rows(table, where="qty < 7", columns=["id"]) == [("2",)]
    assert rows(table, where=f"_hoodie_commit_time = '{time(20)}'", columns=["id"]) == [("2",)]
    assert rows(table, where="_hoodie_record_key = '1'", columns=["id", "_HOODIE_COMMIT_TIME"]) == [("1", time(10))]
    assert tablespec.open_table(table.storage.url).scan(where="qty < 7").count() == 1


def test_counting_rows_of_a_slice_with_logs_merges_them(mor):
    table = mor()
    table.append(20, "a", "f", update(20, ("2", 5), ("3", 6)), delete_block(time(20), [("1", None)]))

    assert tablespec.open_table(table.storage.url).scan().count() == 2


def test_a_parquet_block_is_read_by_name(mor):
    table = mor()
    stored = pa.table({"qty": [22], "id": ["2"], "_hoodie_record_key": ["2"], "part": ["a"]})
    table.append(20, "a", "f", parquet_block(time(20), stored))

    assert rows(table) == [("1", "a", 10), ("2", "a", 22)]


def test_partial_records_keep_what_they_do_not_set(mor):
    table = mor()
    table.append(20, "a", "f", avro_block(time(20), [("qty", "int")], [("2", {"qty": 22})], partial=True))

    assert rows(table) == [("1", "a", 10), ("2", "a", 22)]


def test_rows_marked_as_deleted_are_gone(mor):
    table = mor()
    columns = [*COLUMNS, ("_hoodie_is_deleted", "boolean"), ("_hoodie_operation", "string")]
    marked = [("1", {"id": "1", "_hoodie_is_deleted": True}), ("2", {"id": "2", "_hoodie_operation": "D"})]
    table.append(20, "a", "f", avro_block(time(20), columns, marked))

    assert rows(table) == []


def test_a_delete_marker_of_the_table_counts(mor):
    marker = "hoodie_record_merge_property_hoodie_payload_delete_"
    table = mor(**{f"{marker}field": "part", f"{marker}marker": "gone"})
    table.append(20, "a", "f", avro_block(time(20), COLUMNS, [("1", {"id": "1", "part": "gone"})]))

    assert rows(table) == [("2", "a", 20)]


def test_by_event_time_a_lower_ordering_loses(mor):
    table = mor(**BY_EVENT)
    table.append(20, "a", "f", update(20, ("1", 9), ("2", 20)))
    table.append(30, "a", "f", delete_block(time(30), [("1", ("IntWrapper", {"value": 5})), ("2", None)]))

    assert rows(table) == [("1", "a", 10)]


def test_a_log_in_a_table_of_version_6_counts_block_by_block(mor):
    table = mor(6, hoodie_table_precombine_field="qty")
    path = table.log("a", "f", 10, update(20, ("1", 11)), update(30, ("2", 22)))
    table.complete(20, "deltacommit", written=[("a", "f", path)])

    assert rows(table) == [("1", "a", 11), ("2", "a", 20)]


def test_a_rolled_back_block_does_not_count(mor):
    table = mor(6)
    path = table.log("a", "f", 10, update(20, ("1", 11)), update(30, ("2", 22)), rollback_block(time(40), time(20)))
    for instant in (20, 30):
        table.complete(instant, "deltacommit", written=[("a", "f", path)])

    assert rows(table) == [("1", "a", 10), ("2", "a", 22)]


def test_damaged_bytes_are_skipped_with_a_warning_and_told_as_a_problem(mor):
    table = mor()
    whole, cut = update(20, ("1", 11)), update(20, ("2", 22))[:-3]
    path = table.append(20, "a", "f", whole, cut)

    with pytest.warns(
        TableSpecWarning, match=f"the bytes {len(whole)} to {len(whole + cut)} of {path} make no whole block"
    ):
        assert rows(table) == [("1", "a", 11), ("2", "a", 20)]
    (problem,) = tablespec.open_table(table.storage.url).format.problems()
    assert path in problem


def test_a_whole_block_that_cannot_be_decoded_is_an_error(mor):
    table = mor()
    path = table.append(20, "a", "f", block(AVRO, {0: time(20), 2: "{}"}, b"\x00\x00\x00\x03\x00\x00\x00\x01"))

    with pytest.raises(CorruptFileError) as refused:
        rows(table)
    assert refused.value.path == path


def test_a_log_that_is_gone_is_an_error(mor):
    table = mor()
    path = table.append(20, "a", "f", update(20, ("1", 11)))
    scan = tablespec.open_table(table.storage.url).scan()
    assert scan.slices
    table.storage.delete(path)

    with pytest.raises(DataFileMissingError):
        scan.to_table()


@pytest.mark.parametrize(
    ("entries", "feature"),
    [
        ({"hoodie_record_merge_mode": "CUSTOM"}, "log files with the merge mode CUSTOM"),
        ({"hoodie_compaction_payload_class": "org.acme.Mine"}, "log files with the payload class Mine"),
        ({"hoodie_record_merge_strategy_id": "other"}, "log files with the merge strategy other"),
        (
            {"hoodie_table_partial_update_mode": "IGNORE_DEFAULTS"},
            "log files with the partial update mode IGNORE_DEFAULTS",
        ),
    ],
    ids=["mode", "payload", "strategy", "partial"],
)
def test_rules_that_only_the_writer_knows_are_refused_for_logs_and_not_for_base_files(mor, entries, feature):
    table = mor(**entries)
    table.append(20, "a", "f", update(20, ("1", 11)))

    with pytest.raises(UnsupportedTableError) as refused:
        rows(table)
    assert refused.value.feature == feature
    found = tablespec.open_table(table.storage.url).read_optimized().to_table()
    assert [row["qty"] for row in found.to_pylist()] == [10, 20]


def test_tasks_of_slices_with_logs_pickle(mor):
    table = mor()
    table.append(20, "a", "f", update(20, ("1", 11)))
    (task,) = tablespec.open_table(table.storage.url).scan(columns=["qty"]).tasks()

    found = [row["qty"] for batch in pickle.loads(pickle.dumps(task)).read() for row in batch.to_pylist()]

    assert sorted(found) == [11, 20]


def test_keys_are_made_of_columns_where_rows_do_not_carry_them(mor):
    table = mor(hoodie_populate_meta_fields="false", hoodie_table_recordkey_fields="id,part")
    table.append(20, "a", "f", update(20, ("1", 11)), delete_block(time(20), [("id:2,part:a", None)]))

    assert rows(table) == [("1", "a", 11)]


def test_a_delete_may_write_the_name_of_the_column_before_a_key_of_one(mor):
    table = mor(hoodie_populate_meta_fields="false", hoodie_table_keygenerator_type="COMPLEX")
    table.append(20, "a", "f", update(20, ("1", 11)), delete_block(time(20), [("id:2", None)]))

    assert rows(table) == [("1", "a", 11)]


def test_a_scan_is_divided_into_what_engines_read_themselves_and_what_must_be_merged(mor):
    table = mor()
    table.append(20, "a", "f", update(20, ("1", 11)))
    table.write(30, "b", "g", [("3", "b", 30)])
    table.append(40, "b", "loose", update(40, ("4", 40)))
    opened = tablespec.open_table(table.storage.url)

    def groups(scan):
        return [one.slice.group.id for one in scan.slices]

    plain, merged = opened.scan().divided()
    assert (groups(plain), groups(merged)) == (["g"], ["f", "loose"])
    plain, merged = opened.read_optimized().divided()
    assert (groups(plain), groups(merged)) == (["f", "g"], ["loose"])
    assert opened.scan(at=int(time(10))).divided() is None


def test_a_block_without_records_changes_nothing(mor):
    table = mor()
    table.append(20, "a", "f", update(20), delete_block(time(20), []))

    assert rows(table) == [("1", "a", 10), ("2", "a", 20)]


def test_a_log_record_without_a_key_is_an_error(mor):
    table = mor()
    table.append(20, "a", "f", avro_block(time(20), COLUMNS, [(None, {"id": "1"})]))

    with pytest.raises(CorruptFileError, match="a record has no key"):
        rows(table)


def listed_between(table, start):
    found = tablespec.open_table(table.storage.url).file_index.list_files_between(int(time(start)))
    return [slice_.group.id for partition in found for slice_ in partition.file_slices]


def test_slices_with_newer_logs_are_listed_between_instants(mor):
    table = mor()
    table.write(12, "a", "g", [("9", "a", 90)])
    table.append(20, "a", "f", update(20, ("1", 11)))

    assert listed_between(table, 12) == ["f"]
    assert listed_between(table, 20) == []


def test_a_file_that_moved_rows_is_listed_where_rows_were_changed_before_it(mor):
    table = mor()
    table.write(20, "a", "h", [("3", "a", 30)])
    moved = table.base("a", "m", 30, [("1", "a", 10), ("2", "a", 20), ("3", "a", 30)])
    table.complete(
        30, "replacecommit", written=[("a", "m", moved)], replaced=[("a", "f"), ("a", "h")], operation="CLUSTER"
    )

    assert listed_between(table, 10) == ["m"]
    assert listed_between(table, 20) == []
