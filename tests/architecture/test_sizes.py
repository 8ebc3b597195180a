"""No module and no function is too large to be read."""

from __future__ import annotations

from tests.architecture.sizes import sizes


def test_no_module_and_no_function_is_too_large():
    assert [str(size) for size in sizes() if size.is_too_large] == []


def test_the_shared_fixtures_fit_on_two_screens():
    assert [str(size) for size in sizes() if size.place == "tests/conftest.py" and size.lines >= 120] == []
