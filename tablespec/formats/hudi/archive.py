"""Instants that left the active timeline: an archive log up to table version 7, sorted Parquet files from version 8 on."""

from __future__ import annotations

import json
import struct

import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.errors import CorruptLogError
from tablespec.formats.hudi.avro import datum
from tablespec.formats.hudi.instant_time import instant_number
from tablespec.formats.hudi.log_file import BlockType, LogBlock, blocks_of
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.timeline import CompletedAction
from tablespec.storage.store import Storage

_INT = struct.Struct(">i")


def archived_actions(storage: Storage, table: TableProperties) -> tuple[CompletedAction, ...]:
    """The completed actions of the archive by request time; `path` is the archive file that holds their metadata."""
    found = _in_log(storage, table) if table.layout == 1 else _in_history(storage, table)
    by_request = {(action.request, action.action): action for action in found}
    return tuple(by_request[key] for key in sorted(by_request))


def _in_history(storage: Storage, table: TableProperties) -> list[CompletedAction]:
    """Only files that the newest manifest names count: others are left over from compactions of the archive."""
    folder = table.history_folder
    try:
        version = storage.read(f"{folder}/_version_").decode().strip()
        manifest = json.loads(storage.read(f"{folder}/manifest_{version}"))
        names = [str(file["fileName"]) for file in manifest["files"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(storage.url, folder, 0, f"its manifest cannot be read ({error})") from error
    return [action for name in names for action in _in_history_file(storage, f"{folder}/{name}")]


def _in_history_file(storage: Storage, path: str) -> list[CompletedAction]:
    try:
        rows = pq.read_table(
            pa.BufferReader(storage.read(path)), columns=["instantTime", "completionTime", "action"]
        ).to_pylist()
    except (FileNotFoundError, pa.ArrowInvalid, OSError) as error:
        raise CorruptLogError(storage.url, path, 0, f"the archive cannot be read ({error})") from error
    return [
        CompletedAction(
            request=instant_number(row["instantTime"]),
            completion=instant_number(row["completionTime"]) if row["completionTime"] else None,
            action=row["action"],
            path=path,
        )
        for row in rows
    ]


def _in_log(storage: Storage, table: TableProperties) -> list[CompletedAction]:
    _, files = storage.list_folder(table.archive_folder)
    found = []
    for file in files:
        if ".archive." not in file.path.rsplit("/", 1)[-1]:
            continue
        try:
            for block in blocks_of(storage.read(file.path)):
                if isinstance(block, LogBlock) and block.type is BlockType.AVRO:
                    found += _in_block(block, file.path)
        except (ValueError, struct.error) as error:
            raise CorruptLogError(storage.url, file.path, 0, f"the archive cannot be read ({error})") from error
    return found


def _in_block(block: LogBlock, path: str) -> list[CompletedAction]:
    schema = json.loads(block.schema)
    (count,) = _INT.unpack_from(block.content, 4)
    found, offset = [], 8
    for _ in range(count):
        (length,) = _INT.unpack_from(block.content, offset)
        if length < 0:
            raise ValueError("a record has a negative length")
        record = datum(block.content[offset + 4 : offset + 4 + length], schema)
        offset += 4 + length
        # Older releases archive only what is completed, and do not say so.
        if record.get("actionState") in ("COMPLETED", None):
            request = instant_number(str(record["commitTime"]))
            found.append(CompletedAction(request=request, completion=None, action=str(record["actionType"]), path=path))
    return found
