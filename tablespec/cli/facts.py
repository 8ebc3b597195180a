"""What the commands tell about a table, as JSON documents whose keys stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.cli.cells import Json, as_json
from tablespec.cli.fsck import Problem
from tablespec.formats.base import HistoryEntry, TableState
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.read.scan import Scan
from tablespec.table import Table

Document = dict[str, Json]


def table_facts(table: Table) -> Document:
    """The newest state at first sight; `rows` is null where the log does not tell."""
    scan = table.scan()
    state, slices = scan.state, [one.slice for one in scan.slices]
    info = table.format.info(state)
    rows = [slice_.rows for slice_ in slices]
    return {
        "url": table.url,
        "format": info.format,
        "name": info.name,
        "id": info.id,
        "description": info.description,
        **when(state.instant),
        "files": len(slices),
        "rows": None if None in rows else sum(count for count in rows if count is not None),
        "bytes": sum(slice_.size for slice_ in slices),
        "partition_columns": list(state.partition_columns),
        "record_key": list(state.record_key),
        "properties": dict(sorted(state.properties.items())),
    }


def history_records(table: Table, limit: int) -> list[Document]:
    """What each instant did, newest first; `limit` 0 gives all."""
    return [_entry(one) for one in table.history(limit or None)]


def file_records(scan: Scan) -> list[Document]:
    """The slices that a scan would read, in path order."""
    return [_slice(one.slice, scan.state) for one in scan.slices]


def column_records(state: TableState) -> list[Document]:
    """The columns of a state, in order."""
    return [
        {
            "name": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "partition": field.name in state.partition_columns,
        }
        for field in state.schema
    ]


def problem_records(problems: Sequence[Problem]) -> list[Document]:
    """What is wrong with a table."""
    return [{"kind": one.kind.value, "path": one.path, "message": one.message} for one in problems]


def when(instant: Instant) -> Document:
    """Which state it is."""
    return {"version": instant.version, "time": instant.time.isoformat(timespec="milliseconds")}


def rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[tuple[Json, ...]]:
    """The rows of batches in order, no more than `limit`; 0 gives all."""
    every = (row for batch in batches for row in zip(*map(_values, batch.columns)))
    return islice(every, limit) if limit else every


def _values(column: pa.Array) -> Iterator[Json]:
    return (as_json(value) for value in column)


def _entry(entry: HistoryEntry) -> Document:
    return {
        **when(entry.instant),
        "operation": entry.operation,
        "engine": entry.engine,
        "files_added": entry.files_added,
        "files_removed": entry.files_removed,
        "parameters": dict(entry.parameters),
        "metrics": dict(entry.metrics),
    }


def _slice(slice_: FileSlice, state: TableState) -> Document:
    return {
        "path": slice_.base.path if slice_.base else None,
        "logs": [log.path for log in slice_.logs],
        "partition": _partition(slice_.partition_values, state),
        "size": slice_.size,
        "rows": slice_.rows,
        "deletes": slice_.deletes.cardinality if slice_.deletes else 0,
    }


def _partition(values: Sequence[object], state: TableState) -> Document:
    types = [arrow_type(state.schema.field(name).type) for name in state.partition_columns]
    named = zip(state.partition_columns, values, types)
    return {name: as_json(pa.scalar(value, type_)) for name, value, type_ in named}
