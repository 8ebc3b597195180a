"""The format `tablespec` of `spark.read`, `df.write`, `spark.readStream` and `df.writeStream`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tablespec import Schema, SchemaMismatchError, Table
from tablespec_spark.destination import Destination, Written, outcome
from tablespec_spark.options import READ, READ_STREAM, WRITE, WRITE_STREAM, Options, invalid, refuse_together
from tablespec_spark.runner import ReadsRows, arrow_rows, check_readable
from tablespec_spark.schema import spark_schema, spark_type
from tablespec_spark.stream import TableStreamReader, TableStreamWriter

NAME = "tablespec"


def register(spark: SparkSession) -> None:
    """Make `tablespec` a format of the session: `spark.read.format("tablespec").load(url)` and so on."""
    spark.dataSource.register(TableSource)


class TableSource(DataSource):
    """Tables by the name of the format.

    It takes no filters: Spark 4.3 mixes up those of different queries on one DataFrame.
    """

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the rows; from now on the source stays on this version for what it reads as a snapshot."""
        options = Options.checked(self.options, "reading", (*READ, *READ_STREAM))
        table = options.table()
        self._version = table.instant(options.end()).version
        return spark_schema(_columns(table, options, self._version))

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a table once."""
        options = Options.checked(self.options, "reading", READ)
        table = options.table()
        version = table.instant(options.end()).version if self._version is None else self._version
        columns = _columns(table, options, version)
        check_columns(table, columns, schema)
        check_readable(table.url, columns)
        return TableReader(schema, _tasks(table, options, schema, version))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """What writes rows of Spark's tasks."""
        options = Options.checked(self.options, "writing", WRITE)
        if not overwrite:
            refuse_together(options, "mode append", ("replaceWhere", "dataColumns"))
        return TableWriter(Destination(options, overwrite), schema, _transaction(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a table version by version."""
        options = Options.checked(self.options, "streaming", READ_STREAM)
        if options.reading("incremental") not in ("incremental", "changes"):
            mode = options.text("readingMode") or ""
            raise invalid("readingMode", mode, "incremental or changes for a stream")
        table = options.table()
        version = table.instant().version if self._version is None else self._version
        columns = _columns(table, options, version)
        check_columns(table, columns, schema)
        check_readable(table.url, columns)
        return TableStreamReader(options, schema, version)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What writes the batches of a stream."""
        options = Options.checked(self.options, "writing a stream", WRITE_STREAM)
        return TableStreamWriter(Destination(options, overwrite), schema)


class TableReader(DataSourceReader):
    """Reads the pieces of a scan on executors."""

    def __init__(self, schema: StructType, tasks: Sequence[ReadsRows]) -> None:
        self._schema = schema
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        """The pieces."""
        return [InputPartition((task,)) for task in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a piece."""
        return arrow_rows(partition.value or (), self._schema)


class TableWriter(DataSourceArrowWriter):
    """Writes rows in the tasks that have them, and commits all of them or none."""

    def __init__(self, destination: Destination, schema: StructType, transaction: tuple[str, int] | None) -> None:
        self._destination = destination
        self._plan = destination.plan(to_arrow_schema(schema, timezone="UTC"))
        self._transaction = transaction

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one attempt of a task under names of its own."""
        return Written(outcome(self._plan, iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """Commit what the attempts wrote that Spark counts."""
        self._destination.commit(self._plan, messages, self._transaction)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove what was written, unless it may be committed."""
        self._destination.abort(messages)


def check_columns(table: Table, found: Schema, asked: StructType) -> None:
    """Raise unless the columns that Spark asks for, which a user may have chosen, are columns of the table."""
    problems = []
    for field in asked.fields:
        if field.name not in found.names:
            problems.append(f"the column {field.name} is not in the table")
            continue
        type_ = spark_type(found.field(field.name).type)
        if type_ != field.dataType:
            problems.append(f"the column {field.name} is {type_.simpleString()}, not {field.dataType.simpleString()}")
    if problems:
        raise SchemaMismatchError(table.url, tuple(problems), "leave the schema out, or choose from the columns")


def _columns(table: Table, options: Options, version: int) -> Schema:
    """The columns that come out of a version."""
    columns = options.names("columns")
    if options.reading("snapshot") == "changes":
        return table.changes(version, version, columns=columns).schema
    return table.scan(columns=columns, at=version).schema


def _tasks(table: Table, options: Options, schema: StructType, version: int) -> Sequence[ReadsRows]:
    """The pieces of what the options ask for."""
    where, names = options.text("where"), schema.fieldNames()
    match options.reading("snapshot"):
        case "snapshot":
            refuse_together(options, "a snapshot", _STRETCH)
            return table.scan(where, names, version).tasks()
        case "readOptimized":
            refuse_together(options, "a snapshot", _STRETCH)
            return table.read_optimized(where, names, version).tasks()
        case "incremental" | "changes" as mode:
            refuse_together(options, f"readingMode {mode}", ("versionAsOf", "timestampAsOf"))
            read = table.incremental if mode == "incremental" else table.changes
            return read(options.after(table), version, where, names).tasks()


def _transaction(options: Options) -> tuple[str, int] | None:
    application, number = options.text("txnAppId"), options.number("txnVersion")
    if (application is None) != (number is None):
        raise invalid("txnAppId", application or "", "both txnAppId and txnVersion, or neither")
    return None if application is None or number is None else (application, number)


_STRETCH = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
