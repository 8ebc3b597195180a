"""A table: one line a verb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from tablespec.arrow.stream import ArrowStream
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import HistoryEntry, TableFormat, TableInfo
from tablespec.model.instant import Instant, Timeline
from tablespec.model.reading import ReadingMode, ReadOptimized, Snapshot
from tablespec.model.schema import Schema
from tablespec.read.file_index import At, FileIndex, Filters, bound_filters, resolve, state_at
from tablespec.read.scan import Scan
from tablespec.read.slice_reader import FileSliceReader
from tablespec.txn.transaction import Retries
from tablespec.write import alter
from tablespec.write.append import Appended, append, writable
from tablespec.write.delete import delete
from tablespec.write.replace_where import (
    Replacement,
    ReplaceOptions,
    overwrite_partitions,
    replace_using,
    replace_where,
    replacements,
)
from tablespec.write.row_change import ChangeResult, Strategy
from tablespec.write.runner import Runner, Threads


@attrs.frozen
class Table:
    """A table at a place, in whatever format; it always shows the newest state unless asked for another."""

    format: TableFormat

    @property
    def url(self) -> str:
        """Where the table lies."""
        return self.format.storage.url

    @property
    def schema(self) -> Schema:
        """The columns of the newest state."""
        return self.format.latest().schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the newest state."""
        return self.format.latest().partition_columns

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns that identify a record, where the table has them."""
        return self.format.latest().record_key

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties of the newest state."""
        return dict(self.format.latest().properties)

    @property
    def info(self) -> TableInfo:
        """Format, name, id and protocol."""
        return self.format.info(self.format.latest())

    @property
    def timeline(self) -> Timeline:
        """The completed actions that can be named."""
        return self.format.timeline()

    @property
    def file_index(self) -> FileIndex:
        """Which files hold the rows."""
        return FileIndex(self.format)

    def schema_at(self, at: At = None) -> Schema:
        """The columns at an instant."""
        return state_at(self.format, at).schema

    def instant(self, at: At = None) -> Instant:
        """The completed instant that a version, a time or None for the latest names."""
        return resolve(self.format, at)

    def history(self) -> Sequence[HistoryEntry]:
        """What each instant did, newest first."""
        return self.format.history()

    def slice_reader(self, at: At = None) -> FileSliceReader:
        """A reader of single slices of the state at an instant."""
        state = state_at(self.format, at)
        return FileSliceReader(storage=self.format.storage, layout=state.layout, codec=state.codec)

    def scan(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan:
        """The rows that match, as of an instant."""
        return self._scan(where, columns, at, Snapshot())

    def read_optimized(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan:
        """The rows of base files as of an instant, leaving merge-on-read changes aside."""
        return self._scan(where, columns, at, ReadOptimized())

    def append(
        self,
        data: ArrowStream,
        *,
        merge_schema: bool = False,
        transaction: tuple[str, int] | None = None,
        auto_upgrade: bool = True,
        retries: Retries = Retries(),
    ) -> Appended:
        """Add the rows of anything that speaks Arrow."""
        return append(
            self.format,
            data,
            merge_schema=merge_schema,
            transaction=transaction,
            auto_upgrade=auto_upgrade,
            retries=retries,
        )

    def delete(
        self,
        predicate: Predicate | str | None,
        *,
        allow_full_table: bool = False,
        strategy: Strategy | None = None,
        runner: Runner = Threads(),
        retries: Retries = Retries(),
    ) -> ChangeResult:
        """Delete the rows for which the predicate is true."""
        return delete(
            self.format, predicate, allow_full_table=allow_full_table, strategy=strategy, runner=runner, retries=retries
        )

    def replace_where(
        self,
        predicate: Predicate | str | Sequence[Replacement],
        data: ArrowStream | None = None,
        *,
        data_columns: bool = False,
        allow_full_table: bool = False,
        dry_run: bool = False,
        options: ReplaceOptions = ReplaceOptions(),
    ) -> ChangeResult:
        """Replace the rows under a predicate, or under several with the data for each, in one commit."""
        asked = attrs.evolve(
            options, data_columns=data_columns, allow_full_table=allow_full_table, dry_run=dry_run
        )
        return replace_where(self.format, replacements(predicate, data), asked)

    def replace_using(
        self, columns: Sequence[str], data: ArrowStream, options: ReplaceOptions = ReplaceOptions()
    ) -> ChangeResult:
        """Replace the rows that have the same values in some columns as a row of the data."""
        return replace_using(self.format, columns, data, options)

    def overwrite_partitions(self, data: ArrowStream, options: ReplaceOptions = ReplaceOptions()) -> ChangeResult:
        """Replace every partition that the data has rows for."""
        return overwrite_partitions(self.format, data, options)

    def set_properties(self, properties: Mapping[str, str | None], *, auto_upgrade: bool = True) -> Instant:
        """Set table properties; None drops one."""
        return alter.set_properties(self.format, properties, auto_upgrade=auto_upgrade)

    def upgrade_protocol(self, features: Sequence[str]) -> Instant:
        """Declare table features; they cannot be taken back."""
        return alter.upgrade_protocol(self.format, features)

    def add_columns(self, columns: Schema, *, auto_upgrade: bool = True) -> Instant:
        """Add nullable columns at the end."""
        return alter.add_columns(self.format, columns, auto_upgrade=auto_upgrade)

    def add_constraint(self, name: str, predicate: str, *, auto_upgrade: bool = True) -> Instant:
        """Add a CHECK constraint that every row satisfies."""
        return alter.add_constraint(self.format, name, predicate, auto_upgrade=auto_upgrade)

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest state and tell how many files it lists."""
        return writable(self.format, "checkpoint").checkpoint()

    def _scan(self, where: Filters, columns: Sequence[str] | None, at: At, mode: ReadingMode) -> Scan:
        state = state_at(self.format, at)
        names = None if columns is None else tuple(columns)
        return Scan(
            storage=self.format.storage,
            state=state,
            predicate=bound_filters(where, state.schema),
            columns=names,
            mode=mode,
        )
