"""Constants as SQL text writes them."""

from __future__ import annotations

import re
import struct
from datetime import date, datetime
from decimal import Decimal

from tablespec.expr.nodes import Scalar
from tablespec.expr.place import At, place
from tablespec.model.schema import BOOLEAN, DOUBLE, FLOAT, INTEGRAL, STRING, DataType, DecimalType

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_NON_FINITE = {"nan": "nan", "inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf", "+infinity": "inf"}
_BOOLEANS = {"true": True, "false": False}


def number(text: str) -> int | Decimal | None:
    """The number that `text` writes, exactly; None when it writes none, or one beyond all reason."""
    try:
        if _INTEGER.fullmatch(text):
            return int(text)
        return Decimal(text) if _NUMBER.fullmatch(text) else None
    except (ValueError, ArithmeticError):
        # Python refuses integers of thousands of digits and exponents of eighteen.
        return None


def cast(value: Scalar, to: DataType) -> Scalar:
    """The constant `CAST(value AS to)`; raises ValueError where it would lose something or engines disagree."""
    if value is None:
        return None
    source = _read(value, to) if isinstance(value, str) else value
    if to == STRING and isinstance(source, int) and not isinstance(source, bool):
        return str(source)
    if to == FLOAT and isinstance(source, int | float | Decimal) and not isinstance(source, bool):
        return _rounded_to_float(source)
    found = place(source, to)
    if not isinstance(found, At):
        raise ValueError(f"{value!r} cannot be cast to {to} exactly")
    return found.value


def _read(text: str, to: DataType) -> Scalar:
    """Text as a value that fits into the type at all; dates and times stay text, for `place` reads those."""
    folded = text.strip().lower()
    if to == BOOLEAN:
        return _BOOLEANS.get(folded)
    if to in (FLOAT, DOUBLE) and folded in _NON_FINITE:
        return float(_NON_FINITE[folded])
    if to in (FLOAT, DOUBLE, *INTEGRAL) or isinstance(to, DecimalType):
        return number(text.strip())
    return text


def _rounded_to_float(value: int | float | Decimal) -> float:
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def sql_literal(value: Scalar) -> str:
    """The SQL text of a constant; reading it gives an equal constant of the same kind."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal():
            text = str(value)
            return text if "." in text or "E" in text else text + ".0"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case str():
            return quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime(tzinfo=None):
            return f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"


def quoted(text: str) -> str:
    """Text as an SQL string; backslashes are plain characters."""
    return "'" + text.replace("'", "''") + "'"
