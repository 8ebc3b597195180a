"""Running tasks, and taking back what some did when another fails."""

from __future__ import annotations

from threading import Barrier

import pytest

from tablespec.write.runner import Threads, gathered


def test_results_come_in_the_order_of_the_tasks():
    assert list(Threads(2).run(str, range(50))) == [str(number) for number in range(50)]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_other_tasks_did_is_told_before_one_fails(failing):
    together = Barrier(3)

    def work(number):
        together.wait()
        if number == failing:
            raise ZeroDivisionError
        return number

    undone = []
    with pytest.raises(ZeroDivisionError):
        gathered(Threads(3).run(work, range(3)), undone.extend)

    assert undone == [number for number in range(3) if number != failing]


def test_no_more_tasks_are_started_once_one_has_failed():
    started = []

    def work(number):
        started.append(number)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Threads(1).run(work, range(1000)))

    assert len(started) < 1000


def test_of_several_failures_the_first_in_the_order_of_the_tasks_is_raised():
    together = Barrier(2)

    def work(error):
        together.wait()
        raise error

    with pytest.raises(KeyError):
        list(Threads(2).run(work, [KeyError(), ZeroDivisionError()]))


def test_who_stops_early_gets_no_failure_of_later_tasks():
    results = Threads(2).run(lambda number: 1 // number, [1, 0, 0])

    assert next(results) == 1
    results.close()
