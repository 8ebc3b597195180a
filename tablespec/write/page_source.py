"""Pages of one slice whose rows can be changed: the older face of the row-change SPI, over the merge sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from tablespec.errors import InvalidPageError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.model.file import FileSlice
from tablespec.write.change_target import ROW, ChangeTarget, RowOp, checked_row_ids
from tablespec.write.fragment import Fragment
from tablespec.write.merge_sink import MergeSink, RowChangeParadigm, going, page


@attrs.define(eq=False)
class UpdatablePageSource:
    """Reads the rows of a slice page by page, each row with its opaque row id, and takes deletes and updates of them.

    It pickles before its first page. What an update does not hand over is taken from the page that was given last, or read once more.
    """

    target: ChangeTarget
    slice: FileSlice
    predicate: Predicate = TRUE
    _pages: Iterator[pa.RecordBatch] | None = attrs.field(default=None, init=False, repr=False)
    _last: pa.RecordBatch | None = attrs.field(default=None, init=False, repr=False)
    _sink: MergeSink = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._sink = MergeSink(self.target, (self.slice,), RowChangeParadigm.CHANGE_ONLY_UPDATED_COLUMNS)

    def get_next_page(self) -> pa.RecordBatch | None:
        """The next page: the columns of the table and `_row`; None after the last."""
        if self._pages is None:
            rows = self.target.placed(self.target.schema.names).push_down_filters(self.predicate)
            self._pages = rows.open(self.slice)
        batch = next(self._pages, None)
        names = list(self.target.schema.names)
        self._last = batch and batch.select(names).append_column(ROW, self.target.row_ids(batch, self.slice.group.id))
        return self._last

    def delete_rows(self, rows: pa.Array) -> None:
        """Delete the rows with these row ids."""
        ids = checked_row_ids(rows)
        self._sink.store_merged_rows(going(ids), self._of_last_page(ids))

    def update_rows(self, changed: pa.RecordBatch, channels: Sequence[int]) -> None:
        """Update rows: `channels` are the positions in `changed` of the updated columns and, last, of the row ids."""
        if not channels or not all(0 <= channel < changed.num_columns for channel in channels):
            raise InvalidPageError(
                f"channels are positions of the {changed.num_columns} columns of the page, not {channels}"
            )
        ids = checked_row_ids(changed.column(channels[-1]))
        self._sink.store_merged_rows(page(changed.select(channels[:-1]), RowOp.UPDATE, ids), self._of_last_page(ids))

    def finish(self) -> tuple[Fragment, ...]:
        """The fragments of this slice, for the commit."""
        return self._sink.finish()

    def abort(self) -> None:
        """Remove what was written; once the fragments are given, that is up to the handle."""
        self._sink.abort()

    def _of_last_page(self, rows: pa.Array) -> pa.RecordBatch | None:
        """The rows of the last page with these row ids; None unless all are there."""
        if self._last is None:
            return None
        places = self._last.column(ROW).field("position").to_pylist()
        index = {position: number for number, position in enumerate(places)}
        wanted = [index.get(position) for position in rows.field("position").to_pylist()]
        return None if None in wanted else self._last.take(pa.array(wanted, pa.int64()))
