import pyarrow as pa

import tablespec
from tablespec.formats.delta.actions import AddAction, Line, ProtocolAction, RemoveAction, TxnAction
from tablespec.formats.delta.adds import TableShape
from tablespec.formats.delta.history import commit_timestamp, history_entry, operation_id, winning_commit
from tablespec.formats.delta.row_tracking import mark_action
from tablespec.model.instant import Instant
from tablespec.model.schema import LONG, Field, Schema
from tests.handmade import LEGACY, add, commit, metadata

SHAPE = TableShape(table="t", schema=Schema((Field(name="id", type=LONG),)), partition_columns=())


def test_history_tells_what_each_version_did_newest_first(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    table.set_properties({"owner": "me"})

    changed, appended, created = table.history()

    assert [entry.instant for entry in (created, appended, changed)] == list(table.timeline)
    assert [entry.operation for entry in (created, appended, changed)] == ["CREATE TABLE", "WRITE", "SET TBLPROPERTIES"]
    assert dict(appended.metrics)["numOutputRows"] == "2"
    assert appended.parameters == (("mode", "Append"),)
    assert [entry.files_added for entry in (created, appended, changed)] == [0, 1, 0]
    assert appended.engine.startswith("tablespec/")


def test_commits_of_others_may_say_nothing_about_themselves(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata())
    commit(
        tmp_path, 1, add(tmp_path, "1.parquet", pa.table({"id": [1]})), {"commitInfo": {"operationParameters": None}}
    )
    commit(tmp_path, 2, {"remove": {"path": "1.parquet", "dataChange": True}}, {"commitInfo": {"operation": "DELETE"}})

    removed, added, created = tablespec.open_table(str(tmp_path)).history()

    assert [entry.operation for entry in (created, added, removed)] == ["", "", "DELETE"]
    assert [(entry.files_added, entry.files_removed) for entry in (created, added, removed)] == [(0, 0), (1, 0), (0, 1)]


def test_nested_parameters_of_others_become_text(tmp_path):
    lines = [Line(commit_info={"operation": "MERGE", "operationParameters": {"clauses": [1, {"a": None}]}})]

    entry = history_entry(Instant(1, 2), lines)

    assert entry.parameters == (("clauses", "[1, {'a': None}]"),)
    assert hash(entry)


def test_the_operation_id_is_ours_alone():
    assert operation_id([Line(commit_info={"tablespec": {"operationId": "o-1"}})]) == "o-1"
    assert operation_id([Line(commit_info={"txnId": "theirs"})]) == ""
    assert operation_id([Line(commit_info={"tablespec": "odd"})]) == ""
    assert operation_id([]) == ""


def test_the_timestamp_of_a_commit_is_a_number_or_nothing():
    assert commit_timestamp([Line(commit_info={"inCommitTimestamp": 12})]) == 12
    assert commit_timestamp([Line(commit_info={"inCommitTimestamp": "12"})]) is None
    assert commit_timestamp([]) is None


def test_a_winning_commit_is_seen_by_what_it_touched():
    lines = [
        Line(commit_info={"isBlindAppend": True, "tablespec": {"operationId": "o-1"}}),
        Line(add=AddAction(path="a", data_change=True)),
        Line(remove=RemoveAction(path="b", data_change=True)),
        Line(txn=TxnAction(app_id="loader", version=1)),
        Line(domain_metadata=mark_action(7)),
    ]

    winner = winning_commit(4, lines, SHAPE, frozenset())

    assert (winner.version, winner.operation_id, winner.blind_append, winner.data_change) == (4, "o-1", True, True)
    assert (winner.added_paths, winner.removed) == (frozenset({"a"}), frozenset({"b"}))
    assert (winner.metadata_changed, winner.protocol_changed) == (False, False)
    assert winner.transactions == frozenset({"loader"})


def test_the_mark_of_row_ids_is_no_domain_that_writers_quarrel_about():
    assert winning_commit(4, [Line(domain_metadata=mark_action(7))], SHAPE, frozenset()).domains == frozenset()


def test_a_commit_that_says_nothing_of_itself_is_no_blind_append():
    winner = winning_commit(4, [Line(add=AddAction(path="a"))], SHAPE, frozenset())

    assert not winner.blind_append
    assert winner.data_change


def test_a_rearrangement_changes_no_data():
    lines = [
        Line(add=AddAction(path="a", data_change=False)),
        Line(remove=RemoveAction(path="b", data_change=False)),
    ]

    assert not winning_commit(4, lines, SHAPE, frozenset()).data_change


def test_a_protocol_action_is_a_change_of_the_protocol():
    lines = [Line(protocol=ProtocolAction(min_reader_version=1, min_writer_version=2))]

    winner = winning_commit(4, lines, SHAPE, frozenset({"appendOnly"}))
    assert (winner.protocol_changed, winner.features_dropped) == (True, False)


def test_a_protocol_without_a_feature_that_was_there_drops_it():
    lines = [Line(protocol=ProtocolAction(min_reader_version=1, min_writer_version=2))]

    assert winning_commit(4, lines, SHAPE, frozenset({"appendOnly", "v2Checkpoint"})).features_dropped
