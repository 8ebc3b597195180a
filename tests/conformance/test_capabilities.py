"""The page of capabilities says what the suite holds."""

from __future__ import annotations

from tests.conformance.capabilities import PAGE, page
from tests.conformance.cells import CAPABILITIES, RED
from tests.conformance.engines import ENGINES


def test_the_page_of_capabilities_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.conformance.capabilities"


def test_red_cells_name_engines_and_capabilities_that_are_there():
    known = {(engine, one) for engine in ENGINES for names in CAPABILITIES.values() for one in names}

    assert set(RED) <= known
