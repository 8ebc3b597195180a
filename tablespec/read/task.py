"""Reading cut into pieces that can be sent anywhere."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import attrs
import pyarrow as pa

from tablespec.expr.nodes import Predicate
from tablespec.model.file import FileSlice
from tablespec.read.known import Known
from tablespec.read.slice_reader import FileSliceReader

# How many pieces work is shared out in, as long as none is smaller, or larger, than so many bytes.
SHARES = 16
LEAST_SHARE = 4 << 20
MOST_SHARE = 24 << 20


@attrs.frozen
class TaskSlice:
    """A slice to read, whether all its rows match without being looked at, and what an index knows about them."""

    slice: FileSlice
    all_match: bool
    known: Known | None = None


@attrs.frozen
class ReadTask:
    """One piece of a scan: plain data that pickles."""

    reader: FileSliceReader
    predicate: Predicate
    slices: tuple[TaskSlice, ...]

    @property
    def size(self) -> int:
        """The bytes of the files to read."""
        return sum(piece.slice.size for piece in self.slices)

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows of the slices that match."""
        for rows in map(self.opener(), self.slices):
            yield from rows

    def opener(self) -> Callable[[TaskSlice], Iterator[pa.RecordBatch]]:
        """Opens any of the slices for its rows that match."""
        filtering = self.reader.push_down_filters(self.predicate)
        return lambda piece: (self.reader if piece.all_match else filtering).open(piece.slice, piece.known)


class Sliced(Protocol):
    """Anything about one slice."""

    @property
    def slice(self) -> FileSlice: ...


_Piece = TypeVar("_Piece", bound=Sliced)


def balanced(pieces: Sequence[_Piece], target_bytes: int) -> list[tuple[_Piece, ...]]:
    """The slices in groups of about equal size, near `target_bytes` each; a slice is never cut.

    Groups keep their slices in the order given, and come in the order of their first slice.
    """
    if target_bytes < 1:
        raise ValueError("target_bytes must be at least 1")
    total = sum(piece.slice.size for piece in pieces)
    count = max(1, min(len(pieces), -(-total // target_bytes))) if pieces else 0
    heap = [(0, number) for number in range(count)]
    members: list[list[int]] = [[] for _ in range(count)]
    # Largest first into the emptiest group: never worse than a third above the best split.
    for index in sorted(range(len(pieces)), key=lambda index: -pieces[index].slice.size):
        size, number = heapq.heappop(heap)
        members[number].append(index)
        heapq.heappush(heap, (size + pieces[index].slice.size, number))
    ordered = sorted(sorted(group) for group in members if group)
    return [tuple(pieces[index] for index in group) for group in ordered]


def by_group(pieces: Sequence[TaskSlice]) -> Iterator[tuple[str, Sequence[TaskSlice]]]:
    """The slices of each file group together, with its id."""
    groups: dict[str, list[TaskSlice]] = {}
    for piece in pieces:
        groups.setdefault(piece.slice.group.id, []).append(piece)
    yield from groups.items()


def shares(pieces: Sequence[_Piece]) -> list[tuple[_Piece, ...]]:
    """The slices in groups for workers that look through them: so many that all finish at about the same time, but none too small."""
    total = sum(piece.slice.size for piece in pieces)
    return balanced(pieces, max(LEAST_SHARE, min(MOST_SHARE, -(-total // SHARES))))
