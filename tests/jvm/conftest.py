"""One session of Delta on Spark for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.java import missing_java
from tests.jvm.delta_spark import DeltaSpark, UnreachableError, delta_spark


@pytest.fixture(scope="session")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeltaSpark]:
    """Delta on Spark; what needs it is skipped where there is no Java or nothing to fetch it from."""
    reason = missing_java()
    if reason is not None:
        pytest.skip(reason)
    try:
        with delta_spark(tmp_path_factory.mktemp("delta-spark")) as session:
            yield session
    except UnreachableError as error:
        pytest.skip(str(error))
