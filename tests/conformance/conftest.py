"""How the tests of engines start them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.conformance.engines import ENGINES, Engine
from tests.conformance.engines import started as start
from tests.java import missing_java


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Callable[[str], AbstractContextManager[Engine]]:
    """Starts an engine by its name; Spark is started once for all tests."""
    return lambda name: start(name, lambda: request.getfixturevalue("spark"))


@pytest.fixture(scope="session")
def readers() -> tuple[str, ...]:
    """The engines that can start here."""
    return ENGINES if missing_java() is None else tuple(name for name in ENGINES if name != "spark")
