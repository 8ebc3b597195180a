"""The rows of tables as DuckDB relations.

DuckDB reads the Parquet files itself where it reads them as tables mean them: names, types and missing columns are told by the schema
that it is given, partition values stand in a list by the number of the file, deleted positions are anti-joined to the files that have
some. Everything else comes as an Arrow stream. A relation stays on the state that it was made on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from duckdb import (
    ColumnExpression,
    ConstantExpression,
    DuckDBPyConnection,
    DuckDBPyRelation,
    Expression,
    FunctionExpression,
)
from duckdb.sqltypes import BIGINT

from tablespec import (
    ArrayType,
    At,
    DataType,
    Field,
    FileSlice,
    Filters,
    Literal,
    MapType,
    Primitive,
    Scan,
    Snapshot,
    StructType,
    Table,
    columns_of,
)
from tablespec_duckdb.expressions import condition, constant, type_name

# Columns that every read of Parquet files offers; a column of the table with such a name would hide it.
_FILE, _POSITION = "file_index", "file_row_number"
_OFFERED = ("filename", _FILE, _POSITION)

_EVERYTHING = Literal(True)
_TIME, _LOCAL_TIME = Primitive("timestamp"), Primitive("timestamp_ntz")

_READ = "SELECT *, file_index, file_row_number FROM read_parquet(?, schema=?, explicit_cardinality=?)"
_TIMES = "SELECT DISTINCT name, duckdb_type FROM parquet_schema(?) WHERE duckdb_type LIKE 'TIMESTAMP%'"


def scan(
    con: DuckDBPyConnection,
    table: Table,
    where: Filters = None,
    columns: Sequence[str] | None = None,
    at: At = None,
) -> DuckDBPyRelation:
    """The rows that match, as of an instant."""
    return _relation(con, table.scan(where, columns, at))


def read_optimized(
    con: DuckDBPyConnection,
    table: Table,
    where: Filters = None,
    columns: Sequence[str] | None = None,
    at: At = None,
) -> DuckDBPyRelation:
    """The rows of base files as of an instant, leaving merge-on-read changes aside."""
    return _relation(con, table.read_optimized(where, columns, at))


def incremental(
    con: DuckDBPyConnection,
    table: Table,
    after: At,
    upto: At = None,
    where: Filters = None,
    columns: Sequence[str] | None = None,
) -> DuckDBPyRelation:
    """The rows as of `upto` that were inserted or changed after `after`."""
    return con.from_arrow(table.incremental(after, upto, where, columns))


def changes(
    con: DuckDBPyConnection,
    table: Table,
    after: At,
    upto: At = None,
    where: Filters = None,
    columns: Sequence[str] | None = None,
) -> DuckDBPyRelation:
    """What happened to rows after `after` up to and including `upto`, change by change."""
    return con.from_arrow(table.changes(after, upto, where, columns))


def attach(con: DuckDBPyConnection, table: Table, name: str, at: At = None) -> None:
    """Make a view of a table that SQL can use; it stays on its state until it is attached again."""
    scan(con, table, at=at).create_view(name, replace=True)


def refresh(con: DuckDBPyConnection, table: Table, name: str) -> None:
    """Let the view of a table show the newest state."""
    attach(con, table, name)


def _relation(con: DuckDBPyConnection, asked: Scan) -> DuckDBPyRelation:
    native = _native(con, asked)
    return con.from_arrow(asked) if native is None else native


def _native(con: DuckDBPyConnection, asked: Scan) -> DuckDBPyRelation | None:
    """The rows read by DuckDB itself; None where it could give other ones."""
    matched = condition(asked.predicate)
    fields = _needed(asked)
    files = _files(asked)
    if matched is None or fields is None or not files:
        return None
    layout = asked.reader.layout
    reading = _Reading(
        con=con,
        stored=tuple(field for field in fields if field.name not in layout.constants) or _any_stored(asked),
        constants=tuple(field for field in fields if field.name in layout.constants),
        order=layout.constants,
        by_field_id=layout.by_field_id,
    )
    if not reading.stored or not reading.has_expected_times([file.path for file in files]):
        return None
    parts = [
        reading.rows(chosen)
        for dirty in (False, True)
        if (chosen := [file for file in files if (file.deleted is not None) is dirty])
    ]
    rows = parts[0] if len(parts) == 1 else parts[0].union(parts[1])
    if asked.predicate != _EVERYTHING:
        rows = rows.filter(matched)
    return rows.select(*(ColumnExpression(name) for name in asked.schema.names))


@attrs.frozen(eq=False)
class _File:
    """A Parquet file to read, the slice that it is the base of, and the deleted positions in it."""

    path: str
    slice: FileSlice
    deleted: pa.Array | None


@attrs.frozen(kw_only=True, eq=False)
class _Reading:
    """Which columns DuckDB reads: those of files, and those that the log holds."""

    con: DuckDBPyConnection
    stored: tuple[Field, ...]
    constants: tuple[Field, ...]
    order: tuple[str, ...]
    by_field_id: bool

    def rows(self, files: Sequence[_File]) -> DuckDBPyRelation:
        """The rows of files that all have deleted positions or all have none."""
        counts = [file.slice.base.rows for file in files if file.slice.base is not None]
        values = [[file.path for file in files], self._schema(), sum(count or 0 for count in counts) or len(files)]
        found = self.con.sql(_READ, params=values).set_alias("live")
        positions = [(number, file.deleted) for number, file in enumerate(files) if file.deleted is not None]
        if positions:
            gone = self.con.from_arrow(_positions(positions)).set_alias("gone")
            same = ColumnExpression("live", _FILE).cast(BIGINT) == ColumnExpression("gone", "file")
            found = found.join(
                gone, same & (ColumnExpression("live", _POSITION) == ColumnExpression("gone", "position")), "anti"
            )
        return found.select(*self._columns(files))

    def has_expected_times(self, files: list[str]) -> bool:
        """Whether all timestamps lie in the files as the table has them; others are read by the time zone of the session."""
        if not any(_holds_time(field.type) for field in self.stored):
            return True
        local = {field.stored_name for field in self.stored if field.type == _LOCAL_TIME}
        found = self.con.sql(_TIMES, params=[files]).fetchall()
        return all(kind == ("TIMESTAMP" if name in local else "TIMESTAMP WITH TIME ZONE") for name, kind in found)

    def _schema(self) -> dict[str, list[object]]:
        keys = [field.field_id if self.by_field_id else field.stored_name for field in self.stored]
        described = [
            {"name": _read_name(field), "type": type_name(field.type), "default_value": None} for field in self.stored
        ]
        return {"key": list(keys), "value": list(described)}

    def _columns(self, files: Sequence[_File]) -> Iterator[Expression]:
        for field in self.stored:
            yield ColumnExpression(_read_name(field)).alias(field.name)
        number = (ColumnExpression(_FILE) + ConstantExpression(1)).cast(BIGINT)
        for field in self.constants:
            index = self.order.index(field.name)
            kind = type_name(field.type)
            assert kind is not None
            # DuckDB works this out for each file before it reads one, and leaves out those that a filter excludes.
            values = constant([file.slice.partition_values[index] for file in files], f"{kind}[]")
            yield FunctionExpression("list_extract", values, number).alias(field.name)


def _needed(asked: Scan) -> tuple[Field, ...] | None:
    """The columns to read, those that only the filter looks at included; None where DuckDB cannot read one."""
    layout = asked.reader.layout
    names = dict.fromkeys((*asked.schema.names, *sorted(path[0] for path in columns_of(asked.predicate))))
    if any(name not in layout.schema for name in names):
        return None
    fields = layout.schema.select(tuple(names)).fields
    return fields if all(_is_readable(field, by_field_id=layout.by_field_id) for field in fields) else None


def _any_stored(asked: Scan) -> tuple[Field, ...]:
    """A column of files to count rows by, where none is asked for."""
    layout = asked.reader.layout
    found = [
        field
        for field in layout.schema
        if field.name not in layout.constants and _is_readable(field, by_field_id=layout.by_field_id)
    ]
    return tuple(found[:1])


def _files(asked: Scan) -> list[_File]:
    """The files to read; empty where one of them cannot be reached by DuckDB or needs a merge."""
    found = []
    for one in asked.slices:
        base = one.slice.base
        path = None if base is None or one.slice.logs else asked.storage.local_path(base.path)
        if path is None:
            return []
        deleted = asked.reader.deleted(one.slice) if asked.mode == Snapshot() else None
        found.append(_File(path, one.slice, pa.array(deleted, pa.int64()) if deleted else None))
    return found


def _positions(files: list[tuple[int, pa.Array]]) -> pa.Table:
    numbers = pa.chunked_array([pa.repeat(pa.scalar(number, pa.int64()), len(gone)) for number, gone in files])
    return pa.table({"file": numbers, "position": pa.chunked_array([gone for _, gone in files])})


def _is_readable(field: Field, *, by_field_id: bool) -> bool:
    if type_name(field.type) is None or (by_field_id and field.field_id is None):
        return False
    members = list(_members(field.type))
    # DuckDB finds members of structs by name, and gives them the names that they have in files.
    return not members if by_field_id else all(member.stored_name == member.name for member in members)


def _members(data_type: DataType) -> Iterator[Field]:
    match data_type:
        case StructType(fields):
            for field in fields:
                yield field
                yield from _members(field.type)
        case ArrayType(element):
            yield from _members(element)
        case MapType(key, value):
            yield from _members(key)
            yield from _members(value)


def _holds_time(data_type: DataType) -> bool:
    match data_type:
        case StructType(fields):
            return any(_holds_time(field.type) for field in fields)
        case ArrayType(element):
            return _holds_time(element)
        case MapType(key, value):
            return _holds_time(key) or _holds_time(value)
        case _:
            return data_type in (_TIME, _LOCAL_TIME)


def _read_name(field: Field) -> str:
    return f"column {field.name}" if field.name.lower() in _OFFERED else field.name
