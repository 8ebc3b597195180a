"""The rows of tables as DuckDB relations.

DuckDB reads the Parquet files itself where it reads them as tables mean them: names, types and missing columns are told by the schema
that it is given, partition values stand in a list by the number of the file, and so do bits that say which rows of a file are kept, beside
the files that have deleted ones. Everything else comes as an Arrow stream. A relation stays on the state that it was made on.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import assert_never

import attrs
import pyarrow as pa
from duckdb import (
    ColumnExpression,
    ConstantExpression,
    DuckDBPyConnection,
    DuckDBPyRelation,
    Expression,
    FunctionExpression,
    Value,
)
from duckdb.sqltypes import DuckDBPyType

from tablespec import (
    ArrayType,
    At,
    ChangeScan,
    DataType,
    Field,
    FileSlice,
    Filters,
    IncrementalScan,
    Literal,
    MapType,
    Primitive,
    Scan,
    Snapshot,
    StructType,
    Table,
    UnsupportedByEngineError,
    columns_of,
    types_in,
)
from tablespec_duckdb.expressions import condition, quoted, type_name

# Columns that every read of Parquet files offers; a column of the table with such a name would hide it.
_OFFERED = ("filename", "file_index", "file_row_number")
_FILE_NUMBER = "(file_index + 1)::BIGINT"
_FILE, _ROW, _KEPT = "tablespec file", "tablespec row", "tablespec kept"
_EVERYTHING = Literal(True)
_LOCAL_TIME = Primitive("timestamp_ntz")
_FLOATING = {Primitive("float"), Primitive("double")}

# Bits as Arrow tells DuckDB of them: the number of those in the first byte that do not count, then bytes, the highest bit first.
_BITS = pa.opaque(pa.large_binary(), "bit", "DuckDB")
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

# The bounds of others leave NaN out, which is greater than every number; DuckDB believes them unless it is told.
_READ_EVOLVED = "SELECT {} FROM read_parquet(?, schema=?, hive_partitioning=false, can_have_nan=true)"
_LIES_IN_FILE = "SELECT path IS NOT NULL FROM duckdb_databases() WHERE database_name = current_database()"
_FOOTERS = "SELECT name, duckdb_type, count(*) FROM parquet_schema(?) GROUP BY ALL"


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
    return _streamed(con, table.incremental(after, upto, where, columns))


def changes(
    con: DuckDBPyConnection,
    table: Table,
    after: At,
    upto: At = None,
    where: Filters = None,
    columns: Sequence[str] | None = None,
) -> DuckDBPyRelation:
    """What happened to rows after `after` up to and including `upto`, change by change."""
    return _streamed(con, table.changes(after, upto, where, columns))


def attach(con: DuckDBPyConnection, table: Table, name: str, at: At = None, *, follow: bool = False) -> None:
    """Make a view of a table that SQL can use; it stays on its state until it is attached again or refreshed.

    In a database that lies in a file the view is one of the connection alone, and nothing of it is stored.
    """
    if follow:
        raise UnsupportedByEngineError("DuckDB", f"let {name} follow the table", f"call refresh(con, table, {name!r})")
    rows = scan(con, table, at=at)
    if con.sql(_LIES_IN_FILE).fetchall() == [(True,)]:
        con.register(name, rows)
    else:
        rows.create_view(name, replace=True)


def refresh(con: DuckDBPyConnection, table: Table, name: str) -> None:
    """Let the view of a table show the newest state."""
    attach(con, table, name)


def _streamed(con: DuckDBPyConnection, rows: IncrementalScan | ChangeScan) -> DuckDBPyRelation:
    _check_columns(rows.arrow_schema.names)
    return con.from_arrow(rows)


def _check_columns(names: Sequence[str]) -> None:
    if not names:
        raise UnsupportedByEngineError(
            "DuckDB", "give rows without columns", "name one, or count the rows by the table's own scan"
        )


def _relation(con: DuckDBPyConnection, asked: Scan) -> DuckDBPyRelation:
    _check_columns(asked.schema.names)
    parts = asked.divided()
    if parts is None:
        native = _native(con, asked)
        return con.from_arrow(asked) if native is None else native
    plain, merged = parts
    native = _native(con, plain)
    return con.from_arrow(asked) if native is None else native.union(con.from_arrow(merged))


def _native(con: DuckDBPyConnection, asked: Scan) -> DuckDBPyRelation | None:
    """The rows read by DuckDB itself; None where it could give other ones."""
    everything = asked.predicate == _EVERYTHING
    matched = None if everything else condition(asked.predicate)
    fields = _needed(asked)
    files = _files(asked)
    if (matched is None and not everything) or fields is None or not files:
        return None
    layout = asked.reader.layout
    reading = _Reading(
        con=con,
        fields=fields,
        stored=tuple(field for field in fields if field.name not in layout.constants) or _any_stored(asked),
        order=layout.constants,
        by_field_id=layout.by_field_id,
        form="" if any(field.stored_name.lower() in _OFFERED for field in layout.schema) else layout.form,
    )
    stored = reading.stored and reading.stored_in(files)
    if not stored:
        return None
    parts = [
        _narrowed(rows, matched, asked.schema.names)
        for dirty in (False, True)
        if (chosen := [file for file in files if (file.kept is not None) is dirty])
        for rows in [reading.kept_rows(chosen, stored) if dirty else reading.rows(chosen, stored)]
    ]
    return parts[0] if len(parts) == 1 else parts[0].union(parts[1])


def _narrowed(rows: DuckDBPyRelation, matched: Expression | None, names: Sequence[str]) -> DuckDBPyRelation:
    # DuckDB looks at the whole of a relation again for each step that is put on it.
    found = rows if matched is None else rows.filter(matched)
    return found if found.columns == list(names) else found.select(*map(ColumnExpression, names))


class _Stored(enum.Enum):
    """Whether the columns lie in all files as the table has them, but for their names, or must be told one by one."""

    ALIKE = "alike"
    EVOLVED = "evolved"


@attrs.frozen(eq=False)
class _File:
    """A Parquet file to read, the slice that it is the base of, and a bit for each row, 1 where it is kept; None keeps all."""

    path: str
    slice: FileSlice
    kept: bytes | None


@attrs.frozen(kw_only=True, eq=False)
class _Reading:
    """Which columns DuckDB reads, those of files among them, which of the others the log holds in which order, and the form of files.

    The form is empty where files have columns whose names DuckDB gives to others.
    """

    con: DuckDBPyConnection
    fields: tuple[Field, ...]
    stored: tuple[Field, ...]
    order: tuple[str, ...]
    by_field_id: bool
    form: str

    def stored_in(self, files: Sequence[_File]) -> _Stored | None:
        """How the columns lie in the files; None where DuckDB would read them otherwise than the table means them."""
        told = {"" if file.slice.base is None else file.slice.base.form for file in files}
        if not self.by_field_id and self.form and told == {self.form}:
            return _Stored.ALIKE
        return self.told_by_footers([file.path for file in files])

    def told_by_footers(self, files: list[str]) -> _Stored | None:
        """The same for files whose log entries do not tell: every one is opened."""
        found = [(name, str(DuckDBPyType(kind)), count) for name, kind, count in self._footers(files)]
        local = {field.stored_name for field in self.stored if field.type == _LOCAL_TIME}
        for name, kind, _ in found:
            # Others than the table has are converted by the time zone of the session.
            if kind.startswith("TIMESTAMP") and kind != ("TIMESTAMP" if name in local else "TIMESTAMP WITH TIME ZONE"):
                return None
        hides_offered = any(name.lower() in _OFFERED for name, _, _ in found)
        floating = any(not _FLOATING.isdisjoint(types_in(field.type)) for field in self.stored)
        alike = not (self.by_field_id or hides_offered or floating) and all(
            [(kind, count) for name, kind, count in found if name == field.stored_name]
            == [(str(DuckDBPyType(type_name(field.type))), len(files))]
            for field in self.stored
        )
        return _Stored.ALIKE if alike else _Stored.EVOLVED

    def rows(self, files: Sequence[_File], stored: _Stored, *, placed: bool = False) -> DuckDBPyRelation:
        """All rows of files, with the number of the file and the one of the row there, where they are asked for."""
        match stored:
            case _Stored.ALIKE:
                return self._alike(files, placed=placed)
            case _Stored.EVOLVED:
                return self._evolved(files, placed=placed)
            case _:
                assert_never(stored)

    def kept_rows(self, files: Sequence[_File], stored: _Stored) -> DuckDBPyRelation:
        """The rows of files that all have deleted ones, without those; further columns say where a row lies."""
        found = self.rows(files, stored, placed=True)
        # One row beside all others, so that nothing is looked up; a join on file and position costs more.
        vectors = pa.ExtensionArray.from_storage(_BITS, pa.array([file.kept for file in files], _BITS.storage_type))
        beside = pa.table({_KEPT: pa.LargeListArray.from_arrays(pa.array([0, len(files)], pa.int64()), vectors)})
        of_file = FunctionExpression("list_extract", ColumnExpression(_KEPT), ColumnExpression(_FILE))
        kept = FunctionExpression("get_bit", of_file, ColumnExpression(_ROW).cast(DuckDBPyType("INTEGER")))
        return found.cross(self.con.from_arrow(beside)).filter(kept == ConstantExpression(1))

    def _footers(self, files: list[str]) -> list[tuple[str, str, int]]:
        return [row for row in self.con.sql(_FOOTERS, params=[files]).fetchall() if row[1] is not None]

    def _alike(self, files: Sequence[_File], *, placed: bool) -> DuckDBPyRelation:
        # What is made of a query instead has two more steps, which every row goes through.
        number = (ColumnExpression("file_index") + ConstantExpression(1)).cast(DuckDBPyType("BIGINT"))
        places = (number.alias(_FILE), ColumnExpression("file_row_number").alias(_ROW)) if placed else ()
        columns = [
            FunctionExpression("list_extract", self._typed_values(field, files), number)
            if field.name in self.order
            else ColumnExpression(field.stored_name)
            for field in self.fields
        ]
        named = (column.alias(field.name) for column, field in zip(columns, self.fields))
        return self.con.read_parquet([file.path for file in files], hive_partitioning=False).select(*named, *places)

    def _evolved(self, files: Sequence[_File], *, placed: bool) -> DuckDBPyRelation:
        # DuckDB finds out which files a filter on partition columns excludes only where they are made in the query that reads.
        columns = [self._column(field) for field in self.fields]
        places = [f"{_FILE_NUMBER} AS {quoted(_FILE)}", f"file_row_number AS {quoted(_ROW)}"] if placed else []
        values = [self._values(field, files) for field in self.fields if field.name in self.order]
        keys = [field.field_id if self.by_field_id else field.stored_name for field in self.stored]
        described = [
            {"name": _read_name(field), "type": type_name(field.type), "default_value": None} for field in self.stored
        ]
        schema = {"key": keys, "value": described}
        query = _READ_EVOLVED.format(", ".join([*columns, *places]))
        return self.con.sql(query, params=[*values, [file.path for file in files], schema])

    def _column(self, field: Field) -> str:
        """A column of a read as SQL; one that the log holds has a parameter, the list of values by file."""
        if field.name in self.order:
            return f"list_extract(?::{type_name(field.type)}[], {_FILE_NUMBER}) AS {quoted(field.name)}"
        return f"{quoted(_read_name(field))} AS {quoted(field.name)}"

    def _typed_values(self, field: Field, files: Sequence[_File]) -> Expression:
        # A constant has the narrowest type of its values: none at all where all are null.
        return ConstantExpression(self._values(field, files)).cast(DuckDBPyType(f"{type_name(field.type)}[]"))

    def _values(self, field: Field, files: Sequence[_File]) -> Value:
        index = self.order.index(field.name)
        return Value([file.slice.partition_values[index] for file in files], DuckDBPyType(f"{type_name(field.type)}[]"))


def _needed(asked: Scan) -> tuple[Field, ...] | None:
    """The columns to read, those that only the filter looks at included; None where DuckDB cannot read one."""
    layout = asked.reader.layout
    names = dict.fromkeys((*asked.schema.names, *sorted(path[0] for path in columns_of(asked.predicate))))
    if any(name not in layout.schema or name.lower() in (_FILE, _ROW, _KEPT) for name in names):
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
    """The files to read; empty where one of them cannot be reached by DuckDB."""
    found = []
    for one in asked.slices:
        base = one.slice.base
        path = None if base is None else asked.storage.local_path(base.path)
        if path is None or base is None:
            return []
        if one.slice.deletes is None or asked.mode != Snapshot():
            found.append(_File(path, one.slice, None))
            continue
        if base.rows is None:
            return []
        kept = asked.reader.kept(one.slice)
        found.append(_File(path, one.slice, None if kept is None else _bits(kept)))
    return found


def _bits(kept: pa.BooleanArray) -> bytes:
    """Flags as DuckDB has bits, where Arrow has the lowest of a byte first."""
    return b"\0" + bytes(kept.buffers()[1]).translate(_REVERSED)


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


def _read_name(field: Field) -> str:
    return f"column {field.name}" if field.name.lower() in _OFFERED else field.name
