"""Many values made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def made_in_bulk() -> Iterator[None]:
    """Hold back the collector of cycles while many values are made that all stay; for as long as one listing takes, no more.

    It looks at all values again whenever there are a quarter more of them, which takes longer than making them.
    """
    # Where somebody else holds it back, that is for them to end.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
