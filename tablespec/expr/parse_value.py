"""Values from SQL text."""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from tablespec.errors import InvalidPredicateError, UnsupportedOperatorError
from tablespec.expr.dialect import place_in, place_of, syntax_tree
from tablespec.expr.literal import cast
from tablespec.expr.nodes import FALSE, TRUE, Literal, Not, Predicate
from tablespec.expr.parse import cast_place, read_column, read_condition, read_constant, read_type, spoken_name
from tablespec.expr.value import FUNCTIONS, Call, Case, Cast, Function, Value
from tablespec.expr.value_type import natural_type

SUPPORTED_VALUES = (
    "columns, constants, conditions, CAST, CASE, if, the operators + - * / % || and the functions "
    + ", ".join(
        function.value for function in FUNCTIONS if function.value.isalpha() and function is not Function.NEGATE
    )
)
MAX_DEPTH = 100
"""How many operators and functions may stand inside each other."""

_BINARY: dict[type[exp.Expr], Function] = {
    exp.Add: Function.ADD,
    exp.Sub: Function.SUBTRACT,
    exp.Mul: Function.MULTIPLY,
    exp.Div: Function.DIVIDE,
    exp.Mod: Function.REMAINDER,
}
# The parts of sqlglot's node that are the arguments, in order.
_CALLS: dict[type[exp.Expr], tuple[Function, tuple[str, ...]]] = {
    exp.Concat: (Function.CONCAT, ("expressions",)),
    exp.Abs: (Function.ABS, ("this",)),
    exp.Round: (Function.ROUND, ("this", "decimals")),
    exp.Floor: (Function.FLOOR, ("this",)),
    exp.Ceil: (Function.CEIL, ("this",)),
    exp.Upper: (Function.UPPER, ("this",)),
    exp.Lower: (Function.LOWER, ("this",)),
    exp.Trim: (Function.TRIM, ("this",)),
    exp.Length: (Function.LENGTH, ("this",)),
    exp.Substring: (Function.SUBSTRING, ("this", "start", "length")),
    exp.Replace: (Function.REPLACE, ("this", "expression", "replacement")),
    exp.Coalesce: (Function.COALESCE, ("this", "expressions")),
    exp.Nullif: (Function.NULLIF, ("this", "expression")),
    exp.Greatest: (Function.GREATEST, ("this", "expressions")),
    exp.Least: (Function.LEAST, ("this", "expressions")),
}
_CONDITIONS = (
    exp.Connector | exp.Not | exp.Predicate | exp.In | exp.Between | exp.Is | exp.Like | exp.Escape | exp.StartsWith
    | exp.EndsWith | exp.Contains
)  # fmt: skip
_CHANGING = (
    *("current_timestamp", "current_date", "current_time", "current_datetime", "localtimestamp", "localtime", "now"),
    *("rand", "randn", "random", "uuid", "unix_timestamp", "monotonically_increasing_id", "shuffle"),
    *("input_file_name", "current_user", "session_user", "user"),
)


def parse_value(text: str) -> Value:
    """The value that SQL text writes, not yet bound to any schema.

    Numbers with an exponent are doubles, those with only a point are decimals. A condition is a boolean value. Raises
    InvalidPredicateError for text that is no expression, and UnsupportedOperatorError for what values cannot say, such
    as functions that do not always give the same.
    """
    try:
        return read_value(syntax_tree(text), text)
    except RecursionError:
        raise InvalidPredicateError(text, 0, "it is nested too deeply") from None


def read_value(node: exp.Expr, text: str) -> Value:
    """The value of a part of the syntax tree of `text`."""
    value = _value(node, text)
    if _depth(value) > MAX_DEPTH:
        raise InvalidPredicateError(text, place_of(node) or 0, "it is nested too deeply")
    return value


def _depth(value: Value) -> int:
    match value:
        case Call(_, arguments):
            return 1 + max(_depth(argument) for argument in arguments)
        case Cast(inner, _):
            return 1 + _depth(inner)
        case Case(branches, otherwise):
            return 1 + max(_depth(otherwise), *(_depth(branch) for _, branch in branches))
        case _:
            return 0


def _value(node: exp.Expr, text: str) -> Value:
    match node:
        case exp.Paren():
            return _value(node.this, text)
        case exp.Column() | exp.Dot():
            return read_column(node, text)
        case exp.Literal() if not node.is_string and "e" in node.this.lower():
            return Literal(_exponential(node, text))
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.HexString():
            return Literal(read_constant(node, text))
        case exp.Neg():
            return _negated(node, text)
        case exp.Cast() if type(node) is exp.Cast:
            return _cast(node, text)
        case exp.Case():
            return _case(node, text)
        case exp.If():
            branch = read_condition(node.this, text), _value(node.args["true"], text)
            return Case((branch,), _otherwise(node.args.get("false"), text))
        case exp.DPipe():
            return Call(Function.CONCAT, _joined(node, text))
        case _ if type(node) in _BINARY:
            return Call(_BINARY[type(node)], (_value(node.this, text), _value(node.expression, text)))
        case _ if type(node) in _CALLS:
            return _call(node, text)
        case _ if isinstance(node, _CONDITIONS) and not isinstance(node, exp.SubqueryPredicate):
            return _truth(read_condition(node, text))
        case _:
            raise _refused(node, text)


def _exponential(node: exp.Literal, text: str) -> float:
    value = float(node.this)
    if math.isinf(value):
        raise InvalidPredicateError(text, place_of(node), f"no double is as large as {node.this}")
    return value


def _negated(node: exp.Neg, text: str) -> Value:
    inner = _value(node.this, text)
    return negative(inner) or Call(Function.NEGATE, (inner,))


def negative(value: Value) -> Literal | None:
    """The constant of the other sign; None for all that is no number."""
    match value:
        case Literal(int() | float() as number) if not isinstance(number, bool):
            return Literal(-number)
        case Literal(Decimal() as number):
            # The unary minus of a decimal rounds to 28 digits.
            return Literal(number.copy_negate())
        case _:
            return None


def _joined(node: exp.DPipe, text: str) -> tuple[Value, ...]:
    """All that a chain of `||` joins, in order."""
    parts: list[Value] = []
    current: exp.Expr = node
    while isinstance(current, exp.DPipe):
        parts.append(_value(current.expression, text))
        current = current.this
    return (_value(current, text), *reversed(parts))


def _call(node: exp.Expr, text: str) -> Value:
    function, keys = _CALLS[type(node)]
    extra = [key for key, part in node.args.items() if key not in keys and isinstance(part, exp.Expr | str)]
    if extra:
        raise _unsupported(node, text, f"the function {function.value} with {' and '.join(sorted(extra))}")
    parts = [node.args.get(key) for key in keys]
    nodes = [part for given in parts if given is not None for part in (given if isinstance(given, list) else [given])]
    if not FUNCTIONS[function].takes(len(nodes)):
        why = f"{function.value} takes {FUNCTIONS[function]}, not {len(nodes)}"
        raise InvalidPredicateError(text, place_of(node) or 0, why)
    return Call(function, tuple(_value(part, text) for part in nodes))


def _cast(node: exp.Cast, text: str) -> Value:
    inner, type_ = _value(node.this, text), read_type(node, text)
    if not isinstance(inner, Literal):
        return Cast(inner, type_)
    try:
        value = cast(inner.value, type_)
    except ValueError as error:
        if isinstance(inner.value, str):
            raise InvalidPredicateError(text, cast_place(node), str(error)) from None
        return Cast(inner, type_)
    # A constant of its own type needs no cast to keep it.
    return Literal(value) if value is not None and natural_type(value) == type_ else Cast(inner, type_)


def _case(node: exp.Case, text: str) -> Value:
    branches = []
    for branch in node.args["ifs"]:
        condition = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        branches.append((read_condition(condition, text), _value(branch.args["true"], text)))
    return Case(tuple(branches), _otherwise(node.args.get("default"), text))


def _otherwise(node: exp.Expr | None, text: str) -> Value:
    return Literal(None) if node is None else _value(node, text)


def _truth(predicate: Predicate) -> Value:
    """The outcome of a predicate as a boolean."""
    return Case(((predicate, TRUE), (Not(predicate), FALSE)), Literal(None))


def _refused(node: exp.Expr, text: str) -> UnsupportedOperatorError:
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name() if isinstance(node, exp.Func) else ""
    if name.lower() in _CHANGING:
        return _unsupported(node, text, f"the function {name.lower()} that does not always give the same")
    return _unsupported(node, text, spoken_name(node))


def _unsupported(node: exp.Expr, text: str, operator: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(text, operator, SUPPORTED_VALUES, place_in(text, node))
