"""The rows that were inserted or changed after an instant."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablespec
from tablespec import Cdc, Incremental, ReadOptimized, Table
from tablespec.errors import ChangesGoneError, InstantNotFoundError, UnsupportedTableError
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.delta.state import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN
from tablespec.model.change import AllRows, NewerRows, ReturnedRows
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, actions_of, add, commit, commit_file, metadata
from tests.rows import assert_same_rows
from tests.storages import CountingStorage
from tests.unit.read.histories import history, steps, tuples
from tests.unit.read.measuring import measured

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string()})
ROWS = pa.table({"id": [1, 2, 3], "city": ["sf", "la", "la"]}, SCHEMA)
BOTH = pytest.mark.parametrize("strategy", list(Strategy), ids=[one.value for one in Strategy])


@pytest.fixture
def table(tmp_path) -> Table:
    """A table of three rows in version 1."""
    return filled(tablespec.create_table(str(tmp_path), SCHEMA))


def filled(table: Table) -> Table:
    table.append(ROWS)
    return table


def one_row(number: int, city: str = "ny") -> pa.Table:
    return pa.table({"id": [number], "city": [city]}, SCHEMA)


# --- which rows are new ---


@BOTH
def test_inserted_and_changed_rows_come_as_they_are_at_the_end(table, strategy):
    table.append(one_row(4))
    table.update({"city": "'sj'"}, "id = 1", strategy=strategy)
    table.update({"city": "'oak'"}, "id = 1", strategy=strategy)

    assert_same_rows(table.incremental(1), [(4, "ny"), (1, "oak")])
    assert_same_rows(table.incremental(1, 3), [(4, "ny"), (1, "sj")])
    assert_same_rows(table.incremental(2, 3), [(1, "sj")])
    assert_same_rows(table.incremental(4), [])


@BOTH
def test_rows_that_were_inserted_and_deleted_again_do_not_come(table, strategy):
    table.append(one_row(4))
    table.append(one_row(5))
    table.delete("id = 4 or id = 1", strategy=strategy)

    assert_same_rows(table.incremental(1), [(5, "ny")])
    assert_same_rows(table.incremental(3), [])


def test_none_and_versions_before_the_first_make_all_rows_new(table):
    assert_same_rows(table.incremental(None), ROWS)
    assert_same_rows(table.incremental(0), ROWS)


def test_the_ends_are_named_in_any_way(table):
    table.append(one_row(4))
    table.append(one_row(5))
    first, second = table.timeline.at(1), table.timeline.at(2)

    for after, upto in [(first, second), ("1", "2"), (first.time, second.time), (first.time.isoformat(), 2)]:
        assert_same_rows(table.incremental(after, upto), [(4, "ny")])
    with pytest.raises(InstantNotFoundError):
        table.incremental(3, 2)


def test_rows_that_were_only_moved_are_not_new(table):
    table.append(one_row(4))
    table.compact()
    table.cluster(["city"])

    assert_same_rows(table.incremental(2), [])
    assert_same_rows(table.incremental(1), [(4, "ny")])


def test_a_row_that_changed_and_then_moved_is_new(table):
    table.update({"city": "'sj'"}, "id = 2", strategy=Strategy.MERGE_ON_READ)
    table.append(one_row(4))
    table.compact()

    assert_same_rows(table.incremental(1), [(2, "sj"), (4, "ny")])
    assert_same_rows(table.incremental(2), [(4, "ny")])
    assert_same_rows(table.incremental(3), [])


def test_rows_that_a_restore_brings_back_are_new(table):
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(1)
    table.delete(None, allow_full_table=True)
    table.restore(3)

    assert_same_rows(table.incremental(2, 3), [(1, "sf")])
    assert_same_rows(table.incremental(4), ROWS)
    assert_same_rows(table.incremental(1), [])


def test_rows_that_come_back_and_are_copied_then_are_new(table):
    table.delete(None, allow_full_table=True)
    table.restore(1)
    table.delete("id = 1", strategy=Strategy.COPY_ON_WRITE)

    assert_same_rows(table.incremental(2), [(2, "la"), (3, "la")])


def test_rows_that_came_back_as_they_were_are_new_once_they_are_moved_with_a_later_version(table):
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.delete(None, allow_full_table=True)
    table.restore(2)
    table.compact(max_deleted_fraction=0.0)

    assert_same_rows(table.scan(columns=["id", "_row_commit_version"]), [(2, 4), (3, 4)])
    assert_same_rows(table.incremental(2, 4), [])
    assert_same_rows(table.incremental(2), [(2, "la"), (3, "la")])
    assert_same_rows(table.incremental(4), [])


def test_hidden_columns_filters_and_chosen_columns_work_as_in_a_scan(table):
    table.append(one_row(4))
    table.update({"city": "'sj'"}, "id = 1")

    new = table.incremental(1, where="id < 4", columns=["_row_commit_version", "_row_id", "city"])

    assert new.schema.names == ("_row_commit_version", "_row_id", "city")
    assert_same_rows(new, [(3, 0, "sj")])
    assert (new.count(), table.incremental(1).count()) == (1, 2)


# --- files of other writers ---


def foreign(folder: Path, version: int, *numbers: int, **given: object) -> dict[str, object]:
    return add(folder, f"{version}.parquet", pa.table({"id": list(numbers)}), **given)


def removed(version: int, **given: object) -> dict[str, object]:
    return {"remove": {"path": f"{version}.parquet", "dataChange": True, "deletionTimestamp": 1, **given}}


def test_a_filter_may_ask_for_hidden_columns(table):
    table.append(ROWS)
    newest = table.scan().instant.version
    ids = table.scan(f"_row_commit_version = {newest}", columns=["_row_id"]).to_table()["_row_id"].to_pylist()

    assert_same_rows(table.incremental(newest - 1, where=f"_row_id = {ids[0]}", columns=["_ROW_ID"]), [(ids[0],)])
    assert table.incremental(newest - 1, where="_row_id < 0").count() == 0


def test_all_rows_of_a_file_without_row_ids_are_as_new_as_the_file(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), foreign(tmp_path, 0, 1))
    commit(tmp_path, 1, removed(0), foreign(tmp_path, 1, 1, 2))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.incremental(0), [(1,), (2,)])
    assert_same_rows(table.incremental(1), [])


def test_a_file_without_row_ids_that_only_moved_rows_is_as_new_as_the_newest_of_their_files(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), foreign(tmp_path, 0, 1))
    commit(tmp_path, 1, foreign(tmp_path, 1, 2))
    moved = [removed(0, dataChange=False), removed(1, dataChange=False)]
    commit(tmp_path, 2, *moved, foreign(tmp_path, 2, 1, 2, dataChange=False))
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.incremental(0), [(1,), (2,)])
    assert_same_rows(table.incremental(1), [])


def test_only_partitions_with_new_rows_are_looked_at_after_a_move(tmp_path):
    columns = metadata({"id": "long", "p": "string"}, partition_by=["p"])
    in_a, in_b = {"partitionValues": {"p": "a"}}, {"partitionValues": {"p": "b"}}
    commit(tmp_path, 0, LEGACY, columns, foreign(tmp_path, 0, 1, **in_a))
    commit(tmp_path, 1, foreign(tmp_path, 1, 2, **in_b))
    moved = [removed(number, dataChange=False) for number in (0, 1)]
    still = {"dataChange": False}
    commit(tmp_path, 2, *moved, foreign(tmp_path, 2, 1, **in_a, **still), foreign(tmp_path, 3, 2, **in_b, **still))

    assert_same_rows(tablespec.open_table(str(tmp_path)).incremental(0), [(2, "b")])


def test_numbering_the_rows_of_old_files_makes_none_new(tmp_path):
    action = foreign(tmp_path, 0, 1)
    commit(tmp_path, 0, LEGACY, metadata(), action)
    numbered = {**action["add"], "dataChange": False, "baseRowId": 0, "defaultRowCommitVersion": 1}
    commit(tmp_path, 1, {"add": numbered})

    assert_same_rows(tablespec.open_table(str(tmp_path)).incremental(0), [])


def test_a_table_with_a_column_of_the_name_of_commit_versions_is_refused(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"_row_commit_version": pa.int64()}))
    table.append(pa.table({"_row_commit_version": [1]}))

    with pytest.raises(UnsupportedTableError, match="a column of its own named _row_commit_version"):
        table.incremental(0).to_table()


# --- what it costs ---


def opened(table: Table, storage: CountingStorage, after: int) -> list[str]:
    """The data files and deletion vectors that an incremental read opens."""
    storage.calls.clear()
    table.incremental(after).to_table()
    return sorted({path for verb, path in storage.calls if verb in ("open", "read") and "_delta_log" not in path})


def counted(folder: Path) -> tuple[Table, CountingStorage]:
    storage = CountingStorage.at(str(folder))
    return Table(DeltaFormat(storage)), storage


def test_only_files_with_new_rows_are_opened(tmp_path, table):
    for number in range(4, 30):
        table.append(one_row(number))
    table.update({"city": "'sj'"}, "id = 2", strategy=Strategy.MERGE_ON_READ)
    last = [action["path"] for action in actions_of(tmp_path, 28, "add") if "deletionVector" not in action]
    again, storage = counted(tmp_path)

    assert opened(again, storage, 27) == last
    assert_same_rows(again.incremental(27), [(2, "sj")])


@pytest.mark.parametrize(
    "move",
    [
        lambda table: table.delete("id = 1", strategy=Strategy.MERGE_ON_READ),
        lambda table: table.compact(),
        lambda table: table.cluster(["city"]),
        lambda table: table.checkpoint(),
    ],
    ids=["delete", "compact", "cluster", "checkpoint"],
)
def test_nothing_is_opened_when_no_row_is_new(tmp_path, table, move):
    table.append(one_row(4))
    move(table)
    again, storage = counted(tmp_path)

    assert opened(again, storage, 2) == []


@pytest.mark.parametrize("checkpointed", [False, True], ids=["commits alone", "checkpoint"])
def test_the_bytes_read_grow_with_the_change_and_not_with_the_table(tmp_path, checkpointed):
    def cost(name: str, size: int) -> tuple[int, int]:
        table = tablespec.create_table(str(tmp_path / name), SCHEMA, properties={"delta.checkpointInterval": "1000"})
        for start in range(0, size, 1000):
            numbers = range(start, start + 1000)
            table.append(pa.table({"id": list(numbers), "city": [f"city {number}" for number in numbers]}, SCHEMA))
        after = table.instant()
        if checkpointed:
            table.checkpoint()
        table.update({"city": "'sj'"}, "id < 10", strategy=Strategy.MERGE_ON_READ)
        return (
            measured(table.url, lambda again: again.incremental(after)),
            measured(table.url, lambda again: again.scan()),
        )

    (small, small_whole), (large, large_whole) = cost("small", 5_000), cost("large", 40_000)

    assert small < large * 1.1 and large < small * 1.1
    assert large * 20 < large_whole
    assert large_whole > 6 * small_whole


def test_row_groups_without_new_rows_are_not_read(tmp_path):
    hidden = {ROW_ID_COLUMN: "row_id", ROW_COMMIT_VERSION_COLUMN: "version"}
    text = [f"{number * 7919 % 10007:05d}" * 40 for number in range(5000)]
    moved = {"id": list(range(5000)), "row_id": list(range(5000)), "version": [0] * 4000 + [1] * 1000, "text": text}
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "text": "string"}, properties=hidden))
    commit(tmp_path, 1, foreign(tmp_path, 0, 1, baseRowId=0, defaultRowCommitVersion=1))
    added = add(tmp_path, "2.parquet", pa.table(moved), dataChange=False, baseRowId=5000, defaultRowCommitVersion=2)
    pq.write_table(pa.table(moved), tmp_path / "2.parquet", row_group_size=500, compression="none")
    commit(tmp_path, 2, removed(0, dataChange=False), added)

    assert tablespec.open_table(str(tmp_path)).incremental(0).count() == 1000
    new = measured(str(tmp_path), lambda again: again.incremental(0))
    assert new * 4 < measured(str(tmp_path), lambda again: again.scan())


# --- listing, tasks and single slices ---


def test_the_slices_tell_which_of_their_rows_are_new(table):
    table.append(one_row(4))
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(2)

    assert [one.rows for one in table.incremental(1).slices] == [NewerRows()]
    assert [one.rows for one in table.incremental(None).slices] == [AllRows(), AllRows()]
    assert [type(one.rows) for one in table.incremental(3).slices] == [ReturnedRows]


def test_tasks_are_plain_data_and_give_all_rows(table):
    table.append(one_row(4))
    table.append(one_row(5))
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.restore(3)
    new = table.incremental(1, where="id > 0")

    tasks = pickle.loads(pickle.dumps(new.tasks(target_bytes=1)))

    assert len(tasks) == 2
    assert all(task.size > 0 for task in tasks)
    assert_same_rows(pa.Table.from_batches([batch for task in tasks for batch in task.read()]), new)
    assert_same_rows(pa.table(new), [(4, "ny"), (5, "ny")])


def test_files_are_listed_when_they_may_hold_new_rows(table):
    table.append(one_row(4))
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.compact()
    index = table.file_index

    assert index.list_files_between(3, 4) == []
    assert index.list_files_between(2, 3) == []
    assert [len(one.file_slices) for one in index.list_files_between(1, 3)] == [1]
    assert [len(one.file_slices) for one in index.list_files_between(1, 4)] == [1]


def test_files_without_a_match_are_left_out(table):
    table.append(one_row(4))
    table.append(one_row(5))

    assert [one.slice.base.rows for one in table.incremental(1, where="id = 5").slices] == [1]


def test_a_slice_read_in_the_mode_gives_its_new_rows(table):
    table.append(one_row(4))
    table.compact()
    (partition,) = table.file_index.list_files_between(1)

    reader = table.slice_reader().reading_mode(Incremental(1))

    assert [batch.to_pylist() for batch in reader.open(partition.file_slices[0])] == [[{"id": 4, "city": "ny"}]]


def test_a_single_slice_tells_no_changes(table):
    (partition,) = table.file_index.list_files_at()

    with pytest.raises(UnsupportedTableError, match="list_changes_between"):
        list(table.slice_reader().reading_mode(Cdc(0)).open(partition.file_slices[0]))


def test_read_optimized_leaves_deletion_vectors_aside(table):
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.update({"city": "'sj'"}, "id = 2", strategy=Strategy.MERGE_ON_READ)
    table.delete("id = 3", strategy=Strategy.COPY_ON_WRITE)

    assert_same_rows(table.scan(at=3), [(2, "sj"), (3, "la")])
    assert_same_rows(table.read_optimized(at=3), [(1, "sf"), (2, "la"), (3, "la"), (2, "sj")])
    assert_same_rows(table.read_optimized(), [(2, "sj")])
    assert table.read_optimized(at=3).count() == 4
    (partition,) = table.file_index.list_files_at(2)
    reader = table.slice_reader(2).reading_mode(ReadOptimized())
    assert sum(batch.num_rows for batch in reader.open(partition.file_slices[0])) == 3


def test_commits_that_were_cleaned_up_are_named(tmp_path, table):
    for number in range(4, 8):
        table.append(one_row(number))
    table.checkpoint()
    for version in (0, 1, 2):
        commit_file(tmp_path, version).unlink()
    again = tablespec.open_table(str(tmp_path))

    with pytest.raises(ChangesGoneError, match=r"changes of version 2 .* those after version 2 can be read"):
        again.incremental(1).to_table()
    assert_same_rows(again.incremental(2), [(5, "ny"), (6, "ny"), (7, "ny")])


def test_a_window_whose_start_was_vacuumed_is_refused_and_later_ones_can_be_read(tmp_path, table):
    table.delete("id = 1")
    table.restore(1)
    table.append(one_row(4))
    table.vacuum(timedelta(seconds=-1), allow_short_retention=True)

    with pytest.raises(ChangesGoneError, match=r"changes of version 3 .* the file dv/.* start after a later version"):
        table.incremental(2).to_table()
    assert_same_rows(table.incremental(3), [(4, "ny")])
    assert_same_rows(table.incremental(1), [(4, "ny")])


# --- any history ---


@given(given=st.lists(steps(), min_size=1, max_size=6), partitioned=st.booleans(), feed=st.booleans())
def test_what_is_new_is_what_has_a_later_version_or_was_not_there_as_it_is(tmp_path_factory, given, partitioned, feed):
    past = history(tmp_path_factory.mktemp("table"), given, partitioned=partitioned, feed=feed)
    hidden = ("_row_id", "_row_commit_version")
    states = [past.rows(version, *hidden) for version in range(len(past.commits) + 1)]

    for after, upto in past.windows():
        new = tuples(past.table.incremental(after, upto, columns=["id", "city", "fare", *hidden]))
        before = {row[-2]: row[:-2] for row in states[after]}
        missed = Counter(row for row in states[upto] if row[-1] > after or row[:-2] != before.get(row[-2])) - Counter(
            new
        )
        assert not missed
        if "restore" in past.commits[after:upto]:
            # A row that comes back is new, and where it moved all rows of its file are.
            assert not Counter(new) - Counter(states[upto])
        else:
            assert_same_rows(new, [row for row in states[upto] if row[-1] > after])
