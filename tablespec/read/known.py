"""What an index knows about the rows of a slice before they are read, and the port of whoever knows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs
from pyroaring import BitMap64

from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.base import JudgedSlice, TableState


@attrs.frozen
class Mark:
    """A column that no file has: true and null at some positions of the base file, and false elsewhere."""

    name: str
    true: bytes
    null: bytes


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
    # Without a predicate there is nothing that an index could know.
    if index is None or predicate == TRUE:
        return tuple(map(KnownSlice, slices))
    return tuple(index.narrowed(state, predicate, slices))
