"""The indexes of a table as its users see them: made, refreshed, looked at and dropped."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Protocol

import attrs
import msgspec

from tablespec.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    IndexExistsError,
    InvalidIndexNameError,
    NoRecordKeyError,
    TypeMismatchError,
    UnsupportedTableError,
)
from tablespec.expr.nodes import TRUE, Column
from tablespec.expr.tokenizer import TOKENIZER, check_tokenizer, tokenizer_of
from tablespec.formats.base import Change, TableFormat, TableState, WritableFormat
from tablespec.formats.maintenance import MaintainableFormat
from tablespec.index.build import Refreshed, TaskRunner, refresh
from tablespec.index.keys import check_key_type
from tablespec.index.segment import (
    RECORD,
    TEXT,
    Definition,
    Segment,
    base_key,
    define,
    drop,
    field_of,
    load,
    load_all,
    require,
)
from tablespec.model.schema import STRING, Schema, near_names
from tablespec.read.file_index import At, state_at
from tablespec.txn.transaction import commit

DOMAIN = "io.tablespec.index."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@attrs.frozen(kw_only=True)
class Coverage:
    """How much of a state an index covers: base files, and bytes of the index."""

    files: int
    covered: int
    bytes: int


class Permission(Protocol):
    """Knows whether the indexes of a table may be changed."""

    def check_index_change(self) -> None:
        """Raise unless they may be."""
        ...


@attrs.frozen(kw_only=True)
class TableIndex:
    """An index of a table."""

    format: TableFormat = attrs.field(repr=False)
    definition: Definition
    permission: Permission = attrs.field(repr=False)
    runner: TaskRunner = attrs.field(repr=False)

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.definition.name

    @property
    def kind(self) -> str:
        """`record` or `text`."""
        return self.definition.kind

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are indexed."""
        return self.definition.columns

    @property
    def tokenizer(self) -> str:
        """What cuts text into words; empty for a record index."""
        return self.definition.tokenizer

    def refresh(self, at: At = None, runner: TaskRunner | None = None) -> Refreshed:
        """Index what the state at an instant has and the index lacks; asks for UPDATE."""
        self.permission.check_index_change()
        return refresh(self.format, self.name, runner or self.runner, at)

    def coverage(self, at: At = None) -> Coverage:
        """How much of the state at an instant is covered."""
        state = state_at(self.format, at)
        stored = require(self.format.storage, self.name)
        covering = stored.covering(state.schema)
        keys = [base_key(one.slice) for one in state.files.judge(TRUE)]
        used: dict[str, Segment] = {covering[key].id: covering[key] for key in keys if key in covering}
        size = sum(file.size for segment in used.values() for file in segment.files)
        return Coverage(files=len(keys), covered=sum(key in covering for key in keys), bytes=size)

    def drop(self) -> int:
        """Remove the index and tell how many files went; what MATCH means stays as it is. Asks for UPDATE."""
        self.permission.check_index_change()
        require(self.format.storage, self.name)
        gone = drop(self.format.storage, self.name)
        _describe(self.format, self.definition, None)
        return gone


def create_record_index(format_: TableFormat, permission: Permission, name: str, runner: TaskRunner) -> TableIndex:
    """A record index of the table's record key, built at once."""
    state = format_.latest()
    if not state.record_key:
        raise NoRecordKeyError(format_.storage.url, "a record index")
    for column in state.record_key:
        check_key_type(column, state.schema.field(column).type)
    definition = Definition(name=name, kind=RECORD, columns=state.record_key)
    return _created(TableIndex(format=format_, definition=definition, permission=permission, runner=runner))


def create_text_index(
    format_: TableFormat,
    permission: Permission,
    columns: tuple[str, ...],
    tokenizer: str | None,
    name: str | None,
    runner: TaskRunner,
) -> TableIndex:
    """A text index of string columns, built at once.

    A tokenizer other than the one that the columns have becomes what MATCH uses for them: it is recorded in the schema.
    """
    state = format_.latest()
    found = tuple(_text_column(column, state.schema) for column in columns)
    if not found:
        raise ColumnNotFoundError("", (), "a text index of no columns")
    has = tokenizer_of(found, state.schema) if tokenizer is None else check_tokenizer(tokenizer)
    names = tuple(column.name for column in found)
    definition = Definition(
        name=name or "-".join(("text", *map(_plain, names)))[:64], kind=TEXT, columns=names, tokenizer=has
    )
    other = load(format_.storage, definition.name)
    if other is None and any(tokenizer_of((column,), state.schema) != has for column in found):
        _record_tokenizer(format_, state, found, has)
    return _created(TableIndex(format=format_, definition=definition, permission=permission, runner=runner))


def indexes(format_: TableFormat, permission: Permission, runner: TaskRunner) -> list[TableIndex]:
    """All indexes of a table, by name."""
    return [
        TableIndex(format=format_, definition=stored.definition, permission=permission, runner=runner)
        for stored in load_all(format_.storage)
    ]


def index(format_: TableFormat, permission: Permission, name: str, runner: TaskRunner) -> TableIndex:
    """An index by its name; raises IndexNotFoundError."""
    definition = require(format_.storage, name).definition
    return TableIndex(format=format_, definition=definition, permission=permission, runner=runner)


def _created(new: TableIndex) -> TableIndex:
    format_, wanted = new.format, new.definition
    if not _NAME.fullmatch(wanted.name):
        raise InvalidIndexNameError(wanted.name)
    holds = define(format_.storage, wanted)
    if msgspec.structs.replace(holds, created=0) != wanted:
        about = f"a {holds.kind} index of {', '.join(holds.columns)}" + (
            f" by {holds.tokenizer}" if holds.tokenizer else ""
        )
        raise IndexExistsError(format_.storage.url, wanted.name, about)
    _describe(format_, holds, msgspec.json.encode(holds).decode())
    refresh(format_, holds.name, new.runner)
    return attrs.evolve(new, definition=holds)


def _describe(format_: TableFormat, definition: Definition, text: str | None) -> None:
    """Say in the log that there is an index; nothing depends on it, and a format that cannot be written says nothing."""
    if not isinstance(format_, MaintainableFormat):
        return
    state = format_.latest()
    if format_.domain(state, DOMAIN + definition.name) != text:
        operation = "CREATE INDEX" if text is not None else "DROP INDEX"
        domains = ((DOMAIN + definition.name, text),)
        change = Change(
            operation=operation, parameters=(("index", definition.name),), domains=domains, data_change=False
        )
        # Whoever else makes the same index has said it then.
        with suppress(CommitConflictError):
            commit(format_, change, state)


def _record_tokenizer(format_: TableFormat, state: TableState, columns: tuple[Column, ...], tokenizer: str) -> None:
    way_out = f"name it in the test instead: MATCH(column, 'query', '{tokenizer}')"
    if not isinstance(format_, WritableFormat):
        # The index serves tests that name the tokenizer.
        return
    names = {column.path[0] for column in columns if len(column.path) == 1}
    if len(names) < len(columns):
        raise UnsupportedTableError(format_.storage.url, "a tokenizer of its own for a member of a struct", way_out)
    entry = (TOKENIZER, json.dumps(tokenizer))
    fields = tuple(
        attrs.evolve(field, metadata=(*(one for one in field.metadata if one[0] != TOKENIZER), entry))
        if field.name in names
        else field
        for field in state.schema
    )
    parameters = (("tokenizer", tokenizer),)
    commit(
        format_,
        Change(operation="SET TOKENIZER", parameters=parameters, schema=Schema(fields), data_change=False),
        state,
    )


def _text_column(name: str, schema: Schema) -> Column:
    path = field_of(name, schema)
    if path is None:
        found = [field for field in schema if field.name.lower() == name.lower()]
        if not found:
            raise ColumnNotFoundError(name, near_names(name, [*schema.names]))
        path = (found[0],)
    if path[-1].type != STRING:
        raise TypeMismatchError(name, str(path[-1].type), "a text index")
    return Column(tuple(field.name for field in path), path[-1].type)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)
