"""How many bytes a read takes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

import attrs

from tablespec import Table
from tablespec.formats.delta.format import DeltaFormat
from tablespec.read.changes import ChangeScan
from tablespec.read.incremental import IncrementalScan
from tablespec.read.scan import Scan
from tablespec.storage.store import Storage


def measured(url: str, ask: Callable[[Table], Scan | IncrementalScan | ChangeScan]) -> int:
    """The bytes that a read takes on a Delta table whose newest state is known."""
    storage = MeasuringStorage.at(url)
    table = Table(DeltaFormat(storage))
    table.instant()
    storage.read_bytes.clear()
    ask(table).to_table()
    return sum(storage.read_bytes)


@attrs.frozen
class MeasuringStorage(Storage):
    """Counts the bytes that are read."""

    read_bytes: list[int] = attrs.field(factory=list, eq=False)

    def local_path(self, path: str) -> str | None:
        return None

    def read(self, path: str) -> bytes:
        data = super().read(path)
        self.read_bytes.append(len(data))
        return data

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.read_bytes.append(length)
        return super().read_range(path, offset, length)

    def open(self, path: str) -> BinaryIO:
        return Measured(super().open(path), self.read_bytes)


class Measured(io.RawIOBase):
    """A file that tells how many bytes were read from it."""

    def __init__(self, file: BinaryIO, told: list[int]) -> None:
        self.file, self.told = file, told

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, *where: int) -> int:
        return self.file.seek(*where)

    def tell(self) -> int:
        return self.file.tell()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.told.append(len(data))
        return data
