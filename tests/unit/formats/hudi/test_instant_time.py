from tablespec.formats.hudi.instant_time import instant_millis, instant_number, whole_number


def test_an_instant_without_milliseconds_comes_last_in_its_second():
    assert instant_number("20240131235959") == 20240131235959999
    assert whole_number(20240131235959) == 20240131235959999


def test_an_instant_with_milliseconds_is_its_own_number():
    assert instant_number("20240131235959123") == 20240131235959123
    assert whole_number(20240131235959123) == 20240131235959123


def test_instant_times_are_taken_as_utc():
    assert instant_millis(20240131235959123) == 1706745599123


def test_a_number_that_is_no_time_has_no_milliseconds():
    assert instant_millis(1999) == 0
    assert instant_millis(20249931235959123) == 0
