"""Tables as streams: new rows or changes, version by version, and the rows of streams into tables exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import DataType, StructType

from tablespec import NewFile, Schema, Table, TableSpecError
from tablespec_spark.destination import Destination, Plan, Written, outcome
from tablespec_spark.options import Options, invalid
from tablespec_spark.runner import arrow_rows
from tablespec_spark.schema import spark_schema

_FILES_PER_TRIGGER = 1000
_PARTITION_BYTES = 128 << 20
_QUERY = "sql.streaming.queryId"


class Piece(Protocol):
    """A part of a stretch of versions that is not taken apart any more: mostly one file."""

    @property
    def size(self) -> int: ...
    def read(self) -> Iterator[pa.RecordBatch]: ...


@attrs.frozen(kw_only=True)
class Offset:
    """How far a stream has come: all of `version`, and so many pieces of what is new between it and `upto`.

    Pieces depend on what is read, so an offset among them says what that was.
    """

    table: str
    version: int
    upto: int | None = None
    pieces: int = 0
    reading: str = ""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Offset:
        """An offset as Spark keeps it."""
        return cls(**stored)

    @property
    def stored(self) -> dict[str, Any]:
        """What Spark keeps."""
        partly = {} if self.upto is None else {"upto": self.upto, "pieces": self.pieces, "reading": self.reading}
        return {"table": self.table, "version": self.version, **partly}


@attrs.define
class StreamColumnsChangedError(TableSpecError):
    """The table has got other columns since the stream began."""

    table: str
    version: int
    before: str
    after: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {self.table} has the columns {self.after}, and the stream began with {self.before}; "
            "start it again from its checkpoint to go on with the new ones"
        )


@attrs.define
class StreamTableReplacedError(TableSpecError):
    """What the stream has read of is not there any more."""

    table: str
    why: str

    def __str__(self) -> str:
        return f"{self.table} is not the table that the stream has read: {self.why}; begin with a new checkpoint"


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is new in a table, or what changed, from version to version.

    `version` is the one whose columns the stream has: older versions are read with these columns, newer ones must have them.
    """

    def __init__(self, options: Options, schema: StructType, version: int) -> None:
        self._options = options
        self._schema = schema
        self._version = version
        self._last: int | None = None
        self._planned: tuple[tuple[int, int], list[Piece]] | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Before the first version that is asked for."""
        asked, newest = self._options.text("startingVersion"), self._newest()
        after = newest if asked == "latest" else self._options.after(self._table)
        if after > newest:
            raise invalid("startingVersion", asked or "", f"latest, or a version up to {newest + 1}")
        return Offset(table=self._table.info.id, version=after).stored

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch, as the options limit it."""
        begin = Offset.of(start)
        newest = self._newest() if self._last is None else self._last
        self._check_same(begin, newest)
        if isinstance(limit, ReadAllAvailable):
            return Offset(table=begin.table, version=max(newest, begin.version)).stored
        upto = self._next_version(begin.version, newest) if begin.upto is None else begin.upto
        if upto <= begin.version:
            return start
        pieces = self._pieces(begin.version, upto)
        end = self._admitted(pieces, begin.pieces)
        if end >= len(pieces):
            return Offset(table=begin.table, version=upto).stored
        return attrs.evolve(begin, upto=upto, pieces=end, reading=self._reading).stored

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit that is none of Spark's kinds: `latestOffset` knows the options."""
        return ReadMaxBytes(2**63 - 1)

    def reportLatestOffset(self) -> dict[str, Any]:
        """The newest version, for who watches the query."""
        return Offset(table=self._table.info.id, version=self._newest()).stored

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on is left for the next run."""
        self._last = self._newest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The pieces between two offsets, small ones together."""
        self._check_same(Offset.of(end), self._newest())
        groups: list[list[Piece]] = []
        size = 0
        for piece in self._between(Offset.of(start), Offset.of(end)):
            if not groups or size + piece.size > _PARTITION_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(piece)
            size += piece.size
        return [InputPartition(tuple(group)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        return arrow_rows(partition.value, self._schema)

    @cached_property
    def _table(self) -> Table:
        return self._options.table()

    def _newest(self) -> int:
        return self._table.instant().version

    def _check_same(self, offset: Offset, newest: int) -> None:
        if offset.table != self._table.info.id:
            why = f"it has the id {self._table.info.id}, and the offset is one of {offset.table}"
            raise StreamTableReplacedError(self._table.url, why)
        if newest < offset.version:
            why = f"its newest version is {newest}, and the stream has come to {offset.version}"
            raise StreamTableReplacedError(self._table.url, why)
        if offset.upto is not None and offset.reading != self._reading:
            raise invalid("readingMode and where", self._reading, f"{offset.reading} until a cut batch is done")

    def _next_version(self, after: int, newest: int) -> int:
        most = self._options.number("maxVersionsPerTrigger", least=1)
        if most is None:
            return newest
        ahead = self._table.timeline.between(after, newest).instants[:most]
        return ahead[-1].version if ahead else newest

    def _admitted(self, pieces: Sequence[Piece], done: int) -> int:
        """So many pieces are delivered after the next batch: one at least, and no more than the options let in."""
        most_files = self._options.number("maxFilesPerTrigger", least=1) or _FILES_PER_TRIGGER
        most_bytes = self._options.number("maxBytesPerTrigger", least=1)
        size = 0
        for number in range(done, min(len(pieces), done + most_files)):
            size += pieces[number].size
            if most_bytes is not None and size > most_bytes and number > done:
                return number
        return min(len(pieces), done + most_files)

    def _between(self, start: Offset, end: Offset) -> list[Piece]:
        found: list[Piece] = []
        version = start.version
        if start.upto is not None:
            last = end.pieces if (end.version, end.upto) == (start.version, start.upto) else None
            found += self._pieces(start.version, start.upto)[start.pieces : last]
            version = start.upto
        if end.version > version:
            found += self._pieces(version, end.version)
        if end.upto is not None and end.upto > version:
            found += self._pieces(end.version, end.upto)[: end.pieces]
        return found

    def _pieces(self, after: int, upto: int) -> list[Piece]:
        """What is new after a version, in an order that is always the same."""
        if self._planned is None or self._planned[0] != (after, upto):
            self._planned = (after, upto), self._plan(after, upto)
        return self._planned[1]

    def _plan(self, after: int, upto: int) -> list[Piece]:
        where, names = self._options.text("where"), self._schema.fieldNames()
        found = self._columns_at(upto)
        if _types(found) == _types(self._schema):
            return list(self._read(after, upto, where, names).tasks(target_bytes=1))
        if upto > self._version:
            raise StreamColumnsChangedError(self._table.url, upto, self._schema.simpleString(), found.simpleString())
        # A batch that was begun before the columns changed: its rows get the columns that the stream has now.
        now: Any = self._read(self._version, self._version, None, names)
        reader = {"schema": now.schema, "reader": self._table.slice_reader(self._version)}
        changed = reader if self._changes else {"reader": now.reader}
        return [attrs.evolve(piece, **changed) for piece in self._read(after, upto, where, None).tasks(target_bytes=1)]

    @property
    def _reading(self) -> str:
        return " where ".join([self._options.reading("incremental"), *filter(None, [self._options.text("where")])])

    @property
    def _changes(self) -> bool:
        return self._options.reading("incremental") == "changes"

    def _read(self, after: int, upto: int, where: str | None, names: Sequence[str] | None) -> Any:
        read = self._table.changes if self._changes else self._table.incremental
        return read(after, upto, where, names)

    def _columns_at(self, version: int) -> StructType:
        """The columns of a version that the stream is about: all, or those that were chosen."""
        everything = spark_schema(self._read(version, version, None, None).schema)
        if self._all_columns:
            return everything
        chosen = [field for name in self._schema.fieldNames() for field in everything.fields if field.name == name]
        return StructType(chosen)

    @cached_property
    def _all_columns(self) -> bool:
        everything: Schema = self._read(self._version, self._version, None, None).schema
        return list(everything.names) == self._schema.fieldNames()


def _types(columns: StructType) -> list[tuple[str, DataType]]:
    return [(field.name, field.dataType) for field in columns.fields]


class StreamWritten(Written):
    """What one task of a batch did, for which query, and by which plan; only the first task tells the plan."""

    def __init__(self, done: tuple[NewFile, ...] | TableSpecError, query: str | None, plan: Plan | None) -> None:
        super().__init__(done)
        self.query = query
        self.plan = plan


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch in the tasks that have its rows and commits it under its number, so that it is never done twice.

    The log of the table keeps the number of the last batch of each query, under the id that the checkpoint of the query has.
    """

    def __init__(self, destination: Destination, schema: StructType) -> None:
        self._destination = destination
        columns = to_arrow_schema(schema, timezone="UTC")
        # Made at once, and not with the first batch: a batch that was cut off leaves files, and then this would be no place for a table.
        destination.create(columns)
        self._plan = destination.plan(columns)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one attempt of a task under names of its own."""
        context = TaskContext.get()
        assert context is not None
        plan = self._plan if context.partitionId() == 0 else None
        return StreamWritten(outcome(self._plan, iterator), context.getLocalProperty(_QUERY), plan)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Commit a batch, unless the table has it."""
        told: Sequence[StreamWritten] = messages
        plan = next((message.plan for message in told if message.plan is not None), None)
        if plan is None:
            return
        query = next((message.query for message in told if message.query), None)
        if query is None:
            self._destination.discard(told)
            raise invalid("format", "tablespec", "a query of Spark's streaming engine, which has an id")
        self._destination.commit(plan, told, (query, batchId))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove what was written, unless it may be committed."""
        self._destination.abort(messages)
