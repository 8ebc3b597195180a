"""Predicates from SQL text."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from tablespec.errors import InvalidPredicateError, UnsupportedOperatorError
from tablespec.expr.dialect import place_in, place_of, syntax_tree
from tablespec.expr.like import read_pattern
from tablespec.expr.literal import cast, number
from tablespec.expr.nodes import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Literal,
    Match,
    Not,
    Op,
    Operand,
    Or,
    Predicate,
    Scalar,
    Text,
    TextTest,
    Written,
)
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)

SUPPORTED = (
    "comparisons of columns and values, IN, BETWEEN, IS NULL, LIKE with % at the ends only, starts_with, ends_with, "
    "contains, MATCH, AND, OR and NOT"
)

_OPS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.NULL_SAFE_EQ,
    exp.NullSafeNEQ: Op.NULL_SAFE_EQ,
}
_TEXT_TESTS: dict[type[exp.Expr], TextTest] = {
    exp.StartsWith: TextTest.STARTS_WITH,
    exp.EndsWith: TextTest.ENDS_WITH,
    exp.Contains: TextTest.CONTAINS,
}
_TYPES = {
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.TINYINT: BYTE,
    exp.DataType.Type.SMALLINT: SHORT,
    exp.DataType.Type.INT: INTEGER,
    exp.DataType.Type.BIGINT: LONG,
    exp.DataType.Type.FLOAT: FLOAT,
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.VARCHAR: STRING,
    exp.DataType.Type.BINARY: BINARY,
    exp.DataType.Type.VARBINARY: BINARY,
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}
_NAMES: dict[type[exp.Expr], str] = {
    exp.Add: "the operator +",
    exp.Sub: "the operator -",
    exp.Mul: "the operator *",
    exp.Div: "the operator /",
    exp.Mod: "the operator %",
    exp.DPipe: "the operator ||",
    exp.Case: "CASE",
    exp.Cast: "CAST of a column",
    exp.Column: "a column where a value must stand",
    exp.Dot: "a column where a value must stand",
    exp.Select: "a subquery",
    exp.Subquery: "a subquery",
    exp.Exists: "a subquery",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Star: "*",
}


def parse(text: str) -> Predicate:
    """The predicate that SQL text writes, not yet bound to any schema.

    Names may be quoted as in Spark or as in DuckDB: `a b` or "a b"; text stands in single quotes.
    Columns stand on the left of values. Numbers are kept exactly, those with a point or an exponent as decimals. LIKE
    becomes the text test that it is. Raises InvalidPredicateError for text that is no condition, and
    UnsupportedOperatorError for SQL that predicates cannot say.
    """
    try:
        return read_condition(syntax_tree(text), text)
    except RecursionError:
        raise InvalidPredicateError(text, 0, "it is nested too deeply") from None


def read_condition(node: exp.Expr, text: str) -> Predicate:
    """The predicate of a part of the syntax tree of `text`."""
    match node:
        case exp.Paren():
            return read_condition(node.this, text)
        case exp.And() | exp.Or():
            return _connected(node, text)
        case exp.Not():
            return Not(read_condition(node.this, text))
        case exp.Boolean() | exp.Null():
            return Literal(read_constant(node, text))
        case exp.Column() | exp.Dot():
            return Compare(Op.EQ, read_column(node, text), Literal(True))
        case exp.In():
            return _in(node, text)
        case exp.Between():
            return _between(node, text)
        case exp.Is():
            return _is(node, text)
        case exp.Like():
            return _like(node, None, text)
        case exp.Escape(this=exp.Like() as like):
            return _like(like, _string(node.expression, "ESCAPE", text), text)
        case exp.StartsWith() | exp.EndsWith() | exp.Contains():
            test = _TEXT_TESTS[type(node)]
            return Text(test, read_column(node.this, text), _string(node.expression, test.value, text))
        case exp.Anonymous() if node.name.upper() == "MATCH" and len(node.expressions) > 1:
            return _match(node, text)
        case exp.Binary() if type(node) in _OPS:
            compared = _compare(_OPS[type(node)], _operand(node.this, text), _operand(node.expression, text))
            return Not(compared) if isinstance(node, exp.NullSafeNEQ) else compared
        case _:
            raise _unsupported(node, text, spoken_name(node))


def _match(node: exp.Anonymous, text: str) -> Match:
    """Columns, the query, and perhaps the name of a tokenizer."""
    arguments = node.expressions
    count = next(
        (index for index, one in enumerate(arguments) if not isinstance(one, exp.Column | exp.Dot)), len(arguments)
    )
    texts = [_string(one, "MATCH", text) for one in arguments[count:]]
    if not count or not 1 <= len(texts) <= 2:
        raise _unsupported(node, text, "MATCH with anything but columns, a query, and perhaps a tokenizer")
    return Match(tuple(read_column(one, text) for one in arguments[:count]), *texts)


def _connected(node: exp.Expr, text: str) -> Predicate:
    """AND or OR of all that it connects: a long chain is a deep tree in sqlglot, so it is walked without recursion."""
    kind = type(node)
    connective = And if isinstance(node, exp.And) else Or
    operands: list[Predicate] = []
    waiting = [node]
    while waiting:
        current = waiting.pop().unnest()
        if type(current) is kind:
            waiting += (current.args["expression"], current.this)
            continue
        operand = read_condition(current, text)
        operands += operand.operands if isinstance(operand, connective) else (operand,)
    return connective(tuple(operands))


def _compare(op: Op, left: Operand, right: Operand) -> Compare:
    if isinstance(left, Literal) and isinstance(right, Column):
        return Compare(op.mirrored, right, left)
    return Compare(op, left, right)


def _between(node: exp.Between, text: str) -> Predicate:
    if node.args.get("symmetric"):
        raise _unsupported(node, text, "BETWEEN SYMMETRIC")
    operand = _operand(node.this, text)
    low, high = _operand(node.args["low"], text), _operand(node.args["high"], text)
    return And((_compare(Op.GE, operand, low), _compare(Op.LE, operand, high)))


def _in(node: exp.In, text: str) -> Predicate:
    if not node.expressions:
        query = node.args.get("query")
        raise _unsupported(query or node, text, "a subquery" if query else "IN without a list of values")
    column = read_column(node.this, text)
    return In(column, tuple(Literal(read_constant(value, text)) for value in node.expressions))


def _is(node: exp.Is, text: str) -> Predicate:
    operand = _operand(node.this, text)
    match node.expression:
        case exp.Null():
            return IsNull(operand) if isinstance(operand, Column) else Literal(operand.value is None)
        case exp.Boolean():
            return Compare(Op.NULL_SAFE_EQ, operand, Literal(read_constant(node.expression, text)))
        case other:
            raise _unsupported(other, text, f"IS {spoken_name(other)}")


def _like(node: exp.Like, escape: str | None, text: str) -> Predicate:
    column = read_column(node.this, text)
    try:
        test, value = read_pattern(_string(node.expression, "LIKE", text), escape)
    except ValueError as error:
        raise _unsupported(node.expression, text, str(error)) from None
    found = Compare(Op.EQ, column, Literal(value)) if test is None else Text(test, column, value)
    return Not(found) if node.args.get("negate") else found


def _operand(node: exp.Expr, text: str) -> Operand:
    inner = node.unnest()
    if isinstance(inner, exp.Column | exp.Dot):
        return read_column(inner, text)
    return Literal(read_constant(inner, text))


def read_column(node: exp.Expr, text: str) -> Column:
    """The column that a part of the syntax tree names."""
    inner = node.unnest()
    if not isinstance(inner, exp.Column | exp.Dot):
        constant = isinstance(inner, exp.Literal | exp.Boolean | exp.Null | exp.HexString)
        raise _unsupported(inner, text, "a value where a column must stand" if constant else spoken_name(inner))
    parts = inner.parts
    if not all(isinstance(part, exp.Identifier) for part in parts):
        odd = next(part for part in parts if not isinstance(part, exp.Identifier))
        raise _unsupported(odd, text, spoken_name(odd))
    tables = next((one.meta["tables"] for one in inner.find_all(exp.Column) if "tables" in one.meta), ())
    return Column(tuple(part.name for part in parts), written=Written(text, place_of(inner), tables))


def _string(node: exp.Expr, where: str, text: str) -> str:
    value = read_constant(node, text)
    if not isinstance(value, str):
        raise _unsupported(node, text, f"{where} with anything but a string")
    return value


def read_constant(node: exp.Expr, text: str) -> Scalar:
    """The constant that a part of the syntax tree writes."""
    match node:
        case exp.Paren():
            return read_constant(node.this, text)
        case exp.Literal():
            return str(node.this) if node.is_string else _number(node, text)
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.HexString():
            return bytes.fromhex(node.this)
        case exp.Neg():
            return _negated(node, text)
        case exp.Cast() if type(node) is exp.Cast:
            return _cast(node, text)
        case _:
            raise _unsupported(node, text, spoken_name(node))


def _number(node: exp.Literal, text: str) -> Scalar:
    value = number(node.this)
    if value is None:
        raise _unsupported(node, text, f"the number {node.this}")
    return value


def _negated(node: exp.Neg, text: str) -> Scalar:
    match read_constant(node.this, text):
        case int() | float() as value if not isinstance(value, bool):
            return -value
        case Decimal() as value:
            # The unary minus of a decimal rounds to 28 digits.
            return value.copy_negate()
        case _:
            raise _unsupported(node, text, "the operator - on anything but a number")


def _cast(node: exp.Cast, text: str) -> Scalar:
    value, type_ = read_constant(node.this, text), read_type(node, text)
    try:
        return cast(value, type_)
    except ValueError as error:
        raise InvalidPredicateError(text, cast_place(node), str(error)) from None


def cast_place(node: exp.Cast) -> int:
    """Where the value begins that a CAST is about."""
    places = place_of(node.this), place_of(node)
    return next((place for place in places if place is not None), 0)


def read_type(node: exp.Cast, text: str) -> DataType:
    """The type that a CAST asks for."""
    kind = node.to.this
    sizes = tuple(int(size.name) for size in node.to.expressions if size.name.isdecimal())
    type_ = DecimalType(*sizes) if kind == exp.DataType.Type.DECIMAL and len(sizes) == 2 else _TYPES.get(kind)
    if type_ is None or node.args.get("format") or (sizes and type_ in _TYPES.values()):
        raise _unsupported(node, text, f"CAST to {node.to.sql()}")
    return type_


def spoken_name(node: exp.Expr) -> str:
    """What a person calls this piece of SQL."""
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if type(node) in _OPS or isinstance(node, exp.Connector | exp.Not | exp.Is | exp.In | exp.Between):
        return "a condition inside a comparison"
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}"
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name().lower()}"
    if isinstance(node, exp.Literal):
        return "a value where a condition must stand"
    return node.key.upper()


def _unsupported(node: exp.Expr, text: str, operator: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(text, operator, SUPPORTED, place_in(text, node))
