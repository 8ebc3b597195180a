"""What every engine is asked, and the cells that are red."""

from __future__ import annotations

import pytest

from tests.conformance.engines import ENGINES, MODES, VERBS
from tests.conformance.tables import SAMPLES

READING = [f"{format_}: {name}" for format_, samples in SAMPLES.items() for name in samples]
SHAPES = ["projection", "filters", "limit", "time travel"]
CAPABILITIES = {
    "Tables": READING,
    "Queries": SHAPES,
    "Reading modes": [f"{format_}: {mode}" for format_ in SAMPLES for mode in MODES],
    "Changes of rows": [f"{format_}: {verb}" for format_ in SAMPLES for verb in VERBS],
}
_READ_ONLY = "Hudi tables can only be read"
# (engine, capability): why it does not work there.
RED: dict[tuple[str, str], str] = {
    **{(engine, f"hudi: {verb}"): _READ_ONLY for engine in ENGINES for verb in VERBS},
}


def cells(section: str) -> list[object]:
    """Every engine with every capability of a section, as parameters of a test; red ones are expected to fail."""
    return [
        pytest.param(engine, capability, id=f"{engine}-{capability}", marks=_marks(engine, capability))
        for capability in CAPABILITIES[section]
        for engine in ENGINES
    ]


def engines() -> list[object]:
    """Every engine, as a parameter of a test."""
    return [pytest.param(engine, marks=_needs(engine)) for engine in ENGINES]


def _needs(engine: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.spark] if engine == "spark" else []


def _marks(engine: str, capability: str) -> list[pytest.MarkDecorator]:
    reason = RED.get((engine, capability))
    return _needs(engine) + ([] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)])
