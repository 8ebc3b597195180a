"""Avro files and data, read with fastavro; the package is an extra, and only tables that hold such files need it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping

from tablespec.errors import MissingExtraError

try:
    import fastavro
    import fastavro.schema
except ImportError:
    fastavro = None


def first_record(body: bytes) -> dict[str, object]:
    """The first record of an Avro file; a damaged schema raises ValueError."""
    _check_installed()
    try:
        record = next(fastavro.reader(io.BytesIO(body)))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(str(error)) from error
    if not isinstance(record, dict):
        raise ValueError("the first datum is no record")
    return record


def datum(body: memoryview, schema: Mapping[str, object] | str, *, name_records: bool = False) -> dict[str, object]:
    """A single record without a header; with `name_records` a record in a union is a pair of its name and itself."""
    _check_installed()
    try:
        record = fastavro.schemaless_reader(
            io.BytesIO(body), schema, return_record_name=name_records, return_named_type=name_records
        )
    except (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise ValueError(f"it is no such Avro record ({error})") from error
    if not isinstance(record, dict):
        raise ValueError("the datum is no record")
    return record


def data(bodies: Iterable[memoryview], schema: str) -> list[dict[str, object]]:
    """Single records of one schema."""
    _check_installed()
    try:
        parsed = fastavro.parse_schema(json.loads(schema))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise ValueError(f"its schema cannot be read ({error})") from error
    return [datum(body, parsed) for body in bodies]


def _check_installed() -> None:
    if fastavro is None:
        raise MissingExtraError("reading Hudi tables with Avro metadata or log files", "hudi")
