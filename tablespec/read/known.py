"""What an index knows about the rows of a slice before they are read, and the port of whoever knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.expr.nodes import Predicate
from tablespec.formats.base import JudgedSlice, TableState


@attrs.frozen
class Mark:
    """A column that no file has: true and null at some positions of the base file, and false elsewhere."""

    name: str
    true: bytes
    null: bytes

    def values(self, start: int, rows: int) -> pa.BooleanArray:
        """The column for the rows from a position on."""
        return pc.if_else(_among(self.null, start, rows), pa.scalar(None, pa.bool_()), _among(self.true, start, rows))


@attrs.frozen(kw_only=True)
class Known:
    """Which rows of a base file may match, and what is left to be tested of them; positions are serialized bitmaps.

    `predicate` stands for the whole predicate of the scan, at the positions given; without positions at all of them.
    """

    predicate: Predicate
    positions: bytes | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def rows(self) -> BitMap64 | None:
        """The positions that may match; None where all may."""
        return None if self.positions is None else BitMap64.deserialize(self.positions)


@attrs.frozen
class KnownSlice:
    """A slice that may hold matching rows, with what an index knows about it."""

    judged: JudgedSlice
    known: Known | None = None


class Narrower(Protocol):
    """Knows more about slices than their statistics tell; it never leaves out a row that matches."""

    def narrowed(self, state: TableState, predicate: Predicate, slices: Sequence[JudgedSlice]) -> list[KnownSlice]:
        """Those of the slices that may hold a match, in the order given."""
        ...


def narrowed(
    index: Narrower | None, state: TableState, predicate: Predicate, slices: Sequence[JudgedSlice]
) -> tuple[KnownSlice, ...]:
    """The slices as an index sees them, where there is one."""
    return tuple(map(KnownSlice, slices) if index is None else index.narrowed(state, predicate, slices))


def _among(positions: bytes, start: int, rows: int) -> pa.BooleanArray:
    flags = bytearray(rows)
    for position in BitMap64.deserialize(positions).iter_equal_or_larger(start):
        if position >= start + rows:
            break
        flags[position - start] = 1
    return pc.equal(pa.Array.from_buffers(pa.uint8(), rows, [None, pa.py_buffer(flags)]), 1)
