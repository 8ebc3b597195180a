"""Avro files, read with fastavro; the package is an extra, and only tables that hold such files need it."""

from __future__ import annotations

import io

from tablespec.errors import MissingExtraError

try:
    import fastavro
    import fastavro.schema
except ImportError:
    fastavro = None


def first_record(body: bytes) -> dict[str, object]:
    """The first record of an Avro file; a damaged schema raises ValueError."""
    if fastavro is None:
        raise MissingExtraError("reading Hudi tables of version 8 and 9", "hudi")
    try:
        record = next(fastavro.reader(io.BytesIO(body)))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise ValueError(str(error)) from error
    if not isinstance(record, dict):
        raise ValueError("the first datum is no record")
    return record
