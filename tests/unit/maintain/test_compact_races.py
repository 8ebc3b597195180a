import pickle

import pytest

from tablespec.errors import CommitConflictError
from tablespec.maintain.compact import CompactTask, Limits, plan, write_anew
from tablespec.maintain.rewrite import RewriteResult, begin, finish, run
from tablespec.maintain.skip import COOLDOWN
from tablespec.txn.transaction import Retries
from tablespec.write.execution import Strategy
from tablespec.write.runner import Threads
from tests.handmade import actions_of, contents, versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import SMALL_FILES, Interrupted, append, data_files, small_files

NOTHING = RewriteResult(instant=None)


@pytest.fixture
def table(tmp_path):
    return small_files(tmp_path)


def test_rows_appended_meanwhile_are_there(table):
    result = table.compact(runner=Interrupted(lambda: append(table, (31, "sf", 1))))

    assert result.instant.version == 6
    assert_same_rows(table.scan(), [*SMALL_FILES, (31, "sf", 1)])


@pytest.mark.parametrize("strategy", Strategy, ids=lambda strategy: strategy.value)
def test_a_delete_from_the_same_files_meanwhile_is_a_conflict(table, tmp_path, strategy):
    with pytest.raises(CommitConflictError, match="removed files that this operation removes too"):
        table.compact(runner=Interrupted(lambda: table.delete("id = 1", strategy=strategy)))

    assert_same_rows(table.scan(), SMALL_FILES[1:])
    assert {f"{path}" for path in data_files(table)} <= set(contents(tmp_path))


def test_a_lost_compaction_leaves_no_files_behind(table, tmp_path):
    with pytest.raises(CommitConflictError):
        table.compact(runner=Interrupted(lambda: table.delete("id = 21", strategy=Strategy.MERGE_ON_READ)))

    removed = {path for version in versions_of(tmp_path) for path in _paths(tmp_path, version, "remove")}
    parquet = {path for path in contents(tmp_path) if path.endswith(".parquet") and not path.startswith("_delta_log")}
    assert parquet == data_files(table) | removed


def test_a_delete_from_other_files_meanwhile_is_none(table):
    table.compact(where="day = 1", runner=Interrupted(lambda: table.delete("id = 3")))

    assert_same_rows(table.scan(), [row for row in SMALL_FILES if row[0] != 3])


def test_a_delete_that_loses_against_a_compaction_is_a_conflict(table):
    with pytest.raises(CommitConflictError, match="removed files that this operation removes too"):
        table.delete("id = 1", runner=Interrupted(table.compact))

    assert_same_rows(table.scan(), SMALL_FILES)


def test_a_delete_of_what_a_compaction_does_not_touch_goes_through(table):
    table.delete("id = 3", runner=Interrupted(lambda: table.compact(where="day = 1")))

    assert_same_rows(table.scan(), [row for row in SMALL_FILES if row[0] != 3])


def test_an_append_that_loses_against_a_compaction_is_repeated(table):
    state = table.format.latest()
    table.compact()
    object.__setattr__(table.format, "_newest", state)

    append(table, (31, "sf", 1))

    assert_same_rows(table.scan(), [*SMALL_FILES, (31, "sf", 1)])


def test_two_compactions_of_the_same_files_do_not_both_stand(table):
    with pytest.raises(CommitConflictError):
        table.compact(runner=Interrupted(table.compact))

    assert_same_rows(table.scan(), SMALL_FILES)


def test_tasks_and_what_comes_of_them_pickle(table):
    job = begin(table.format, "compact", None)
    limits = Limits(target_bytes=1 << 20)
    tasks = [
        CompactTask(target=job.target, slices=tuple(file.slice for file in lot), limits=limits)
        for lot in plan(job.files, limits)
    ]

    fragments = [pickle.loads(pickle.dumps(write_anew(pickle.loads(pickle.dumps(task))))) for task in tasks]
    finish(job, fragments, (), cooldown=COOLDOWN, retries=Retries())

    assert_same_rows(table.scan(), SMALL_FILES)


def test_when_a_task_fails_what_others_wrote_is_removed(table, tmp_path):
    before = contents(tmp_path)
    job = begin(table.format, "compact", None)
    limits = Limits(target_bytes=1 << 20)
    first, second = [tuple(file.slice for file in lot) for lot in plan(job.files, limits)]

    def fails_second(slices):
        if slices == second:
            raise ZeroDivisionError
        return write_anew(CompactTask(target=job.target, slices=slices, limits=limits))

    with pytest.raises(ZeroDivisionError):
        run(job, fails_second, [first, second], Threads(1))
    assert contents(tmp_path) == before


def _paths(folder, version, kind):
    return [action["path"] for action in actions_of(folder, version, kind)]
