"""tablespec: one table API over Delta Lake and Apache Hudi tables, free of any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

import pyarrow as pa

from tablespec.arrow.schema import schema_of
from tablespec.errors import TableSpecError, TableSpecWarning
from tablespec.formats.base import Profile
from tablespec.formats.detect import create_format, open_format
from tablespec.model.instant import Instant, Timeline
from tablespec.model.reading import Cdc, Incremental, ReadingMode, ReadOptimized, Snapshot
from tablespec.model.schema import Schema
from tablespec.read.scan import Scan
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.txn.transaction import Retries, new_operation_id

__all__ = [
    "Cdc",
    "Incremental",
    "Instant",
    "Profile",
    "ReadOptimized",
    "ReadingMode",
    "Retries",
    "Scan",
    "Schema",
    "Snapshot",
    "Table",
    "TableSpecError",
    "TableSpecWarning",
    "Timeline",
    "create_table",
    "open_table",
]
__version__ = version("tablespec")

RECORD_KEY = "tablespec.recordKey"


def open_table(
    url: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
    check_protocol: bool = True,
) -> Table:
    """The table at a path or URL, in whatever format it is.

    `allowed_roots` are places outside of the table whose files its log may name. `check_protocol=False` reads tables that this
    release does not know how to read rightly; it is for looking at them, not for trusting them, and never lets one write.
    """
    return Table(open_format(Storage.at(url, storage_options, allowed_roots), check_protocol=check_protocol))


def create_table(
    url: str,
    schema: Schema | pa.Schema,
    *,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    profile: Profile = Profile.OPEN,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """A new table in the native format; `key` names the columns that identify a record."""
    columns = schema_of(schema) if isinstance(schema, pa.Schema) else schema
    named = dict(properties or {})
    if key:
        named[RECORD_KEY] = ",".join(columns.field(name).name for name in key)
    storage = Storage.at(url, storage_options)
    return Table(
        create_format(storage, columns, tuple(partition_by), tuple(named.items()), new_operation_id(), profile)
    )
