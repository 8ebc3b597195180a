"""Running statements by the verbs of the tables that they name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, assert_never

import attrs
import pyarrow as pa

from tablespec.arrow.stream import ArrowStream
from tablespec.errors import InvalidNameError, InvalidStatementError
from tablespec.expr.nodes import Predicate, Scalar
from tablespec.expr.value import Value
from tablespec.model.schema import Schema
from tablespec.read.file_index import At, Filters
from tablespec.read.scan import Scan
from tablespec.sql.parse import parse_statement
from tablespec.sql.query import Query
from tablespec.sql.rows import completed, projected, renamed, value_fields, value_rows
from tablespec.sql.statement import Delete, Insert, Merge, MergeClause, Name, Selected, Statement, Update, Values
from tablespec.write.append import Appended
from tablespec.write.merge_plan import Clause
from tablespec.write.row_change import ChangeResult


class SqlTable(Protocol):
    """The verbs of a table that statements use."""

    @property
    def schema(self) -> Schema: ...
    def scan(self, where: Filters = None, columns: Sequence[str] | None = None, at: At = None) -> Scan: ...
    def append(self, data: ArrowStream) -> Appended: ...
    def delete(self, predicate: Predicate | str | None) -> ChangeResult: ...
    def update(self, values: Mapping[str, Value | str | Scalar], predicate: Predicate | str | None) -> ChangeResult: ...
    def merge(self, source: ArrowStream, on: Predicate | str, *clauses: Clause) -> ChangeResult: ...
    def replace_where(
        self, predicate: Predicate | str, data: ArrowStream | None = None, *, data_columns: bool = False
    ) -> ChangeResult: ...


class Tables(Protocol):
    """Tables by name, such as a catalog has them."""

    def load(self, name: str) -> SqlTable: ...


class Answer(Protocol):
    """The rows that an engine found for a query."""

    @property
    def names(self) -> Sequence[str]: ...
    def rows(self, names: Sequence[str]) -> ArrowStream:
        """The rows with their columns, in order, under other names."""
        ...


Queries = Callable[[str], Answer]


@attrs.frozen
class OneTable:
    """A table by itself: it has whatever name the statement gives it, and there is no other."""

    table: SqlTable
    name: str

    def load(self, name: str) -> SqlTable:
        """The table, by the one name that it has."""
        if name != self.name or "." in name:
            raise InvalidNameError(name)
        return self.table


def run_statement(
    text: str, tables: Tables, *, data_columns: bool = False, queries: Queries | None = None
) -> ChangeResult:
    """Run a statement on the tables that it names; `data_columns` lets REPLACE WHERE look at more than partition columns.

    `queries` answers the query that the rows come from; without it that can only be SELECT of columns from one table.
    """
    statement = parse_statement(text, cut_query=queries is not None)
    return _run(statement, _Context(text, tables, queries), data_columns=data_columns)


def run_on(text: str, table: SqlTable, *, data_columns: bool = False) -> ChangeResult:
    """Run a statement on one table, whatever it calls it."""
    statement = parse_statement(text)
    return _run(statement, _Context(text, OneTable(table, str(statement.table))), data_columns=data_columns)


@attrs.frozen
class _Context:
    """What a statement is run with."""

    text: str
    tables: Tables
    queries: Queries | None = None

    def answer(self, query: Query) -> Answer:
        """What the engine finds."""
        assert self.queries is not None
        return self.queries(query.text)

    def load(self, name: Name) -> SqlTable:
        """The table of a name."""
        try:
            if any("." in part for part in name.parts):
                raise InvalidNameError(str(name))
            return self.tables.load(str(name))
        except InvalidNameError as error:
            if not isinstance(self.tables, OneTable):
                raise
            why = f"{name} is not the one table there is; run the statement with tablespec.sql and a catalog"
            raise InvalidStatementError(self.text, name.position, why) from error

    def check_count(self, given: int, wanted: int, position: int) -> None:
        """Raise unless there is a value for each column."""
        if given != wanted:
            raise InvalidStatementError(self.text, position, f"there are {given} values for {wanted} columns")


def _run(statement: Statement, context: _Context, *, data_columns: bool) -> ChangeResult:
    table = context.load(statement.table)
    match statement:
        case Delete(_, where):
            return table.delete(where)
        case Update(_, values, where):
            return table.update(dict(values), where)
        case Insert():
            rows = completed(_inserted(statement, table, context), table.schema)
            if statement.replace is not None:
                return table.replace_where(statement.replace, rows, data_columns=data_columns)
            return _as_change(table.append(rows))
        case Merge():
            clauses = [_clause(clause, table, context) for clause in statement.clauses]
            return table.merge(_source(statement, table, context), statement.on, *clauses)
        case _:
            assert_never(statement)


def _inserted(statement: Insert, table: SqlTable, context: _Context) -> pa.Table | pa.RecordBatchReader | ArrowStream:
    """The rows to insert, under the names of the columns that they go into."""
    names = table.schema.names if statement.columns is None else statement.columns
    match statement.rows:
        case Values(rows, position):
            context.check_count(len(rows[0]), len(names), position)
            return value_rows(rows, [table.schema.field(name) for name in names])
        case Selected() as selected:
            found = _selected(selected, context)
            if statement.by_name:
                return found
            context.check_count(len(found.schema), len(names), selected.table.position)
            return renamed(found, names)
        case Query() as query:
            answer = context.answer(query)
            if statement.by_name:
                return answer.rows(answer.names)
            context.check_count(len(answer.names), len(names), query.position)
            return answer.rows(names)
        case _:
            assert_never(statement.rows)


def _source(statement: Merge, table: SqlTable, context: _Context) -> pa.Table | pa.RecordBatchReader | ArrowStream:
    """The rows that are merged."""
    match statement.source:
        case Values(rows):
            return value_rows(rows, value_fields(rows, statement.names, table.schema))
        case Selected() as selected:
            return _selected(selected, context)
        case Query() as query:
            answer = context.answer(query)
            return answer.rows(answer.names)
        case _:
            assert_never(statement.source)


def _selected(selected: Selected, context: _Context) -> pa.RecordBatchReader:
    """The rows of another table, in a stream."""
    table = context.load(selected.table)
    if selected.columns is None:
        return table.scan(where=selected.where, at=selected.at).to_reader()
    wanted = {name.lower(): name for name, _ in selected.columns}
    scan = table.scan(where=selected.where, columns=tuple(wanted.values()), at=selected.at)
    positions = [list(wanted).index(name.lower()) for name, _ in selected.columns]
    return projected(scan, positions, [name for _, name in selected.columns])


def _clause(clause: MergeClause, table: SqlTable, context: _Context) -> Clause:
    if clause.values is None:
        return Clause(clause.kind, clause.where)
    names = table.schema.names if clause.columns is None else clause.columns
    context.check_count(len(clause.values), len(names), clause.position)
    return Clause(clause.kind, clause.where, dict(zip(names, clause.values)))


def _as_change(appended: Appended) -> ChangeResult:
    """An append as a row change; one without rows committed nothing."""
    instant = appended.instant if appended.files else None
    return ChangeResult(instant=instant, rows_inserted=appended.rows, files_added=appended.files)
