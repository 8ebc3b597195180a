"""How columns lie in data files, for whoever reads or writes them; plain data that travels to workers."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import attrs

from tablespec.model.form import stored_form
from tablespec.model.schema import Schema


@attrs.frozen(kw_only=True)
class ReadLayout:
    """How the columns of a table are found in its base files; plain data that travels to workers.

    Columns named in `constants` are not read from files: their values stand in `FileSlice.partition_values`, in the same order.
    Fields are found by `Field.field_id` when `by_field_id` is set, else by `Field.stored_name`.
    Columns named in `converted` may be of other types in files, so that only a `FileSliceReader` gives them as the table has them.
    """

    schema: Schema
    constants: tuple[str, ...] = ()
    by_field_id: bool = False
    hidden: Schema = Schema(())
    converted: tuple[str, ...] = ()

    @cached_property
    def form(self) -> str:
        """The `BaseFile.form` of files that store every column as the table has it now."""
        return stored_form(field for field in self.schema if field.name not in self.constants)


class FolderNaming(Protocol):
    """Where the files of a partition go; picklable."""

    def folder(self, values: tuple[object, ...]) -> str:
        """The folder of a partition, relative to the table; empty for the table itself."""
        ...


@attrs.frozen(kw_only=True)
class WriteLayout:
    """What a worker must know to write data files of a table; plain data.

    `stats_leaves` are the columns that get statistics, by their physical paths. Two fields name the columns in which rows keep their
    ids and commit versions when they move; empty where the table has none. With `recent_readers` files may be encoded in ways that
    clients from before table features do not know.
    """

    schema: Schema
    partition_columns: tuple[str, ...]
    stats_leaves: tuple[tuple[str, ...], ...]
    naming: FolderNaming
    file_bytes: int = 256 << 20
    row_id_column: str = ""
    row_commit_version_column: str = ""
    recent_readers: bool = False

    @cached_property
    def form(self) -> str:
        """The `BaseFile.form` of files that are written by this."""
        return stored_form(field for field in self.schema if field.name not in self.partition_columns)
