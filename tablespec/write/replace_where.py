"""Replacing the rows under a predicate by others that satisfy it, in one commit."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set

import attrs
import msgspec
import pyarrow as pa

from tablespec.arrow.schema import arrow_schema
from tablespec.errors import (
    ColumnNotFoundError,
    InvalidPredicateError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
)
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Or, Predicate, columns_of
from tablespec.expr.render import render
from tablespec.expr.rewrite import simplify
from tablespec.formats.base import NewFile, TableFormat, TableState
from tablespec.write.append import discard, discarding, is_committed, is_recorded, writable
from tablespec.write.check import constraints
from tablespec.write.delete import check_leaves_rows, delete_tasks, find_deleted
from tablespec.write.execution import Execution
from tablespec.write.fit import fit
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, begin, finish, foreseen, run_all
from tablespec.write.rows import NewRows, RowWriter, SpreadRows, WrittenRows, new_rows

Replacement = tuple[Predicate | str | None, NewRows]


@attrs.frozen(kw_only=True)
class ReplaceOptions:
    """What a replaceWhere may do; `transaction` (application, number) is recorded with it."""

    data_columns: bool = False
    allow_full_table: bool = False
    dry_run: bool = False
    transaction: tuple[str, int] | None = None


def replace_where(
    format_: TableFormat,
    replacements: Sequence[Replacement],
    options: ReplaceOptions = ReplaceOptions(),
    execution: Execution = Execution(),
) -> ChangeResult:
    """Delete the rows under each predicate and insert the rows given for it, all in one commit.

    A new row for which its predicate is false or null is refused. Data without rows only deletes. With `dry_run` nothing is written, and
    the result has the metrics that the replacement would have. New rows are refused and counted as they would be, but those of a
    RecordBatchReader, which come only once, are left there. How many files come is an estimate: one for the rows of a predicate in each
    partition, and one for each that is written anew, which holds for files of ordinary size. A transaction that the table has recorded
    before is not done again.
    """
    if is_recorded(writable(format_, "WRITE"), options.transaction):
        return ChangeResult(instant=None)
    state = writable(format_, "WRITE").latest()
    predicates = _checked(format_, state, [predicate for predicate, _ in replacements], options)
    handle = begin(format_, state, "WRITE", _any_of(predicates), strategy=execution.strategy)
    fragments = run_all(handle, find_deleted, delete_tasks(handle), execution.runner)
    if options.dry_run:
        counted = [
            file
            for predicate, (_, data) in zip(predicates, replacements)
            for file in _looked_through(handle, predicate, data)
        ]
        return foreseen(handle, fragments, replacing(handle, predicates, counted, options))
    added: list[NewFile] = []
    try:
        for predicate, (_, data) in zip(predicates, replacements):
            added += written(handle, predicate, data)
    except BaseException:
        discard(handle.format, tuple(added))
        raise
    return finish(handle, fragments, replacing(handle, predicates, added, options), execution=execution)


def replacing(
    handle: ChangeHandle,
    predicates: Sequence[Predicate],
    added: Sequence[NewFile],
    options: ReplaceOptions = ReplaceOptions(),
) -> Finish:
    """What the commit of a replacement records: the files that go as a whole and those that come, and the predicates."""
    return Finish(
        removed=handle.whole_files,
        added=tuple(added),
        parameters=(("mode", "Overwrite"),),
        details=(("replaceWhere", _details(predicates)),),
        transaction=options.transaction,
    )


def _details(predicates: Sequence[Predicate]) -> str:
    texts = [render(predicate) for predicate in predicates]
    text = texts[0] if len(texts) == 1 else " OR ".join(f"({one})" for one in texts)
    now = time.time_ns() // 1_000_000
    return msgspec.json.encode({"predicate": text, "predicates": texts, "timestamp": now, "dataChange": True}).decode()


def replacements(
    predicate: Predicate | str | Sequence[Replacement] | None, data: NewRows | None
) -> Sequence[Replacement]:
    """One predicate with its data, or a sequence of such pairs, as pairs; without data the rows only go."""
    if isinstance(predicate, Sequence) and not isinstance(predicate, str):
        paired = all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in predicate)
        if data is not None or not paired:
            why = "several predicates are given as pairs, each with its own data"
            raise InvalidPredicateError(str([pair[0] if paired else pair for pair in predicate]), None, why)
        if not predicate:
            raise InvalidPredicateError("[]", None, "rows are replaced under one predicate or more, and none is given")
        return predicate
    return [(predicate, pa.table({}) if data is None else data)]


def plan_replace(
    format_: TableFormat, predicate: Predicate | str, columns: pa.Schema, options: ReplaceOptions = ReplaceOptions()
) -> RowWriter:
    """Decide how the new rows of a replacement are to be written, for engines that write them by themselves."""
    target = writable(format_, "WRITE")
    state = target.latest()
    (bound,) = _checked(format_, state, [predicate], options)
    target.check_writable(state, "WRITE")
    target.check_removable(state, "WRITE")
    fit(columns, state.schema, target.storage.url, state.partition_columns, merge_schema=False)
    rules = constraints(target.storage.url, state.schema, state.constraints)
    layout = target.write_layout(state, state.schema)
    return RowWriter(
        storage=target.storage, layout=layout, rules=rules, predicate=bound, planned_on=state.instant.version
    )


def commit_replace(
    format_: TableFormat, writer: RowWriter, files: tuple[NewFile, ...], options: ReplaceOptions = ReplaceOptions()
) -> ChangeResult:
    """Replace the rows under the predicate of a planned writer by the files that it wrote.

    Which rows go is found out now. When it is certain that this did not happen, the files are removed. Nothing is done when the transaction
    was recorded before, or when the files were committed before; they stay, because they may be the very ones that were.
    """
    target = writable(format_, "WRITE")
    if options.transaction is None and writer.planned_on is not None and is_committed(target, writer.planned_on, files):
        return ChangeResult(instant=None)
    with discarding(target, files):
        rows = WrittenRows(writer, files, target.latest().instant.version)
        return replace_where(format_, [(writer.predicate, rows)], options)


def _checked(
    format_: TableFormat, state: TableState, predicates: Sequence[Predicate | str | None], options: ReplaceOptions
) -> list[Predicate]:
    """The predicates bound to the schema of a state; when no row escapes all of them that must be allowed by name."""
    bound = [_bound(format_, state, predicate, options) for predicate in predicates]
    if not options.allow_full_table:
        check_leaves_rows(format_, state, _any_of(bound), "replace_where")
    return bound


def _any_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else simplify(Or(tuple(predicates)))


def _bound(
    format_: TableFormat, state: TableState, predicate: Predicate | str | None, options: ReplaceOptions
) -> Predicate:
    if predicate is None or predicate == "":
        return TRUE
    try:
        bound = bind(predicate, state.schema)
    except ColumnNotFoundError as error:
        if not options.data_columns:
            _check_partition_columns(format_, state, {error.column})
        raise
    if not options.data_columns and bound != TRUE:
        _check_partition_columns(format_, state, {path[0] for path in columns_of(bound)})
    return bound


def _check_partition_columns(format_: TableFormat, state: TableState, columns: Set[str]) -> None:
    if not state.partition_columns:
        raise NonPartitionedTableError(format_.storage.url)
    others = sorted(columns - {*state.partition_columns})
    if others:
        raise PartitionColumnNotFoundError(others[0], state.partition_columns)


def written(handle: ChangeHandle, predicate: Predicate, data: NewRows) -> tuple[NewFile, ...]:
    """The files of new rows, for each of which the predicate must be true."""
    return _fitted(handle, data).write(_writer(handle, predicate))


def _looked_through(handle: ChangeHandle, predicate: Predicate, data: NewRows) -> tuple[NewFile, ...]:
    """The files that new rows would go to, after refusing those that the replacement would refuse."""
    rows = _fitted(handle, data)
    # The rows of a reader come only once: the replacement that follows would find none, and only delete.
    if isinstance(data, pa.RecordBatchReader):
        return ()
    return rows.write(attrs.evolve(_writer(handle, predicate), dry=True))


def _fitted(handle: ChangeHandle, data: NewRows) -> SpreadRows:
    incoming, target = new_rows(data), handle.target
    if not len(incoming.arrow_schema):
        return new_rows(arrow_schema(target.schema).empty_table())
    fit(incoming.arrow_schema, target.schema, target.storage.url, handle.state.partition_columns, merge_schema=False)
    return incoming


def _writer(handle: ChangeHandle, predicate: Predicate) -> RowWriter:
    target = handle.target
    return RowWriter(storage=target.storage, layout=target.write, rules=target.rules, predicate=predicate)
