"""The rows of a CSV file, in the columns and types of a table."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import attrs
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tablespec import Field, Schema
from tablespec.arrow.schema import arrow_type
from tablespec.errors import StorageError

_COMPLAINT = re.compile(
    r"(?:In CSV column #(?P<column>\d+)|CSV parse error): (?:Row #(?P<row>\d+): )?"
    r"(?:CSV conversion error to [^:]+: )?(?P<what>.*)"
)
# Advice to those who call Arrow, who are not those that run a command.
_ADVICE = ". If these timestamps are in local time"


def read_csv(path: str, schema: Schema) -> pa.RecordBatchReader:
    """The rows of a CSV file, whose first line names the columns, whatever their case.

    A cell without quotes and with nothing in it is null, and no other is. Columns that the table lacks are text. What is no value of
    its column raises StorageError with its line, also while the rows are taken.
    """
    names = _header(path)
    file = _CsvFile(path, tuple(names), {field.name.lower(): field for field in schema})
    try:
        rows = file.open()
    except (OSError, pa.ArrowException) as error:
        raise file.told(error) from error
    return pa.RecordBatchReader.from_batches(rows.schema, _told(rows, file))


@attrs.frozen
class _CsvFile:
    path: str
    names: tuple[str, ...]
    fields: dict[str, Field]

    @property
    def has_empty_rows(self) -> bool:
        """Whether an empty line is a row: the null of the only column."""
        return len(self.names) == 1

    def open(self) -> arrow_csv.CSVStreamingReader:
        """The rows; in one thread, in which Arrow counts them."""
        types = {name: arrow_type(field.type) if (field := self.field(name)) else pa.string() for name in self.names}
        return arrow_csv.open_csv(
            self.path,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not self.has_empty_rows),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )

    def field(self, name: str) -> Field | None:
        """The column of the table that a name in the file means."""
        return self.fields.get(name.lower())

    def told(self, error: Exception) -> StorageError:
        """What Arrow says about a cell or a row, with its place in the file."""
        text = str(error).split("\n", maxsplit=1)[0]
        found = _COMPLAINT.fullmatch(text)
        if found is None:
            return StorageError(self.path, text)
        place, what = self.path, found["what"].split(_ADVICE)[0]
        if found["row"]:
            place += f" {self.place_of(int(found['row']))}"
        if found["column"]:
            name = self.names[int(found["column"])]
            place += f" column {name}"
            field = self.field(name)
            what += f"; the column is {field.type}" if field else ""
        return StorageError(place, what)

    def place_of(self, row: int) -> str:
        """The line on which a row begins, as text; rows are counted from the header on."""
        with _opened(self.path) as lines:
            reader, begins, left = csv.reader(lines), 1, row
            try:
                for cells in reader:
                    left -= bool(cells) or self.has_empty_rows
                    if not left:
                        return f"line {begins}"
                    begins = reader.line_num + 1
            except csv.Error:
                # Python reads no cells as long as Arrow does.
                pass
        return f"row {row}"


def _told(rows: Iterator[pa.RecordBatch], file: _CsvFile) -> Iterator[pa.RecordBatch]:
    try:
        yield from rows
    except (OSError, pa.ArrowException) as error:
        raise file.told(error) from error


def _header(path: str) -> list[str]:
    try:
        with _opened(path) as lines:
            return next(filter(None, csv.reader(lines)), [])
    except (OSError, csv.Error) as error:
        raise StorageError(path, str(error)) from error


def _opened(path: str) -> TextIO:
    # What is not UTF-8 is refused with its column when Arrow comes to it.
    return Path(path).open(newline="", encoding="utf-8-sig", errors="replace")
