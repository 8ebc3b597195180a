"""Rows that Spark's tasks write and its driver commits: what the data source and streams share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import assert_never

import attrs
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tablespec import (
    UNFINISHED,
    AppendPlan,
    NewFile,
    ReplaceOptions,
    RowWriter,
    Schema,
    Storage,
    Table,
    TableExistsError,
    TableNotFoundError,
    TableSpecError,
    create_table,
)
from tablespec_spark.options import Options, invalid, refuse_together
from tablespec_spark.runner import check_reachable

Transaction = tuple[str, int] | None


@attrs.frozen
class Appending:
    """Rows come to those that are there."""

    plan: AppendPlan


@attrs.frozen
class Creating:
    """Rows come into a table that the commit makes."""

    plan: AppendPlan
    properties: tuple[tuple[str, str], ...]


@attrs.frozen
class Replacing:
    """Rows take the place of those under the predicate of their writer."""

    writer: RowWriter


Plan = Appending | Creating | Replacing


class Written(WriterCommitMessage):
    """What one task did: the files that it wrote, or why it could not."""

    def __init__(self, outcome: tuple[NewFile, ...] | TableSpecError) -> None:
        self.outcome = outcome


@attrs.frozen
class Destination:
    """A table that rows go to, as options ask for it; plain data."""

    options: Options
    overwrite: bool = False

    def plan(self, columns: pa.Schema) -> Plan:
        """Decide how rows of these columns are written; a table that is not there will be made by the commit."""
        check_reachable(self._storage.url)
        if self.overwrite:
            refuse_together(self.options, "overwriting", ("mergeSchema",))
        try:
            table = self.options.table()
        except TableNotFoundError:
            return self._creating(columns)
        self._check_same(table)
        if not self.overwrite:
            return Appending(table.plan_append(columns, merge_schema=self.options.flag("mergeSchema")))
        return Replacing(table.plan_replace(self._where, columns, self._replacing(None)))

    def create(self, columns: pa.Schema) -> None:
        """Make the table, without rows, where it is not there."""
        try:
            self.options.table()
        except TableNotFoundError:
            try:
                self._created(self.options.url, columns, self.options.texts("properties"))
            except TableExistsError:
                # Somebody else was faster, and theirs is as good.
                return

    def commit(self, plan: Plan, messages: Sequence[Written], transaction: Transaction = None) -> None:
        """Make what all tasks wrote visible at once; after an error of one of them nothing stays."""
        files = tuple(file for message in messages if isinstance(message.outcome, tuple) for file in message.outcome)
        for message in messages:
            if isinstance(message.outcome, TableSpecError):
                self.discard(messages)
                raise message.outcome
        match plan:
            case Appending(append):
                self.options.table().commit_append(append, files, transaction=transaction)
            case Replacing(writer):
                self.options.table().commit_replace(writer, files, self._replacing(transaction))
            case Creating(append, properties):
                try:
                    table = self._created(self.options.url, append.writer.layout.schema, dict(properties))
                except TableExistsError:
                    self.discard(messages)
                    raise
                table.commit_append(append, files, transaction=transaction)
                self._storage.delete(UNFINISHED)
            case _:
                assert_never(plan)

    def abort(self, messages: Sequence[Written | None]) -> None:
        """Remove what tasks wrote, unless a commit was tried.

        Spark calls this with the messages of all tasks when a commit raises. It has removed the files then if it was certain that it did
        not happen, and otherwise it may be durable.
        """
        if any(message is None for message in messages):
            self.discard([message for message in messages if message is not None])

    def discard(self, messages: Sequence[Written]) -> None:
        """Remove files that no commit names."""
        for message in messages:
            if isinstance(message.outcome, tuple):
                for file in message.outcome:
                    self._storage.delete(file.path)
        self._storage.delete(UNFINISHED)

    @property
    def _storage(self) -> Storage:
        return Storage.at(self.options.url, self.options.storage)

    @property
    def _where(self) -> str:
        return self.options.text("replaceWhere") or ""

    def _replacing(self, transaction: Transaction) -> ReplaceOptions:
        # Overwriting without saying what means everything: that is what the mode is for.
        return ReplaceOptions(
            data_columns=self.options.flag("dataColumns"),
            allow_full_table=self.options.text("replaceWhere") is None,
            transaction=transaction,
        )

    def _creating(self, columns: pa.Schema) -> Creating:
        # A table in memory tells what one at the real place will be like, without leaving anything there.
        model = self._created(f"memory://{uuid.uuid4()}", columns, self.options.texts("properties"))
        plan = model.plan_append(columns)
        if self.overwrite:
            # There is nothing to replace, and the new rows must be what was said of them all the same.
            plan = attrs.evolve(plan, writer=model.plan_replace(self._where, columns, self._replacing(None)))
        storage = self._storage
        # A driver that is killed leaves files of its tasks, and without this nobody could tell them from those of others.
        storage.put(UNFINISHED, b"")
        writer = attrs.evolve(plan.writer, storage=storage, rules=attrs.evolve(plan.writer.rules, table=storage.url))
        return Creating(attrs.evolve(plan, writer=writer), tuple(model.properties.items()))

    def _created(self, url: str, columns: Schema | pa.Schema, properties: Mapping[str, str]) -> Table:
        return create_table(
            url,
            columns,
            partition_by=self.options.names("partitionBy") or (),
            key=self.options.names("key") or (),
            properties=properties,
            storage_options=self.options.storage if url == self.options.url else None,
        )

    def _check_same(self, table: Table) -> None:
        """Raise where the options describe another table than the one that is there."""
        for name, found in (("partitionBy", table.partition_columns), ("key", table.record_key)):
            asked = self.options.names(name)
            if asked is not None and asked != found:
                told = ", ".join(found) or "none"
                raise invalid(name, ", ".join(asked), f"what {table.url} has, {told}, or no such option")
        for name, value in self.options.texts("properties").items():
            if table.properties.get(name) != value:
                told = f"what {table.url} has, {table.properties.get(name, 'none')}, or a call of set_properties"
                raise invalid(f"properties {name}", value, told)


def outcome(plan: Plan, batches: Iterable[pa.RecordBatch]) -> tuple[NewFile, ...] | TableSpecError:
    """Write the rows of one task and tell the files; what goes wrong is a value too, because another attempt would fail alike."""
    writer = plan.writer if isinstance(plan, Replacing) else plan.plan.writer
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        return ()
    try:
        return writer.write(pa.RecordBatchReader.from_batches(first.schema, chain([first], rest)))
    except TableSpecError as error:
        return error
