"""Values made in bulk."""

from __future__ import annotations

import gc

import pytest

from tablespec.model.bulk import made_in_bulk


def test_the_collector_is_held_back_until_all_values_are_made():
    with made_in_bulk():
        assert not gc.isenabled()

        with made_in_bulk():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_after_an_error():
    with pytest.raises(ZeroDivisionError), made_in_bulk():
        raise ZeroDivisionError

    assert gc.isenabled()


def test_a_collector_that_somebody_else_stopped_stays_so():
    gc.disable()
    try:
        with made_in_bulk():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
