"""New rows on their way into files, in this process or wherever an engine holds them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol, runtime_checkable

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import matching
from tablespec.arrow.row_text import row_text
from tablespec.arrow.schema import arrow_schema
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import CommitConflictError, ReplaceWhereMismatchError
from tablespec.expr.nodes import TRUE, Predicate, columns_of
from tablespec.expr.render import render
from tablespec.formats.base import NewFile
from tablespec.formats.layout import WriteLayout
from tablespec.model.stats import FileStats
from tablespec.storage.store import Storage
from tablespec.write.check import Constraints, verified
from tablespec.write.data_file import Buffers, by_partition, write_files
from tablespec.write.fit import as_stored, fitted


@attrs.frozen(kw_only=True)
class RowWriter:
    """Writes rows into new files that nobody can see yet; plain data that travels to workers.

    Every row must satisfy the constraints, and the predicate must be true for it. With `dry` nothing is written: rows are held against
    these, and counted for files that are not there, one for each partition.
    `planned_on` is the version that the table had, where the files are committed in a step of its own.
    """

    storage: Storage
    layout: WriteLayout
    rules: Constraints
    predicate: Predicate = TRUE
    buffers: Buffers = Buffers()
    dry: bool = False
    planned_on: int | None = attrs.field(default=None, eq=False)

    def write(self, batches: pa.RecordBatchReader) -> tuple[NewFile, ...]:
        """The files that hold the rows now; when anything fails, no file is left behind."""
        checked = verified(self._satisfying(fitted(batches, self.layout.schema)), self.rules)
        if self.dry:
            return _unwritten(checked, self.layout.partition_columns)
        return write_files(self.storage, self.layout, checked, self.buffers)

    def _satisfying(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows as they will be read back; the first for which the predicate is not true then raises."""
        for batch in batches:
            stored = as_stored(batch, self.layout.partition_columns)
            if self.predicate != TRUE:
                held = matching(self.predicate, stored)
                if not pc.all(held).as_py():
                    self._refuse(stored, batch, pc.index(held, False).as_py())
            yield stored

    def _refuse(self, stored: pa.RecordBatch, given: pa.RecordBatch, row: int) -> NoReturn:
        asked = sorted({path[0] for path in columns_of(self.predicate)})
        emptied = tuple(name for name in asked if given[name][row].is_valid and not stored[name][row].is_valid)
        raise ReplaceWhereMismatchError(self.storage.url, render(self.predicate), row_text(stored, row), emptied)


def _unwritten(batches: Iterator[pa.RecordBatch], partition_columns: tuple[str, ...]) -> tuple[NewFile, ...]:
    """The files that the rows would go to, unless they are so many that a partition gets more than one."""
    counts: Counter[str] = Counter()
    partitions: dict[str, tuple[object, ...]] = {}
    for batch in batches:
        for values, rows in by_partition(batch, partition_columns):
            # By their texts the two zeros differ and NaN is the same as NaN, as in folders.
            partitions[repr(values)] = values
            counts[repr(values)] += rows.num_rows
    return tuple(
        NewFile(
            # A name of its own: whoever takes it away again meets no other file.
            path=f"{uuid.uuid4()}.parquet",
            size=0,
            modified=0,
            partition_values=values,
            stats=FileStats(counts[text]),
            group="",
        )
        for text, values in partitions.items()
    )


@runtime_checkable
class SpreadRows(Protocol):
    """Rows that an engine holds in many places and writes there; `write` tells the files of all of them."""

    @property
    def arrow_schema(self) -> pa.Schema: ...
    def write(self, writer: RowWriter) -> tuple[NewFile, ...]: ...


@runtime_checkable
class KeyedRows(SpreadRows, Protocol):
    """Rows that an engine holds in many places and can look through before it writes them; they stay the same meanwhile."""

    def distinct(self, columns: Sequence[str]) -> pa.Table:
        """The different values that some columns have together."""
        ...


@attrs.frozen(eq=False)
class LocalRows:
    """Rows that come to this process as a stream."""

    batches: pa.RecordBatchReader

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.batches.schema

    def write(self, writer: RowWriter) -> tuple[NewFile, ...]:
        """The files that hold the rows now."""
        return writer.write(self.batches)


@attrs.frozen(eq=False)
class WrittenRows:
    """Rows that lie in files already, written by a writer that was made for the table as it was; `newest` is its newest version."""

    writer: RowWriter
    files: tuple[NewFile, ...]
    newest: int

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows."""
        return arrow_schema(self.writer.layout.schema)

    def write(self, writer: RowWriter) -> tuple[NewFile, ...]:
        """The files, unless rows would have to be written in another way by now."""
        if attrs.evolve(writer, dry=False) != self.writer:
            why = "since rows were written for it, the schema, the properties or the constraints of the table changed"
            raise CommitConflictError(writer.storage.url, "WRITE", self.newest, why)
        return self.files


NewRows = ArrowStream | SpreadRows


def new_rows(data: NewRows) -> SpreadRows:
    """Rows of any kind as rows that can be written where they are."""
    return data if isinstance(data, SpreadRows) else LocalRows(record_batches(data))
