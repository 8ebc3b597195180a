"""Replacing the rows under a predicate by others that satisfy it, in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.evaluate import matching
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import (
    FullTableChangeError,
    NonPartitionedTableError,
    PartitionColumnNotFoundError,
    ReplaceWhereMismatchError,
)
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Column, Compare, In, Literal, Op, Or, Predicate, Scalar, all_of, columns_of
from tablespec.expr.render import render
from tablespec.expr.rewrite import simplify
from tablespec.formats.base import NewFile, TableFormat
from tablespec.model.schema import Schema
from tablespec.txn.transaction import Retries
from tablespec.write.append import discard
from tablespec.write.check import verified
from tablespec.write.data_file import write_files
from tablespec.write.delete import all_matching, delete_tasks, find_deleted
from tablespec.write.fit import as_stored, fit, fitted
from tablespec.write.merge_sink import joined
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, Strategy, abort, begin, finish, run_all
from tablespec.write.runner import Runner, Threads

Replacement = tuple[Predicate | str, ArrowStream]


@attrs.frozen(kw_only=True)
class ReplaceOptions:
    """What a replaceWhere may do, and how."""

    data_columns: bool = False
    allow_full_table: bool = False
    dry_run: bool = False
    strategy: Strategy | None = None
    runner: Runner = Threads()
    retries: Retries = Retries()


def replace_where(
    format_: TableFormat,
    replacements: Sequence[Replacement],
    options: ReplaceOptions = ReplaceOptions(),
) -> ChangeResult:
    """Delete the rows under each predicate and insert the rows given for it, all in one commit.

    A new row for which its predicate is false or null is refused. Data without rows only deletes. With `dry_run` nothing is written and
    the result says what would go.
    """
    schema = format_.latest().schema
    predicates = [_checked(format_, predicate, options) for predicate, _ in replacements]
    any_of = predicates[0] if len(predicates) == 1 else Or(tuple(predicates))
    handle = begin(format_, "WRITE", simplify(any_of), strategy=options.strategy, change_feed=False)
    tasks = delete_tasks(handle)
    fragments = run_all(handle, find_deleted, tasks, options.runner)
    record = Finish(removed=all_matching(handle))
    if options.dry_run:
        abort(handle, fragments)
        return _dry(handle, sum(fragment.deleted_rows for fragment in fragments), len(joined(fragments)))
    added: list[NewFile] = []
    try:
        for predicate, (_, data) in zip(predicates, replacements):
            added += _written(handle, schema, predicate, data)
    except BaseException:
        discard(handle.format, tuple(added))
        raise
    text = (
        " OR ".join(f"({render(predicate)})" for predicate in predicates)
        if len(predicates) > 1
        else render(predicates[0])
    )
    details = msgspec.json.encode({"predicate": text, "predicates": [render(one) for one in predicates]}).decode()
    record = attrs.evolve(
        record, added=tuple(added), parameters=(("mode", "Overwrite"),), details=(("replaceWhere", details),)
    )
    return finish(handle, fragments, record, runner=options.runner, retries=options.retries)


def replacements(predicate: Predicate | str | Sequence[Replacement], data: ArrowStream | None) -> Sequence[Replacement]:
    """One predicate with its data, or a sequence of such pairs, as pairs; without data the rows only go."""
    if isinstance(predicate, Sequence) and not isinstance(predicate, str):
        return predicate
    return [(predicate, pa.table({}) if data is None else data)]


def replace_using(
    format_: TableFormat, columns: Sequence[str], data: ArrowStream, options: ReplaceOptions = ReplaceOptions()
) -> ChangeResult:
    """Replace the rows that have the same values in `columns` as some row of the data; null equals nothing.

    Data without rows changes nothing.
    """
    table = record_batches(data).read_all()
    schema = format_.latest().schema
    keys = table.select([schema.field(name).name for name in columns]).group_by(list(columns)).aggregate([])
    rows = [row for row in keys.to_pylist() if None not in row.values()]
    if not rows:
        return ChangeResult(instant=None)
    return _replace_keys(format_, rows, table, Op.EQ, options)


def overwrite_partitions(
    format_: TableFormat, data: ArrowStream, options: ReplaceOptions = ReplaceOptions()
) -> ChangeResult:
    """Replace every partition that the data has rows for; null and empty partitions count like others."""
    table = record_batches(data).read_all()
    partitions = list(format_.latest().partition_columns)
    if not partitions:
        raise NonPartitionedTableError(format_.storage.url)
    rows = table.select(partitions).group_by(partitions).aggregate([]).to_pylist()
    if not rows:
        return ChangeResult(instant=None)
    return _replace_keys(format_, rows, table, Op.NULL_SAFE_EQ, options)


def _replace_keys(
    format_: TableFormat, rows: Sequence[dict[str, Scalar]], table: pa.Table, op: Op, options: ReplaceOptions
) -> ChangeResult:
    if len(rows[0]) == 1 and op is Op.EQ:
        (name,) = rows[0]
        listed = In(Column((name,)), tuple(Literal(row[name]) for row in rows))
        return replace_where(format_, [(listed, table)], attrs.evolve(options, data_columns=True))
    keys = tuple(
        all_of(tuple(Compare(op, Column((name,)), Literal(value)) for name, value in row.items())) for row in rows
    )
    predicate = keys[0] if len(keys) == 1 else Or(keys)
    allowed = attrs.evolve(options, data_columns=True)
    return replace_where(format_, [(predicate, table)], allowed)


def _checked(format_: TableFormat, predicate: Predicate | str, options: ReplaceOptions) -> Predicate:
    state = format_.latest()
    bound = TRUE if predicate == "" else simplify(bind(predicate, state.schema))
    if bound == TRUE:
        if options.allow_full_table:
            return bound
        raise FullTableChangeError(format_.storage.url, "replace_where")
    if options.data_columns:
        return bound
    if not state.partition_columns:
        raise NonPartitionedTableError(format_.storage.url)
    others = sorted({path[0] for path in columns_of(bound)} - set(state.partition_columns))
    if others:
        raise PartitionColumnNotFoundError(others[0], state.partition_columns)
    return bound


def _written(handle: ChangeHandle, schema: Schema, predicate: Predicate, data: ArrowStream) -> tuple[NewFile, ...]:
    batches = record_batches(data)
    url = handle.target.storage.url
    if not len(batches.schema):
        return ()
    fit(batches.schema, schema, url, handle.state.partition_columns, merge_schema=False)
    satisfying = _satisfying(fitted(batches, schema), predicate, handle.state.partition_columns, url)
    rows = verified(satisfying, handle.target.rules)
    return write_files(handle.target.storage, handle.target.write, rows)


def _satisfying(
    batches: Iterator[pa.RecordBatch], predicate: Predicate, partitions: tuple[str, ...], url: str
) -> Iterator[pa.RecordBatch]:
    for given in batches:
        batch = as_stored(given, partitions)
        held = matching(predicate, batch)
        if not pc.all(held).as_py():
            row = batch.slice(pc.index(held, False).as_py(), 1).to_pylist()[0]
            raise ReplaceWhereMismatchError(url, render(predicate), str(row))
        yield batch


def _dry(handle: ChangeHandle, rows: int, partly: int) -> ChangeResult:
    whole = all_matching(handle)
    return ChangeResult(
        instant=None,
        rows_deleted=rows + sum(file.slice.rows or 0 for file in whole),
        files_removed=len(whole),
        vectors_written=partly if handle.strategy is Strategy.MERGE_ON_READ else 0,
        files_rewritten=partly if handle.strategy is Strategy.COPY_ON_WRITE else 0,
    )
