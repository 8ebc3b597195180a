"""Predicates as SQL text."""

from __future__ import annotations

from typing import assert_never

from tablespec.expr.literal import quoted, sql_literal
from tablespec.expr.nodes import And, Column, Compare, In, IsNull, Literal, Match, Not, Operand, Or, Predicate, Text


def render(predicate: Predicate) -> str:
    """SQL text that `parse` reads as the same predicate; a bound one has to be bound again to get its types back."""
    match predicate:
        case Literal() as literal:
            return sql_literal(literal.value)
        case Compare(op, left, right):
            return f"{_operand(left)} {op.value} {_operand(right)}"
        case In(column, values):
            return f"{render_column(column)} IN ({', '.join(sql_literal(value.value) for value in values)})"
        case IsNull(column):
            return f"{render_column(column)} IS NULL"
        case Text(test, column, value):
            return f"{test.value}({render_column(column)}, {quoted(value)})"
        case Match(columns, query, tokenizer):
            texts = (quoted(query), quoted(tokenizer)) if tokenizer else (quoted(query),)
            return f"MATCH({', '.join((*map(render_column, columns), *texts))})"
        case And(operands):
            return " AND ".join(_inside(operand) for operand in operands)
        case Or(operands):
            return " OR ".join(_inside(operand) for operand in operands)
        case Not(IsNull(column)):
            return f"{render_column(column)} IS NOT NULL"
        case Not(operand):
            return f"NOT {_inside(operand)}"
        case _:
            assert_never(predicate)


def _inside(predicate: Predicate) -> str:
    return f"({render(predicate)})" if isinstance(predicate, And | Or) else render(predicate)


def _operand(operand: Operand) -> str:
    return render_column(operand) if isinstance(operand, Column) else sql_literal(operand.value)


def render_column(column: Column) -> str:
    """The path of a column, quoted."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in column.path)
