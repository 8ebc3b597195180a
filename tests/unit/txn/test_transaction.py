import json
import warnings

import attrs
import pyarrow as pa
import pytest

import tablespec
from tablespec import Retries
from tablespec.errors import (
    ChangesGoneError,
    CommitConflictError,
    CommitRetriesExhaustedError,
    ProtocolVersionError,
    StorageError,
    TableSpecWarning,
)
from tablespec.formats.base import Change
from tablespec.formats.delta.format import DeltaFormat
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.txn.transaction import commit, new_operation_id
from tablespec.write.execution import Strategy
from tests.handmade import actions_of, checkpoint_file, commit_file, contents, versions_of
from tests.rows import assert_same_rows
from tests.storages import LosingAnswers, Overtaken, Refusing

SCHEMA = pa.schema([("id", pa.int64())])
IMPATIENT = Retries(attempts=3, first_pause=0.0001, longest_pause=0.001)


def rows(*values):
    return pa.table({"id": list(values)})


@pytest.fixture
def folder(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA).append(rows(1))
    return tmp_path


def on(storage):
    return Table(DeltaFormat(storage))


def overtaken(folder, *acts):
    """The table of a writer whom others overtake, with one act before each of its attempts."""
    left = list(acts)

    def before(path):
        if path.startswith("_delta_log/") and left:
            left.pop(0)(tablespec.open_table(str(folder)))

    return on(Overtaken(Overtaken.at(str(folder)).url, before=before))


def data_files(folder):
    return {path for path in contents(folder) if path.endswith(".parquet") and not path.startswith("_delta_log")}


def named_files(folder):
    return {added["path"] for version in versions_of(folder) for added in actions_of(folder, version, "add")}


# --- races ---


def test_an_append_that_lost_the_race_comes_next(folder):
    appended = overtaken(folder, lambda other: other.append(rows(2, 3))).append(rows(4))

    assert appended.instant.version == 3
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,), (4,)])


def test_row_ids_are_handed_out_anew_after_a_lost_race(folder):
    overtaken(folder, lambda other: other.append(rows(2, 3))).append(rows(4))

    assert [actions_of(folder, version, "add")[0]["baseRowId"] for version in (1, 2, 3)] == [0, 1, 3]
    assert actions_of(folder, 3, "add")[0]["defaultRowCommitVersion"] == 3
    assert actions_of(folder, 3, "add")[0]["tags"]["tablespec.instant"] == "3"
    assert actions_of(folder, 3, "commitInfo")[0]["readVersion"] == 2


def test_in_commit_timestamps_grow_across_a_lost_race(folder):
    overtaken(folder, lambda other: other.append(rows(2)), lambda other: other.append(rows(3))).append(rows(4))

    stamps = [actions_of(folder, version, "commitInfo")[0]["inCommitTimestamp"] for version in range(5)]
    assert stamps == sorted(set(stamps))


def test_an_append_may_lose_several_races_in_a_row(folder):
    acts = [lambda other, value=value: other.append(rows(value)) for value in (2, 3, 4)]

    appended = overtaken(folder, *acts).append(rows(5))

    assert appended.instant.version == 5
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,), (4,), (5,)])


def test_retries_are_bounded_and_the_files_of_the_loser_are_removed(folder):
    acts = [lambda other, value=value: other.append(rows(value)) for value in range(2, 9)]

    with pytest.raises(CommitRetriesExhaustedError) as caught:
        overtaken(folder, *acts).append(rows(99), retries=IMPATIENT)

    assert caught.value.attempts == 3
    assert "lost 3 races in a row; nothing was changed" in str(caught.value)
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,), (4,)])
    assert data_files(folder) == named_files(folder)


DROPPED = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["appendOnly"]}}\n'
METADATA_CHANGES = {
    "columns": lambda other: other.append(pa.table({"id": [2], "x": ["new"]}), merge_schema=True),
    "properties": lambda other: other.set_properties({"owner": "me"}),
    "a constraint": lambda other: other.add_constraint("c", "id > 0"),
    "a dropped feature": lambda other: other.format.storage.put("_delta_log/00000000000000000002.json", DROPPED),
}


@pytest.mark.parametrize("change", list(METADATA_CHANGES.values()), ids=list(METADATA_CHANGES))
def test_an_append_that_meets_a_change_of_the_table_fails_and_leaves_nothing(folder, change):
    with pytest.raises(CommitConflictError) as caught:
        overtaken(folder, change).append(rows(99))

    assert caught.value.version == 2
    assert "nothing was changed, run it again on the new state" in str(caught.value)
    assert versions_of(folder) == [0, 1, 2]
    assert data_files(folder) == named_files(folder)
    assert tablespec.open_table(str(folder)).scan("id = 99").count() == 0


def test_an_append_may_follow_an_upgrade_of_the_protocol(folder):
    overtaken(folder, lambda other: other.upgrade_protocol(["v2Checkpoint"])).append(rows(2))

    table = tablespec.open_table(str(folder))
    assert "v2Checkpoint" in str(table.info.protocol)
    assert_same_rows(table.scan(), [(1,), (2,)])


def test_a_change_of_properties_that_needs_a_feature_follows_an_upgrade_without_taking_it_back(folder):
    loser = overtaken(folder, lambda other: other.upgrade_protocol(["v2Checkpoint"]))
    loser.set_properties({"delta.enableDeletionVectors": "true"})

    protocol = str(tablespec.open_table(str(folder)).info.protocol)
    assert "v2Checkpoint" in protocol
    assert "deletionVectors" in protocol


def test_two_upgrades_of_the_protocol_do_not_meet(folder):
    with pytest.raises(CommitConflictError, match="it changed the protocol"):
        overtaken(folder, lambda other: other.upgrade_protocol(["v2Checkpoint"])).upgrade_protocol(["deletionVectors"])


def test_two_changes_of_the_table_do_not_overwrite_each_other(folder):
    loser = overtaken(folder, lambda other: other.set_properties({"a": "1"}))

    with pytest.raises(CommitConflictError, match="the schema or the properties"):
        loser.set_properties({"b": "2"})

    assert "b" not in tablespec.open_table(str(folder)).properties


def test_a_change_of_properties_may_follow_an_append(folder):
    overtaken(folder, lambda other: other.append(rows(2))).set_properties({"a": "1"})

    table = tablespec.open_table(str(folder))
    assert table.properties["a"] == "1"
    assert_same_rows(table.scan(), [(1,), (2,)])


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_a_constraint_does_not_slip_over_rows_that_break_it(folder, level):
    tablespec.open_table(str(folder)).set_properties({"delta.isolationLevel": level})

    with pytest.raises(CommitConflictError, match="it appended rows"):
        overtaken(folder, lambda other: other.append(rows(-5))).add_constraint("positive", "id > 0")

    assert "delta.constraints.positive" not in tablespec.open_table(str(folder)).properties


def test_the_same_application_does_not_append_twice_at_once(folder):
    loser = overtaken(folder, lambda other: other.append(rows(2), transaction=("loader", 1)))

    with pytest.raises(CommitConflictError, match="the same application"):
        loser.append(rows(2), transaction=("loader", 1))

    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,)])
    assert data_files(folder) == named_files(folder)


def test_a_conflict_is_found_behind_a_harmless_commit(folder):
    def two_commits(other):
        other.append(rows(2))
        other.set_properties({"a": "1"})

    with pytest.raises(CommitConflictError) as caught:
        overtaken(folder, two_commits).append(rows(3))

    assert caught.value.version == 3


def test_a_protocol_that_cannot_be_written_any_more_is_noticed_in_a_race(folder):
    def upgraded(other):
        features = ["appendOnly", "changeDataFeed", "invariants", "teleport"]
        protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
        commit_file(folder, 2).write_text(json.dumps({"protocol": protocol}) + "\n")

    with pytest.raises(ProtocolVersionError, match="teleport"):
        overtaken(folder, upgraded).append(rows(3))

    assert data_files(folder) == named_files(folder)


def test_a_commit_in_between_that_is_gone_from_the_log_is_not_passed_over(folder):
    def several(other):
        for value in (2, 3, 4):
            other.append(rows(value))
        other.checkpoint()
        commit_file(folder, 3).unlink()

    with pytest.raises(ChangesGoneError):
        overtaken(folder, several).append(rows(5))

    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,), (4,)])


def test_every_commit_in_between_is_checked_however_often_the_race_is_lost(folder):
    acts = [
        lambda other: other.append(rows(2)),
        lambda other: other.append(rows(3)),
        lambda other: other.set_properties({"a": "1"}),
    ]

    with pytest.raises(CommitConflictError) as caught:
        overtaken(folder, *acts).append(rows(4))

    assert caught.value.version == 4
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,)])


# --- races of row changes ---

MERGE = (tablespec.when_matched_update(), tablespec.when_not_matched_insert())


@pytest.fixture
def files(folder):
    """A table of three files, with one row each."""
    table = tablespec.open_table(str(folder))
    table.upgrade_protocol(["deletionVectors"])
    for value in (2, 3):
        table.append(rows(value))
    return folder


ON_OTHER_FILES = {
    "two deletes": (lambda table: table.delete("id = 1"), lambda other: other.delete("id = 2")),
    "two merges": (
        lambda table: table.merge(rows(1), "t.id = s.id", *MERGE),
        lambda other: other.merge(rows(2), "t.id = s.id", *MERGE),
    ),
    "an update and a replacement": (
        lambda table: table.update({"id": "1"}, "id = 1"),
        lambda other: other.replace_where("id = 2", rows(2), data_columns=True),
    ),
}


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
@pytest.mark.parametrize(("act", "others"), list(ON_OTHER_FILES.values()), ids=list(ON_OTHER_FILES))
def test_changes_of_rows_in_different_files_both_stand(files, act, others, level):
    tablespec.open_table(str(files)).set_properties({"delta.isolationLevel": level})

    assert act(overtaken(files, others)).instant.version == 7

    expected = [(3,)] if act is ON_OTHER_FILES["two deletes"][0] else [(1,), (2,), (3,)]
    assert_same_rows(tablespec.open_table(str(files)).scan(), expected)


@pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
def test_a_change_of_rows_that_meets_a_conflict_leaves_no_file_behind(folder, strategy):
    tablespec.open_table(str(folder)).append(rows(2, 3, 4))
    tablespec.open_table(str(folder)).set_properties({"delta.enableChangeDataFeed": "true"})
    loser = overtaken(folder, lambda other: other.set_properties({"owner": "me"}))
    before = {path for path in contents(folder) if not path.startswith("_delta_log")}

    with pytest.raises(CommitConflictError):
        loser.update({"id": "id + 10"}, "id = 3", strategy=strategy)

    assert {path for path in contents(folder) if not path.startswith("_delta_log")} == before


def test_row_ids_that_somebody_gives_to_a_file_are_not_lost(files):
    def numbered(other):
        action = {**actions_of(files, 1, "add")[0], "baseRowId": 77, "dataChange": False}
        commit_file(files, 5).write_text(json.dumps({"add": action}) + "\n")

    with pytest.raises(CommitConflictError, match="it described files anew"):
        overtaken(files, numbered).delete("id = 1")

    assert_same_rows(tablespec.open_table(str(files)).scan(), [(1,), (2,), (3,)])


# --- unsure answers ---


@pytest.mark.parametrize("raises", [True, False], ids=["an error", "as if it had been there"])
def test_a_commit_whose_answer_was_lost_is_recognised_as_our_own(folder, raises):
    table = on(LosingAnswers(LosingAnswers.at(str(folder)).url, raises=raises))

    appended = table.append(rows(2))
    table.append(rows(3))

    assert appended.instant == tablespec.open_table(str(folder)).timeline.at(2)
    assert versions_of(folder) == [0, 1, 2, 3]
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,)])
    assert data_files(folder) == named_files(folder)


@pytest.mark.parametrize("raises", [True, False], ids=["an error", "as if it had been there"])
def test_a_lost_answer_of_a_lost_race_is_a_lost_race(folder, raises):
    left = [lambda: tablespec.open_table(str(folder)).append(rows(2))]

    class Both(LosingAnswers):
        def put_if_absent(self, path, data):
            if left:
                left.pop()()
            return super().put_if_absent(path, data)

    appended = on(Both(Both.at(str(folder)).url, raises=raises)).append(rows(3))

    assert appended.instant.version == 3
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,), (3,)])


def test_a_store_that_fails_before_it_writes_changes_nothing(folder):
    before = contents(folder)

    with pytest.raises(StorageError, match="the disk is full"):
        on(Refusing(Refusing.at(str(folder)).url)).append(rows(2))

    assert versions_of(folder) == [0, 1]
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,)])
    # The writer cannot know that nothing was written, so its files stay where no log names them.
    left = {path: data for path, data in contents(folder).items() if path in before}
    assert left == before
    assert len(data_files(folder) - named_files(folder)) == 1


@pytest.mark.parametrize("raises", [True, False])
def test_creating_a_table_whose_answer_was_lost_gives_the_table(tmp_path, raises):
    storage = LosingAnswers(LosingAnswers.at(f"{tmp_path}/table").url, raises=raises)
    schema = tablespec.create_table(f"{tmp_path}/other", SCHEMA).schema

    made = DeltaFormat.create(storage, schema, (), (), "operation-1")

    assert made.latest().schema == schema


@attrs.frozen
class FullSeconds(Storage):
    """A store that tells full seconds about a single file, as S3 does."""

    def head(self, path):
        found = super().head(path)
        return None if found is None else attrs.evolve(found, modified=found.modified // 1000 * 1000)


def test_the_time_of_a_commit_is_the_one_by_which_it_is_found(folder):
    appended = on(FullSeconds(FullSeconds.at(str(folder)).url)).append(rows(2))

    table = tablespec.open_table(str(folder))
    assert appended.instant == table.timeline.at(2)
    assert_same_rows(table.scan(at=appended.instant.time), [(1,), (2,)])


# --- housekeeping ---


def test_a_checkpoint_that_fails_is_a_warning_and_the_commit_stands(folder):
    tablespec.open_table(str(folder)).set_properties({"delta.checkpointInterval": "1"})
    table = on(Refusing(Refusing.at(str(folder)).url, verbs=("put",)))

    with pytest.warns(TableSpecWarning, match="version 3 is durable, but: .*the disk is full"):
        appended = table.append(rows(2))

    assert appended.instant.version == 3
    assert not checkpoint_file(folder, 3).exists()
    assert_same_rows(tablespec.open_table(str(folder)).scan(), [(1,), (2,)])


def test_a_commit_without_an_operation_id_gets_one(folder):
    format_ = DeltaFormat(Storage.at(str(folder)))

    commit(format_, Change(operation="NOTHING"), format_.latest())

    assert actions_of(folder, 2, "commitInfo")[0]["tablespec"]["operationId"] != ""


def test_operation_ids_are_never_the_same():
    assert new_operation_id() != new_operation_id()


# --- pauses ---


def test_pauses_grow_are_random_and_end_somewhere():
    retries = Retries(attempts=20, first_pause=0.01, longest_pause=0.5)

    pauses = [[retries.pause(attempt) for _ in range(200)] for attempt in range(20)]

    assert max(pauses[0]) <= 0.01
    assert 0.25 < max(pauses[19]) <= 0.5
    assert len(set(pauses[10])) > 100
    assert all(pause >= 0 for some in pauses for pause in some)


def test_no_attempt_is_made_where_none_is_allowed(folder):
    with warnings.catch_warnings(), pytest.raises(CommitRetriesExhaustedError, match="lost 0 races"):
        tablespec.open_table(str(folder)).append(rows(2), retries=Retries(attempts=0))

    assert data_files(folder) == named_files(folder)
