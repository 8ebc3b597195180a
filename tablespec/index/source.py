"""The values that are indexed: columns of base files, row by row, deleted rows included."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.base import SliceCodec
from tablespec.formats.layout import ReadLayout
from tablespec.index.segment import Covered, Definition, field_of
from tablespec.model.file import FileSlice
from tablespec.model.reading import ReadOptimized
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class BuildSource:
    """How the columns of an index are read; plain data."""

    storage: Storage
    layout: ReadLayout
    codec: SliceCodec
    definition: Definition
    reading: str

    def values(self, slice_: FileSlice) -> Iterator[tuple[int, list[pa.Array]]]:
        """The indexed columns of a base file, batch by batch, each with the position of its first row."""
        paths = [self._path(name) for name in self.definition.columns]
        reader = FileSliceReader(storage=self.storage, layout=self.layout, codec=self.codec, mode=ReadOptimized())
        reader = reader.project(tuple(dict.fromkeys(path[0] for path in paths)))
        start = 0
        for batch in reader.open(slice_):
            yield start, [column_at(batch, path) for path in paths]
            start += batch.num_rows

    def covered(self, slice_: FileSlice, rows: int) -> Covered:
        """What a segment says about a base file that it covers."""
        assert slice_.base is not None
        return Covered(path=slice_.base.path, size=slice_.base.size, rows=rows)

    def _path(self, name: str) -> tuple[str, ...]:
        found = field_of(name, self.layout.schema)
        assert found is not None
        return tuple(field.name for field in found)


def column_at(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """A column, or a member of a struct."""
    values = batch.column(path[0])
    return pc.struct_field(values, list(path[1:])) if len(path) > 1 else values
