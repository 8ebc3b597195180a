"""Holding a table's log against the files that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import partial

import attrs

from tablespec.cli.screen import Advance
from tablespec.errors import CorruptFileError, CorruptLogError, MissingLogError, PathOutsideTableError, StorageError
from tablespec.formats.base import SliceCodec
from tablespec.model.file import BaseFile, FileSlice, LogFile
from tablespec.read.scan import Scan
from tablespec.storage.store import Storage
from tablespec.table import Table

_READERS = 16


class Kind(Enum):
    """What is wrong."""

    LOG = "log"
    MISSING = "missing"
    SIZE = "size"
    DELETION_VECTOR = "deletion_vector"
    UNREACHABLE = "unreachable"


@attrs.frozen
class Problem:
    """One thing that is wrong; `path` is empty where the message names the place."""

    kind: Kind
    path: str
    message: str


def check_log(table: Table) -> tuple[Scan | None, tuple[Problem, ...]]:
    """All rows of the newest state where the log still tells which files hold them, and what is wrong with the log."""
    messages = list(table.format.problems())
    try:
        scan = table.scan()
        scan.slices  # noqa: B018 - lists the files, which reads the rest of the log
    except (CorruptLogError, MissingLogError) as error:
        scan = None
        messages.append(str(error))
    return scan, tuple(Problem(Kind.LOG, "", message) for message in dict.fromkeys(messages))


def check_files(scan: Scan, advance: Advance) -> tuple[Problem, ...]:
    """What is wrong with the files of a scan; `advance` is called after each slice."""
    there = {file.path: file.size for file in scan.storage.list()}
    check = partial(_check_slice, scan.storage, scan.state.codec, there)
    found: list[Problem] = []
    with ThreadPoolExecutor(_READERS) as pool:
        for problems in pool.map(check, [one.slice for one in scan.slices]):
            found += problems
            advance()
    return tuple(dict.fromkeys(found))


def _check_slice(storage: Storage, codec: SliceCodec, there: Mapping[str, int], slice_: FileSlice) -> list[Problem]:
    files: list[BaseFile | LogFile] = [*([slice_.base] if slice_.base else []), *slice_.logs]
    problems = [problem for file in files for problem in _check_file(storage, there, file.path, file.size)]
    return [*problems, *_check_deletes(storage, codec, slice_)]


def _check_file(storage: Storage, there: Mapping[str, int], path: str, size: int) -> Iterator[Problem]:
    try:
        actual = there[path] if path in there else _asked_size(storage, path)
    except (PathOutsideTableError, StorageError) as error:
        yield Problem(Kind.UNREACHABLE, path, str(error))
        return
    if actual is None:
        yield Problem(Kind.MISSING, path, "the file is missing")
    elif actual != size:
        yield Problem(Kind.SIZE, path, f"the file has {actual} bytes, the log says {size}")


def _check_deletes(storage: Storage, codec: SliceCodec, slice_: FileSlice) -> Iterator[Problem]:
    if slice_.deletes is None:
        return
    path = slice_.deletes.path or ""
    try:
        codec.deleted_positions(storage, slice_)
    except FileNotFoundError:
        yield Problem(Kind.MISSING, path, "the deletion vector is missing")
    except (CorruptFileError, StorageError) as error:
        yield Problem(Kind.DELETION_VECTOR, path, error.why)
    except PathOutsideTableError as error:
        yield Problem(Kind.UNREACHABLE, path, str(error))


def _asked_size(storage: Storage, path: str) -> int | None:
    # Files outside of the table, and paths that are spelt in an odd way, are not in its listing.
    info = storage.head(path)
    return None if info is None else info.size
