"""A table: one line a verb."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Unpack

import attrs
import pyarrow as pa

from tablespec.arrow.stream import ArrowStream
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import HistoryEntry, NewFile, TableFormat, TableInfo
from tablespec.index.catalog import TableIndex, create_record_index, create_text_index, index, indexes
from tablespec.index.narrow import Indexes
from tablespec.index.record import RecordIndex
from tablespec.index.search import Search, search
from tablespec.maintain.cluster import Clustering, cluster
from tablespec.maintain.compact import Compacting, compact
from tablespec.maintain.restore import RestoreResult, restore
from tablespec.maintain.rewrite import RewriteResult, maintainable
from tablespec.maintain.skip import Skip, skips_of
from tablespec.maintain.vacuum import Removed, Removing, expire_log, vacuum, vacuum_indexes
from tablespec.model.instant import Instant, Timeline
from tablespec.model.reading import ReadOptimized
from tablespec.model.schema import Schema, column_names
from tablespec.read.changes import ChangeScan, changes
from tablespec.read.file_index import At, FileIndex, Filters, resolve, state_at
from tablespec.read.incremental import IncrementalScan, incremental
from tablespec.read.scan import Scan, scan
from tablespec.read.slice_reader import FileSliceReader
from tablespec.sql.run import run_on
from tablespec.write import alter
from tablespec.write.append import (
    Appended,
    Appending,
    AppendPlan,
    Committing,
    append,
    commit_append,
    plan_append,
    writable,
)
from tablespec.write.authorize import (
    DELETING,
    REPLACING,
    RESTORING,
    UPDATING,
    UPSERTING,
    Access,
    Privilege,
    merging,
    storing,
)
from tablespec.write.change_target import RowOp
from tablespec.write.delete import begin_delete, delete
from tablespec.write.execution import Executing, Execution, Running, Strategy
from tablespec.write.merge import begin_merge, merge
from tablespec.write.merge_plan import Clause
from tablespec.write.merge_spread import SpreadSource
from tablespec.write.replace_using import overwrite_partitions, replace_using
from tablespec.write.replace_where import (
    Replacement,
    ReplaceOptions,
    commit_replace,
    plan_replace,
    replace_where,
    replacements,
)
from tablespec.write.row_change import ChangeHandle, ChangeResult
from tablespec.write.rows import KeyedRows, NewRows, RowWriter
from tablespec.write.runner import Runner, Threads
from tablespec.write.update import Assignments, begin_update, update
from tablespec.write.upsert import upsert


@attrs.frozen
class Table:
    """A table at a place, in whatever format; it always shows the newest state unless asked for another.

    Verbs that change rows take `strategy`, `runner` and `retries` as keywords, see `Execution`.
    """

    format: TableFormat
    access: Access = Access()

    # --- what it is ---

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

    def schema_at(self, at: At = None) -> Schema:
        """The columns at an instant."""
        return state_at(self.format, at).schema

    def instant(self, at: At = None) -> Instant:
        """The completed instant that a version, a time or None for the latest names."""
        return resolve(self.format, at)

    def history(self, limit: int | None = None) -> Sequence[HistoryEntry]:
        """What each instant did, newest first; no more than the `limit` newest are looked at."""
        return self.format.history(limit)

    # --- reading ---

    @property
    def file_index(self) -> FileIndex:
        """Which files hold the rows."""
        return FileIndex(self._allowed(Privilege.SELECT), self._indexes)

    def slice_reader(self, at: At = None) -> FileSliceReader:
        """A reader of single slices of the state at an instant."""
        state = state_at(self._allowed(Privilege.SELECT), at)
        return FileSliceReader(storage=self.format.storage, layout=state.layout, codec=state.codec)

    def scan(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan:
        """The rows that match, as of an instant."""
        return scan(self._allowed(Privilege.SELECT), where, columns, at, index=self._indexes)

    def read_optimized(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan:
        """The rows of base files as of an instant, leaving merge-on-read changes aside."""
        return scan(self._allowed(Privilege.SELECT), where, columns, at, index=self._indexes, mode=ReadOptimized())

    def incremental(
        self, after: At, upto: At = None, where: Filters = None, columns: Sequence[str] | None = None
    ) -> IncrementalScan:
        """The rows as of `upto` that were inserted or changed after `after`; rows that were only moved do not count."""
        return incremental(self._allowed(Privilege.SELECT), after, upto, where, columns)

    def changes(
        self, after: At, upto: At = None, where: Filters = None, columns: Sequence[str] | None = None
    ) -> ChangeScan:
        """What happened to rows after `after` up to and including `upto`, change by change."""
        return changes(self._allowed(Privilege.SELECT), after, upto, where, columns)

    # --- finding rows by indexes, which cost time when they are missing and never change what is found ---

    @property
    def record_index(self) -> RecordIndex:
        """Where the records of the newest state lie, by their keys."""
        return RecordIndex(self.format.storage, self._allowed(Privilege.SELECT).latest())

    def search(
        self,
        query: str,
        limit: int = 10,
        columns: Sequence[str] = (),
        *,
        tokenizer: str = "",
        select: Sequence[str] | None = None,
        at: At = None,
    ) -> pa.Table:
        """The rows that match a full-text query best, with `_score` and `_snippet`; looks through `columns`, gives `select`."""
        chosen = None if select is None else column_names("select", select)
        asked = Search(
            query=query, limit=limit, columns=column_names("columns", columns), tokenizer=tokenizer, select=chosen
        )
        return search(self.format.storage, state_at(self._allowed(Privilege.SELECT), at), asked)

    def create_record_index(self, name: str = "record", *, runner: Runner = Threads()) -> TableIndex:
        """Make an index of the record key, and build it."""
        return create_record_index(self._allowed(Privilege.UPDATE), self.access, name, runner)

    def create_text_index(
        self,
        columns: Sequence[str],
        tokenizer: str | None = None,
        *,
        name: str | None = None,
        runner: Runner = Threads(),
    ) -> TableIndex:
        """Make a full-text index of string columns, and build it; the tokenizer is what MATCH uses for them from now on."""
        names = column_names("columns", columns)
        return create_text_index(self._allowed(Privilege.UPDATE), self.access, names, tokenizer, name, runner)

    @property
    def indexes(self) -> tuple[TableIndex, ...]:
        """All indexes, by name."""
        return tuple(indexes(self._allowed(Privilege.SELECT), self.access, Threads()))

    def index(self, name: str) -> TableIndex:
        """An index by its name."""
        return index(self._allowed(Privilege.SELECT), self.access, name, Threads())

    # --- changing rows ---

    def append(self, data: NewRows, **options: Unpack[Appending]) -> Appended:
        """Add the rows of anything that speaks Arrow, or that an engine holds."""
        return append(self._allowed(Privilege.INSERT), data, **options)

    def plan_append(self, columns: pa.Schema, *, merge_schema: bool = False) -> AppendPlan:
        """Decide how rows of these columns are to be written, for engines that write them by themselves."""
        return plan_append(self._allowed(Privilege.INSERT), columns, merge_schema=merge_schema)

    def commit_append(self, plan: AppendPlan, files: tuple[NewFile, ...], **options: Unpack[Committing]) -> Appended:
        """Commit the files that the writer of a plan has written."""
        return commit_append(self._allowed(Privilege.INSERT), plan, files, **options)

    def delete(
        self, predicate: Predicate | str | None, *, allow_full_table: bool = False, **how: Unpack[Executing]
    ) -> ChangeResult:
        """Delete the rows for which the predicate is true."""
        allowed = self._allowed(*DELETING)
        return delete(allowed, predicate, allow_full_table=allow_full_table, execution=Execution(**how))

    def update(
        self,
        values: Assignments,
        predicate: Predicate | str | None,
        *,
        allow_full_table: bool = False,
        **how: Unpack[Executing],
    ) -> ChangeResult:
        """Set columns of the rows for which the predicate is true."""
        allowed = self._allowed(*UPDATING)
        return update(allowed, values, predicate, allow_full_table=allow_full_table, execution=Execution(**how))

    def merge(
        self, source: ArrowStream | SpreadSource, on: Predicate | str, *clauses: Clause, **how: Unpack[Executing]
    ) -> ChangeResult:
        """Merge a source: matched rows change or go, others come; `t` names the table and `s` the source."""
        return merge(self._allowed(*merging(clauses)), source, on, clauses, execution=Execution(**how))

    def upsert(
        self, data: ArrowStream | SpreadSource, *, order_by: str | None = None, **how: Unpack[Executing]
    ) -> ChangeResult:
        """Insert rows, or replace those with the same record key."""
        return upsert(self._allowed(*UPSERTING), data, order_by=order_by, execution=Execution(**how))

    def replace_where(
        self,
        predicate: Predicate | str | Sequence[Replacement] | None,
        data: NewRows | None = None,
        *,
        data_columns: bool = False,
        allow_full_table: bool = False,
        dry_run: bool = False,
        transaction: tuple[str, int] | None = None,
        **how: Unpack[Executing],
    ) -> ChangeResult:
        """Replace the rows under a predicate, or under several with the data for each, in one commit."""
        asked = ReplaceOptions(
            data_columns=data_columns, allow_full_table=allow_full_table, dry_run=dry_run, transaction=transaction
        )
        return replace_where(self._allowed(*REPLACING), replacements(predicate, data), asked, Execution(**how))

    def plan_replace(
        self, predicate: Predicate | str, columns: pa.Schema, options: ReplaceOptions = ReplaceOptions()
    ) -> RowWriter:
        """Decide how the new rows of a replacement are to be written, for engines that write them by themselves."""
        return plan_replace(self._allowed(*REPLACING), predicate, columns, options)

    def commit_replace(
        self, writer: RowWriter, files: tuple[NewFile, ...], options: ReplaceOptions = ReplaceOptions()
    ) -> ChangeResult:
        """Replace the rows under the predicate of a planned writer by the files that it wrote."""
        return commit_replace(self._allowed(*REPLACING), writer, files, options)

    def replace_using(
        self, columns: Sequence[str], data: ArrowStream | KeyedRows, **how: Unpack[Executing]
    ) -> ChangeResult:
        """Replace the rows that have the same values in some columns as a row of the data."""
        return replace_using(self._allowed(*REPLACING), columns, data, Execution(**how))

    def overwrite_partitions(self, data: ArrowStream | KeyedRows, **how: Unpack[Executing]) -> ChangeResult:
        """Replace every partition that the data has rows for."""
        return overwrite_partitions(self._allowed(*REPLACING), data, Execution(**how))

    def sql(self, statement: str, *, data_columns: bool = False) -> ChangeResult:
        """Run a DELETE, UPDATE, INSERT or MERGE on this table, whatever the statement calls it."""
        return run_on(statement, self, data_columns=data_columns)

    # --- changing rows by an engine: begin, store pages on workers, and finish or abort the handle ---

    def begin_delete(self, where: Filters = None, *, strategy: Strategy | None = None) -> ChangeHandle:
        """Pin the newest state, for an engine to delete some of the rows that match."""
        return begin_delete(self._allowed(*DELETING), where, strategy)

    def begin_update(self, where: Filters = None, *, strategy: Strategy | None = None) -> ChangeHandle:
        """Pin the newest state, for an engine to update some of the rows that match."""
        return begin_update(self._allowed(*UPDATING), where, strategy)

    def begin_merge(
        self, where: Filters = None, *, ops: Collection[RowOp] = tuple(RowOp), strategy: Strategy | None = None
    ) -> ChangeHandle:
        """Pin the newest state, for an engine to do `ops` to some of the rows that match, or to insert rows."""
        return begin_merge(self._allowed(*storing(ops)), where, frozenset(ops), strategy)

    # --- changing what it is ---

    def set_properties(self, properties: Mapping[str, str | None], *, auto_upgrade: bool = True) -> Instant:
        """Set table properties; None drops one."""
        return alter.set_properties(self._allowed(Privilege.UPDATE), properties, auto_upgrade=auto_upgrade)

    def upgrade_protocol(self, features: Sequence[str]) -> Instant:
        """Declare table features; they cannot be taken back."""
        return alter.upgrade_protocol(self._allowed(Privilege.UPDATE), features)

    def add_columns(self, columns: Schema | pa.Schema, *, auto_upgrade: bool = True) -> Instant:
        """Add nullable columns at the end."""
        return alter.add_columns(self._allowed(Privilege.UPDATE), columns, auto_upgrade=auto_upgrade)

    def add_constraint(self, name: str, predicate: str, *, auto_upgrade: bool = True) -> Instant:
        """Add a CHECK constraint that every row satisfies."""
        return alter.add_constraint(self._allowed(Privilege.UPDATE), name, predicate, auto_upgrade=auto_upgrade)

    # --- looking after its files ---

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest state and tell how many files it lists."""
        return writable(self._allowed(Privilege.UPDATE), "checkpoint").checkpoint()

    def compact(
        self, where: Filters = None, *, runner: Runner = Threads(), **options: Unpack[Compacting]
    ) -> RewriteResult:
        """Write small files, and files with many deleted rows, anew; the rows stay the same."""
        return compact(self._allowed(Privilege.UPDATE), where, runner=runner, **options)

    def cluster(
        self, by: Sequence[str], where: Filters = None, *, runner: Runner = Threads(), **options: Unpack[Clustering]
    ) -> RewriteResult:
        """Write partitions anew with their rows in order, by `sort` or `zorder`; the rows stay the same."""
        return cluster(self._allowed(Privilege.UPDATE), by, where, runner=runner, **options)

    @property
    def skips(self) -> tuple[Skip, ...]:
        """The files that compaction or clustering could not read, and when they are tried again."""
        return skips_of(maintainable(self.format, "skips"), self.format.latest())

    def vacuum(
        self, retention: timedelta | None = None, *, runner: Runner = Threads(), **options: Unpack[Removing]
    ) -> Removed:
        """Remove files that no state of the last `retention` needs, a week or what the table asks for by default."""
        return vacuum(self._allowed(Privilege.DELETE), retention, runner=runner, **options)

    def vacuum_indexes(
        self, retention: timedelta | None = None, *, runner: Runner = Threads(), **options: Unpack[Removing]
    ) -> Removed:
        """Remove what indexes hold about base files that are gone, on tables too that others write; `vacuum` does so as well."""
        return vacuum_indexes(self._allowed(Privilege.UPDATE), retention, runner=runner, **options)

    def expire_log(self, retention: timedelta | None = None, **options: Unpack[Removing]) -> Removed:
        """Remove entries of the log that are older than the retention and that a checkpoint stands in for."""
        return expire_log(self._allowed(Privilege.DELETE), retention, **options)

    def restore(self, at: At, **how: Unpack[Running]) -> RestoreResult:
        """Make the table what it was at an instant, by a new commit."""
        return restore(self._allowed(*RESTORING), at, **how)

    @property
    def _indexes(self) -> Indexes:
        return Indexes(self.format.storage)

    def _allowed(self, *privileges: Privilege) -> TableFormat:
        """The format, once the principal is known to have the privileges."""
        self.access.check(*privileges)
        return self.format
