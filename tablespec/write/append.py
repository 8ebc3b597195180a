"""Adding rows to a table."""

from __future__ import annotations

import attrs

from tablespec.errors import CorruptLogError, ReadOnlyFormatError, StorageError, TableSpecError
from tablespec.formats.base import Change, NewFile, TableFormat, TableState, WritableFormat
from tablespec.model.instant import Instant
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

    `transaction` (application, number) is recorded with the rows. Data without rows makes a commit of its own only when it
    changes the schema or records a transaction; otherwise the newest instant is given back.
    """
    target = writable(format_, "append")
    state = target.latest()
    target.check_writable(state, "append")
    incoming = new_rows(data)
    found = fit(
        incoming.arrow_schema, state.schema, target.storage.url, state.partition_columns, merge_schema=merge_schema
    )
    schema = target.grown(state, found.schema)
    rules = constraints(target.storage.url, schema, state.constraints)
    layout = target.write_layout(state, schema)
    files = incoming.write(RowWriter(storage=target.storage, layout=layout, rules=rules, buffers=buffers))
    rows = sum(file.stats.rows for file in files)
    if not files and not found.changed and transaction is None:
        return Appended(instant=state.instant, rows=0, files=0, bytes=0)
    size = sum(file.size for file in files)
    change = Change(
        operation="WRITE",
        parameters=(("mode", "Append"),),
        metrics=(("numFiles", len(files)), ("numOutputRows", rows), ("numOutputBytes", size)),
        adds=files,
        schema=schema if found.changed else None,
        transactions=(transaction,) if transaction is not None else (),
        operation_id=new_operation_id(),
        auto_upgrade=auto_upgrade,
    )
    instant = commit_files(target, change, state, retries)
    return Appended(instant=instant, rows=rows, files=len(files), bytes=size)


def writable(format_: TableFormat, operation: str) -> WritableFormat:
    """The format as one that can be written, or an error that names it."""
    if isinstance(format_, WritableFormat):
        return format_
    kind = format_.info(format_.latest()).format
    raise ReadOnlyFormatError(format_.storage.url, kind, operation)


def commit_files(format_: WritableFormat, change: Change, state: TableState, retries: Retries) -> Instant:
    """Commit, and take the new files away again when it is certain that the commit did not happen."""
    try:
        return commit(format_, change, state, retries)
    except (StorageError, CorruptLogError):
        # The commit may be durable all the same, and then its files must stay.
        raise
    except TableSpecError:
        discard(format_, change.adds)
        raise


def discard(format_: WritableFormat, files: tuple[NewFile, ...]) -> None:
    """Remove files that no commit names."""
    for file in files:
        format_.storage.delete(file.path)
