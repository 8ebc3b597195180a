"""What a worker must know of the table whose rows change, and how rows are named between engine and table."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.errors import InvalidPageError
from tablespec.formats.base import SliceCodec
from tablespec.formats.layout import ReadLayout, WriteLayout
from tablespec.model.file import FileSlice
from tablespec.model.row import FILE, POSITION, ROW_ID
from tablespec.model.schema import Schema
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage
from tablespec.write.check import Constraints
from tablespec.write.fit import as_stored

ROW = "_row"

# Opaque to engines: where the row lies, the group it belongs to, and its id.
ROW_TYPE = pa.struct(
    [
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("group", pa.string()),
        pa.field("id", pa.int64()),
    ]
)


class RowOp(enum.IntEnum):
    """What happens to a row. UPDATE is an UPDATE_DELETE and an UPDATE_INSERT at once, for engines that tell it so."""

    INSERT = 1
    DELETE = 2
    UPDATE = 3
    UPDATE_INSERT = 4
    UPDATE_DELETE = 5


@attrs.frozen(kw_only=True)
class ChangeTarget:
    """What a worker must know of the table whose rows change; plain data.

    With `change_feed` whoever stores row changes records them at once, and `ops` are those that may be stored. What is done is good
    for the operation `operation_id` alone.
    """

    storage: Storage
    read: ReadLayout = attrs.field(repr=False)
    codec: SliceCodec = attrs.field(repr=False)
    write: WriteLayout = attrs.field(repr=False)
    rules: Constraints = attrs.field(repr=False)
    change_feed: bool
    operation_id: str = ""
    ops: frozenset[RowOp] = frozenset(RowOp)
    # By partition column the files, as the log spells them, that another writer gave the value ''.
    empty_in: tuple[tuple[str, frozenset[str]], ...] = attrs.field(default=(), repr=False)

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self.write.schema

    def reader(self, columns: Sequence[str]) -> FileSliceReader:
        """A reader of some columns."""
        return FileSliceReader(storage=self.storage, layout=self.read, codec=self.codec).project(tuple(columns))

    def placed(self, columns: Sequence[str]) -> FileSliceReader:
        """A reader of some columns and of where each row lies, for `row_ids`."""
        return self.reader((*columns, *self._places))

    def unplaced(self, values: pa.RecordBatch) -> pa.RecordBatch:
        """Rows without where they lie."""
        return values.drop_columns(list(self._places))

    def row_ids(self, values: pa.RecordBatch, group: str) -> pa.Array:
        """The opaque row ids of rows that were read with where they lie."""
        count = values.num_rows
        return pa.StructArray.from_arrays(
            [
                values.column(FILE),
                values.column(POSITION),
                pa.repeat(pa.scalar(group), count),
                values.column(ROW_ID) if ROW_ID in self._places else pa.nulls(count, pa.int64()),
            ],
            fields=list(ROW_TYPE),
        )

    def as_stored(self, values: pa.RecordBatch, ids: pa.Array | None) -> pa.RecordBatch:
        """Rows as they will be read back; new versions of the rows with these ids stay in a partition '' where they are in one."""
        stored = as_stored(values, self.write.partition_columns)
        if ids is None:
            return stored
        for name, files in self.empty_in:
            stays = pc.is_in(ids.field("file"), value_set=pa.array(sorted(files)))
            index = stored.schema.get_field_index(name)
            kept = pc.if_else(stays, values.column(index), stored.column(index))
            stored = stored.set_column(index, stored.schema.field(index), kept)
        return stored

    @property
    def _places(self) -> tuple[str, ...]:
        # A column of the table hides the hidden one of its name: deletes, which need no ids, go without them then.
        return (FILE, POSITION) if ROW_ID in self.schema else (FILE, POSITION, ROW_ID)


def checked_row_ids(rows: pa.Array) -> pa.Array:
    """Row ids as a page source gave them; raises for anything else that stands in their place."""
    try:
        ids = rows if rows.type == ROW_TYPE else rows.cast(ROW_TYPE)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        why = f"row ids are handed back as they were given, and these are of type {rows.type}"
        raise InvalidPageError(why) from error
    positions = ids.field("position")
    if ids.null_count or positions.null_count or ids.field("file").null_count:
        raise InvalidPageError("a row that changes or goes has no row id")
    least = pc.min(positions).as_py()
    if least is not None and least < 0:
        raise InvalidPageError(f"there is no row {least} in a file")
    return ids


def positions_by_file(rows: pa.Array) -> dict[str, list[int]]:
    """The positions of rows in each file, in the order of the rows."""
    files, positions = rows.field("file"), rows.field("position")
    named = pc.unique(files).to_pylist()
    if len(named) == 1:
        return {named[0]: positions.to_pylist()}
    return {file: positions.filter(pc.equal(files, file)).to_pylist() for file in named}


def stored_rows(target: ChangeTarget, slices: Mapping[str, FileSlice], rows: pa.Array) -> pa.RecordBatch:
    """The rows with these row ids as they are stored, in the columns of the table and the order of the ids.

    `slices` are those that the rows may lie in, by the paths of their files as logged.
    """
    reader = target.reader((*target.schema.names, FILE, POSITION))
    batches: list[pa.RecordBatch] = []
    for file, positions in positions_by_file(rows).items():
        if file not in slices:
            raise InvalidPageError(f"the stored row is wanted, and {file} is not among the slices given to the sink")
        batches += reader.open_at(slices[file], BitMap64(positions))
    found = pa.Table.from_batches(batches).combine_chunks() if batches else None
    places: dict[tuple[str, int], int] = {}
    if found is not None:
        places = {
            place: number
            for number, place in enumerate(zip(found.column(FILE).to_pylist(), found.column(POSITION).to_pylist()))
        }
    wanted = list(zip(rows.field("file").to_pylist(), rows.field("position").to_pylist()))
    lacking = [place for place in wanted if place not in places]
    if lacking or found is None:
        raise InvalidPageError(f"there is no row {lacking[0][1]} in {lacking[0][0]}" if lacking else "no row is named")
    chosen = found.take([places[place] for place in wanted]).select(list(target.schema.names)).combine_chunks()
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in chosen.columns], schema=chosen.schema)
