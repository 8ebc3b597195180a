import pickle
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import CorruptLogError, InstantNotFoundError, UnsupportedTableError
from tablespec.expr.nodes import TRUE, Column, Compare, IsNull, Literal, Not, Op
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import TableFormat
from tablespec.formats.hudi.format import HudiFormat, is_hudi
from tablespec.model.schema import INTEGER, STRING
from tablespec.storage.store import Storage

BASE = 20240101000000000
PART = Column(("part",), STRING)


def version(instant):
    return BASE + instant * 1000


def paths(state, predicate=TRUE):
    return sorted(one.slice.base.path for one in state.files.judge(predicate))


def equals(value):
    return Compare(Op.EQ, PART, Literal(value, STRING))


@pytest.fixture(params=[6, 9], ids=["version 6", "version 9"])
def table(request, new_table):
    return new_table(request.param)


def test_a_folder_with_hoodie_properties_is_a_hudi_table(new_table, tmp_path):
    assert is_hudi(new_table().storage)
    assert not is_hudi(Storage.at(str(tmp_path / "elsewhere")))


def test_a_table_that_lost_its_properties_is_still_a_hudi_table(new_table):
    table = new_table()
    table.write(1, "a", "f")
    table.storage.delete(".hoodie/hoodie.properties")

    assert is_hudi(table.storage)
    with pytest.raises(CorruptLogError, match=r"hoodie\.properties"):
        HudiFormat.open(table.storage)


def test_it_is_a_table_format(table):
    assert isinstance(HudiFormat.open(table.storage), TableFormat)


def test_the_latest_state_holds_the_newest_file_of_each_group(table):
    table.write(1, "a", "f")
    newer = table.write(10, "a", "f")
    other = table.write(20, "b", "g")

    state = HudiFormat.open(table.storage).latest()

    assert paths(state) == [newer, other]
    assert (state.instant.version, state.instant.action) == (version(20), "commit")
    assert state.schema.names == ("id", "part", "qty")
    assert state.partition_columns == ("part",)


def test_the_timeline_lists_completed_writes_oldest_first(table):
    table.write(10, "a", "g")
    table.write(1, "a", "f")
    table.instant("20240101000030000.inflight")

    timeline = HudiFormat.open(table.storage).timeline()

    assert [instant.version for instant in timeline] == [version(1), version(10)]


def test_the_timestamp_is_the_completion_time_where_it_is_known(new_table):
    table = new_table(version=9)
    table.write(1, "a", "f")

    (instant,) = HudiFormat.open(table.storage).timeline()

    assert instant.time == datetime(2024, 1, 1, 0, 0, 6, tzinfo=UTC)


def test_an_earlier_state_is_found_by_its_request_time(table):
    older = table.write(1, "a", "f")
    table.write(10, "a", "f")

    state = HudiFormat.open(table.storage).state_at(version(1))

    assert paths(state) == [older]
    assert state.instant.version == version(1)


def test_a_time_between_two_instants_means_the_earlier_one(table):
    table.write(1, "a", "f")
    table.write(10, "a", "f")

    assert HudiFormat.open(table.storage).state_at(version(9)).instant.version == version(1)


def test_a_time_without_milliseconds_means_the_end_of_that_second(table):
    table.write(1, "a", "f")

    assert HudiFormat.open(table.storage).state_at(20240101000001).instant.version == version(1)


def test_a_time_before_the_first_instant_is_not_found(table):
    table.write(5, "a", "f")

    with pytest.raises(InstantNotFoundError, match="at or before 20240101000004000"):
        HudiFormat.open(table.storage).state_at(version(4))


def test_a_replaced_group_is_there_before_and_gone_after(table):
    older = table.write(1, "a", "f")
    newer = table.base("a", "g", 10)
    table.complete(
        10, "replacecommit", written=[("a", "g", newer)], replaced=[("a", "f")], operation="INSERT_OVERWRITE"
    )

    format_ = HudiFormat.open(table.storage)

    assert paths(format_.latest()) == [newer]
    assert paths(format_.state_at(version(1))) == [older]


def test_a_pending_write_is_not_seen(table):
    path = table.write(1, "a", "f")
    table.base("a", "f", 10)
    table.instant("20240101000010000.inflight")

    assert paths(HudiFormat.open(table.storage).latest()) == [path]


def test_a_state_has_the_schema_of_its_time(table):
    first = '{"type": "record", "name": "r", "fields": [{"name": "old", "type": "int"}]}'
    second = '{"type": "record", "name": "r", "fields": [{"name": "new", "type": "int"}]}'
    table.complete(1, schema=first)
    table.complete(10, schema=second)
    table.complete(20, schema="")

    format_ = HudiFormat.open(table.storage)

    assert format_.state_at(version(9)).schema.names == ("old",)
    assert format_.latest().schema.names == ("new",)


def test_a_table_that_was_never_written_has_the_schema_of_its_creation(new_table):
    table = new_table(
        hoodie_table_create_schema='{"type": "record", "name": "r", "fields": [{"name": "c", "type": "int"}]}'
    )

    state = HudiFormat.open(table.storage).latest()

    assert state.instant.version == 0
    assert state.schema.names == ("c",)
    assert paths(state) == []


def test_base_files_without_any_instant_mean_a_lost_timeline(new_table):
    table = new_table(hoodie_table_create_schema='{"type": "record", "name": "r", "fields": []}')
    table.base("a", "f", 1)

    with pytest.raises(CorruptLogError, match=r"\.hoodie/timeline: it holds no instant"):
        HudiFormat.open(table.storage).latest()


def test_a_damaged_commit_is_an_error_that_names_the_file(new_table):
    table = new_table(version=6)
    table.instant("20240101000001000.commit", b"{")

    with pytest.raises(CorruptLogError, match=r"20240101000001000\.commit"):
        HudiFormat.open(table.storage).latest()


def test_a_base_file_of_another_format_is_refused(table):
    table.complete(1)
    table.storage.put("a/f_0-0-0_20240101000001000.orc", b"")

    with pytest.raises(UnsupportedTableError, match="ORC base files"):
        HudiFormat.open(table.storage).latest()


def test_meta_columns_are_hidden_and_absent_where_they_are_not_populated(new_table):
    table = new_table()
    table.write(1, "a", "f")
    assert HudiFormat.open(table.storage).latest().layout.hidden.names == (
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    )

    table.properties(hoodie_populate_meta_fields="false")
    assert HudiFormat.open(table.storage).latest().layout.hidden.names == ()


def test_partition_values_of_simple_keys_come_from_the_path(table):
    table.write(1, "x", "f", [("k", "x", 1)])

    state = HudiFormat.open(table.storage).latest()

    assert state.layout.constants == ("part",)
    (judged,) = state.files.judge(TRUE)
    assert judged.slice.partition_values == ("x",)
    assert pq.read_table(table.storage.open(judged.slice.base.path)).num_rows == 1


def test_partitions_that_cannot_match_are_left_out(table):
    table.write(1, "x", "f")
    y = table.write(10, "y", "g")
    null = table.write(20, "__HIVE_DEFAULT_PARTITION__", "h")

    state = HudiFormat.open(table.storage).latest()

    assert paths(state, equals("y")) == [y]
    assert paths(state, IsNull(PART)) == [null]
    assert paths(state, Not(equals("x"))) == [y]
    assert [one.verdict for one in state.files.judge(equals("y"))] == [Verdict.ALWAYS]


def test_a_predicate_on_another_column_prunes_nothing(table):
    table.write(1, "x", "f")

    (judged,) = (
        HudiFormat.open(table.storage)
        .latest()
        .files.judge(Compare(Op.GT, Column(("qty",), INTEGER), Literal(5, INTEGER)))
    )

    assert judged.verdict is Verdict.MAYBE


def test_an_unknown_key_generator_prunes_nothing(new_table):
    table = new_table(hoodie_table_keygenerator_type="USER_PROVIDED")
    path = table.write(1, "x", "f")

    state = HudiFormat.open(table.storage).latest()

    assert state.layout.constants == ()
    assert paths(state, equals("y")) == [path]


def test_what_the_cleaner_took_away_is_refused(new_table):
    table = new_table(version=9)
    table.write(1, "a", "f")
    table.write(10, "a", "f")
    table.write(20, "a", "f")
    table.clean(30, earliest=10)

    format_ = HudiFormat.open(table.storage)

    assert format_.state_at(version(10)).instant.version == version(10)
    with pytest.raises(InstantNotFoundError, match="the cleaner removed files of that time"):
        format_.state_at(version(9))


def test_a_cleaner_that_counts_versions_takes_away_the_states_that_need_them(new_table):
    table = new_table(version=9)
    removed = table.write(1, "a", "f")
    table.write(10, "b", "g")
    table.write(20, "a", "f")
    table.storage.delete(removed)
    table.clean(30, earliest=None, removed=[("a", removed.removeprefix("a/"))])

    format_ = HudiFormat.open(table.storage)

    assert len(paths(format_.state_at(version(20)))) == 2
    with pytest.raises(InstantNotFoundError, match="the cleaner removed files of that time"):
        format_.state_at(version(10))


def test_added_files_are_those_of_the_window_that_are_current_at_its_end(table):
    table.write(1, "a", "f")
    rewritten = table.write(10, "a", "f")
    added = table.write(20, "b", "g")
    later = table.write(30, "c", "h")

    format_ = HudiFormat.open(table.storage)

    assert format_.added_between(version(1), version(20)) == {rewritten, added}
    assert format_.added_between(version(10), version(20)) == {added}
    assert format_.added_between(None, version(30)) == {rewritten, added, later}


def test_files_that_clustering_made_hold_new_data_only_where_rows_were_written_before_it(table):
    table.write(1, "a", "f")
    moved = table.base("a", "g", 10)
    table.complete(10, "replacecommit", written=[("a", "g", moved)], replaced=[("a", "f")], operation="CLUSTER")

    format_ = HudiFormat.open(table.storage)

    assert paths(format_.latest()) == [moved]
    assert format_.added_between(version(1), version(10)) == frozenset()
    assert format_.added_between(None, version(10)) == {moved}


def test_an_unchanged_timeline_gives_the_same_state(table):
    table.write(1, "a", "f")
    format_ = HudiFormat.open(table.storage)
    first = format_.latest()

    assert format_.latest() is first
    table.write(10, "a", "f")
    assert format_.latest().instant.version == version(10)


def test_states_travel_to_workers(table):
    table.write(1, "a", "f")
    state = HudiFormat.open(table.storage).latest()

    assert pickle.loads(pickle.dumps(state)) == state
    assert pickle.loads(pickle.dumps(state.codec)).deleted_positions(table.storage, state.listing.slices[0]) is None


def test_the_history_tells_what_each_write_did_newest_first(table):
    table.write(1, "a", "f")
    path = table.base("a", "g", 10)
    table.complete(10, "replacecommit", written=[("a", "g", path)], replaced=[("a", "f")], operation="CLUSTER")

    history = HudiFormat.open(table.storage).history()

    assert [(entry.instant.version, entry.operation) for entry in history] == [
        (version(10), "CLUSTER"),
        (version(1), "UPSERT"),
    ]
    assert [(entry.files_added, entry.files_removed) for entry in history] == [(1, 1), (1, 0)]


def test_info_tells_name_and_version(new_table):
    table = new_table(version=8)
    table.write(1, "a", "f")
    format_ = HudiFormat.open(table.storage)

    info = format_.info(format_.latest())

    assert (info.format, info.name) == ("hudi", "t")
    assert ("hoodie.table.version", "8") in info.protocol


def test_a_sound_table_has_no_problems(table):
    table.write(1, "a", "f")
    table.write(10, "a", "f")

    assert list(HudiFormat.open(table.storage).problems()) == []


def test_a_missing_base_file_and_a_damaged_commit_are_problems(table):
    table.write(1, "a", "f")
    table.storage.delete(table.write(10, "a", "f"))
    table.instant(
        "20240101000020000.commit" if table.version == 6 else "20240101000020000_20240101000021000.commit", b"{"
    )

    damaged, missing = HudiFormat.open(table.storage).problems()

    assert "20240101000020000" in damaged
    assert "a/f_0-0-0_20240101000010000.parquet" in missing


def test_log_files_of_the_native_log_format_are_refused_by_name(new_table):
    table = new_table(9)
    table.write(10, "a", "f", [("1", "a", 10)])
    table.storage.put(f"a/f_0-0-0_{version(20)}_1.log.parquet", b"")

    with pytest.raises(UnsupportedTableError) as refused:
        HudiFormat.open(table.storage).latest()
    assert refused.value.feature == "log files of the native log format"


def test_tables_are_told_apart_by_hash_and_shown_in_a_few_lines(table):
    table.write(1, "a", "f")
    one, other = (tablespec.open_table(table.storage.url) for _ in range(2))

    assert len({one, other, one}) == 2
    assert [type(shown).__name__ for shown in (one, one.scan(), one.changes(None)) if len(repr(shown)) > 600] == []
