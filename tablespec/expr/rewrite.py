"""Predicates said otherwise: every rewrite keeps the result true, false or null for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from tablespec.expr.nodes import (
    FALSE,
    TRUE,
    And,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Or,
    Predicate,
    Text,
    all_of,
    columns_of,
    conjuncts,
)


def simplify(predicate: Predicate) -> Predicate:
    """The predicate without needless constants, double negations, repetitions, IS NULL beside IS NOT NULL, and nested ANDs or ORs."""
    match predicate:
        case And(operands):
            return _joined(And, operands, neutral=TRUE, decisive=FALSE)
        case Or(operands):
            return _joined(Or, operands, neutral=FALSE, decisive=TRUE)
        case Not(operand):
            return _denied(simplify(operand))
        case Literal() | Compare() | In() | IsNull() | Text() | Match():
            return predicate
        case _:
            assert_never(predicate)


def push_not(predicate: Predicate) -> Predicate:
    """The simplified predicate with NOT only where no comparison can say it: on IN, IS NULL, `<=>` and text tests."""
    return simplify(_pushed(predicate, negate=False))


def split(predicate: Predicate, known: Callable[[tuple[str, ...]], bool]) -> tuple[Predicate, Predicate]:
    """Two predicates that together say the same: one that looks only at known columns, and the rest.

    Only parts that must hold for the whole to hold are told apart, so either one alone keeps every row that matches.
    """
    inside: list[Predicate] = []
    outside: list[Predicate] = []
    for part in conjuncts(push_not(predicate)):
        (inside if all(known(path) for path in columns_of(part)) else outside).append(part)
    return all_of(tuple(inside)), all_of(tuple(outside))


def _joined(
    connective: type[And | Or], operands: tuple[Predicate, ...], neutral: Literal, decisive: Literal
) -> Predicate:
    parts: dict[Predicate, None] = {}
    for operand in operands:
        simple = simplify(operand)
        parts |= dict.fromkeys(simple.operands if isinstance(simple, connective) else (simple,))
    # IS NULL is never null itself, so of it and its opposite always exactly one holds.
    if decisive in parts or any(isinstance(part, IsNull) and Not(part) in parts for part in parts):
        return decisive
    kept = tuple(part for part in parts if part != neutral)
    if not kept:
        return neutral
    return kept[0] if len(kept) == 1 else connective(kept)


def _denied(operand: Predicate) -> Predicate:
    if isinstance(operand, Literal):
        return operand if operand.value is None else Literal(not operand.value)
    return operand.operand if isinstance(operand, Not) else Not(operand)


def _pushed(predicate: Predicate, *, negate: bool) -> Predicate:
    match predicate:
        case And(operands) | Or(operands):
            connective = And if isinstance(predicate, And) != negate else Or
            return connective(tuple(_pushed(operand, negate=negate) for operand in operands))
        case Not(operand):
            return _pushed(operand, negate=not negate)
        case Compare(op, left, right) if negate and op.negated is not None:
            return Compare(op.negated, left, right)
        case Literal() | Compare() | In() | IsNull() | Text() | Match():
            return Not(predicate) if negate else predicate
        case _:
            assert_never(predicate)
