import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import InstantNotFoundError
from tablespec.model.instant import Instant, Timeline, from_millis, to_millis

TIMELINE = Timeline("t", (Instant(2, 1000), Instant(3, 2000), Instant(7, 2001), Instant(9, 5000)))


def test_instants_are_ordered_by_version_and_equal_by_all_fields():
    assert Instant(1, 500) < Instant(2, 100)
    assert Instant(1, 500) != Instant(1, 501)
    assert Instant(1, 500, "commit") != Instant(1, 500, "clean")
    assert len({Instant(1, 500), Instant(1, 500)}) == 1


def test_the_time_of_an_instant_is_in_utc():
    assert Instant(1, 1_500).time == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)


def test_a_timeline_is_its_instants_in_order():
    assert [instant.version for instant in TIMELINE] == [2, 3, 7, 9]
    assert len(TIMELINE) == 4
    assert TIMELINE.latest() == Instant(9, 5000)
    assert pickle.loads(pickle.dumps(TIMELINE)) == TIMELINE


def test_an_instant_is_found_by_exactly_its_version():
    assert TIMELINE.at(7) == Instant(7, 2001)
    for version in (0, 4, 10):
        with pytest.raises(InstantNotFoundError) as caught:
            TIMELINE.at(version)
        assert str(caught.value) == (
            f"t has no completed instant {version}; "
            "it has 2 (1970-01-01T00:00:01+00:00) to 9 (1970-01-01T00:00:05+00:00)"
        )


def test_between_is_after_the_start_up_to_the_end():
    def versions(start, end):
        return [instant.version for instant in TIMELINE.between(start, end)]

    assert versions(2, 7) == [3, 7]
    assert versions(None, 7) == [2, 3, 7]
    assert versions(3, None) == [7, 9]
    assert versions(4, 8) == [7]
    assert versions(9, None) == []
    assert versions(None, None) == [2, 3, 7, 9]


@pytest.mark.parametrize(
    ("millis", "version"), [(1000, 2), (1999, 2), (2000, 3), (2001, 7), (4999, 7), (5000, 9), (10**12, 9)]
)
def test_a_time_finds_the_newest_instant_that_was_done_by_then(millis, version):
    assert TIMELINE.find_latest_completed_action_at(from_millis(millis)).version == version


def test_a_time_before_the_first_instant_finds_none():
    with pytest.raises(InstantNotFoundError, match=r"at or before 1970-01-01T00:00:00\.999000"):
        TIMELINE.find_latest_completed_action_at(from_millis(999))


def test_a_time_without_a_zone_is_taken_as_utc():
    assert TIMELINE.find_latest_completed_action_at(datetime(1970, 1, 1, 0, 0, 2)).version == 3
    east = datetime(1970, 1, 1, 2, 0, 2, tzinfo=timezone(timedelta(hours=2)))
    assert TIMELINE.find_latest_completed_action_at(east).version == 3


def test_a_timeline_without_instants_has_no_latest():
    empty = Timeline("t", ())

    with pytest.raises(InstantNotFoundError, match="it has none"):
        empty.latest()
    with pytest.raises(InstantNotFoundError, match="it has none"):
        empty.at(0)


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
def test_milliseconds_and_times_are_each_other(moment):
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)

    assert from_millis(to_millis(whole)) == whole
    assert to_millis(moment) == to_millis(whole)
