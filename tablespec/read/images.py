"""The row changes of one commit, told from what it did to base files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.schema import as_numbers
from tablespec.model.change import ChangeType, Images, InferredChanges, SliceChange
from tablespec.model.file import FileSlice
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.read.slice_reader import FileSliceReader

_DELETE, _INSERT = ChangeType.DELETE.value, ChangeType.INSERT.value
_PREIMAGE, _POSTIMAGE = ChangeType.UPDATE_PREIMAGE.value, ChangeType.UPDATE_POSTIMAGE.value

# Rows, and the change type of each; where no column is asked for, only the types tell how many rows there are.
Changed = tuple[pa.RecordBatch, pa.Array]


def inferred(reader: FileSliceReader, changes: InferredChanges) -> Iterator[Changed]:
    """The changed rows of a commit, those that went before those that came; the reader says which columns are wanted."""
    match changes.images:
        case Images.UNPAIRED:
            yield from unpaired(reader, changes.slices)
        case Images.BY_ROW_ID:
            yield from _paired_by_row_id(reader, changes)
        case Images.BY_VALUE:
            yield from _without_equal_rows(reader, changes.slices)
        case _:
            assert_never(changes.images)


def unpaired(reader: FileSliceReader, changes: Sequence[SliceChange]) -> Iterator[Changed]:
    """What went as deleted, and what came as inserted."""
    yield from _labelled(_gone(reader, changes), _DELETE)
    yield from _labelled(_come(reader, changes), _INSERT)


def _gone(reader: FileSliceReader, changes: Iterable[SliceChange]) -> Iterator[pa.RecordBatch]:
    """The rows that were live before and are not any more."""
    for change in changes:
        yield from _live_only_in(reader, change.before, change.after)


def _come(reader: FileSliceReader, changes: Iterable[SliceChange]) -> Iterator[pa.RecordBatch]:
    """The rows that are live and were not before."""
    for change in changes:
        yield from _live_only_in(reader, change.after, change.before)


def _live_only_in(reader: FileSliceReader, one: FileSlice | None, other: FileSlice | None) -> Iterator[pa.RecordBatch]:
    if one is None:
        return
    if other is None:
        yield from reader.open(one)
        return
    here, there = (reader.deleted(slice_) or BitMap64() for slice_ in (one, other))
    yield from reader.open_at(one, there - here)


def _labelled(batches: Iterable[pa.RecordBatch], change_type: str) -> Iterator[Changed]:
    for batch in batches:
        yield batch, pa.repeat(pa.scalar(change_type), batch.num_rows)


# --- rows that keep their ids ---


@attrs.frozen(eq=False)
class Identities:
    """What rows are known by and what tells that they changed, in reading order."""

    ids: pa.Array
    versions: pa.Array


def _paired_by_row_id(reader: FileSliceReader, changes: InferredChanges) -> Iterator[Changed]:
    # Ids are read on their own first: rows that were only moved, most of a file written anew, then never come into memory together.
    identities, slices = reader.project((ROW_ID, ROW_COMMIT_VERSION)), changes.slices
    gone, come = (_told_by(changes, _identities(side(identities, slices))) for side in (_gone, _come))
    yield from _typed(_gone(reader, slices), change_types(gone, come, _DELETE, _PREIMAGE))
    yield from _typed(_come(reader, slices), change_types(come, gone, _INSERT, _POSTIMAGE))


def _told_by(changes: InferredChanges, rows: Identities) -> Identities:
    """The rows with versions that are equal unless the commit changed them."""
    version = changes.instant.version
    came = [change.after.base for change in changes.slices if change.after is not None]
    if not any(base is not None and base.row_commit_version == version for base in came):
        return rows
    # Rows that changed have the version of the commit in its new files. A row that a restore brought back earlier gets the
    # version of its return when it is copied, and has not changed. A restore has no new files: there every version counts.
    before = pa.scalar(version - 1, pa.int64())
    return attrs.evolve(rows, versions=pc.max_element_wise(rows.versions, before, skip_nulls=False))


def _identities(batches: Iterable[pa.RecordBatch]) -> Identities:
    schema = pa.schema({ROW_ID: pa.int64(), ROW_COMMIT_VERSION: pa.int64()})
    rows = pa.Table.from_batches(batches, schema).combine_chunks()
    ids, versions = (_whole(rows.column(name)) for name in schema.names)
    return Identities(ids, versions)


def change_types(one: Identities, other: Identities, alone: str, image: str) -> pa.Array:
    """The change type of each row of one side; null for a row that is on the other side as it is."""
    partner = pc.index_in(one.ids, _once(other.ids, one.ids))
    moved = pc.equal(other.versions.take(pc.index_in(one.ids, other.ids)), one.versions)
    paired = pc.if_else(pc.fill_null(moved, False), pa.scalar(None, pa.string()), image)
    return pc.if_else(pc.is_valid(partner), paired, alone)


def _once(ids: pa.Array, others: pa.Array) -> pa.Array:
    """The ids that stand once on either side; more would not tell which row is which."""
    return ids.filter(pc.invert(pc.is_in(ids, pa.concat_arrays([_repeated(ids), _repeated(others)]))))


def _repeated(ids: pa.Array) -> pa.Array:
    counts = pc.value_counts(ids)
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _typed(batches: Iterable[pa.RecordBatch], types: pa.Array) -> Iterator[Changed]:
    """The rows that have a change type, with it; `types` are in reading order."""
    start = 0
    for batch in batches:
        here = types.slice(start, batch.num_rows)
        start += batch.num_rows
        rows = pc.indices_nonzero(pc.is_valid(here))
        if len(rows):
            yield batch.take(rows) if batch.num_columns else batch, here.take(rows)


# --- rows that are known by their values alone ---


def _without_equal_rows(reader: FileSliceReader, changes: Sequence[SliceChange]) -> Iterator[Changed]:
    # Rows are equal when they are so in all columns, asked for or not.
    whole = reader.project(None)
    gone, come = list(_gone(whole, changes)), list(_come(whole, changes))
    rows = pa.Table.from_batches([*gone, *come]) if gone or come else None
    if rows is None:
        return
    border = sum(batch.num_rows for batch in gone)
    codes = row_codes(rows).to_pylist()
    before, after = codes[:border], codes[border:]
    names = list(reader.schema.names)
    yield from _kept(rows.slice(0, border).select(names), _unequal(before, after), _DELETE)
    yield from _kept(rows.slice(border).select(names), _unequal(after, before), _INSERT)


def _unequal(codes: Sequence[int], others: Sequence[int]) -> pa.Array:
    """A mask of the rows that have no equal on the other side; each there stands for one here."""
    left = Counter(others)
    mask = bytearray(len(codes))
    for index, code in enumerate(codes):
        if left[code]:
            left[code] -= 1
        else:
            mask[index] = 1
    return pc.equal(pa.Array.from_buffers(pa.uint8(), len(mask), [None, pa.py_buffer(mask)]), 1)


def row_codes(rows: pa.Table) -> pa.Int64Array:
    """A number for each row that equal rows share, and only they; NaN equals itself, as null does."""
    codes = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    for column in rows.columns:
        values = _whole(column)
        if pa.types.is_nested(values.type):
            values = pa.array([repr(value) for value in values.cast(as_numbers(values.type)).to_pylist()])
        encoded = values.dictionary_encode(null_encoding="encode")
        joined = pc.add(pc.multiply(codes, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
        # Numbered anew, the codes stay below the number of rows and never run over.
        codes = joined.dictionary_encode().indices.cast(pa.int64())
    return codes


def _kept(rows: pa.Table, mask: pa.Array, change_type: str) -> Iterator[Changed]:
    chosen = pc.indices_nonzero(mask)
    if len(chosen):
        batch = rows.take(chosen).combine_chunks().to_batches()[0] if rows.num_columns else _no_columns()
        yield batch, pa.repeat(pa.scalar(change_type), len(chosen))


def _no_columns() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], names=[])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
