"""Adding rows to a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

import attrs
import pyarrow as pa

from tablespec.errors import (
    CorruptLogError,
    InvalidOptionError,
    ReadOnlyFormatError,
    StorageError,
    TableSpecError,
    UnsupportedTableError,
)
from tablespec.formats.base import (
    Change,
    NewFile,
    RecordsTransactions,
    TableFormat,
    TableState,
    WritableFormat,
    WritesVectors,
)
from tablespec.model.instant import Instant
from tablespec.model.schema import Schema
from tablespec.txn.transaction import Retries, commit, new_operation_id
from tablespec.write.check import constraints
from tablespec.write.data_file import Buffers
from tablespec.write.fit import fit
from tablespec.write.rows import NewRows, RowWriter, new_rows


@attrs.frozen(kw_only=True)
class Appended:
    """What an append did."""

    instant: Instant
    rows: int
    files: int
    bytes: int


@attrs.frozen(kw_only=True)
class AppendPlan:
    """How the rows of an append are to be written, decided on one version; plain data that travels to workers.

    `schema` holds the columns that the table gets; None where they stay.
    """

    version: int
    writer: RowWriter
    schema: Schema | None = None


class Committing(TypedDict, total=False):
    """Keywords of a commit of rows."""

    transaction: tuple[str, int] | None
    retries: Retries


class Appending(Committing, total=False):
    """Keywords of an append."""

    merge_schema: bool
    auto_upgrade: bool


def append(
    format_: TableFormat,
    data: NewRows,
    *,
    merge_schema: bool = False,
    transaction: tuple[str, int] | None = None,
    auto_upgrade: bool = True,
    retries: Retries = Retries(),
    buffers: Buffers = Buffers(),
) -> Appended:
    """Write the rows of `data`, in a stream or where an engine holds them, and commit them; after an error the table is as it was.

    `transaction` (application, number) is recorded with the rows; when the table has recorded this number of the application, or a later
    one, nothing is done. Data without rows makes a commit of its own only when it changes the schema or records a transaction; otherwise
    the newest instant is given back.
    """
    target = writable(format_, "append")
    if is_recorded(target, transaction):
        return _nothing(target.latest())
    state = target.latest()
    incoming = new_rows(data)
    plan = _plan(target, state, incoming.arrow_schema, merge_schema=merge_schema)
    files = incoming.write(attrs.evolve(plan.writer, buffers=buffers))
    return _commit(target, state, plan, files, transaction, retries, auto_upgrade=auto_upgrade)


def plan_append(format_: TableFormat, columns: pa.Schema, *, merge_schema: bool = False) -> AppendPlan:
    """Decide how rows of these columns are to be written, for engines that write them by themselves."""
    target = writable(format_, "append")
    return _plan(target, target.latest(), columns, merge_schema=merge_schema)


def commit_append(
    format_: TableFormat,
    plan: AppendPlan,
    files: tuple[NewFile, ...],
    *,
    transaction: tuple[str, int] | None = None,
    retries: Retries = Retries(),
) -> Appended:
    """Commit files that the writer of a plan has written; when it is certain that this did not happen, they are removed.

    Nothing is done when the transaction was recorded before, or when the files were committed before: whoever does not know may try again.
    The files stay then: they may be the very ones that were recorded.
    """
    target = writable(format_, "append")
    if transaction is None and is_committed(target, plan.version, files):
        return _nothing(target.latest())
    with discarding(target, files):
        if is_recorded(target, transaction):
            return _nothing(target.latest())
        return _commit(target, target.state_at(plan.version), plan, files, transaction, retries)


def is_recorded(format_: WritableFormat, transaction: tuple[str, int] | None) -> bool:
    """Whether the table has recorded this number of the application, or a later one."""
    if transaction is None:
        return False
    if not isinstance(format_, RecordsTransactions):
        raise UnsupportedTableError(format_.storage.url, "a format that records no transactions of applications")
    application, number = _checked(transaction)
    recorded = format_.transaction(format_.latest(), application)
    return recorded is not None and recorded >= number


def is_committed(format_: WritableFormat, version: int, files: tuple[NewFile, ...]) -> bool:
    """Whether a commit after that version brought one of these files, whose names are given once and never again."""
    names = {_name(file.path) for file in files}
    return bool(names) and any(
        _name(path) in names for commit in format_.commits_after(version) for path in commit.added_paths
    )


def _name(path: str) -> str:
    # Folders are spelled otherwise in the log.
    return path.rpartition("/")[2]


def _checked(transaction: tuple[str, int]) -> tuple[str, int]:
    """The transaction, where a log can tell it to every client."""
    match transaction:
        case (str(application), int(number)) if type(number) is int and abs(number) < 1 << 63:
            # Halves of characters cannot be written.
            if application.encode(errors="replace").decode() == application:
                return application, number
    expected = "the name of an application with a whole number of 64 bits, such as ('loader', 7)"
    raise InvalidOptionError("transaction", repr(transaction), expected)


def _plan(target: WritableFormat, state: TableState, columns: pa.Schema, *, merge_schema: bool) -> AppendPlan:
    target.check_writable(state, "append")
    found = fit(columns, state.schema, target.storage.url, state.partition_columns, merge_schema=merge_schema)
    schema = target.grown(state, found.schema)
    rules = constraints(target.storage.url, schema, state.constraints)
    writer = RowWriter(storage=target.storage, layout=target.write_layout(state, schema), rules=rules)
    return AppendPlan(version=state.instant.version, writer=writer, schema=schema if found.changed else None)


def _commit(
    target: WritableFormat,
    state: TableState,
    plan: AppendPlan,
    files: tuple[NewFile, ...],
    transaction: tuple[str, int] | None,
    retries: Retries,
    *,
    auto_upgrade: bool = True,
) -> Appended:
    if not files and plan.schema is None and transaction is None:
        return _nothing(state)
    rows, size = sum(file.stats.rows for file in files), sum(file.size for file in files)
    change = Change(
        operation="WRITE",
        parameters=(("mode", "Append"),),
        metrics=(("numFiles", len(files)), ("numOutputRows", rows), ("numOutputBytes", size)),
        adds=files,
        schema=plan.schema,
        transactions=(transaction,) if transaction is not None else (),
        operation_id=new_operation_id(),
        auto_upgrade=auto_upgrade,
    )
    instant = commit_files(target, change, state, retries)
    return Appended(instant=instant, rows=rows, files=len(files), bytes=size)


def _nothing(state: TableState) -> Appended:
    return Appended(instant=state.instant, rows=0, files=0, bytes=0)


def writable(format_: TableFormat, operation: str) -> WritableFormat:
    """The format as one that can be written, or an error that names it."""
    if isinstance(format_, WritableFormat):
        return format_
    kind = format_.info(format_.latest()).format
    raise ReadOnlyFormatError(format_.storage.url, kind, operation)


def commit_files(format_: WritableFormat, change: Change, state: TableState, retries: Retries) -> Instant:
    """Commit, and take the new files away again when it is certain that the commit did not happen."""
    vectors = format_.vector_files(change.revised) if isinstance(format_, WritesVectors) else frozenset()
    with discarding(format_, (*change.adds, *change.change_files), vectors):
        return commit(format_, change, state, retries)


@contextmanager
def discarding(
    format_: WritableFormat, files: tuple[NewFile, ...], others: frozenset[str] = frozenset()
) -> Iterator[None]:
    """Remove files when what is done with them fails, unless a commit of them may be durable all the same."""
    try:
        yield
    except (StorageError, CorruptLogError):
        raise
    except TableSpecError:
        discard(format_, files)
        for path in others:
            format_.storage.delete(path)
        raise


def discard(format_: WritableFormat, files: tuple[NewFile, ...]) -> None:
    """Remove files that no commit names."""
    for file in files:
        format_.storage.delete(file.path)
