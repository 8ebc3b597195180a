import pytest

from tablespec.formats.hudi.timeline import CompletedAction, parse_timeline, visibility_at
from tablespec.model.instant import Instant

FIRST, SECOND, THIRD = 20240101000001000, 20240101000002000, 20240101000003000


def test_layout_1_names_an_instant_by_request_time_and_action():
    paths = [
        f".hoodie/{FIRST}.commit.requested",
        f".hoodie/{FIRST}.inflight",
        f".hoodie/{FIRST}.commit",
        f".hoodie/{SECOND}.replacecommit",
        ".hoodie/hoodie.properties",
        ".hoodie/archived",
    ]

    timeline = parse_timeline(paths, layout=1)

    assert timeline.completed == (
        CompletedAction(request=FIRST, completion=None, action="commit", path=f".hoodie/{FIRST}.commit"),
        CompletedAction(
            request=SECOND, completion=None, action="replacecommit", path=f".hoodie/{SECOND}.replacecommit"
        ),
    )
    assert timeline.pending == frozenset()


def test_layout_2_names_the_completion_time_too():
    timeline = parse_timeline([f".hoodie/timeline/{FIRST}_{SECOND}.commit"], layout=2)

    (action,) = timeline.completed
    assert (action.request, action.completion) == (FIRST, SECOND)
    assert action.instant == Instant(FIRST, 1704067202000, "commit")
    assert action.instant.timestamp == 1704067202000


def test_in_layout_1_the_request_time_stands_in_for_the_completion_time():
    (action,) = parse_timeline([f".hoodie/{FIRST}.commit"], layout=1).completed

    assert action.instant.timestamp == 1704067201000


def test_checksum_files_are_no_instants():
    timeline = parse_timeline([f".hoodie/timeline/.{FIRST}_{SECOND}.commit.crc"], layout=2)

    assert timeline.completed == ()
    assert timeline.pending == frozenset()


@pytest.mark.parametrize(
    "name",
    [
        "inflight",
        "commit.requested",
        "replacecommit.inflight",
        "clustering.requested",
        "compaction.inflight",
        "deltacommit.inflight",
    ],
)
def test_a_write_without_its_completed_file_is_pending(name):
    assert parse_timeline([f".hoodie/timeline/{FIRST}.{name}"], layout=2).pending == {FIRST}


@pytest.mark.parametrize("name", ["clean.requested", "savepoint.inflight", "rollback.inflight", "indexing.requested"])
def test_actions_that_write_no_data_are_never_pending_writes(name):
    assert parse_timeline([f".hoodie/timeline/{FIRST}.{name}"], layout=2).pending == frozenset()


def test_a_clustering_completes_as_a_replace_commit():
    paths = [f"{FIRST}.clustering.requested", f"{FIRST}.clustering.inflight", f"{FIRST}_{SECOND}.replacecommit"]

    timeline = parse_timeline(paths, layout=2)

    assert timeline.pending == frozenset()
    assert [action.action for action in timeline.writes] == ["replacecommit"]


def test_only_commits_of_all_kinds_are_writes():
    paths = [f"{FIRST}_{FIRST}.commit", f"{FIRST}_{SECOND}.savepoint", f"{SECOND}_{SECOND}.clean"]

    timeline = parse_timeline(paths, layout=2)

    assert [action.action for action in timeline.writes] == ["commit"]
    assert [action.action for action in timeline.cleans] == ["clean"]


def test_a_state_sees_completed_instants_up_to_its_request_time():
    timeline = parse_timeline([f"{FIRST}_{THIRD}.commit", f"{SECOND}_{SECOND}.commit"], layout=2)

    seen = visibility_at(timeline, FIRST, layout=2)

    assert seen.sees(FIRST)
    assert not seen.sees(SECOND)


def test_request_times_decide_though_the_older_write_completes_later():
    timeline = parse_timeline([f"{FIRST}_{THIRD}.commit", f"{SECOND}_{SECOND}.commit"], layout=2)

    seen = visibility_at(timeline, SECOND, layout=2)

    assert seen.sees(FIRST) and seen.sees(SECOND)


def test_what_is_older_than_the_active_timeline_is_archived_and_seen():
    timeline = parse_timeline([f"{SECOND}_{SECOND}.commit"], layout=2)

    assert visibility_at(timeline, SECOND, layout=2).sees(FIRST)


def test_a_pending_write_older_than_the_active_timeline_is_not_seen():
    timeline = parse_timeline([f"{FIRST}.inflight", f"{SECOND}_{SECOND}.commit"], layout=2)

    assert not visibility_at(timeline, SECOND, layout=2).sees(FIRST)


def test_what_a_rollback_left_behind_is_not_seen():
    timeline = parse_timeline([f"{FIRST}_{FIRST}.commit", f"{THIRD}_{THIRD}.commit"], layout=2)

    assert not visibility_at(timeline, THIRD, layout=2).sees(SECOND)


def test_a_savepoint_that_outlived_the_archiver_does_not_begin_the_timeline():
    paths = [f"{FIRST}_{FIRST}.commit", f"{FIRST}_{FIRST}.savepoint", f"{THIRD}_{THIRD}.commit"]

    timeline = parse_timeline(paths, layout=2)

    assert timeline.start == THIRD
    assert visibility_at(timeline, THIRD, layout=2).sees(SECOND)


def test_a_table_without_completed_writes_sees_nothing():
    timeline = parse_timeline([f"{SECOND}.inflight"], layout=2)

    assert not visibility_at(timeline, THIRD, layout=2).sees(FIRST)
