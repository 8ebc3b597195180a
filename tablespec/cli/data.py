"""Rows of a local file, as data for a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import typer
from pyarrow import json, parquet

from tablespec import Schema
from tablespec.arrow.schema import arrow_type
from tablespec.cli.csv_file import read_csv
from tablespec.errors import StorageError


def read_data(path: str, schema: Schema) -> pa.RecordBatchReader:
    """The rows of a Parquet, CSV or JSON file, by the ending of its name; text is read as the types of the table's columns.

    JSON has one object a line. A file that cannot be read raises StorageError, also while its rows are taken.
    """
    reader = _READERS.get(Path(path).suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise typer.BadParameter(f"{path} does not end in one of {known}", param_hint="--data")
    try:
        rows = reader(path, schema)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(path, _why(error)) from error
    return pa.RecordBatchReader.from_batches(rows.schema, _told(rows, path))


def _told(rows: pa.RecordBatchReader, path: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except (OSError, pa.ArrowException) as error:
        raise StorageError(path, _why(error)) from error


def _parquet(path: str, schema: Schema) -> pa.RecordBatchReader:
    file = parquet.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())


def _json(path: str, schema: Schema) -> pa.RecordBatchReader:
    columns = pa.schema([(field.name, arrow_type(field.type)) for field in schema])
    # What the table does not have is kept, so that the table can refuse it.
    options = json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="infer")
    return json.read_json(path, parse_options=options).to_reader()


def _why(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0]


_READERS: dict[str, Callable[[str, Schema], pa.RecordBatchReader]] = {
    ".parquet": _parquet,
    ".csv": read_csv,
    ".json": _json,
    ".jsonl": _json,
    ".ndjson": _json,
}
