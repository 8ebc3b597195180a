import multiprocessing
import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablespec
from tablespec.model.file import BaseFile, FileGroupId, FileSlice
from tablespec.read.task import TaskSlice, balanced, shares
from tests.rows import assert_same_rows


def piece(number, size):
    base = BaseFile(path=f"{number}.parquet", size=size)
    return TaskSlice(FileSlice(group=FileGroupId("", str(number)), instant=1, base=base), False)


def size_of(group):
    return sum(one.slice.size for one in group)


def rows_of(task):
    """The rows of a task, in whichever process this runs."""
    return [tuple(row.values()) for batch in task.read() for row in batch.to_pylist()]


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(1, 3000))
def test_every_slice_is_in_exactly_one_group(sizes, target):
    pieces = [piece(number, size) for number, size in enumerate(sizes)]

    groups = balanced(pieces, target)

    assert Counter(one for group in groups for one in group) == Counter(pieces)
    assert all(groups)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 3000))
def test_groups_are_near_the_target_and_near_each_other(sizes, target):
    pieces = [piece(number, size) for number, size in enumerate(sizes)]

    groups = [size_of(group) for group in balanced(pieces, target)]

    wanted = min(len(pieces), -(-sum(sizes) // target))
    assert len(groups) == wanted
    # Largest first into the emptiest: no group exceeds the mean by more than the largest slice.
    assert max(groups) <= sum(sizes) / wanted + max(sizes)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(1, 3000))
def test_slices_keep_their_order_within_and_across_groups(sizes, target):
    pieces = [piece(number, size) for number, size in enumerate(sizes)]

    order = [[int(one.slice.group.id) for one in group] for group in balanced(pieces, target)]

    assert all(group == sorted(group) for group in order)
    assert [group[0] for group in order] == sorted(group[0] for group in order)


def test_equal_slices_are_spread_evenly():
    groups = balanced([piece(number, 10) for number in range(12)], 40)

    assert [len(group) for group in groups] == [4, 4, 4]


def test_a_target_below_one_byte_makes_no_sense():
    with pytest.raises(ValueError, match="target_bytes must be at least 1"):
        balanced([piece(1, 1)], 0)


@pytest.mark.parametrize(
    ("size", "wanted"),
    [
        pytest.param(1 << 10, 1, id="what is little stays together"),
        pytest.param(1 << 20, 16, id="enough pieces for workers to finish at about the same time"),
        pytest.param((1 << 20) + 1, 16, id="also where the bytes cannot be divided by their number"),
        pytest.param(16 << 20, 67, id="and none too large"),
    ],
)
def test_work_is_shared_out_in_as_many_pieces_as_pay(size, wanted):
    groups = shares([piece(number, size) for number in range(100)])

    assert len(groups) == wanted


@pytest.fixture
def table(tmp_path):
    """Twelve files of different sizes in three partitions."""
    table = tablespec.create_table(
        str(tmp_path), pa.schema([("p", pa.int64()), ("id", pa.int64()), ("text", pa.string())]), partition_by=["p"]
    )
    for start in range(4):
        ids = list(range(start * 300, start * 300 + 50 * (start + 1)))
        table.append(pa.table({"p": [n % 3 for n in ids], "id": ids, "text": [str(n) * 5 for n in ids]}))
    return table


@pytest.mark.parametrize("target", [1, 3000, 10_000, 1 << 30])
@pytest.mark.parametrize("where", [None, "p = 1", "id > 120 and p <> 2", "text is null"])
def test_tasks_read_what_the_scan_reads(table, target, where):
    scan = table.scan(where, columns=["id", "p"])

    tasks = scan.tasks(target_bytes=target)

    assert Counter(one.slice for task in tasks for one in task.slices) == Counter(one.slice for one in scan.slices)
    assert_same_rows([row for task in tasks for row in rows_of(task)], scan)


def test_a_task_knows_how_much_it_reads(table):
    tasks = table.scan().tasks(target_bytes=4000)

    total = sum(one.slice.size for one in table.scan().slices)
    assert len(tasks) == -(-total // 4000)
    assert sum(task.size for task in tasks) == total


def test_a_small_target_makes_a_task_of_every_slice(table):
    assert [len(task.slices) for task in table.scan().tasks(target_bytes=1)] == [1] * 12


def test_tasks_are_plain_data(table):
    for task in table.scan("id > 120").tasks(target_bytes=3000):
        again = pickle.loads(pickle.dumps(task))

        assert again == task
        assert hash(again) == hash(task)
        assert rows_of(again) == rows_of(task)


def test_tasks_are_read_in_other_processes(table):
    scan = table.scan("id > 120 and p <> 2")
    tasks = scan.tasks(target_bytes=3000)

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = [row for rows in pool.map(rows_of, tasks) for row in rows]

    assert len(tasks) > 1
    assert_same_rows(found, scan)


def test_slices_whose_rows_all_match_are_marked(table):
    tasks = table.scan("p = 1 and id < 100").tasks(target_bytes=1)

    marks = {one.slice.base.base_row_id: one.all_match for task in tasks for one in task.slices}
    assert set(marks.values()) == {True}
    assert not any(one.all_match for task in table.scan("p = 1 and id < 20").tasks() for one in task.slices)
