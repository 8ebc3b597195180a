import json
import os
import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import (
    ChangesGoneError,
    CorruptLogError,
    InstantNotFoundError,
    MissingLogError,
    TableExistsError,
    TableNotFoundError,
    TableSpecWarning,
)
from tablespec.expr.nodes import TRUE
from tablespec.formats.base import Profile, TableFormat, WritableFormat
from tablespec.formats.delta.format import DeltaFormat
from tablespec.read.scan import Scan
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, checkpoint_file, commit, commit_file, contents, metadata
from tests.rows import assert_same_rows
from tests.storages import Slow


def rows_at(folder, version=None):
    return tablespec.open_table(str(folder)).scan(at=version)


def upto(number):
    return [(value,) for value in range(1, number + 1)]


@pytest.fixture
def folder(tmp_path):
    """A table whose version N holds the rows 1 to N, up to version 6; it has no checkpoint."""
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    for value in range(1, 7):
        table.append(pa.table({"id": [value]}))
    return tmp_path


def checkpoint_at(folder, version):
    """Make the checkpoint of an older version, as if it had been written then."""
    aside = folder.with_name(f"{folder.name}-aside")
    shutil.copytree(folder, aside)
    for path in (aside / "_delta_log").glob("*"):
        if path.name[:20].isdigit() and int(path.name[:20]) > version:
            path.unlink()
    tablespec.open_table(str(aside)).checkpoint()
    shutil.copy(checkpoint_file(aside, version), checkpoint_file(folder, version))
    shutil.copy(aside / "_delta_log" / "_last_checkpoint", folder / "_delta_log" / "_last_checkpoint")
    shutil.rmtree(aside)


def forget(folder, *versions):
    for version in versions:
        commit_file(folder, version).unlink()


def versions(folder):
    return [instant.version for instant in tablespec.open_table(str(folder)).timeline]


# --- the port ---


def test_a_delta_table_can_be_read_and_written(folder):
    format_ = DeltaFormat(Storage.at(str(folder)))

    assert isinstance(format_, TableFormat)
    assert isinstance(format_, WritableFormat)


def test_a_folder_without_a_log_is_no_delta_table(tmp_path):
    assert not DeltaFormat.is_at(Storage.at(str(tmp_path)))


def test_a_table_is_made_once(folder):
    before = contents(folder)

    with pytest.raises(TableExistsError, match=r"open it with tablespec\.open_table"):
        DeltaFormat.create(
            Storage.at(str(folder)), tablespec.open_table(str(folder)).schema, (), (), "operation", Profile.OPEN
        )

    assert contents(folder) == before


def test_a_log_folder_without_commits_is_no_table(tmp_path):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "notes.txt").write_text("nothing yet")

    with pytest.raises(TableNotFoundError):
        rows_at(tmp_path)


# --- every version ---


def test_every_version_reads_as_it_was(folder):
    for version in range(7):
        assert_same_rows(rows_at(folder, version), upto(version))


@pytest.mark.parametrize("checkpoint", [0, 3, 6])
def test_a_checkpoint_changes_nothing_that_is_read(folder, checkpoint):
    checkpoint_at(folder, checkpoint)

    for version in range(7):
        assert_same_rows(rows_at(folder, version), upto(version))
    assert_same_rows(rows_at(folder), upto(6))


def test_a_version_that_is_not_there_yet_is_told_with_those_that_are(folder):
    with pytest.raises(InstantNotFoundError) as caught:
        rows_at(folder, 7)

    assert str(caught.value) == f"file://{folder} has no completed instant 7; it has 0 to 6"


@pytest.mark.parametrize("version", [-1, -7])
def test_versions_begin_with_zero(folder, version):
    with pytest.raises(InstantNotFoundError, match=str(version)):
        rows_at(folder, version)


def test_an_open_table_sees_what_others_commit(folder):
    table = tablespec.open_table(str(folder))
    assert table.instant().version == 6
    tablespec.open_table(str(folder)).append(pa.table({"id": [7]}))

    assert_same_rows(table.scan(), upto(7))


def test_a_thread_that_shares_a_table_is_not_disturbed_by_what_another_one_learns_meanwhile(tmp_path):
    writer = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    meanwhile = []
    shared = DeltaFormat(Slow(writer.url, after=lambda: meanwhile.pop()() if meanwhile else None))
    shared.latest()
    writer.append(pa.table({"id": [1, 2]}))

    def other_thread():
        writer.delete("id = 1", strategy=Strategy.COPY_ON_WRITE)
        writer.append(pa.table({"id": [3]}))
        assert_same_rows(Scan(storage=shared.storage, state=shared.latest()), [(2,), (3,)])

    meanwhile.append(other_thread)

    state = shared.latest()

    assert state.instant.version == 1
    assert_same_rows(Scan(storage=shared.storage, state=state), [(1,), (2,)])
    assert_same_rows(Scan(storage=shared.storage, state=shared.latest()), [(2,), (3,)])


def test_an_open_table_sees_what_others_commit_though_the_log_was_cleaned_up_meanwhile(folder):
    table = tablespec.open_table(str(folder))
    assert table.instant().version == 6
    other = tablespec.open_table(str(folder))
    for value in (7, 8):
        other.append(pa.table({"id": [value]}))
    other.checkpoint()
    forget(folder, *range(8))

    assert_same_rows(table.scan(), upto(8))


def test_an_open_table_is_not_left_behind_when_its_checkpoint_is_cleaned_up(folder):
    checkpoint_at(folder, 3)
    table = tablespec.open_table(str(folder))
    assert_same_rows(table.scan(), upto(6))
    checkpoint_at(folder, 6)
    checkpoint_file(folder, 3).unlink()
    forget(folder, *range(6))

    assert_same_rows(table.scan(at=6), upto(6))
    assert_same_rows(table.scan(), upto(6))
    table.append(pa.table({"id": [7]}))
    assert_same_rows(table.scan(), upto(7))


@pytest.mark.parametrize("versions", [1, 6, 9], ids=["shorter", "as long", "longer"])
def test_an_open_table_notices_that_it_was_removed_and_made_anew(folder, versions):
    table = tablespec.open_table(str(folder))
    assert table.scan().count() == 6
    shutil.rmtree(folder)
    other = tablespec.create_table(str(folder), pa.schema([("name", pa.string())]))
    for _ in range(versions):
        other.append(pa.table({"name": ["x"]}))

    assert_same_rows(table.scan(), [("x",)] * versions)


def test_an_open_table_notices_that_it_was_removed(folder):
    table = tablespec.open_table(str(folder))
    assert table.scan().count() == 6
    shutil.rmtree(folder)

    with pytest.raises(TableNotFoundError):
        table.scan()


# --- the timeline ---


def test_the_timeline_has_every_version_oldest_first(folder):
    assert versions(folder) == [0, 1, 2, 3, 4, 5, 6]


def test_time_on_the_timeline_never_goes_back_though_clocks_do(folder):
    for version, seconds in enumerate([1000, 900, 900, 1100, 1, 1100, 1100]):
        os.utime(commit_file(folder, version), (seconds, seconds))

    stamps = [instant.timestamp for instant in tablespec.open_table(str(folder)).timeline]

    assert stamps == [1_000_000, 1_000_001, 1_000_002, 1_100_000, 1_100_001, 1_100_002, 1_100_003]


def test_the_instant_of_a_commit_is_that_of_the_timeline(folder):
    table = tablespec.open_table(str(folder))

    appended = table.append(pa.table({"id": [7]}))

    assert appended.instant == table.timeline.latest() == table.instant()
    assert_same_rows(table.scan(at=appended.instant.time), upto(7))


def test_the_time_of_a_version_names_it(folder):
    table = tablespec.open_table(str(folder))
    third = table.timeline.at(3)

    assert_same_rows(table.scan(at=third.time), upto(3))
    assert_same_rows(table.scan(at=third.time.isoformat()), upto(3))
    assert_same_rows(table.scan(at=third.time + timedelta(microseconds=1)), upto(3))
    assert_same_rows(table.scan(at=third.time - timedelta(milliseconds=1)), upto(2))


def test_a_time_before_the_first_version_is_not_found(folder):
    with pytest.raises(InstantNotFoundError, match="at or before 1999-12-31"):
        rows_at(folder, datetime(1999, 12, 31, tzinfo=UTC))


def test_in_commit_timestamps_are_the_time_where_they_are_declared(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]), profile=Profile.STRICT)
    for value in (1, 2, 3):
        table.append(pa.table({"id": [value]}))
    for version in range(4):
        os.utime(commit_file(tmp_path, version), (1, 1))

    table = tablespec.open_table(str(tmp_path))

    stamps = [actions_of(tmp_path, version, "commitInfo")[0]["inCommitTimestamp"] for version in range(4)]
    assert [instant.timestamp for instant in table.timeline] == stamps
    assert table.instant().timestamp == stamps[3]
    assert table.instant(2).timestamp == stamps[2]


def test_versions_before_in_commit_timestamps_have_the_time_of_their_files(folder):
    for version in range(7):
        os.utime(commit_file(folder, version), (1000 + version, 1000 + version))
    table = tablespec.open_table(str(folder))
    table.set_properties({"delta.enableInCommitTimestamps": "true"})

    stamps = [instant.timestamp for instant in table.timeline]

    assert stamps[:7] == [(1000 + version) * 1000 for version in range(7)]
    assert stamps[7] == actions_of(folder, 7, "commitInfo")[0]["inCommitTimestamp"]


def test_a_log_that_was_copied_keeps_the_times_that_its_commits_tell(folder):
    table = tablespec.open_table(str(folder))
    table.set_properties({"delta.enableInCommitTimestamps": "true"})
    table.append(pa.table({"id": [7]}))
    enabled, last = (actions_of(folder, version, "commitInfo")[0]["inCommitTimestamp"] for version in (7, 8))
    for version in range(9):
        os.utime(commit_file(folder, version), (4_000_000_000 + version, 4_000_000_000 + version))

    copied = tablespec.open_table(str(folder))

    times = [enabled + version - 7 for version in range(7)]
    assert [instant.timestamp for instant in copied.timeline] == [*times, enabled, last]
    assert copied.instant(datetime.fromtimestamp(last / 1000, UTC)).version == 8
    assert copied.instant(datetime.fromtimestamp((enabled - 1) / 1000, UTC)).version == 6
    for after, upto in [(0, 2), (0, 8), (7, 8)]:
        found = copied.changes(after, upto).to_table()
        told = dict(zip(found.column("_commit_version").to_pylist(), found.column("_commit_timestamp").to_pylist()))
        assert told == {version: copied.timeline.at(version).time for version in told}
        assert max(told) == upto


def test_timestamps_never_go_back_though_the_clock_of_the_last_writer_ran_ahead(folder):
    future = datetime(2150, 1, 1, tzinfo=UTC).timestamp()
    os.utime(commit_file(folder, 6), (future, future))
    table = tablespec.open_table(str(folder))

    table.append(pa.table({"id": [7]}))

    assert actions_of(folder, 7, "commitInfo")[0]["inCommitTimestamp"] == int(future * 1000) + 1


# --- logs that were cleaned up ---


def test_after_a_cleanup_the_timeline_starts_with_the_checkpoint(folder):
    checkpoint_at(folder, 3)
    forget(folder, 0, 1, 2)

    assert versions(folder) == [3, 4, 5, 6]
    for version in range(3, 7):
        assert_same_rows(rows_at(folder, version), upto(version))
    with pytest.raises(InstantNotFoundError, match="no completed instant 2; it has 3 to 6"):
        rows_at(folder, 2)


def test_a_checkpoint_whose_own_commit_is_gone_is_still_an_instant(folder):
    checkpoint_at(folder, 6)
    forget(folder, *range(7))
    table = tablespec.open_table(str(folder))

    assert versions(folder) == [6]
    assert table.timeline.latest() == table.instant()
    assert_same_rows(table.scan(at=6), upto(6))
    assert table.history() == []


def test_a_table_that_is_only_a_checkpoint_can_be_written(folder):
    checkpoint_at(folder, 6)
    forget(folder, *range(7))
    table = tablespec.open_table(str(folder))

    table.append(pa.table({"id": [7]}))

    assert versions(folder) == [6, 7]
    assert_same_rows(table.scan(), upto(7))
    assert [entry.instant.version for entry in table.history()] == [7]
    assert actions_of(folder, 7, "add")[0]["baseRowId"] == 6


def test_commits_that_no_checkpoint_leads_to_are_not_on_the_timeline(folder):
    checkpoint_at(folder, 4)
    forget(folder, 0, 1)

    assert versions(folder) == [4, 5, 6]


def test_what_was_added_cannot_be_told_once_the_commits_are_gone(folder):
    checkpoint_at(folder, 3)
    forget(folder, 0, 1, 2)
    index = tablespec.open_table(str(folder)).file_index

    assert len(index.list_files_between(3, 5)[0].file_slices) == 2
    with pytest.raises(InstantNotFoundError):
        index.list_files_between(1, 5)


# --- damaged logs ---


def test_a_missing_version_is_named(folder):
    forget(folder, 3)

    with pytest.raises(MissingLogError) as caught:
        rows_at(folder)

    assert str(caught.value) == (
        f"the log of file://{folder} lacks version 3, which version 6 needs, and no complete checkpoint covers it; "
        "restore the file from a backup or ask for another version"
    )
    assert_same_rows(rows_at(folder, 2), upto(2))


def test_a_missing_first_version_is_named(folder):
    forget(folder, 0)

    with pytest.raises(MissingLogError, match="lacks version 0, which version 6 needs"):
        rows_at(folder)


def test_a_missing_version_that_a_checkpoint_covers_is_not_missed(folder):
    checkpoint_at(folder, 4)
    forget(folder, 2)

    assert_same_rows(rows_at(folder), upto(6))
    assert versions(folder) == [0, 1, 4, 5, 6]
    with pytest.raises(MissingLogError, match="lacks version 2, which version 3 needs"):
        rows_at(folder, 3)


def test_a_version_that_is_missing_in_the_log_stops_a_writer_too(folder):
    forget(folder, 3)
    before = contents(folder)

    with pytest.raises(MissingLogError):
        tablespec.open_table(str(folder)).append(pa.table({"id": [7]}))

    assert contents(folder) == before


def test_a_torn_last_line_is_named_with_file_and_line(folder):
    whole = commit_file(folder, 6).read_bytes()
    commit_file(folder, 6).write_bytes(whole[:-20])
    lines = whole.count(b"\n")

    with pytest.raises(CorruptLogError) as caught:
        rows_at(folder)

    assert (caught.value.file, caught.value.line) == (f"_delta_log/{6:020d}.json", lines)
    assert "the last line is cut off" in str(caught.value)
    assert_same_rows(rows_at(folder, 5), upto(5))


def test_bad_json_in_the_middle_is_named_with_file_and_line(folder):
    lines = commit_file(folder, 4).read_text().splitlines()
    commit_file(folder, 4).write_text("\n".join([lines[0], '{"add": oops}', *lines[1:]]) + "\n")
    before = contents(folder)

    with pytest.raises(CorruptLogError) as caught:
        tablespec.open_table(str(folder)).append(pa.table({"id": [7]}))

    assert (caught.value.file, caught.value.line) == (f"_delta_log/{4:020d}.json", 2)
    assert str(caught.value).startswith(f"the log of file://{folder} is damaged at _delta_log/{4:020d}.json line 2: ")
    assert contents(folder) == before


@pytest.mark.parametrize(
    "line",
    [
        '{"add": {"path": 7}}',
        '{"protocol": {"minReaderVersion": "one"}}',
        "[]",
        "7",
        '{"metaData": {"id": "x"}}',
        "\x00",
    ],
)
def test_json_that_is_no_action_is_named_with_file_and_line(folder, line):
    commit_file(folder, 4).write_text("\n" + line + "\n")

    with pytest.raises(CorruptLogError) as caught:
        rows_at(folder)

    assert (caught.value.file, caught.value.line) == (f"_delta_log/{4:020d}.json", 2)


def test_a_log_without_metadata_is_damaged(tmp_path):
    commit(tmp_path, 0, LEGACY)

    with pytest.raises(CorruptLogError, match="no metaData action was ever written"):
        rows_at(tmp_path)


@pytest.mark.parametrize(
    "schema", ["", "oops", "[]", "{}", '{"type": "struct"}', '{"fields": [{"name": "id"}]}', '{"fields": [7]}']
)
def test_a_schema_that_cannot_be_read_is_damage(tmp_path, schema):
    action = metadata()
    action["metaData"]["schemaString"] = schema
    commit(tmp_path, 0, LEGACY, action)

    with pytest.raises(CorruptLogError, match=r"schemaString.*the schema cannot be read"):
        rows_at(tmp_path)


def test_a_column_type_that_nobody_knows_is_named(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "shape": "geometry"}))

    with pytest.raises(tablespec.TableSpecError, match="the column type geometry, which tablespec does not support"):
        rows_at(tmp_path)


# --- damaged checkpoints ---


def cut(data):
    return data[: len(data) // 2]


def without_footer_start(data):
    return data[:-200] + data[-100:]


def zeroed_middle(data):
    third = len(data) // 3
    return data[:third] + bytes(third) + data[2 * third :]


DAMAGES = {
    "empty": lambda data: b"",
    "cut": cut,
    "not parquet": lambda data: b"oops" * 100,
    "damaged footer": without_footer_start,
    "zeroed in the middle": zeroed_middle,
}
damages = pytest.mark.parametrize("damage", list(DAMAGES.values()), ids=list(DAMAGES))


@damages
def test_a_damaged_checkpoint_is_passed_over_where_the_log_does(folder, damage):
    checkpoint_at(folder, 4)
    checkpoint_file(folder, 4).write_bytes(damage(checkpoint_file(folder, 4).read_bytes()))

    assert_same_rows(rows_at(folder), upto(6))
    assert_same_rows(rows_at(folder, 4), upto(4))


@damages
def test_a_damaged_checkpoint_is_passed_over_where_an_older_one_does(folder, damage):
    checkpoint_at(folder, 2)
    checkpoint_at(folder, 5)
    checkpoint_file(folder, 5).write_bytes(damage(checkpoint_file(folder, 5).read_bytes()))
    forget(folder, 0, 1)

    assert_same_rows(rows_at(folder), upto(6))


@damages
def test_a_damaged_checkpoint_is_named_where_nothing_stands_in_for_it(folder, damage):
    checkpoint_at(folder, 4)
    checkpoint_file(folder, 4).write_bytes(damage(checkpoint_file(folder, 4).read_bytes()))
    forget(folder, 0, 1, 2, 3)
    before = contents(folder)

    with pytest.raises(CorruptLogError) as caught:
        tablespec.open_table(str(folder)).append(pa.table({"id": [7]}))
        rows_at(folder).to_table()

    assert caught.value.file == f"_delta_log/{4:020d}.checkpoint.parquet"
    assert contents(folder) == before


def damage_adds(folder, version):
    """Damage a checkpoint where it shows only when the adds are read."""
    path = checkpoint_file(folder, version)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    start, size = chunk.data_page_offset, chunk.total_compressed_size
    data[start : start + size] = bytes(size)
    path.write_bytes(data)


def test_damage_that_shows_only_when_adds_are_read_is_named_where_nothing_stands_in_for_them(folder):
    checkpoint_at(folder, 6)
    damage_adds(folder, 6)
    forget(folder, 0, 1)

    with pytest.raises(CorruptLogError) as caught:
        rows_at(folder).to_table()

    assert caught.value.file == f"_delta_log/{6:020d}.checkpoint.parquet"


def test_damage_that_shows_only_when_adds_are_read_is_passed_over_where_the_log_does(folder):
    checkpoint_at(folder, 4)
    damage_adds(folder, 4)

    assert_same_rows(rows_at(folder), upto(6))
    assert_same_rows(rows_at(folder, 4), upto(4))


def test_damage_that_shows_only_when_adds_are_read_is_passed_over_where_an_older_checkpoint_does(folder):
    checkpoint_at(folder, 2)
    checkpoint_at(folder, 4)
    checkpoint_at(folder, 6)
    for version in (4, 6):
        damage_adds(folder, version)
    forget(folder, 0, 1)

    assert_same_rows(rows_at(folder), upto(6))


def test_a_table_whose_checkpoint_has_damaged_adds_is_written_and_looked_after_as_ever(folder):
    checkpoint_at(folder, 6)
    damage_adds(folder, 6)
    table = tablespec.open_table(str(folder))

    table.append(pa.table({"id": [7]}))
    table.delete("id = 2")
    table.vacuum(timedelta(0), allow_short_retention=True)

    assert_same_rows(tablespec.open_table(str(folder)).scan(columns=["id"]), [(1,), (3,), (4,), (5,), (6,), (7,)])
    assert table.checkpoint() > 0
    assert_same_rows(tablespec.open_table(str(folder)).scan(columns=["id"]), [(1,), (3,), (4,), (5,), (6,), (7,)])


def test_commits_stay_where_the_adds_of_their_checkpoint_are_damaged(folder):
    checkpoint_at(folder, 6)
    damage_adds(folder, 6)
    before = contents(folder)

    with pytest.raises(CorruptLogError):
        tablespec.open_table(str(folder)).expire_log(timedelta(0), allow_short_retention=True)

    assert contents(folder) == before
    assert any("checkpoint cannot be read" in problem for problem in DeltaFormat(Storage.at(str(folder))).problems())


@pytest.mark.parametrize("damage", [b"", b"oops", b'{"add":{"path":"x"'], ids=["empty", "not json", "cut"])
def test_a_damaged_compacted_file_is_passed_over_where_the_commits_are_there(folder, damage):
    (folder / "_delta_log" / f"{2:020d}.{5:020d}.compacted.json").write_bytes(damage)

    assert_same_rows(rows_at(folder), upto(6))
    assert_same_rows(rows_at(folder, 5), upto(5))


def test_a_damaged_compacted_file_is_named_where_it_stands_for_commits_that_are_gone(folder):
    compacted = folder / "_delta_log" / f"{2:020d}.{5:020d}.compacted.json"
    compacted.write_text("oops")
    forget(folder, 3)

    with pytest.raises(CorruptLogError) as caught:
        rows_at(folder).to_table()

    assert caught.value.file == f"_delta_log/{compacted.name}"


def in_parts(folder, version, parts):
    """Turn a classic checkpoint into one of several parts and give their paths."""
    rows = pq.read_table(checkpoint_file(folder, version))
    checkpoint_file(folder, version).unlink()
    step = -(-len(rows) // parts)
    paths = []
    for part in range(parts):
        path = folder / "_delta_log" / f"{version:020d}.checkpoint.{part + 1:010d}.{parts:010d}.parquet"
        pq.write_table(rows.slice(part * step, step), path)
        paths.append(path)
    return paths


def test_a_checkpoint_of_several_parts_is_read_as_one(folder):
    checkpoint_at(folder, 4)
    in_parts(folder, 4, 3)
    forget(folder, 0, 1, 2, 3)

    assert_same_rows(rows_at(folder), upto(6))


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_checkpoint_that_lacks_a_part_does_not_count(folder, lost):
    checkpoint_at(folder, 4)
    in_parts(folder, 4, 3)[lost].unlink()

    assert_same_rows(rows_at(folder), upto(6))


def test_a_checkpoint_that_lacks_a_part_is_missed_where_nothing_stands_in_for_it(folder):
    checkpoint_at(folder, 4)
    in_parts(folder, 4, 3)[1].unlink()
    forget(folder, 0, 1)

    with pytest.raises(MissingLogError, match="lacks version 0, which version 6 needs"):
        rows_at(folder)


@pytest.mark.parametrize(
    "hint",
    ["", "oops", "[]", "{}", '{"version": "4"}', '{"version": 99}', '{"version": 1}', '{"version": -1}', "null"],
)
def test_a_wrong_hint_at_the_last_checkpoint_is_no_harm(folder, hint):
    checkpoint_at(folder, 4)
    (folder / "_delta_log" / "_last_checkpoint").write_text(hint)

    assert_same_rows(rows_at(folder), upto(6))


def test_a_missing_hint_at_the_last_checkpoint_is_no_harm(folder):
    checkpoint_at(folder, 4)
    (folder / "_delta_log" / "_last_checkpoint").unlink()
    forget(folder, 0, 1, 2, 3)

    assert_same_rows(rows_at(folder), upto(6))


def test_foreign_and_temporary_files_in_the_log_are_passed_over(folder):
    log = folder / "_delta_log"
    for name in (".tmp", "notes.txt", f"{7:020d}.json.tmp", "7.json", f"{3:020d}.crc", "_staged_commits/x.json"):
        (log / name).parent.mkdir(exist_ok=True)
        (log / name).write_text("not for us")

    assert_same_rows(rows_at(folder), upto(6))
    assert versions(folder) == [0, 1, 2, 3, 4, 5, 6]


# --- problems ---


def test_a_sound_table_has_no_problems(folder):
    checkpoint_at(folder, 3)

    assert DeltaFormat(Storage.at(str(folder))).problems() == []


def test_problems_name_what_is_missing_and_what_is_damaged(folder):
    checkpoint_at(folder, 5)
    forget(folder, 2)
    commit_file(folder, 4).write_text("oops\n")
    checkpoint_file(folder, 5).write_bytes(b"oops")

    missing, line, checkpoint = DeltaFormat(Storage.at(str(folder))).problems()

    assert missing == "version 2 is missing in the log"
    assert f"_delta_log/{4:020d}.json line 1" in line
    assert f"_delta_log/{5:020d}.checkpoint.parquet" in checkpoint


# --- what was added ---


def test_only_files_with_new_data_count_as_added(folder):
    (moved,) = actions_of(folder, 2, "add")
    commit(
        folder,
        7,
        {"remove": {"path": moved["path"], "dataChange": False, "deletionTimestamp": 1}},
        add(folder, "rearranged.parquet", pa.table({"id": [2]}), dataChange=False),
    )
    format_ = DeltaFormat(Storage.at(str(folder)))

    assert format_.added_between(6, 7) == frozenset()
    assert format_.added_between(4, 7) == frozenset(actions_of(folder, version, "add")[0]["path"] for version in (5, 6))
    assert len(format_.added_between(None, 7)) == 6


def test_a_file_that_is_added_and_removed_in_one_commit_stays(tmp_path):
    action = add(tmp_path, "1.parquet", pa.table({"id": [1]}))
    commit(tmp_path, 0, LEGACY, metadata(), action)
    remove = {"remove": {"path": "1.parquet", "dataChange": True, "deletionTimestamp": 1}}
    commit(tmp_path, 1, action, remove)

    assert_same_rows(rows_at(tmp_path), [(1,)])


def test_a_state_lists_each_live_file_once(folder):
    checkpoint_at(folder, 3)
    state = DeltaFormat(Storage.at(str(folder))).latest()

    paths = [one.slice.base.path for one in state.files.judge(TRUE)]

    assert sorted(paths) == sorted(actions_of(folder, version, "add")[0]["path"] for version in range(1, 7))


def test_a_commit_with_blank_lines_and_two_actions_in_a_line_is_read(tmp_path):
    first = {**LEGACY, **metadata()}
    commit_file(tmp_path, 0).parent.mkdir()
    commit_file(tmp_path, 0).write_text(f"\n{json.dumps(first)}\n\n")

    assert tablespec.open_table(str(tmp_path)).schema.names == ("id",)


def test_a_commit_file_without_a_line_is_damage_and_no_commit_that_did_nothing(folder):
    commit_file(folder, 6).write_bytes(b"")
    before = contents(folder)

    with pytest.raises(CorruptLogError, match=r"00000000000000000006\.json: the file is empty"):
        rows_at(folder)
    with pytest.raises(CorruptLogError):
        tablespec.open_table(str(folder)).append(pa.table({"id": [7]}))

    assert contents(folder) == before
    assert_same_rows(rows_at(folder, 5), upto(5))


ASKED = {
    "latest": lambda format_: format_.latest().instant.version,
    "state_at": lambda format_: format_.state_at(6).instant.version,
    "history": lambda format_: [entry.instant.version for entry in format_.history()],
    "needed_since": lambda format_: len(format_.needed_since(6)),
}
AFTER_THE_CLEANUP = {"latest": 6, "state_at": 6, "history": [6], "needed_since": 6}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("opened", [False, True], ids=["anew", "before"])
def test_a_log_that_is_cleaned_up_while_it_is_read_is_read_as_it_is_then(folder, asked, opened):
    meanwhile = []
    format_ = DeltaFormat(Slow(f"file://{folder}", after=lambda: meanwhile.pop()() if meanwhile else None))
    if opened:
        newest = commit_file(folder, 6).read_bytes()
        commit_file(folder, 6).unlink()
        format_.latest()
        commit_file(folder, 6).write_bytes(newest)

    def clean_up():
        tablespec.open_table(str(folder)).checkpoint()
        tablespec.open_table(str(folder)).expire_log(timedelta(0), allow_short_retention=True)

    meanwhile.append(clean_up)

    assert ASKED[asked](format_) == AFTER_THE_CLEANUP[asked]
    assert not commit_file(folder, 5).exists()


def test_changes_whose_commits_go_while_they_are_read_are_gone(folder):
    meanwhile = []
    table = Table(DeltaFormat(Slow(f"file://{folder}", after=lambda: meanwhile.pop(0)() if meanwhile else None)))
    table.instant()
    meanwhile += [lambda: None, lambda: forget(folder, 5)]

    with pytest.raises(ChangesGoneError, match="version 5"):
        table.incremental(3).to_table()


class Unreadable(Storage):
    """Lists the commit of version 7 and does not find it."""

    def read(self, path):
        if path.endswith("7.json"):
            raise FileNotFoundError(path)
        return super().read(path)


def test_a_durable_commit_is_acknowledged_though_the_log_cannot_be_read_after_it(folder):
    table = Table(DeltaFormat(Unreadable(f"file://{folder}")))

    with pytest.warns(TableSpecWarning, match="version 7 is durable"):
        appended = table.append(pa.table({"id": [7]}))

    assert appended.instant.version == 7
    assert_same_rows(rows_at(folder), upto(7))
    with pytest.raises(MissingLogError, match="version 7"):
        table.scan()
