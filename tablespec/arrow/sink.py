"""Files to write as Arrow's own: what comes in many small pieces reaches them in few large ones."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

# Each piece that reaches a file takes a call of Python, for which all other threads wait.
_PIECE_BYTES = 1 << 18


class _Borrowed:
    """A file that is not closed by Arrow, and takes nothing more once its owner has closed it."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        """Hand over a piece."""
        return len(data) if self._file.closed else self._file.write(data)

    def close(self) -> None:
        """Leave the file open: its owner says when it is whole."""

    def flush(self) -> None:
        """Do nothing: the file is its owner's."""


def in_large_pieces(file: BinaryIO) -> pa.NativeFile:
    """A file to write to instead; closing it hands over what is left, and leaves `file` open."""
    return pa.BufferedOutputStream(pa.PythonFile(_Borrowed(file), mode="w"), _PIECE_BYTES)
