import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.formats.base import Profile
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.delta.row_tracking import DOMAIN, all_numbered, high_water_mark, is_tracked
from tablespec.storage.store import Storage
from tests.handmade import LEGACY, actions_of, add, checkpoint_file, commit, commit_file, metadata, protocol

SCHEMA = pa.schema([("id", pa.int64())])


def state(folder):
    return DeltaFormat(Storage.at(str(folder))).latest()


@pytest.fixture
def folder(tmp_path):
    """A table of ours with three rows in two files; the mark of row ids is 2."""
    table = tablespec.create_table(str(tmp_path), SCHEMA)
    table.append(pa.table({"id": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    return tmp_path


def test_a_new_table_has_handed_out_no_row_ids(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA)

    assert is_tracked(state(tmp_path))
    assert high_water_mark(state(tmp_path)) == -1


def test_the_mark_is_the_largest_row_id(folder):
    assert high_water_mark(state(folder)) == 2


@pytest.mark.parametrize("profile", list(Profile))
def test_ids_of_appended_files_never_overlap(tmp_path, profile):
    table = tablespec.create_table(str(tmp_path), SCHEMA, profile=profile)
    for rows in (3, 1, 2):
        table.append(pa.table({"id": list(range(rows))}))

    bases = [actions_of(tmp_path, version, "add")[0]["baseRowId"] for version in (1, 2, 3)]

    assert bases == [0, 3, 4]


def test_the_mark_survives_in_a_checkpoint(folder):
    tablespec.open_table(str(folder)).checkpoint()
    for version in range(3):
        commit_file(folder, version).unlink()

    assert high_water_mark(state(folder)) == 2


def test_ids_of_removed_files_are_not_handed_out_again(folder):
    (last,) = actions_of(folder, 2, "add")
    commit(folder, 3, {"remove": {"path": last["path"], "dataChange": True, "deletionTimestamp": 1}})

    assert high_water_mark(state(folder)) == 2


def test_files_that_another_client_numbered_beyond_the_mark_count(folder):
    commit(folder, 3, add(folder, "theirs.parquet", pa.table({"id": [4, 5]}), baseRowId=10, defaultRowCommitVersion=3))

    assert high_water_mark(state(folder)) == 11


def test_where_a_checkpoint_of_another_client_lacks_the_mark_the_files_tell_it(folder):
    table = tablespec.open_table(str(folder))
    table.checkpoint()
    path = checkpoint_file(folder, 2)
    rows = pq.read_table(path)
    empty = pa.nulls(len(rows), rows.schema.field("domainMetadata").type)
    pq.write_table(rows.set_column(rows.schema.get_field_index("domainMetadata"), "domainMetadata", empty), path)
    for version in range(3):
        commit_file(folder, version).unlink()

    assert DOMAIN not in state(folder).reconciled.domains
    assert high_water_mark(state(folder)) == 2


@pytest.mark.parametrize("configuration", ["{}", '{"rowIdHighWaterMark": "many"}', "oops", "[]"])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["log only", "in a checkpoint"])
def test_a_mark_that_cannot_be_read_does_not_lead_to_the_same_ids_again(folder, configuration, checkpointed):
    damaged = {"domain": DOMAIN, "configuration": configuration, "removed": False}
    commit(folder, 3, {"domainMetadata": damaged})
    if checkpointed:
        tablespec.open_table(str(folder)).checkpoint()

    assert high_water_mark(state(folder)) == 2


def test_a_table_of_others_is_tracked_when_it_says_so(tmp_path):
    commit(tmp_path, 0, protocol(1, 7, writer_features=["rowTracking", "domainMetadata"]), metadata())
    assert is_tracked(state(tmp_path))

    tablespec.open_table(str(tmp_path)).append(pa.table({"id": [1, 2]}))

    (added,) = actions_of(tmp_path, 1, "add")
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (0, 1)
    (mark,) = actions_of(tmp_path, 1, "domainMetadata")
    assert json.loads(mark["configuration"]) == {"rowIdHighWaterMark": 1}


def test_a_table_of_others_is_not_tracked_when_it_says_nothing(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata())

    assert not is_tracked(state(tmp_path))


@pytest.mark.parametrize("checkpointed", [False, True], ids=["log only", "in a checkpoint"])
def test_a_file_without_ids_is_noticed(folder, checkpointed):
    assert all_numbered(state(folder))
    commit(folder, 3, add(folder, "theirs.parquet", pa.table({"id": [4]})))
    if checkpointed:
        tablespec.open_table(str(folder)).checkpoint()

    assert not all_numbered(state(folder))


def test_files_know_their_first_row_id_and_version(folder):
    (partition,) = tablespec.open_table(str(folder)).file_index.list_files_at(None)

    found = sorted((slice_.base.base_row_id, slice_.base.row_commit_version) for slice_ in partition.file_slices)

    assert found == [(0, 1), (2, 2)]


def test_after_a_checkpoint_files_keep_their_row_ids(folder):
    table = tablespec.open_table(str(folder))
    before = table.file_index.list_files_at(None)
    table.checkpoint()

    assert tablespec.open_table(str(folder)).file_index.list_files_at(None) == before
