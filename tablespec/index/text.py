"""The text index: a small index of words for each base file."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyroaring import BitMap64

from tablespec.arrow.match_text import DamagedTextIndexError, TextIndex, indexed_rows, opened_index
from tablespec.errors import StorageError
from tablespec.expr.nodes import Match
from tablespec.index.checksum import CHANGED, file_checksum
from tablespec.index.segment import (
    IndexFile,
    Segment,
    StoredIndex,
    is_sound,
    local_states,
    new_segment_id,
    warn_damaged,
)
from tablespec.index.source import BuildSource
from tablespec.model.file import FileSlice
from tablespec.storage.file_state import FileState
from tablespec.storage.store import Storage

_CACHE = f"tablespec-index-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


def build_text_segments(source: BuildSource, slices: Sequence[FileSlice]) -> tuple[Segment, ...]:
    """An index for each base file, none of which anybody can see yet."""
    return tuple(_build(source, slice_) for slice_ in slices)


def _build(source: BuildSource, slice_: FileSlice) -> Segment:
    id_ = new_segment_id()
    folder = f"{source.definition.folder}/{id_}"
    local = source.storage.local_path(folder)
    with _made_in(local, f"{source.storage.url}/{folder}") as made:
        definition = source.definition
        index = indexed_rows(definition.columns, definition.tokenizer, source.values(slice_), str(made))
        names = sorted(path.name for path in made.iterdir() if not path.name.startswith("."))
        for name in names:
            if local is None:
                _upload(made / name, source.storage, f"{folder}/{name}")
            else:
                _sync(made / name)
        files = tuple(_told(made / name, f"{folder}/{name}") for name in names)
        return Segment(id=id_, columns=source.reading, covers=(source.covered(slice_, index.rows),), files=files)


@contextmanager
def _made_in(local: str | None, url: str) -> Iterator[Path]:
    """A folder for the files of a segment: the local one, which goes when they do not come to be, or a temporary one."""
    try:
        with tempfile.TemporaryDirectory() as elsewhere:
            made = Path(elsewhere if local is None else local)
            made.mkdir(parents=True, exist_ok=True)
            yield made
    except (ValueError, OSError) as error:
        _forget(local)
        # Tantivy has no other errors for disks that are full.
        raise StorageError(url, f"the text index cannot be written ({error})") from error
    except BaseException:
        _forget(local)
        raise


def _forget(local: str | None) -> None:
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)


def _told(made: Path, path: str) -> IndexFile:
    return IndexFile(path=path, size=made.stat().st_size, crc=file_checksum(str(made)))


def answers(stored: StoredIndex, match: Match) -> bool:
    """Whether a test can be answered by an index: it has all the columns, cut into words in the same way."""
    definition = stored.definition
    return definition.tokenizer == match.tokenizer and {column.name for column in match.columns} <= set(
        definition.columns
    )


def opened_segment(storage: Storage, stored: StoredIndex, segment: Segment) -> TextIndex | None:
    """The index of a base file; None with a warning where its files are gone or damaged."""
    try:
        local = storage.local_path(segment.folder)
        if local is None or not os.access(local, os.W_OK):
            # Tantivy reads local folders only, and writes a lock into them.
            local = _fetched(storage, segment)
        states = local_states(storage, segment, local)
        return (
            None if states is None else _opened(local, states, stored.definition.columns, stored.definition.tokenizer)
        )
    except (DamagedTextIndexError, OSError, StorageError) as error:
        warn_damaged(storage, segment, error)
        return None


# Files of an index do not change, and who asks one asks it again. Opened it holds no memory but what was looked at.
@functools.lru_cache(maxsize=64)
def _opened(folder: str, _: tuple[FileState, ...], columns: tuple[str, ...], tokenizer: str) -> TextIndex:
    return opened_index(folder, columns, tokenizer)


def found_rows(storage: Storage, segment: Segment, index: TextIndex, match: Match) -> tuple[BitMap64, BitMap64] | None:
    """The positions of the rows that match and of those for which the answer is null; None where the index is damaged."""
    names = tuple(column.name for column in match.columns)
    try:
        return index.hits(match.query, names)
    except DamagedTextIndexError as error:
        warn_damaged(storage, segment, error)
        return None


def _fetched(storage: Storage, segment: Segment) -> str:
    """A copy of the files of a segment on this machine, made once, and again where it is not sound."""
    named = hashlib.sha256(f"{storage.url} {segment.id}".encode()).hexdigest()[:32]
    folder = Path(tempfile.gettempdir()) / _CACHE / named
    if not _is_copy(folder, segment):
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            for file in segment.files:
                with storage.open(file.path) as source, (Path(unfinished) / file.name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
            _replace(Path(unfinished), folder)
        if not _is_copy(folder, segment):
            raise DamagedTextIndexError(CHANGED)
    return str(folder)


def _replace(made: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    for path in made.iterdir():
        path.replace(folder / path.name)


def _is_copy(folder: Path, segment: Segment) -> bool:
    try:
        return all(is_sound(str(folder / file.name), file) for file in segment.files)
    except FileNotFoundError:
        return False


def _upload(path: Path, storage: Storage, target: str) -> None:
    with path.open("rb") as source, storage.create(target) as sink:
        for piece in _pieces(source.read, 1 << 20):
            sink.write(piece)


def _pieces(read: object, size: int) -> Iterator[bytes]:
    assert callable(read)
    while piece := read(size):
        yield piece


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
