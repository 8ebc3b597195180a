"""The row changes of one commit, told by the keys of rows in the states of file groups, or noted by the writer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.schema import arrow_schema, arrow_type
from tablespec.errors import CorruptFileError
from tablespec.formats.base import LoggingCodec
from tablespec.model.change import ChangeType, KeyedChanges, SliceChange
from tablespec.model.file import FileSlice
from tablespec.read.images import Changed, Identities, change_types, row_codes
from tablespec.read.slice_reader import FileSliceReader

_DELETE, _INSERT = ChangeType.DELETE.value, ChangeType.INSERT.value
_PREIMAGE, _POSTIMAGE = ChangeType.UPDATE_PREIMAGE.value, ChangeType.UPDATE_POSTIMAGE.value


def keyed(reader: FileSliceReader, changes: KeyedChanges) -> Iterator[Changed]:
    """The changed rows group by group; the reader says which columns are wanted. No more than one group is in memory."""
    assert isinstance(reader.codec, LoggingCodec)
    for change in changes.slices:
        if change.log:
            yield from _noted(reader, reader.codec, change, changes.key)
        else:
            yield from _compared(reader, change, changes)


def _compared(reader: FileSliceReader, change: SliceChange, changes: KeyedChanges) -> Iterator[Changed]:
    """What differs between the states of a group before and after the commit."""
    told_by = reader.layout.schema.names if changes.version is None else (changes.version,)
    wide = reader.project(tuple(dict.fromkeys((*reader.schema.names, *changes.key, *told_by))))
    before, after = _rows(wide, change.before), _rows(wide, change.after)
    told = pa.concat_tables([before, after]).select(list(told_by))
    versions = row_codes(told) if changes.version is None else _whole(told.column(0))
    gone, come = (
        Identities(_keys(reader, rows, changes.key), versions.slice(start, rows.num_rows))
        for rows, start in ((before, 0), (after, before.num_rows))
    )
    yield from _typed(reader, before, change_types(gone, come, _DELETE, _PREIMAGE))
    yield from _typed(reader, after, change_types(come, gone, _INSERT, _POSTIMAGE))


def _typed(reader: FileSliceReader, rows: pa.Table, types: pa.Array) -> Iterator[Changed]:
    chosen = pc.indices_nonzero(pc.is_valid(types))
    if len(chosen):
        yield _batch(rows.select(list(reader.schema.names)).take(chosen)), types.take(chosen)


def _noted(
    reader: FileSliceReader, codec: LoggingCodec, change: SliceChange, key: tuple[str, ...]
) -> Iterator[Changed]:
    """The changes that the writer noted; rows that it left out come from the states before and after."""
    constants = dict(zip(reader.layout.constants, change.slice.partition_values))
    sides = ((change.before, ("d", "u"), _DELETE, _PREIMAGE), (change.after, ("i", "u"), _INSERT, _POSTIMAGE))
    for logged in codec.logged_changes(reader.storage, change.log, reader.schema):
        for (slice_, operations, alone, image), noted in zip(sides, (logged.before, logged.after)):
            chosen = pc.is_in(logged.operations, pa.array(operations))
            types = pc.if_else(pc.equal(logged.operations.filter(chosen), "u"), image, alone)
            if not len(types):
                continue
            if noted is not None:
                # A batch that is made of no columns has no rows to choose among.
                rows = noted.filter(chosen) if noted.num_columns else noted
                yield _with_constants(rows, constants, reader), types
            else:
                assert logged.keys is not None
                yield _looked_up(reader, change, slice_, key, logged.keys.filter(chosen)), types


def _looked_up(
    reader: FileSliceReader, change: SliceChange, slice_: FileSlice | None, key: tuple[str, ...], keys: pa.Array
) -> pa.RecordBatch:
    """The rows of a state that have these keys, in their order."""
    rows = _rows(reader.project(tuple(dict.fromkeys((*reader.schema.names, *key)))), slice_)
    places = pc.index_in(keys, _keys(reader, rows, key))
    if places.null_count:
        why = f"it notes a change of {keys.filter(places.is_null())[0]!s}, which the table does not hold at that time"
        raise CorruptFileError(reader.storage.url, change.log[0].path, why)
    return _batch(rows.select(list(reader.schema.names)).take(places))


def _keys(reader: FileSliceReader, rows: pa.Table, key: tuple[str, ...]) -> pa.Array:
    assert isinstance(reader.codec, LoggingCodec)
    return reader.codec.record_keys([_whole(rows.column(name)) for name in key])


def _rows(reader: FileSliceReader, slice_: FileSlice | None) -> pa.Table:
    schema = pa.schema([field.with_nullable(True) for field in arrow_schema(reader.schema)])
    return pa.Table.from_batches(() if slice_ is None else reader.open(slice_), schema).combine_chunks()


def _with_constants(rows: pa.RecordBatch, constants: dict[str, object], reader: FileSliceReader) -> pa.RecordBatch:
    for index, field in enumerate(reader.schema):
        if field.name in constants:
            column = pa.repeat(pa.scalar(constants[field.name], arrow_type(field.type)), rows.num_rows)
            rows = rows.set_column(index, rows.schema.field(index), column)
    return rows


def _batch(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)
