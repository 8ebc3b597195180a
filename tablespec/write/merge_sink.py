"""Where row changes are stored while a row-changing operation runs: the row-change SPI of an engine, worker side.

A page is a record batch of columns of the table and three more: `_op` says what to do with a row, `_case` which clause of a merge
asked for it, and `_row` is the opaque row id as the page source gave it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.convert import by_logical_name, convert, nulls
from tablespec.errors import InvalidPageError
from tablespec.model import row
from tablespec.model.change import CHANGE_TYPE, ChangeType
from tablespec.model.file import FileSlice
from tablespec.model.schema import Schema
from tablespec.write.change_target import (
    ROW,
    ROW_TYPE,
    ChangeTarget,
    RowOp,
    checked_row_ids,
    positions_by_file,
    stored_rows,
)
from tablespec.write.check import verified
from tablespec.write.data_file import GROUP, FileWriter
from tablespec.write.fragment import Fragment, Positions

OP = "_op"
CASE = "_case"
CHANGE_FOLDER = "_change_data"


class RowChangeParadigm(enum.Enum):
    """How an engine hands over updates: the changed columns alone, or the old row going and the new one coming."""

    CHANGE_ONLY_UPDATED_COLUMNS = "change only updated columns"
    DELETE_ROW_AND_INSERT_ROW = "delete row and insert row"


_Positions = dict[str, BitMap64]
_CHANGE_TYPES = {
    RowOp.INSERT: ChangeType.INSERT,
    RowOp.DELETE: ChangeType.DELETE,
    RowOp.UPDATE_INSERT: ChangeType.UPDATE_POSTIMAGE,
    RowOp.UPDATE_DELETE: ChangeType.UPDATE_PREIMAGE,
}


@attrs.define(eq=False)
class MergeSink:
    """Stores row changes of one worker; nobody sees them before its fragments are committed.

    Under CHANGE_ONLY_UPDATED_COLUMNS a row to UPDATE is completed from the stored row: new are the columns that `cases` names for its
    `_case`, or else those that the page has. Stored rows are found in `slices`; they are read only where they are needed, which is for
    such updates and, with the change feed on, for all rows that go.
    """

    target: ChangeTarget
    slices: Sequence[FileSlice] = attrs.field(default=(), repr=False)
    paradigm: RowChangeParadigm = RowChangeParadigm.DELETE_ROW_AND_INSERT_ROW
    cases: Mapping[int, Sequence[str]] = attrs.field(factory=dict)
    _deleted: _Positions = attrs.field(factory=dict, init=False, repr=False)
    _left: _Positions = attrs.field(factory=dict, init=False, repr=False)
    _returned: _Positions = attrs.field(factory=dict, init=False, repr=False)
    _rows: FileWriter | None = attrs.field(default=None, init=False, repr=False)
    _changes: FileWriter | None = attrs.field(default=None, init=False, repr=False)
    _counts: dict[RowOp, int] = attrs.field(factory=lambda: dict.fromkeys(RowOp, 0), init=False, repr=False)

    _handed_over: bool = attrs.field(default=False, init=False)
    _aborted: bool = attrs.field(default=False, init=False)

    def store_merged_rows(self, page: pa.RecordBatch, old: pa.RecordBatch | None = None) -> None:
        """Take a page of row changes; rows to insert must satisfy the constraints of the table.

        `old` are the rows of the page as they were, in all columns of the table, where the caller has them at hand.
        """
        self._check_open()
        for op, case, chosen in _alike(page):
            if op not in self.target.ops:
                allowed = ", ".join(one.name for one in sorted(self.target.ops))
                raise InvalidPageError(f"{op.name} is not among what this operation was begun for: {allowed}")
            rows = page if chosen is None else page.filter(chosen)
            before = old if chosen is None or old is None else old.filter(chosen)
            self._store(op, case, rows, before)
            self._counts[op] += rows.num_rows

    def settle(self, group: str) -> None:
        """No more new versions of rows of a file group come: they can be written while others are looked for."""
        if self._rows is not None:
            self._rows.settle(group)

    def finish(self) -> tuple[Fragment, ...]:
        """Write what is left and give the fragments of this worker."""
        self._check_open()
        added = () if self._rows is None else self._rows.finish()
        change_files = () if self._changes is None else self._changes.finish()
        self._handed_over = True
        return (
            Fragment(
                operation_id=self.target.operation_id,
                deleted=_serialized(self._deleted),
                left=_serialized(self._left),
                returned=_serialized(self._returned),
                added=added,
                change_files=change_files,
                inserted_rows=self._counts[RowOp.INSERT],
                updated_rows=self._counts[RowOp.UPDATE] + self._counts[RowOp.UPDATE_INSERT],
                deleted_rows=self._counts[RowOp.DELETE],
            ),
        )

    def abort(self) -> None:
        """Remove all files that this worker has written; once its fragments are given, that is up to the handle, which may commit them."""
        self._aborted = True
        for writer in (self._rows, self._changes):
            if writer is not None and not self._handed_over:
                writer.abort()

    def _check_open(self) -> None:
        if self._aborted:
            raise InvalidPageError(
                "what was stored here was removed by an abort; begin with a sink or page source anew"
            )

    def _store(self, op: RowOp, case: int, rows: pa.RecordBatch, old: pa.RecordBatch | None) -> None:
        ids = rows.column(ROW) if op is RowOp.INSERT else checked_row_ids(rows.column(ROW))
        match op:
            case RowOp.INSERT:
                self._insert(_columns(rows, self.target.schema), None)
            case RowOp.UPDATE_INSERT:
                whole = self._whole(rows)
                _note(ids, self._returned)
                self._insert(whole, ids)
            case RowOp.DELETE | RowOp.UPDATE_DELETE:
                _note(ids, self._deleted)
                if op is RowOp.UPDATE_DELETE:
                    _note(ids, self._left)
                if self.target.change_feed:
                    self._record(self._stored(ids, old), op)
            case RowOp.UPDATE:
                partly = self.paradigm is RowChangeParadigm.CHANGE_ONLY_UPDATED_COLUMNS
                before = self._stored(ids, old) if partly or self.target.change_feed else None
                new = self._completed(rows, case, before) if partly and before is not None else self._whole(rows)
                _note(ids, self._deleted)
                if before is not None and self.target.change_feed:
                    self._record(before, RowOp.UPDATE_DELETE)
                self._insert(new, ids)

    def _stored(self, ids: pa.Array, old: pa.RecordBatch | None) -> pa.RecordBatch:
        if old is not None:
            return old.select(list(self.target.schema.names))
        slices = {one.base.logged_as: one for one in self.slices if one.base is not None}
        return stored_rows(self.target, slices, ids)

    def _completed(self, rows: pa.RecordBatch, case: int, old: pa.RecordBatch) -> pa.RecordBatch:
        """The stored rows with the columns that the page changes."""
        schema = self.target.schema
        given = self.cases.get(case, [name for name in rows.schema.names if name not in (OP, CASE, ROW)])
        changed = {schema.field(name).name for name in given}
        new = _columns(rows, schema, changed)
        columns = [(new if name in changed else old).column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, names=list(schema.names))

    def _whole(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        given = {name.lower() for name in rows.schema.names}
        lacking = [name for name in self.target.schema.names if name.lower() not in given]
        if lacking:
            way_out = RowChangeParadigm.CHANGE_ONLY_UPDATED_COLUMNS.name
            raise InvalidPageError(
                f"the new version of a row lacks {', '.join(lacking)}; a sink for changed columns alone has the paradigm {way_out}"
            )
        return _columns(rows, self.target.schema)

    def _insert(self, values: pa.RecordBatch, ids: pa.Array | None) -> None:
        values = self.target.as_stored(values, ids)
        for _ in verified(iter([values]), self.target.rules):
            pass
        if self._rows is None:
            self._rows = FileWriter(self.target.storage, self.target.write)
        if ids is None:
            self._rows.write(values)
        else:
            # New versions stay in the group of the old one, and keep the row's id.
            kept = {row.ROW_ID: ids.field("id")} if self.target.write.row_id_column else {}
            self._rows.write(with_columns(values, kept | {GROUP: ids.field("group")}))
        if self.target.change_feed:
            self._record(values, RowOp.INSERT if ids is None else RowOp.UPDATE_INSERT)

    def _record(self, values: pa.RecordBatch, op: RowOp) -> None:
        if self._changes is None:
            self._changes = FileWriter(self.target.storage, self.target.write, folder=CHANGE_FOLDER)
        change = pa.scalar(_CHANGE_TYPES[op].value)
        self._changes.write(with_columns(values, {CHANGE_TYPE: pa.repeat(change, values.num_rows)}))


def _note(ids: pa.Array, places: _Positions) -> None:
    """Keep where rows lie, each of them once."""
    for file, positions in positions_by_file(ids).items():
        known = places.setdefault(file, BitMap64())
        before = len(known)
        known.update(positions)
        if len(known) != before + len(positions):
            raise InvalidPageError(f"a row of {file} is changed twice in one operation")


def _serialized(places: _Positions) -> Positions:
    return tuple((file, positions.serialize()) for file, positions in places.items())


def page(values: pa.RecordBatch, op: RowOp, rows: pa.Array | None, case: int = 0) -> pa.RecordBatch:
    """A page of one operation: some columns of the table for rows to insert or update, and the row ids of those that go."""
    count = values.num_rows
    columns = {
        OP: pa.repeat(pa.scalar(int(op), pa.int8()), count),
        CASE: pa.repeat(pa.scalar(case, pa.int32()), count),
        ROW: pa.nulls(count, ROW_TYPE) if rows is None else rows,
    }
    return with_columns(values, columns)


def going(rows: pa.Array, op: RowOp = RowOp.DELETE) -> pa.RecordBatch:
    """A page of rows that go, by their row ids alone."""
    codes, cases = pa.repeat(pa.scalar(int(op), pa.int8()), len(rows)), pa.repeat(pa.scalar(0, pa.int32()), len(rows))
    return pa.RecordBatch.from_arrays([codes, cases, rows], names=[OP, CASE, ROW])


def with_columns(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch with further columns at the end."""
    names = [*batch.schema.names, *columns]
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=names)


def _alike(page: pa.RecordBatch) -> Iterator[tuple[RowOp, int, pa.Array | None]]:
    """Each operation and case of a page with a mask of its rows; None for all of them."""
    lacking = [name for name in (OP, CASE, ROW) if page.schema.get_field_index(name) < 0]
    if lacking:
        raise InvalidPageError(
            f"a page needs the columns {OP}, {CASE} and {ROW}, and this one lacks {', '.join(lacking)}"
        )
    kinds = _kinds(page)
    unknown = [kind[OP] for kind in kinds if kind[OP] not in list(RowOp)]
    if unknown:
        raise InvalidPageError(
            f"{unknown[0]} is not an operation; they are {', '.join(f'{op.value} {op.name}' for op in RowOp)}"
        )
    for kind in sorted(kinds, key=lambda kind: (kind[OP], kind[CASE] or 0)):
        same = None
        if len(kinds) > 1:
            of_case = pc.is_null(page.column(CASE)) if kind[CASE] is None else pc.equal(page.column(CASE), kind[CASE])
            same = pc.fill_null(pc.and_(pc.equal(page.column(OP), kind[OP]), of_case), False)
        yield RowOp(kind[OP]), kind[CASE] or 0, same


def _kinds(page: pa.RecordBatch) -> list[dict[str, int]]:
    ops, cases = (pc.unique(page.column(name)).to_pylist() for name in (OP, CASE))
    if len(ops) < 2 or len(cases) < 2:
        return [{OP: op, CASE: case} for op in ops for case in cases]
    kinds: list[dict[str, int]] = pa.table(page.select([OP, CASE])).group_by([OP, CASE]).aggregate([]).to_pylist()
    return kinds


def _columns(rows: pa.RecordBatch, schema: Schema, wanted: set[str] | None = None) -> pa.RecordBatch:
    """Columns of the table as a page has them, in the table's types; those that it lacks are null."""
    candidates = list(rows.schema)
    place = by_logical_name(candidates)
    known = {OP, CASE, ROW, *(name.lower() for name in schema.names)}
    strange = [one.name for one in candidates if one.name.lower() not in known]
    if strange:
        raise InvalidPageError(f"a page has the column {strange[0]}, which the table has not")
    columns = {}
    for field in schema:
        if wanted is None or field.name in wanted:
            index = place(field)
            if index is None and wanted is not None:
                raise InvalidPageError(f"the column {field.name} is to be updated, and the page lacks it")
            columns[field.name] = (
                nulls(rows.num_rows, field.type)
                if index is None
                else convert(rows.column(index), field, by_logical_name)
            )
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
