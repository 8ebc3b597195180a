"""Log files, written block by block as Hudi lays them out."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.formats.hudi.log_records import _DELETE_RECORDS

COMMAND, DELETE, AVRO, PARQUET, CDC = 0, 1, 3, 5, 6
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


def block(kind: int, header: dict[int, str], content: bytes = b"") -> bytes:
    """A block as it lies in a file."""
    entries = [struct.pack(">ii", key, len(text.encode())) + text.encode() for key, text in header.items()]
    body = struct.pack(">iii", 1, kind, len(entries)) + b"".join(entries)
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    length = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", length) + body + struct.pack(">q", length + 6)


def avro_content(schema: dict[str, object], rows: Sequence[dict[str, object]]) -> bytes:
    """The content of an Avro block."""
    parsed, out = fastavro.parse_schema(schema), struct.pack(">ii", 3, len(rows))
    for row in rows:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, parsed, row)
        out += struct.pack(">i", len(sink.getvalue())) + sink.getvalue()
    return out


def data_schema(columns: Sequence[tuple[str, object]]) -> dict[str, object]:
    """The Avro schema of log records: meta columns, then nullable columns."""
    named = [*((name, "string") for name in META), *columns]
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in named]
    return {"type": "record", "name": "row", "namespace": "hoodie.t", "fields": fields}


def with_meta(instant: str, key: str, row: dict[str, object]) -> dict[str, object]:
    """A log record."""
    return {"_hoodie_commit_time": instant, "_hoodie_record_key": key, **row}


def avro_block(
    instant: str,
    columns: Sequence[tuple[str, object]],
    rows: Sequence[tuple[str, dict[str, object]]],
    *,
    partial: bool = False,
    compacted: str = "",
) -> bytes:
    """A block of records, each with its key."""
    schema = data_schema(columns)
    header = {0: instant, 2: json.dumps(schema)}
    if partial:
        header[7] = "true"
    if compacted:
        header[4] = compacted
    return block(AVRO, header, avro_content(schema, [with_meta(instant, key, row) for key, row in rows]))


def parquet_block(instant: str, rows: pa.Table) -> bytes:
    """A block of records as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return block(PARQUET, {0: instant, 2: "{}"}, sink.getvalue())


def delete_block(instant: str, deletes: Sequence[tuple[str, object]]) -> bytes:
    """A block of deleted keys, each with its wrapped ordering value or None."""
    listed = [{"recordKey": key, "partitionPath": "", "orderingVal": ordering} for key, ordering in deletes]
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, _DELETE_RECORDS, {"deleteRecordList": listed})
    return block(DELETE, {0: instant, 2: "{}"}, struct.pack(">ii", 3, len(sink.getvalue())) + sink.getvalue())


def rollback_block(instant: str, target: str) -> bytes:
    """A block that takes back the blocks of another instant."""
    return block(COMMAND, {0: instant, 1: target, 3: "0"})
