"""Which format lies at a place."""

from __future__ import annotations

from tablespec.errors import NotATableError, TableExistsError, TableNotFoundError
from tablespec.formats.base import OpenOptions, Profile, TableFormat, WritableFormat
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.delta.log import LOG
from tablespec.formats.hudi.format import HudiFormat, is_hudi
from tablespec.model.schema import Schema
from tablespec.storage.local import is_temporary
from tablespec.storage.store import Storage

# Engines that write the rows of a new table before its first commit put this file there first: what lies around it is not somebody's.
UNFINISHED = "_tablespec_unfinished"


def is_table(storage: Storage) -> bool:
    """Whether a table of a known format, sound or damaged, lies there."""
    return DeltaFormat.is_at(storage) or is_hudi(storage)


def is_of_log(path: str) -> bool:
    """Whether a file, by its path in the table, is part of what makes the table one."""
    return path.startswith((f"{LOG}/", ".hoodie/"))


def open_format(storage: Storage, *, check_protocol: bool = True, options: OpenOptions = OpenOptions()) -> TableFormat:
    """The table at a place, whatever its format."""
    if DeltaFormat.is_at(storage):
        return DeltaFormat(storage, check_protocol)
    if is_hudi(storage):
        return HudiFormat.open(storage, options)
    if any(not is_temporary(file.path) for file in storage.list()) and storage.head(UNFINISHED) is None:
        raise NotATableError(storage.url)
    raise TableNotFoundError(storage.url)


def create_format(
    storage: Storage,
    schema: Schema,
    partition_columns: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    operation_id: str,
    profile: Profile,
) -> WritableFormat:
    """A new table in the native format; raises when a table of any format is there."""
    if is_hudi(storage):
        raise TableExistsError(storage.url)
    return DeltaFormat.create(storage, schema, partition_columns, properties, operation_id, profile)
