"""How the errors of stores and file systems become ours."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError

from tablespec.errors import StorageError

MISSING = (FileNotFoundError, NotADirectoryError)


@contextmanager
def wrapped(url: str, *, missing: tuple[type[OSError], ...] = ()) -> Iterator[None]:
    """Turn what a store raises into StorageError, and the errors named in `missing` into FileNotFoundError."""
    try:
        yield
    except missing as error:
        raise FileNotFoundError(errno.ENOENT, "there is no such file", url) from error
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(url, _reason(error)) from error


def _reason(error: Exception) -> str:
    # obstore appends pages of its inner state to each message.
    return str(error).split("\n\nDebug source", maxsplit=1)[0] or type(error).__name__
