"""The table whose rows move, as workers know it, and its rows on their way out of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.errors import CorruptFileError, DataFileMissingError, TableSpecError, TypeMismatchError
from tablespec.formats.base import SliceCodec
from tablespec.formats.layout import ReadLayout, WriteLayout
from tablespec.model.file import FileSlice
from tablespec.model.reading import ReadOptimized
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class RewriteTarget:
    """What a worker must know of the table whose rows move; plain data."""

    storage: Storage
    read: ReadLayout
    codec: SliceCodec
    write: WriteLayout

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that move: those of the table, and the hidden ones that say which row is which."""
        tracked = (ROW_ID, ROW_COMMIT_VERSION) if self.write.row_id_column else ()
        return (*self.write.schema.names, *tracked)

    def rows(self, slice_: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The live rows of a slice; one that cannot be read, or not as the log tells of it, raises UnreadableSliceError."""
        try:
            yield from self._live(slice_, columns)
        except (CorruptFileError, DataFileMissingError, TypeMismatchError) as error:
            raise UnreadableSliceError(logged_path(slice_), str(error)) from error

    def _live(self, slice_: FileSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        reader = FileSliceReader(storage=self.storage, layout=self.read, codec=self.codec)
        deleted = reader.deleted(slice_) or BitMap64()
        reader, live = attrs.evolve(reader, codec=_Known(deleted)), 0
        for batch in reader.project(tuple(columns)).open(slice_):
            self._check_values(slice_, batch)
            live += batch.num_rows
            yield batch
        told = None if slice_.base is None else slice_.base.rows
        # Where the last rows are deleted, those that are left do not tell whether these are there.
        if told is not None and (live + len(deleted) != told or (deleted and deleted.max() >= told - 1)):
            self._check_count(slice_, _rows_in_file(reader, slice_), told, deleted)

    def _check_values(self, slice_: FileSlice, batch: pa.RecordBatch) -> None:
        for field in self.write.schema:
            stored = field.name in batch.schema.names and field.name not in self.write.partition_columns
            if stored and not field.nullable and batch.column(field.name).null_count:
                raise self._damaged(slice_, f"it has nulls in the column {field.name}, in which none may be")

    def _check_count(self, slice_: FileSlice, rows: int, told: int, deleted: BitMap64) -> None:
        if rows != told:
            # What moves is what is there: rows that are missing would be missing for good.
            raise self._damaged(slice_, f"the number of its rows is {rows}, and {told} by the log")
        if deleted and deleted.max() >= rows:
            raise self._damaged(slice_, f"row {deleted.max()} is deleted, and the number of its rows is {rows}")

    def _damaged(self, slice_: FileSlice, why: str) -> CorruptFileError:
        return CorruptFileError(self.storage.url, logged_path(slice_), why)


@attrs.define
class UnreadableSliceError(TableSpecError):
    """A slice cannot be read; whoever rewrites it goes on without it."""

    path: str
    why: str

    def __str__(self) -> str:
        return self.why


def logged_path(slice_: FileSlice) -> str:
    """How the log spells the path of the base file of a slice."""
    assert slice_.base is not None
    return slice_.base.logged_as


@attrs.frozen
class _Known:
    """A codec that knows which rows of the slice are deleted."""

    deleted: BitMap64

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64:
        return self.deleted


def _rows_in_file(reader: FileSliceReader, slice_: FileSlice) -> int:
    """The number of rows in the base file, deleted ones too; its footer tells."""
    counting = reader.reading_mode(ReadOptimized()).project(())
    return sum(batch.num_rows for batch in counting.open(slice_))
