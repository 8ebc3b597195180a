import pytest

from tablespec.errors import InvalidOptionError
from tablespec.expr.nodes import TRUE
from tablespec.maintain.compact import Limits, plan
from tablespec.maintain.rewrite import RewriteResult
from tests.handmade import contents
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import append, data_files, groups, new_table, small_files, tracked_rows

NOTHING = RewriteResult(instant=None)


@pytest.fixture
def table(tmp_path):
    return small_files(tmp_path)


def test_a_file_with_few_deleted_rows_stays(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(20)))
    table.delete("id = 3")

    assert table.compact(max_deleted_fraction=0.05) == NOTHING


def test_a_file_with_many_deleted_rows_is_written_anew_in_its_group(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(20)))
    table.delete("id = 3")
    group = set(groups(table))

    result = table.compact(max_deleted_fraction=0.04)

    assert (result.files_removed, result.files_added, result.vectors_removed) == (1, 1, 1)
    assert set(groups(table)) == group


def test_a_group_of_several_files_becomes_one_file_of_that_group(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(20)))
    table.update({"city": "'la'"}, "id = 3")
    before, group = tracked_rows(table), set(groups(table))
    assert [len(paths) for paths in groups(table).values()] == [2]

    result = table.compact()

    assert (result.files_removed, result.files_added) == (2, 1)
    assert set(groups(table)) == group
    assert_same_rows(tracked_rows(table), before)


def test_a_group_that_has_grown_far_too_large_is_cut_into_groups(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(20)))
    table.update({"city": "'la'"}, "id = 3")
    before = tracked_rows(table)

    result = table.compact(target_bytes=1)

    assert len(groups(table)) == result.files_added > 1
    assert_same_rows(tracked_rows(table), before)
    assert table.compact(target_bytes=1) == NOTHING


def test_groups_that_are_put_together_make_a_new_group(table):
    before = set(groups(table))

    table.compact()

    assert before.isdisjoint(groups(table))


def test_files_that_are_large_enough_are_left_alone(table):
    assert table.compact(target_bytes=1, max_deleted_fraction=1.0) == NOTHING


def test_fewer_files_than_asked_for_are_left_alone(table):
    assert table.compact(min_files=4, max_deleted_fraction=1.0) == NOTHING


def test_files_are_put_together_up_to_the_size_asked_for(tmp_path):
    table = new_table(tmp_path)
    for number in range(9):
        append(table, (number, "sf", 1))
    size = max((tmp_path / path).stat().st_size for path in data_files(table))

    result = table.compact(target_bytes=3 * size)

    assert (result.files_removed, result.files_added) == (9, 3)
    assert table.compact(target_bytes=3 * size).files_removed == 0


def test_no_two_lots_of_a_plan_fit_into_one(tmp_path):
    table = new_table(tmp_path)
    for number in range(12):
        append(table, *((number * 100 + row, "x" * row, 1) for row in range(1 + number * 7 % 11)))
    files = table.format.live_files(table.format.latest(), TRUE)
    limits = Limits(target_bytes=sum(file.slice.size for file in files) // 4)

    sizes = [sum(file.slice.size for file in lot) for lot in plan(files, limits)]

    assert all(size <= limits.target_bytes for size in sizes)
    assert [
        one for index, one in enumerate(sizes) for other in sizes[:index] if one + other <= limits.target_bytes
    ] == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"target_bytes": -1}, "target_bytes is -1; expected a whole number from 1 on"),
        ({"target_bytes": 0}, "target_bytes is 0; expected a whole number from 1 on"),
        ({"target_bytes": "1mb"}, "target_bytes is '1mb'; expected a whole number from 1 on"),
        ({"min_files": 1}, "min_files is 1; expected a whole number from 2 on"),
        ({"min_files": 2.5}, "min_files is 2.5; expected a whole number from 2 on"),
        ({"max_deleted_fraction": 1.5}, "max_deleted_fraction is 1.5; expected a number between 0 and 1"),
        ({"max_deleted_fraction": "all"}, "max_deleted_fraction is 'all'; expected a number between 0 and 1"),
        ({"cooldown": 24}, "cooldown is 24; expected a timedelta, such as timedelta\\(hours=24\\)"),
    ],
    ids=str,
)
def test_limits_that_make_no_sense_are_refused(table, tmp_path, wrong, told):
    before = contents(tmp_path)

    with pytest.raises(InvalidOptionError, match=told):
        table.compact(**wrong)
    assert contents(tmp_path) == before
