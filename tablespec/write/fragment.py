"""What workers have done to the rows of a table, on its way to the commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import attrs
from pyroaring import BitMap64

from tablespec.errors import InvalidPageError
from tablespec.formats.base import NewFile
from tablespec.storage.store import Storage

# Serialized bitmaps of positions, by the files that they are positions in.
Positions = tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class Fragment:
    """What one worker has done: plain data that is handed to the commit of the operation that it was done for.

    `deleted` are the positions that go; sets of the same file from several workers are joined. Those that go by UPDATE_DELETE are
    `left` as well, and those that come anew by UPDATE_INSERT are `returned`: over all workers the two are the same.
    """

    operation_id: str = ""
    deleted: Positions = ()
    left: Positions = ()
    returned: Positions = ()
    added: tuple[NewFile, ...] = ()
    change_files: tuple[NewFile, ...] = ()
    inserted_rows: int = 0
    updated_rows: int = 0
    deleted_rows: int = 0
    copied_rows: int = 0

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All files that were written."""
        return (*self.added, *self.change_files)


def check_origin(fragments: Iterable[Fragment], operation_id: str) -> None:
    """Raise for fragments of another operation, whose files may be committed by then or lie elsewhere."""
    if any(fragment.operation_id != operation_id for fragment in fragments):
        raise InvalidPageError(
            "a fragment is of another operation; hand it to the handle that its sink or page source is of"
        )


def check_fragments(fragments: Sequence[Fragment]) -> None:
    """Raise for a fragment that came twice, and for halves of updates without the other half."""
    times = Counter(file.path for fragment in fragments for file in fragment.files)
    twice = [path for path, count in times.items() if count > 1]
    if twice:
        raise InvalidPageError(f"the file {min(twice)} came with two fragments; hand over each of them once")
    left = joined(fragment.left for fragment in fragments)
    returned = joined(fragment.returned for fragment in fragments)
    for path, position in _lacking(left, returned):
        raise InvalidPageError(
            f"the row {position} of {path} goes by UPDATE_DELETE and no UPDATE_INSERT brings it back"
        )
    for path, position in _lacking(returned, left):
        raise InvalidPageError(
            f"the row {position} of {path} comes by UPDATE_INSERT and no UPDATE_DELETE takes it away"
        )


def joined(positions: Iterable[Positions]) -> dict[str, BitMap64]:
    """The positions of every file, over all workers."""
    found: dict[str, BitMap64] = {}
    for file, written in (one for of_worker in positions for one in of_worker):
        more, known = BitMap64.deserialize(written), found.setdefault(file, BitMap64())
        if known & more:
            raise InvalidPageError(f"two workers change the same row of {file}")
        known.update(more)
    return found


def discard_fragments(storage: Storage, fragments: Iterable[Fragment]) -> None:
    """Remove the files of fragments that were not committed."""
    for fragment in fragments:
        for file in fragment.files:
            storage.delete(file.path)


def _lacking(some: dict[str, BitMap64], others: dict[str, BitMap64]) -> Iterator[tuple[str, int]]:
    """The positions that are not among the others."""
    for path, positions in some.items():
        left = positions - others.get(path, BitMap64())
        if left:
            yield path, left.min()
