"""Pages of one slice whose rows can be changed: the older face of the row-change SPI, over the merge sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from tablespec.errors import InvalidPageError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.model.file import FileSlice
from tablespec.write.merge_sink import ROW, ChangeTarget, Fragment, MergeSink, Op, page, row_ids
from tablespec.write.row_change import reader


@attrs.define(eq=False)
class UpdatablePageSource:
    """Reads the rows of a slice page by page, each row with its opaque row id, and takes deletes and updates of them.

    Rows to update must be of the page that was given last: their other columns are taken from it.
    """

    target: ChangeTarget
    slice: FileSlice
    predicate: Predicate = TRUE
    _pages: Iterator[pa.RecordBatch] | None = attrs.field(default=None, init=False)
    _last: pa.RecordBatch | None = attrs.field(default=None, init=False)
    _sink: MergeSink = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sink = MergeSink(self.target)

    def get_next_page(self) -> pa.RecordBatch | None:
        """The next page: the columns of the table and `_row`; None after the last."""
        if self._pages is None:
            rows = reader(self.target, self.target.schema.names).push_down_filters(self.predicate)
            self._pages = rows.open(self.slice)
        batch = next(self._pages, None)
        if batch is None:
            self._last = None
            return None
        names = list(self.target.schema.names)
        self._last = batch.select(names).append_column(ROW, row_ids(batch, self.slice.group.id))
        return self._last

    def delete_rows(self, rows: pa.Array) -> None:
        """Delete the rows with these row ids."""
        values = self._of_last_page(rows) if self.target.change_feed else _nothing(len(rows))
        self._sink.store_merged_rows(page(values, Op.DELETE, rows, self.target.schema))

    def update_rows(self, changed: pa.RecordBatch, channels: Sequence[int]) -> None:
        """Update rows: `channels` are the positions in `changed` of the updated columns and, last, of the row ids."""
        rows = changed.column(channels[-1])
        old = self._of_last_page(rows)
        new = {changed.schema.field(channel).name: changed.column(channel) for channel in channels[:-1]}
        for name in new:
            self.target.schema.field(name)
        columns = [new.get(name, old.column(index)) for index, name in enumerate(old.schema.names)]
        self._sink.store_merged_rows(page(old, Op.UPDATE_DELETE, rows, self.target.schema))
        updated = pa.RecordBatch.from_arrays(columns, names=old.schema.names)
        self._sink.store_merged_rows(page(updated, Op.UPDATE_INSERT, rows, self.target.schema))

    def finish(self) -> tuple[Fragment, ...]:
        """The fragments of this slice, for the commit."""
        return self._sink.finish()

    def abort(self) -> None:
        """Remove what was written."""
        self._sink.abort()

    def _of_last_page(self, rows: pa.Array) -> pa.RecordBatch:
        if self._last is None:
            raise InvalidPageError("rows can be changed only after a page was read, and before the next one")
        positions = self._last.column(ROW).field("position").to_pylist()
        index = {position: number for number, position in enumerate(positions)}
        wanted = [index.get(position) for position in rows.field("position").to_pylist()]
        if None in wanted:
            raise InvalidPageError("a row id is not of the page that was read last")
        return self._last.take(pa.array(wanted, pa.int64())).select(list(self.target.schema.names))


def _nothing(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["_"])
