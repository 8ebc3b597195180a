"""What a reader needs of each slice that it opens, found out once for all of them."""

from __future__ import annotations

from collections.abc import Collection

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.expr.nodes import Column, IsNull, Or, Predicate, all_of, columns_of, conjuncts
from tablespec.expr.rewrite import split
from tablespec.formats.layout import ReadLayout
from tablespec.model.row import PHYSICAL
from tablespec.model.schema import LONG, Field, Schema


@attrs.frozen(eq=False)
class Columns:
    """Some columns, in the types that they come out in: an older file may lack one that is NOT NULL today."""

    fields: tuple[Field, ...]
    arrow: pa.Schema = attrs.Factory(
        lambda self: pa.schema([pa.field(field.name, arrow_type(field.type)) for field in self.fields]), takes_self=True
    )


@attrs.frozen(kw_only=True, eq=False)
class Needs:
    """The columns that come out, those that the predicate tests, and those that files are read for.

    `pushed` must hold of a row group, by the columns that files store, for one of its rows to match. `untested` are the columns that
    only matching rows are wanted of.
    """

    wanted: Columns
    tested: Columns
    stored: Schema
    untested: frozenset[str]
    predicate: Predicate
    pushed: Predicate


def needs_of(layout: ReadLayout, wanted: Schema, predicate: Predicate, marked: Collection[str] = ()) -> Needs:
    """What is needed of the base file of a slice; of the columns `marked` an index knows the values."""
    tested = filter_columns(layout, predicate, marked)
    unstored = {*layout.constants, *(field.name for field in PHYSICAL if field.name in layout.hidden)}
    fields = (*wanted, *(field for field in tested if field.name not in wanted))
    stored = Schema(tuple(field for field in fields if field.name not in unstored))
    return Needs(
        wanted=Columns(wanted.fields),
        tested=Columns(tested),
        stored=stored,
        untested=frozenset(stored.names) - {field.name for field in tested},
        predicate=predicate,
        pushed=about_row_groups(layout, predicate, {*unstored, *marked}),
    )


def filter_columns(layout: ReadLayout, predicate: Predicate, marked: Collection[str] = ()) -> tuple[Field, ...]:
    """The columns that a predicate tests, but for those of which an index knows the values."""
    names = {path[0] for path in columns_of(predicate)} - {*marked}
    return tuple(column(layout, name) for name in sorted(names))


def about_row_groups(layout: ReadLayout, predicate: Predicate, unstored: Collection[str]) -> Predicate:
    """What must hold of a row group, by the columns that files store, for one of its rows to match."""
    hidden = layout.hidden
    plain, rest = split(predicate, lambda path: path[0] not in unstored and path[0] not in hidden)
    # Hidden columns are null in files where the log knows better, so that null may mean a match.
    partly = [(part, {path[0] for path in columns_of(part)}) for part in conjuncts(rest)]
    either = [
        Or((IsNull(Column((min(names),), LONG)), part))
        for part, names in partly
        if len(names) == 1 and names <= {*hidden.names} - {*unstored}
    ]
    return all_of((plain, *either))


def everything(layout: ReadLayout) -> Schema:
    """The columns of a table and the hidden ones."""
    return Schema((*layout.schema.fields, *layout.hidden.fields))


def nameable(layout: ReadLayout) -> Schema:
    """The columns that users can name: those of the table, and the hidden ones that none of them is called like, case aside."""
    taken = {field.name.lower() for field in layout.schema}
    return Schema((*layout.schema.fields, *(field for field in layout.hidden if field.name.lower() not in taken)))


def column(layout: ReadLayout, name: str) -> Field:
    """The column of that name, hidden or not."""
    if name in layout.hidden:
        return layout.hidden.field(name)
    # Tables may have thousands of columns, for each of which no schema of all is made.
    return layout.schema.field(name) if name in layout.schema else nameable(layout).field(name)
