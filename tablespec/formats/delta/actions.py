"""The actions of a Delta log, as they stand in its JSON.

Fields that are not known are ignored when reading, as the protocol asks of every client.
"""

from __future__ import annotations

import msgspec


def _no_values() -> dict[str, str | None]:
    return {}


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The base of all actions: JSON names are camel case, and what has its default is not written."""


class ProtocolAction(Action, frozen=True, kw_only=True, omit_defaults=False):
    """What a client must be able to do to read and to write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET
    writer_features: tuple[str, ...] | msgspec.UnsetType | None = msgspec.UNSET


class FileFormat(Action, frozen=True, kw_only=True, omit_defaults=False):
    """The kind of data files; always Parquet."""

    provider: str = "parquet"
    options: dict[str, str] = {}


class MetadataAction(Action, frozen=True, kw_only=True, omit_defaults=False):
    """The identity, schema, partitioning and properties of the table."""

    id: str
    name: str | None = None
    description: str | None = None
    format: FileFormat = FileFormat()
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = {}
    created_time: int | None = None


class DeletionVectorAction(Action, frozen=True, kw_only=True):
    """Where a deletion vector lies."""

    storage_type: str
    path_or_inline_dv: str
    offset: int | None = None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """What tells this vector from others of the same file."""
        return f"{self.storage_type}{self.path_or_inline_dv}" + ("" if self.offset is None else f"@{self.offset}")


class AddAction(Action, frozen=True, kw_only=True):
    """A file that belongs to the table from this version on."""

    path: str
    # Written even when empty: clients count on it.
    partition_values: dict[str, str | None] = msgspec.field(default_factory=_no_values)
    size: int = -1
    modification_time: int = -1
    data_change: bool | msgspec.UnsetType = msgspec.UNSET
    stats: str | None = None
    tags: dict[str, object] | None = None
    deletion_vector: DeletionVectorAction | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> str:
        """The identity of the logical file: path and deletion vector."""
        return file_key(self.path, self.deletion_vector)


class RemoveAction(Action, frozen=True, kw_only=True):
    """A file that no longer belongs to the table."""

    path: str
    deletion_timestamp: int | None = None
    data_change: bool | msgspec.UnsetType = msgspec.UNSET
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: dict[str, object] | None = None
    deletion_vector: DeletionVectorAction | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def key(self) -> str:
        """The identity of the logical file: path and deletion vector."""
        return file_key(self.path, self.deletion_vector)


class CdcAction(Action, frozen=True, kw_only=True):
    """A file with the row changes of this version."""

    path: str
    partition_values: dict[str, str | None] = msgspec.field(default_factory=_no_values)
    size: int = -1
    data_change: bool = msgspec.field(default=True)
    tags: dict[str, object] | None = None


class TxnAction(Action, frozen=True, kw_only=True):
    """How far an application has come."""

    app_id: str
    version: int
    last_updated: int | None = None


class DomainMetadataAction(Action, frozen=True, kw_only=True, omit_defaults=False):
    """The state of a named part of the table."""

    domain: str
    configuration: str
    removed: bool = False


class SidecarAction(Action, frozen=True, kw_only=True):
    """A file with the file actions of a checkpoint of the second kind."""

    path: str
    size_in_bytes: int
    modification_time: int = 0


class CheckpointMetadataAction(Action, frozen=True, kw_only=True):
    """The mark of a checkpoint of the second kind."""

    version: int


class Line(Action, frozen=True, kw_only=True):
    """One line of a commit: exactly one of these is set, or none for an action that is not known."""

    commit_info: dict[str, object] | None = None
    protocol: ProtocolAction | None = None
    meta_data: MetadataAction | None = None
    add: AddAction | None = None
    remove: RemoveAction | None = None
    cdc: CdcAction | None = None
    txn: TxnAction | None = None
    domain_metadata: DomainMetadataAction | None = None
    sidecar: SidecarAction | None = None
    checkpoint_metadata: CheckpointMetadataAction | None = None
    # Ours, where a table wants them at the top level; they say why, and never change what is in the table.
    replace_where: dict[str, object] | None = None
    skip: dict[str, object] | None = None


def file_key(path: str, vector: DeletionVectorAction | None) -> str:
    """The identity of a logical file; the separator cannot stand in a URI path."""
    if path.startswith("file:"):
        # The same local file is written with one slash, with three, and without a scheme.
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if vector is None else f"{path}\n{vector.unique_id}"
