"""Where row changes are stored while a row-changing operation runs: the row-change SPI of an engine, worker side.

A page is a record batch of the table's columns and three more: `_op` says what to do with a row, `_case` which clause of a merge
asked for it, and `_row` is the opaque row id as the page source gave it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.schema import arrow_schema
from tablespec.errors import InvalidPageError
from tablespec.formats.base import NewFile, ReadLayout, SliceCodec, WriteLayout
from tablespec.model import row
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage
from tablespec.write.check import Constraints, verified
from tablespec.write.data_file import CHANGE_TYPE, GROUP, FileWriter
from tablespec.write.fit import as_stored

OP = "_op"
CASE = "_case"
ROW = "_row"
CHANGE_FOLDER = "_change_data"

# Opaque to engines: where the row lies, the group it belongs to, and its id.
ROW_TYPE = pa.struct(
    [
        pa.field("file", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("group", pa.string()),
        pa.field("id", pa.int64()),
    ]
)


class Op(enum.IntEnum):
    """What happens to a row. UPDATE is an UPDATE_DELETE and an UPDATE_INSERT at once, for engines that tell it so."""

    INSERT = 1
    DELETE = 2
    UPDATE = 3
    UPDATE_INSERT = 4
    UPDATE_DELETE = 5


class RowChangeParadigm(enum.Enum):
    """How an engine hands over updates: the changed columns alone, or the old row going and the new one coming."""

    CHANGE_ONLY_UPDATED_COLUMNS = "change only updated columns"
    DELETE_ROW_AND_INSERT_ROW = "delete row and insert row"


_CHANGE_TYPES = {
    Op.INSERT: "insert",
    Op.DELETE: "delete",
    Op.UPDATE_INSERT: "update_postimage",
    Op.UPDATE_DELETE: "update_preimage",
}


@attrs.frozen(kw_only=True)
class ChangeTarget:
    """What a worker must know of the table whose rows change; plain data."""

    storage: Storage
    read: ReadLayout
    codec: SliceCodec
    write: WriteLayout
    rules: Constraints
    change_feed: bool

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self.write.schema


@attrs.frozen(kw_only=True)
class Fragment:
    """What one worker has done: plain data that is handed to the commit.

    `deleted` are the positions that go, by file; sets of the same file from several workers are joined.
    """

    deleted: tuple[tuple[str, bytes], ...] = ()
    added: tuple[NewFile, ...] = ()
    change_files: tuple[NewFile, ...] = ()
    inserted_rows: int = 0
    updated_rows: int = 0
    deleted_rows: int = 0
    copied_rows: int = 0


@attrs.define(eq=False)
class MergeSink:
    """Stores row changes of one worker; nobody sees them before its fragments are committed."""

    target: ChangeTarget
    _deleted: dict[str, BitMap64] = attrs.field(factory=dict)
    _rows: FileWriter | None = None
    _changes: FileWriter | None = None
    _counts: dict[Op, int] = attrs.field(factory=lambda: dict.fromkeys(Op, 0))

    def store_merged_rows(self, page: pa.RecordBatch) -> None:
        """Take a page of row changes; rows to insert must satisfy the constraints of the table."""
        for op, rows in _by_op(page):
            self._counts[op] += rows.num_rows
            match op:
                case Op.DELETE | Op.UPDATE_DELETE:
                    self._delete(rows)
                case Op.INSERT | Op.UPDATE_INSERT:
                    self._insert(rows, op)
                case Op.UPDATE:
                    if self.target.change_feed:
                        raise InvalidPageError(
                            "with the change feed on, an update is told by the old row and the new one"
                        )
                    self._delete(rows)
                    self._insert(rows, op)

    def finish(self) -> tuple[Fragment, ...]:
        """Write what is left and give the fragments of this worker."""
        added = () if self._rows is None else self._rows.finish()
        change_files = () if self._changes is None else self._changes.finish()
        return (
            Fragment(
                deleted=tuple((file, positions.serialize()) for file, positions in self._deleted.items()),
                added=added,
                change_files=change_files,
                inserted_rows=self._counts[Op.INSERT],
                updated_rows=self._counts[Op.UPDATE] + self._counts[Op.UPDATE_INSERT],
                deleted_rows=self._counts[Op.DELETE],
            ),
        )

    def abort(self) -> None:
        """Remove all files that this worker has written."""
        for writer in (self._rows, self._changes):
            if writer is not None:
                writer.abort()

    def _delete(self, rows: pa.RecordBatch) -> None:
        places = rows.column(ROW)
        for file, positions in _positions(places.field("file"), places.field("position")):
            self._deleted.setdefault(file, BitMap64()).update(positions)
        op = Op(rows.column(OP)[0].as_py())
        if self.target.change_feed:
            self._record(rows, _CHANGE_TYPES[op])

    def _insert(self, rows: pa.RecordBatch, op: Op) -> None:
        values = as_stored(rows.select(list(self.target.schema.names)), self.target.write.partition_columns)
        for _ in verified(iter([values]), self.target.rules):
            pass
        if self._rows is None:
            self._rows = FileWriter(self.target.storage, self.target.write)
        if op is Op.INSERT:
            self._rows.write(values)
        else:
            # New versions stay in the group of the old one, and keep the row's id.
            places = rows.column(ROW)
            kept = {row.ROW_ID: places.field("id")} if self.target.write.row_id_column else {}
            self._rows.write(with_columns(values, kept | {GROUP: places.field("group")}))
        if self.target.change_feed:
            self._record(rows, _CHANGE_TYPES[op])

    def _record(self, rows: pa.RecordBatch, change: str) -> None:
        if self._changes is None:
            self._changes = FileWriter(self.target.storage, self.target.write, folder=CHANGE_FOLDER)
        values = rows.select(list(self.target.schema.names))
        self._changes.write(with_columns(values, {CHANGE_TYPE: pa.repeat(pa.scalar(change), rows.num_rows)}))


def page(values: pa.RecordBatch, op: Op, rows: pa.Array | None, schema: Schema, case: int = 0) -> pa.RecordBatch:
    """A page of one operation; columns that `values` lacks are null."""
    count = values.num_rows
    columns = []
    for field in arrow_schema(schema):
        present = values.schema.get_field_index(field.name) >= 0
        columns.append(values.column(field.name) if present else pa.nulls(count, field.type))
    columns += [
        pa.repeat(pa.scalar(int(op), pa.int8()), count),
        pa.repeat(pa.scalar(case, pa.int32()), count),
        pa.nulls(count, ROW_TYPE) if rows is None else rows,
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*schema.names, OP, CASE, ROW])


def row_ids(values: pa.RecordBatch, group: str) -> pa.Array:
    """The opaque row ids of rows that were read with the hidden columns."""
    count = values.num_rows
    return pa.StructArray.from_arrays(
        [
            values.column(row.FILE).cast(pa.string()),
            values.column(row.POSITION),
            pa.repeat(pa.scalar(group), count),
            values.column(row.ROW_ID),
        ],
        fields=list(ROW_TYPE),
    )


def with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch with further columns at the end."""
    for name, values in columns.items():
        batch = batch.append_column(name, values)
    return batch


def joined(fragments: Sequence[Fragment]) -> dict[str, BitMap64]:
    """The deleted positions of every file, over all fragments."""
    deleted: dict[str, BitMap64] = {}
    for fragment in fragments:
        for file, positions in fragment.deleted:
            deleted.setdefault(file, BitMap64()).update(BitMap64.deserialize(positions))
    return deleted


def _by_op(page: pa.RecordBatch) -> Iterator[tuple[Op, pa.RecordBatch]]:
    codes = page.column(OP)
    for code in sorted(pc.unique(codes).to_pylist()):
        rows = page if pc.all(pc.equal(codes, code)).as_py() else page.filter(pc.equal(codes, code))
        yield Op(code), rows


def _positions(files: pa.Array, positions: pa.Array) -> Iterator[tuple[str, list[int]]]:
    for file in pc.unique(files).to_pylist():
        of_file = positions.filter(pc.equal(files, file))
        yield file, of_file.to_pylist()
