"""Parquet files opened so that each of their columns comes in the Arrow type that is read in the least time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.arrow.convert import Finder
from tablespec.arrow.schema import is_text
from tablespec.arrow.stats import leaf_indexes
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage

# A buffer makes columns stream page by page; without it whole column chunks sit in memory, which is faster where they are small.
BUFFER_BYTES = 1 << 20
WHOLE_BYTES = 8 << 20


@attrs.frozen(eq=False)
class OpenedFile:
    """A Parquet file whose columns are read in one of two ways, as some types come faster in the one and some in the other.

    `schema_arrow` has the columns under their names, in whatever types.
    """

    file: pq.ParquetFile
    schema_arrow: pa.Schema
    aside: pq.ParquetFile | None = None
    names_aside: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()
        if self.aside is not None:
            self.aside.close()

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer."""
        return self.file.metadata

    @property
    def schema(self) -> pq.ParquetSchema:
        """The columns as Parquet has them."""
        return self.file.schema

    def iter_batches(
        self, batch_size: int, row_groups: Sequence[int], columns: Sequence[str], use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of some row groups; they may come in another order, and with others that were not asked for."""
        aside = [name for name in columns if name in self.names_aside]
        others = [name for name in columns if name not in self.names_aside]
        how = {"batch_size": batch_size, "row_groups": row_groups, "use_threads": use_threads}
        if self.aside is None or not aside:
            yield from self.file.iter_batches(columns=others, **how)
        elif not others:
            yield from self.aside.iter_batches(columns=aside, **how)
        else:
            ways = [self.file.iter_batches(columns=others, **how), self.aside.iter_batches(columns=aside, **how)]
            yield from _side_by_side(ways, (others, aside))


def open_parquet(storage: Storage, path: str) -> pq.ParquetFile:
    """The Parquet file at `path`."""
    return _opened(_source(storage, path))


def open_rows(storage: Storage, path: str, wanted: Schema, find: Finder, seldom: Collection[str] = ()) -> OpenedFile:
    """The Parquet file at `path`, to read columns of which few rows will be left of those in `seldom`.

    Texts of those that lie in dictionaries stay in them, and all other texts come as large ones, which are made faster, but not those
    inside of other types, as these would have to be made anew.
    """
    local = storage.local_path(path)
    # Opened once for both: the second look knows the footer.
    source = _source(storage, path) if local is None else pa.OSFile(local)
    file = _opened(source, buffer=0, large_texts=True)
    schema = file.schema_arrow
    top = list(schema)
    place = find(top)
    found = [(field.name, top[index]) for field in wanted if (index := place(field)) is not None]
    texts = dict.fromkeys(one.name for name, one in found if name in seldom and is_text(one.type))
    kept = _in_dictionaries(file.metadata, texts)
    aside = frozenset([*kept, *(one.name for _, one in found if _has_large_parts(one.type))])
    buffer = 0 if _largest_group(file.metadata) <= WHOLE_BYTES else BUFFER_BYTES
    if buffer:
        file = _opened(source, footer=file.metadata, buffer=buffer, large_texts=True)
    return OpenedFile(file, schema, _opened(source, kept, file.metadata, buffer) if aside else None, aside)


def _source(storage: Storage, path: str) -> str | pa.PythonFile:
    local = storage.local_path(path)
    return local if local is not None else pa.PythonFile(storage.open(path), mode="r")


def _opened(
    source: str | pa.NativeFile,
    dictionaries: Sequence[str] = (),
    footer: pq.FileMetaData | None = None,
    buffer: int = BUFFER_BYTES,
    *,
    large_texts: bool = False,
) -> pq.ParquetFile:
    return pq.ParquetFile(
        source,
        metadata=footer,
        read_dictionary=list(dictionaries),
        binary_type=pa.large_binary() if large_texts else None,
        # Timestamps of the old 96-bit kind come as microseconds, which cover all years.
        coerce_int96_timestamp_unit="us",
        pre_buffer=False,
        buffer_size=buffer,
    )


def _largest_group(footer: pq.FileMetaData) -> int:
    return max((footer.row_group(group).total_byte_size for group in range(footer.num_row_groups)), default=0)


def _has_large_parts(arrow: pa.DataType) -> bool:
    """Whether a type is made of others with a large text or binary among them."""
    members = [arrow.field(index).type for index in range(arrow.num_fields)]
    return any(
        pa.types.is_large_string(member) or pa.types.is_large_binary(member) or _has_large_parts(member)
        for member in members
    )


def _in_dictionaries(footer: pq.FileMetaData, texts: Collection[str]) -> list[str]:
    """The columns whose values are nothing but places in a dictionary, in every row group."""
    if not texts:
        return []
    leaves = leaf_indexes(footer)
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    # A name with dots that stands for two leaves is not among them.
    known = [name for name in texts if name in leaves]
    return [name for name in known if all(_in_dictionary(group.column(leaves[name])) for group in groups)]


def _in_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    # A text by itself takes at least four bytes.
    return "RLE_DICTIONARY" in chunk.encodings and chunk.total_uncompressed_size < 4 * chunk.num_values


def _side_by_side(ways: list[Iterator[pa.RecordBatch]], names: Sequence[Sequence[str]]) -> Iterator[pa.RecordBatch]:
    """Batches with the columns of two readings of the same rows, of each those that it was asked for."""
    first, second = (next(way, None) for way in ways)
    while first is not None and second is not None:
        rows = min(first.num_rows, second.num_rows)
        yield _joined([batch.slice(0, rows) for batch in (first, second)], names)
        first, second = (
            batch.slice(rows) if rows < batch.num_rows else next(way, None) for batch, way in zip((first, second), ways)
        )


def _joined(batches: Sequence[pa.RecordBatch], names: Sequence[Sequence[str]]) -> pa.RecordBatch:
    columns, fields = list[pa.Array](), list[pa.Field]()
    for batch, wanted in zip(batches, names):
        # A name with dots in it selects a leaf of another column too, of which the rest comes in the other way.
        numbered = reversed(list(enumerate(batch.schema)))
        places = {field.name: (index, field) for index, field in numbered}
        for index, field in map(places.__getitem__, wanted):
            columns.append(batch.column(index))
            fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
