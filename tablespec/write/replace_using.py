"""Replacing the rows that have the same values in some columns as new ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.schema import schema_of
from tablespec.arrow.stream import ArrowStream
from tablespec.errors import (
    EmptyPartitionError,
    InvalidSchemaError,
    NonPartitionedTableError,
    ReplaceWhereMismatchError,
    TypeMismatchError,
    UnsupportedTypeError,
)
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Column, Compare, In, Literal, Op, Or, Predicate, Scalar, all_of
from tablespec.expr.rewrite import simplify
from tablespec.formats.base import LiveFile, NewFile, TableFormat, TableState
from tablespec.model.schema import BINARY, STRING, DecimalType, Primitive, Schema, column_names
from tablespec.write.append import discard, writable
from tablespec.write.delete import delete_tasks, find_deleted
from tablespec.write.execution import Execution
from tablespec.write.fit import check_names, column_of_data, held
from tablespec.write.fragment import Fragment
from tablespec.write.merge import MergeTask, merge_slices, merge_tasks
from tablespec.write.merge_keys import key_column, with_keys
from tablespec.write.merge_plan import LISTED_KEYS, SOURCE, TARGET, Clause, KeyValues, Kind, plan, pruning
from tablespec.write.replace_where import ReplaceOptions, replace_where, replacing, written
from tablespec.write.row_change import ChangeHandle, ChangeResult, Finish, begin, finish, run_all
from tablespec.write.rows import KeyedRows, NewRows


def replace_using(
    format_: TableFormat, columns: Sequence[str], data: ArrowStream | KeyedRows, execution: Execution = Execution()
) -> ChangeResult:
    """Replace the rows that have the same values in `columns` as some row of the data.

    Null equals nothing, so that a row of the data with a null there is refused. Data without rows changes nothing.
    """
    given = data if isinstance(data, KeyedRows) else held(data, format_.storage.url)
    state = format_.latest()
    keys = _distinct(given, state.schema, column_names("columns", columns), format_.storage.url)
    if not keys.num_rows:
        return ChangeResult(instant=None)
    _check_keys(keys, state.partition_columns, format_.storage.url)
    if keys.num_rows <= LISTED_KEYS or {*keys.column_names} <= {*state.partition_columns}:
        try:
            listed = keys.to_pylist()
        except OverflowError:
            # Predicates have no dates outside of the years 1 to 9999.
            return replace_looked_up(format_, keys, given, execution)
        return replace_listed(format_, listed, given, execution)
    return replace_looked_up(format_, keys, given, execution)


def overwrite_partitions(
    format_: TableFormat, data: ArrowStream | KeyedRows, execution: Execution = Execution()
) -> ChangeResult:
    """Replace every partition that the data has rows for; null counts like other values, and so does each zero.

    Values without characters are stored as null. Of a partition that has them all the same, as other writers may make it, no rows are
    taken, since they would come in place of those of the partition without a value.
    """
    state = format_.latest()
    if not state.partition_columns:
        raise NonPartitionedTableError(format_.storage.url)
    given = data if isinstance(data, KeyedRows) else held(data, format_.storage.url)
    found = _distinct(given, state.schema, state.partition_columns, format_.storage.url)
    try:
        listed = found.to_pylist()
    except OverflowError as error:
        why = "partition values outside of the years 1 to 9999"
        raise TypeMismatchError(", ".join(found.column_names), "date or timestamp", why) from error
    if not listed:
        return ChangeResult(instant=None)
    _check_not_empty(format_, state, listed)
    # The new rows are looked at as they are stored.
    keys = [{name: None if value in ("", b"") else value for name, value in row.items()} for row in listed]
    predicate = simplify(bind(_one_of(keys, Op.NULL_SAFE_EQ), state.schema))
    handle = begin(format_, state, "WRITE", predicate, strategy=execution.strategy)
    added = written(handle, predicate, given)
    try:
        handle = attrs.evolve(handle, files=_in_partitions_of(added, handle))
        fragments = run_all(handle, find_deleted, delete_tasks(handle), execution.runner)
    except BaseException:
        discard(handle.format, added)
        raise
    return finish(handle, fragments, replacing(handle, [predicate], added), execution=execution)


def _check_not_empty(format_: TableFormat, state: TableState, keys: Sequence[Mapping[str, Scalar]]) -> None:
    """Refuse rows of a partition without characters that the table has beside the one without a value."""
    empty = [row for row in keys if any(value in ("", b"") for value in row.values())]
    if not empty:
        return
    predicate = simplify(bind(_one_of(empty, Op.NULL_SAFE_EQ), state.schema))
    for file in writable(format_, "WRITE").live_files(state, predicate):
        found = dict(zip(state.partition_columns, file.slice.partition_values))
        names = tuple(name for name, value in found.items() if value in ("", b""))
        raise EmptyPartitionError(format_.storage.url, names, str(found))


def replace_listed(
    format_: TableFormat, keys: Sequence[Mapping[str, Scalar]], data: NewRows, execution: Execution = Execution()
) -> ChangeResult:
    """Replace the rows with one of some keys under a predicate that names each of them."""
    predicate = _one_of(keys, Op.EQ)
    # The keys may be all that a column can hold, such as true and false.
    options = ReplaceOptions(data_columns=True, allow_full_table=True)
    return replace_where(format_, [(predicate, data)], options, execution)


def _one_of(keys: Sequence[Mapping[str, Scalar]], op: Op) -> Predicate:
    """The predicate of the rows that have one of some keys, of which there is at least one."""
    if len(keys[0]) == 1 and op is Op.EQ:
        (name,) = keys[0]
        return In(Column((name,)), tuple(Literal(row[name]) for row in keys))
    each = tuple(
        all_of(tuple(Compare(op, Column((name,)), Literal(value)) for name, value in row.items())) for row in keys
    )
    return each[0] if len(each) == 1 else Or(each)


def _in_partitions_of(added: Sequence[NewFile], handle: ChangeHandle) -> tuple[LiveFile, ...]:
    """The files of a handle without those of the other zero: by the predicate it is equal, and still a partition of its own."""
    folder = handle.target.write.naming.folder
    new = {folder(file.partition_values) for file in added}
    return tuple(
        file
        for file in handle.files
        if not _has_zero(file.slice.partition_values) or folder(file.slice.partition_values) in new
    )


def _has_zero(values: Sequence[object]) -> bool:
    return any(isinstance(value, float) and value == 0 for value in values)


def replace_looked_up(
    format_: TableFormat, keys: pa.Table, data: NewRows, execution: Execution = Execution()
) -> ChangeResult:
    """Replace the rows with one of many keys, which are looked up for each row of the table as in a merge."""
    state = writable(format_, "WRITE").latest()
    equal = tuple(Compare(Op.EQ, Column((TARGET, name)), Column((SOURCE, name))) for name in keys.column_names)
    matched = plan(all_of(equal), [Clause(Kind.MATCHED_DELETE)], state.schema, schema_of(keys.schema))
    source = with_keys(keys, matched, state.schema)
    known = [KeyValues.of(source.column(key_column(index))) for index in range(len(matched.keys))]
    handle = begin(format_, state, "WRITE", pruning(matched, known, state.schema), strategy=execution.strategy)
    tasks = merge_tasks(handle, matched, source)
    fragments = run_all(handle, delete_partners, tasks, execution.runner)
    # That new rows have one of the keys needs no test: the keys are theirs.
    added = written(handle, TRUE, data)
    record = Finish(
        added=added,
        parameters=(("mode", "Overwrite"), ("replaceUsing", ", ".join(keys.column_names))),
        details=(("replaceUsing", _details(keys)),),
    )
    return finish(handle, fragments, record, execution=execution)


def delete_partners(task: MergeTask) -> Sequence[Fragment]:
    """Find the rows that have one of the keys; on a worker."""
    return merge_slices(task).fragments


def _details(keys: pa.Table) -> str:
    now = time.time_ns() // 1_000_000
    told = {"columns": keys.column_names, "keys": keys.num_rows, "timestamp": now, "dataChange": True}
    return msgspec.json.encode(told).decode()


def _check_keys(keys: pa.Table, partition_columns: tuple[str, ...], url: str) -> None:
    """Refuse a row with a key that is null once it is stored, as a partition value without characters is."""
    for name, column in zip(keys.column_names, keys.columns):
        emptied = name in partition_columns and schema_of(keys.schema).field(name).type in (STRING, BINARY)
        empty = keys.filter(pc.equal(pc.binary_length(column), 0)) if emptied else keys.slice(0, 0)
        for refused, named in ((keys.filter(pc.is_null(column)), ()), (empty, (name,))):
            if refused.num_rows:
                wanted = f"equality of {', '.join(keys.column_names)}"
                raise ReplaceWhereMismatchError(url, wanted, str(refused.slice(0, 1).to_pylist()[0]), named)


def _distinct(data: pa.Table | KeyedRows, schema: Schema, columns: Sequence[str], url: str) -> pa.Table:
    """The values that columns of the table, which the data may spell otherwise, have together in the data."""
    fields = [schema.field(name) for name in columns]
    spelled = [field.name for field in fields]
    if not fields or len(set(spelled)) < len(spelled):
        raise InvalidSchemaError("rows are replaced by the values of one column or more, each named once")
    for field in fields:
        if not isinstance(field.type, Primitive | DecimalType):
            raise UnsupportedTypeError(field.name, str(field.type), "rows cannot be replaced by its values")
    given = schema_of(data.schema if isinstance(data, pa.Table) else data.arrow_schema)
    check_names(given, url)
    found = [column_of_data(given, name) for name in columns]
    for field, told in zip(fields, found):
        if not isinstance(told.type, Primitive | DecimalType):
            raise TypeMismatchError(field.name, str(field.type), f"values of type {told.type}")
    names = [one.name for one in found]
    values = data.select(names) if isinstance(data, pa.Table) else data.distinct(names)
    # Under names of their own: Arrow takes one that begins with a point for a path.
    numbered = [str(number) for number in range(len(spelled))]
    return values.rename_columns(numbered).group_by(numbered).aggregate([]).rename_columns(spelled)
