"""Merging a source that an engine holds in many places.

Rows of the source and of the table are given the same columns, so that an engine can send those with equal keys to one worker. There
partners are found, and what happens to rows becomes pages; those about the same files are sent to one worker again, which stores them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tablespec.arrow.convert import by_logical_name, convert
from tablespec.arrow.schema import arrow_schema, arrow_type, schema_of
from tablespec.errors import InvalidPageError
from tablespec.expr.nodes import Predicate
from tablespec.model.schema import BYTE, LONG, Field, Schema, StructType
from tablespec.read.task import TaskSlice, shares
from tablespec.write.change_target import ROW, ROW_TYPE, ChangeTarget
from tablespec.write.fit import fitted
from tablespec.write.fragment import Fragment, discard_fragments
from tablespec.write.merge_keys import key_column, with_keys
from tablespec.write.merge_match import Matching, insert_rows, merge_batch
from tablespec.write.merge_plan import OURS, SOURCE, TARGET, KeyValues, MergePlan, needed_columns
from tablespec.write.merge_sink import MergeSink, with_columns
from tablespec.write.newest import Newest

# The columns of exchanged rows, beside those of both sides and the keys: which side a row is from, and its number in the source.
SIDE, ORDER = "_side", "_order"
_OF_SOURCE, _OF_TABLE = 0, 1
_OLD = f"{OURS}old"


@runtime_checkable
class SpreadSource(Protocol):
    """Rows of a source that an engine holds in many places, and can send from one to another."""

    @property
    def arrow_schema(self) -> pa.Schema: ...

    def key_values(self, columns: Sequence[str]) -> Sequence[KeyValues]:
        """What is known of the values of some columns."""
        ...

    def read_all(self) -> pa.Table:
        """The rows, gathered in this process."""
        ...

    def merge(self, work: SpreadMerge, table_rows: Sequence[TableRows]) -> tuple[Fragment, ...]:
        """What workers have stored; when one fails, what the others wrote is removed."""
        ...


@attrs.frozen(kw_only=True)
class SpreadMerge:
    """What workers must know of a merge; plain data.

    `source_rows` and `TableRows` give rows of the columns `exchanged`. An engine sends those that are equal in all `keys` to one worker,
    those of the source first and in their order, and `pages` makes of them what happens to rows, each page with the number of the place
    that it belongs to. The pages of a place go to one worker, where `store` keeps them.
    """

    target: ChangeTarget
    merge: MergePlan
    predicate: Predicate
    source: Schema
    newest: Newest | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of exchanged rows whose values partners share."""
        return tuple(key_column(index) for index in range(len(self.merge.keys)))

    @property
    def sorting(self) -> tuple[str, ...]:
        """The columns by which exchanged rows are put in order on their worker."""
        return (SIDE, ORDER)

    @property
    def nulls_are_alike(self) -> bool:
        """Whether rows without a key must come together, too: they match nothing, but of those that are alike only one may count."""
        return self.newest is not None

    @property
    def read(self) -> Schema:
        """The columns of the table that must be read."""
        names = needed_columns(self.merge, self.target.schema, all_columns=self.target.change_feed)
        return self.target.schema.select(names)

    @property
    def exchanged(self) -> Schema:
        """The columns of rows on their way between workers."""
        types = [self.target.schema.field(column).type for column, _ in self.merge.keys]
        return Schema(
            (
                Field(name=SIDE, type=BYTE),
                Field(name=ORDER, type=LONG),
                *(Field(name=key, type=type_) for key, type_ in zip(self.keys, types)),
                Field(name=SOURCE, type=StructType(self.source.fields)),
                Field(name=TARGET, type=StructType(self.read.fields)),
                *schema_of(pa.schema([(ROW, ROW_TYPE)])),
            )
        )

    def source_rows(self, rows: pa.RecordBatch, order: pa.Array) -> pa.RecordBatch:
        """Rows of the source, whose numbers tell which of them come first."""
        (found,) = fitted(iter([rows]), self.source)
        return self._exchanged(found, _OF_SOURCE, self.merge, {ORDER: order, SOURCE: found.to_struct_array()})

    def table_rows(self, pieces: Sequence[TaskSlice]) -> list[TableRows]:
        """The rows of slices of the table, in pieces that are read by workers."""
        return [TableRows(self, group) for group in shares(pieces)]

    def read_table(self, pieces: Iterable[TaskSlice]) -> Iterator[pa.RecordBatch]:
        """The rows of slices that may have a partner, with where they lie."""
        rows = self.target.placed(self.read.names).push_down_filters(self.predicate)
        its_own_source = attrs.evolve(self.merge, keys=tuple((column, column) for column, _ in self.merge.keys))
        for piece in pieces:
            for batch in rows.open(piece.slice, piece.known):
                ids = self.target.row_ids(batch, piece.slice.group.id)
                own = self.target.unplaced(batch)
                yield self._exchanged(own, _OF_TABLE, its_own_source, {TARGET: own.to_struct_array(), ROW: ids})

    def _exchanged(
        self, rows: pa.RecordBatch, side: int, keyed_as: MergePlan, columns: dict[str, pa.Array]
    ) -> pa.RecordBatch:
        count, schema = rows.num_rows, self.exchanged
        keyed = with_keys(pa.Table.from_batches([rows]), keyed_as, self.target.schema)
        given = {key: keyed.column(key).combine_chunks() for key in self.keys}
        given |= {**columns, SIDE: pa.repeat(pa.scalar(side, pa.int8()), count)}
        arrays = []
        for field in schema:
            wanted = arrow_type(field.type)
            values = given.get(field.name)
            arrays.append(pa.nulls(count, wanted) if values is None else values.cast(wanted))
        return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))

    def pages(self, batches: Iterable[pa.RecordBatch], places: int) -> Iterator[tuple[int, bytes]]:
        """What happens to the rows that came to one worker, as pages that belong to some of so many places."""
        pages = _Pages(self.target, places)
        held = list[pa.RecordBatch]()
        matching: Matching | None = None
        matched, read = BitMap(), self.read
        for batch in batches:
            from_table = pc.equal(batch.column(SIDE), _OF_TABLE)
            rows, others = batch.filter(from_table), batch.filter(pc.invert(from_table))
            if others.num_rows:
                if matching is not None:
                    raise InvalidPageError(
                        "a row of the source came after those of the table, which have no partner in it"
                    )
                held.append(others)
            if not rows.num_rows:
                continue
            # Rows of the source come first: now all of them are here.
            matching = matching or self._matching(held)
            if matching.source.num_rows or self.merge.reads_all:
                own = _struct(rows.column(TARGET), read)
                merge_batch(matching, own, rows.column(ROW).cast(ROW_TYPE), pages, matched)
                yield from pages.taken()
        if held:
            matching = matching or self._matching(held)
            insert_rows(self.merge, matching.source, matched, pages)
            yield from pages.taken()

    def _matching(self, held: list[pa.RecordBatch]) -> Matching:
        wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(self.source)])
        rows = pa.Table.from_batches([_struct(batch.column(SOURCE), self.source) for batch in held], wanted)
        if self.newest is not None:
            rows = self.newest.of(rows)
        return Matching.of(self.target, self.merge, with_keys(rows, self.merge, self.target.schema))

    def store(self, pages: Iterable[bytes]) -> tuple[Fragment, ...]:
        """Keep pages; on failure nothing is left behind."""
        sink = MergeSink(self.target)
        try:
            for packed in pages:
                for page in pa.ipc.open_stream(packed):
                    old = page.column(_OLD) if _OLD in page.schema.names else None
                    told = page if old is None else page.drop_columns([_OLD])
                    sink.store_merged_rows(told, None if old is None else pa.RecordBatch.from_struct_array(old))
            return sink.finish()
        except BaseException:
            sink.abort()
            raise

    def discard(self, fragments: Iterable[Fragment]) -> None:
        """Remove what workers wrote."""
        discard_fragments(self.target.storage, fragments)


@attrs.frozen
class TableRows:
    """Rows of slices of the table that take part in a merge; plain data."""

    work: SpreadMerge
    slices: tuple[TaskSlice, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows as they are exchanged."""
        return self.work.read_table(self.slices)


@attrs.define(eq=False)
class _Pages:
    """Takes what happens to rows and shares it out: changes by the group of the row, new rows by their partition or evenly."""

    target: ChangeTarget
    places: int
    _taken: list[tuple[int, bytes]] = attrs.field(factory=list, init=False)

    def store_merged_rows(self, page: pa.RecordBatch, old: pa.RecordBatch | None = None) -> None:
        whole = page if old is None else with_columns(page, {_OLD: old.to_struct_array()})
        numbers = self._places(page)
        for place in pc.unique(numbers).to_pylist():
            self._taken.append((place, _packed(whole.filter(pc.equal(numbers, place)))))

    def taken(self) -> list[tuple[int, bytes]]:
        """What was taken since the last call."""
        taken, self._taken = self._taken, []
        return taken

    def _places(self, page: pa.RecordBatch) -> pa.Array:
        ids = page.column(ROW)
        partitions = [name for name in self.target.write.partition_columns if name in page.schema.names]
        if not ids.null_count:
            columns = [ids.field("group")]
        elif partitions:
            columns = [page.column(name) for name in partitions]
        else:
            return _remainder(pa.arange(0, page.num_rows), self.places)
        return _shared_out(columns, self.places)


def _shared_out(columns: Sequence[pa.Array], places: int) -> pa.Array:
    """A number below `places` for each row, the same for rows that are equal, on whatever worker."""
    codes = [column.dictionary_encode() for column in columns]
    sums = [
        pa.array([zlib.crc32(repr(value).encode()) for value in one.dictionary.to_pylist()], pa.int64())
        .take(one.indices)
        .fill_null(0)
        for one in codes
    ]
    total = sums[0]
    for one in sums[1:]:
        total = pc.add(total, one)
    return _remainder(total, places)


def _remainder(numbers: pa.Array, places: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, places), places))


def _packed(page: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, page.schema) as writer:
        writer.write_batch(page)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _struct(rows: pa.StructArray, schema: Schema) -> pa.RecordBatch:
    """The members of a column in the types of a schema, whatever an engine made of them on the way."""
    wanted = pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])
    columns = [convert(rows.field(index), field, by_logical_name) for index, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
