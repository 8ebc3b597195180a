"""Columns of several tables side by side, told apart by the names of the tables.

A row of a join or merge is a schema whose top-level structs are the tables, under the names that the user gave them.
"""

from __future__ import annotations

from typing import assert_never

import attrs

from tablespec.errors import AmbiguousColumnError, ColumnNotFoundError
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Operand,
    Or,
    Predicate,
    Text,
)
from tablespec.model.schema import Field, Schema, StructType, near_names


def resolved(column: Column, schema: Schema, qualifiers: tuple[str, ...]) -> Column:
    """The column with its table, the schema's spelling and its type.

    A first name that is a table's means the table, even where another table has a column of that name.
    """
    path = _full_path(column, schema, qualifiers)
    fields = [_field(column, path[: depth + 1], schema, qualifiers) for depth in range(len(path))]
    return Column(tuple(field.name for field in fields), fields[-1].type, column.written)


def qualified(predicate: Predicate, schema: Schema, qualifiers: tuple[str, ...]) -> Predicate:
    """The predicate with every column resolved."""
    match predicate:
        case Literal():
            return predicate
        case Compare(op, left, right):
            return Compare(op, _operand(left, schema, qualifiers), _operand(right, schema, qualifiers))
        case In(column, values):
            return In(resolved(column, schema, qualifiers), values)
        case IsNull(column):
            return IsNull(resolved(column, schema, qualifiers))
        case Text(test, column, value):
            return Text(test, resolved(column, schema, qualifiers), value)
        case Match(columns):
            return attrs.evolve(predicate, columns=tuple(resolved(one, schema, qualifiers) for one in columns))
        case And(operands):
            return And(tuple(qualified(operand, schema, qualifiers) for operand in operands))
        case Or(operands):
            return Or(tuple(qualified(operand, schema, qualifiers) for operand in operands))
        case Not(operand):
            return Not(qualified(operand, schema, qualifiers))
        case _:
            assert_never(predicate)


def _operand(operand: Operand, schema: Schema, qualifiers: tuple[str, ...]) -> Operand:
    return resolved(operand, schema, qualifiers) if isinstance(operand, Column) else operand


def _field(column: Column, path: tuple[str, ...], schema: Schema, qualifiers: tuple[str, ...]) -> Field:
    """The field at a path; where there is none, its table is named as the text calls it."""
    try:
        return schema.field(*path)
    except ColumnNotFoundError as error:
        if not qualifiers or len(path) < 2:
            raise
        *inside, name = column.spoken_table(path[0]), *path[1:]
        if len(inside) == 1:
            raise ColumnNotFoundError(name, error.near, inside[0]) from error
        raise ColumnNotFoundError(".".join((*inside, name)), error.near, f"the struct {'.'.join(inside)}") from error


def _full_path(column: Column, schema: Schema, qualifiers: tuple[str, ...]) -> tuple[str, ...]:
    first = column.path[0].lower()
    if not qualifiers or (len(column.path) > 1 and any(first == name.lower() for name in qualifiers)):
        return column.path
    owners = [name for name in qualifiers if _has(schema, name, column.path[0])]
    if not owners:
        known = [member for name in qualifiers for member in _members(schema, name)]
        where = f"a row of {' and '.join(map(column.spoken_table, qualifiers))}"
        raise ColumnNotFoundError(column.name, near_names(column.path[0], known), where)
    if len(owners) > 1:
        raise AmbiguousColumnError(
            column.name, tuple(f"{column.spoken_table(owner)}.{column.name}" for owner in owners)
        )
    return (owners[0], *column.path)


def _has(schema: Schema, table: str, name: str) -> bool:
    return name.lower() in (member.lower() for member in _members(schema, table))


def _members(schema: Schema, table: str) -> tuple[str, ...]:
    type_ = schema.field(table).type
    return tuple(field.name for field in type_.fields) if isinstance(type_, StructType) else ()
