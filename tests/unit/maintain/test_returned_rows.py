"""Rows that a restore brought back or only moved back, once they are moved to other files."""

import pickle

import pytest
from deltalake import DeltaTable
from pyroaring import BitMap64

import tablespec
from tablespec.expr.nodes import TRUE
from tablespec.model.file import Returned
from tablespec.write.execution import Strategy
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import append, data_files, new_table, tracked_rows, vector_files


def moves():
    """What may move rows to other files without changing them."""
    return {
        "not moved": lambda table: None,
        "compacted": lambda table: table.compact(max_deleted_fraction=0),
        "clustered": lambda table: table.cluster(["id"]),
        "rewritten": lambda table: table.delete("id in (5, 6)", strategy=Strategy.COPY_ON_WRITE),
        "compacted twice": lambda table: (table.compact(), table.cluster(["id"])),
        "checkpointed": lambda table: (table.checkpoint(), table.compact()),
    }


@pytest.fixture(params=moves().values(), ids=moves())
def move(request):
    return request.param


def history_with_moves(folder):
    """Rows 1 to 6 of one day at version 1, of which 1 goes at 2, 2 changes at 3, and day 2 goes at 4."""
    table = new_table(folder)
    append(table, *((id_, "sf", 1) for id_ in range(1, 7)), (7, "ny", 2))
    table.delete("id = 1")
    table.update({"city": "'la'"}, "id = 2")
    table.delete("day = 2")
    return table


def ids(scan):
    return sorted(row["id"] for row in scan.to_table().to_pylist() if row["id"] not in (5, 6))


def test_only_rows_that_came_back_are_new_after_the_restore(tmp_path, move):
    table = history_with_moves(tmp_path)
    restored = table.restore(1).instant.version

    move(table)

    # Row 1 was gone, row 2 was changed back, row 7 came back with its file.
    assert ids(table.incremental(restored - 1)) == [1, 2, 7]
    assert ids(table.incremental(restored)) == []
    assert ids(table.incremental(0)) == [1, 2, 3, 4, 7]


def test_rows_that_came_back_at_different_times_keep_them_apart(tmp_path, move):
    table = history_with_moves(tmp_path)
    first = table.restore(1).instant.version
    table.delete("id = 3")
    second = table.restore(first).instant.version

    move(table)

    # Row 3 was there all along to one who saw neither its going nor its coming.
    assert set(ids(table.incremental(first - 1))) - {3} == {1, 2, 7}
    assert ids(table.incremental(second - 1)) == [3]
    assert ids(table.incremental(second)) == []


def test_a_later_restore_to_an_older_version_forgets_no_return(tmp_path, move):
    table = history_with_moves(tmp_path)
    first = table.restore(1).instant.version
    table.delete("id = 3")
    second = table.restore(1).instant.version

    move(table)

    assert set(ids(table.incremental(first - 1))) - {3} == {1, 2, 7}
    assert ids(table.incremental(second - 1)) == [3]


def test_rows_that_came_back_and_changed_again_count_once(tmp_path, move):
    table = history_with_moves(tmp_path)
    restored = table.restore(1).instant.version
    table.update({"city": "'x'"}, "id in (1, 3)")

    move(table)

    assert ids(table.incremental(restored - 1)) == [1, 2, 3, 7]
    assert ids(table.incremental(restored)) == [1, 3]


def test_when_the_vector_of_before_is_vacuumed_no_row_that_came_back_is_missed(tmp_path):
    table = history_with_moves(tmp_path)
    restored = table.restore(1).instant.version
    for vector in (tmp_path / "dv").iterdir():
        vector.unlink()

    table.compact(max_deleted_fraction=0, min_files=2)
    table.cluster(["id"])

    assert {1, 2, 7} <= set(ids(table.incremental(restored - 1)))


def test_files_that_another_client_restored_and_compacted_are_new_as_a_whole(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "sf", 1))
    append(table, (3, "sf", 1))
    table.delete("id = 3")
    DeltaTable(str(tmp_path)).restore(2)
    DeltaTable(str(tmp_path)).optimize.compact()

    assert 3 in ids(tablespec.open_table(str(tmp_path)).incremental(3))


# --- rows that were there all the time, in files that the restore removed ---


def versions(table, at=None):
    """The commit versions of rows by their ids in the table."""
    return {row[0]: row[-1] for row in tracked_rows(table, at)}


def restored_over_a_move(folder, move):
    """Rows 1 to 6 come at version 1, are moved at 2, row 9 comes at 3, and version 1 is restored at 4."""
    table = new_table(folder)
    append(table, *((id_, "sf", 1) for id_ in range(1, 7)))
    move(table)
    append(table, (9, "sf", 1))
    table.restore(1)
    return table


def clustered(table):
    table.cluster(["id"])


def rewritten(table):
    """Change row 6, for which the others of its file are copied."""
    table.update({"city": "'x'"}, "id = 6", strategy=Strategy.COPY_ON_WRITE)


@pytest.mark.parametrize(
    "again",
    [
        clustered,
        lambda table: (append(table, (10, "sf", 1)), table.compact()),
        rewritten,
        lambda table: (clustered(table), table.compact()),
    ],
    ids=["clustered", "compacted", "rewritten", "moved twice"],
)
@pytest.mark.parametrize("first", [clustered, rewritten], ids=["of a cluster", "of a rewrite"])
def test_rows_that_a_restore_only_moved_back_keep_their_versions_when_they_move_again(tmp_path, first, again):
    table = restored_over_a_move(tmp_path, first)

    again(table)

    stayed = range(1, 6)
    assert {id_: versions(table)[id_] for id_ in stayed} == dict.fromkeys(stayed, 1)
    assert not {*ids(table.incremental(1))} & {*stayed}
    assert not {*ids(table.incremental(3))} & {*stayed}


def test_a_row_that_a_restore_changed_back_has_its_version_once_it_moved(tmp_path):
    table = restored_over_a_move(tmp_path, rewritten)

    clustered(table)

    assert versions(table) == {**dict.fromkeys(range(1, 6), 1), 6: 4}
    assert_same_rows(table.incremental(3), [(6, "sf", 1)])


@pytest.mark.parametrize("strategy", [Strategy.MERGE_ON_READ, Strategy.COPY_ON_WRITE], ids=str)
def test_a_row_that_was_deleted_where_the_others_had_moved_comes_back_as_new(tmp_path, strategy):
    table = new_table(tmp_path)
    append(table, *((id_, "sf", 1) for id_ in range(1, 7)))
    clustered(table)
    table.delete("id = 4", strategy=strategy)
    restored = table.restore(1).instant.version

    clustered(table)

    assert versions(table) == {**dict.fromkeys(range(1, 7), 1), 4: restored}
    assert_same_rows(table.incremental(restored - 1), [(4, "sf", 1)])


@pytest.mark.parametrize("back", [2, 3], ids=["to the moved rows", "to the moved rows and another"])
def test_restores_back_and_forth_over_a_move_change_no_version(tmp_path, back):
    table = restored_over_a_move(tmp_path, clustered)
    table.restore(back)
    table.restore(1)
    table.restore(back)

    clustered(table)

    assert {id_: version for id_, version in versions(table).items() if id_ < 7} == dict.fromkeys(range(1, 7), 1)


def test_after_very_many_restores_back_and_forth_rows_may_count_as_come_back_by_the_last(tmp_path):
    table = restored_over_a_move(tmp_path, clustered)
    for _ in range(30):
        table.restore(3)
        restored = table.restore(1).instant.version

    clustered(table)

    assert versions(table) == dict.fromkeys(range(1, 7), restored)


def test_a_restore_to_more_deleted_rows_makes_none_of_the_others_new(tmp_path):
    table = new_table(tmp_path)
    append(table, *((id_, "sf", 1) for id_ in range(1, 7)))
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(1)
    table.restore(2)

    clustered(table)

    assert versions(table) == dict.fromkeys(range(2, 7), 1)


def test_a_row_that_came_back_in_a_file_that_another_restore_removed_is_not_missed(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "sf", 1))
    clustered(table)
    table.delete("id < 3")
    table.restore(2)
    table.restore(1)

    clustered(table)

    assert ids(table.incremental(3)) == [1, 2]


def test_a_row_that_another_client_brought_back_before_is_not_missed(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "sf", 1))
    clustered(table)
    table.delete("id < 3")
    DeltaTable(str(tmp_path)).restore(2)
    table.restore(1)

    clustered(table)

    assert ids(table.incremental(3)) == [1, 2]


@pytest.mark.parametrize("what", ["file", "vector"])
def test_where_it_cannot_be_told_any_more_which_rows_were_there_all_count_as_come_back(tmp_path, what):
    table = new_table(tmp_path)
    append(table, *((id_, "sf", 1) for id_ in range(1, 7)))
    clustered(table)
    table.delete("id = 6", strategy=Strategy.MERGE_ON_READ)
    gone = data_files(table) if what == "file" else vector_files(table)
    restored = table.restore(1).instant.version
    for path in gone:
        (tmp_path / path).unlink()

    clustered(table)

    assert versions(table) == dict.fromkeys(range(1, 7), restored)


def test_which_rows_came_back_is_plain_data(tmp_path):
    table = restored_over_a_move(tmp_path, clustered)
    asked = table.format.live_files(table.format.latest(), TRUE)

    (came,) = table.format.returned(asked).values()

    assert pickle.loads(pickle.dumps(came)) == came == (Returned(4, BitMap64().serialize()),)
