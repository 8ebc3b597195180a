"""The ids of rows in files, apart by the versions that wrote them, to know rows again that lie elsewhere."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import unquote

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.convert import by_stored_name
from tablespec.arrow.parquet import read_positioned
from tablespec.arrow.parquet_file import open_parquet
from tablespec.arrow.tracked import commit_versions, row_ids
from tablespec.model.file import Returned
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage

# The ids of rows by the commit version that they have in common.
LiveIds = Mapping[int, BitMap64]


@attrs.frozen(kw_only=True)
class TrackedFile:
    """A file whose rows have ids; `columns` are the hidden ones in which rows that were moved keep ids and versions."""

    path: str
    columns: Schema
    base_row_id: int
    commit_version: int
    returned: tuple[Returned, ...] = ()


@attrs.frozen(eq=False)
class _Run:
    """Rows that have a commit version in common."""

    version: int
    ids: pa.Array
    positions: pa.Array


def live_ids(storage: Storage, file: TrackedFile, deleted: BitMap64) -> LiveIds:
    """The ids of the rows of a file without the deleted ones."""
    return all_ids({run.version: _bitmap(run.ids)} for run in _runs(storage, file, deleted))


def all_ids(parts: Iterable[LiveIds]) -> LiveIds:
    """The ids of all parts."""
    found: dict[int, BitMap64] = {}
    for part in parts:
        for version, ids in part.items():
            found.setdefault(version, BitMap64()).update(ids)
    return found


def positions_without(storage: Storage, file: TrackedFile, live: LiveIds) -> BitMap64:
    """The positions of the rows of a file that are not among these with the same id and commit version."""
    found = BitMap64()
    for run in _runs(storage, file, BitMap64()):
        known = _bitmap(run.ids) & live.get(run.version, BitMap64())
        if len(known) < len(run.ids):
            found |= _bitmap(run.positions.filter(pc.invert(pc.is_in(run.ids, _array(known)))))
    return found


def _runs(storage: Storage, file: TrackedFile, deleted: BitMap64) -> Iterator[_Run]:
    """The rows of a file; of one that does not store the hidden columns only the footer is read."""
    with open_parquet(storage, unquote(file.path) if "%" in file.path else file.path) as opened:
        for piece in read_positioned(opened, file.columns, by_stored_name):
            rows = piece.take(pc.indices_nonzero(piece.outside(deleted))) if deleted else piece
            versions = commit_versions(rows, file.commit_version, file.returned)
            order = pc.sort_indices(versions)
            ids, positions = (one.take(order) for one in (row_ids(rows, file.base_row_id), rows.positions))
            runs, start = pc.run_end_encode(versions.take(order)), 0
            for version, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist()):
                yield _Run(version, ids.slice(start, end - start), positions.slice(start, end - start))
                start = end


def _bitmap(numbers: pa.Array) -> BitMap64:
    # A bitmap takes a list one by one, and an array as a whole.
    found = array("Q")
    start = numbers.offset * found.itemsize
    found.frombytes(memoryview(numbers.buffers()[1])[start : start + len(numbers) * found.itemsize])
    return BitMap64(found)


def _array(numbers: BitMap64) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers.to_array())])
