"""The types of values: of constants, of what functions make of them, and what may become what."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from tablespec.expr.literal import cast
from tablespec.expr.nodes import Scalar
from tablespec.expr.place import At, place
from tablespec.expr.value import Function
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
)

MAX_DIGITS = 38
_KEPT_SCALE = 6
_INFINITIES = (float("inf"), float("-inf"))
_DIGITS: dict[DataType, int] = {BYTE: 3, SHORT: 5, INTEGER: 10, LONG: 20}
_MOMENTS = (TIMESTAMP, TIMESTAMP_NTZ)
_FROM_TEXT = (BOOLEAN, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ)
_CASTS: dict[DataType, tuple[DataType, ...]] = {
    BINARY: (STRING,),
    DATE: (STRING, TIMESTAMP, TIMESTAMP_NTZ),
    TIMESTAMP: (STRING, DATE, TIMESTAMP_NTZ),
    TIMESTAMP_NTZ: (STRING, DATE, TIMESTAMP),
}


def natural_type(value: Scalar) -> DataType | None:
    """The type that a constant has by itself; None when no type holds it."""
    match value:
        case None:
            return VOID
        case bool():
            return BOOLEAN
        case int():
            fitting = (type_ for type_ in (INTEGER, LONG) if isinstance(place(value, type_), At))
            return next(fitting, None) or decimal_of(value)
        case float():
            return DOUBLE
        case Decimal():
            return decimal_of(value)
        case str():
            return STRING if isinstance(place(value, STRING), At) else None
        case bytes():
            return BINARY
        case datetime(tzinfo=None):
            return TIMESTAMP_NTZ
        case datetime():
            return TIMESTAMP
        case date():
            return DATE


def decimal_of(value: int | Decimal) -> DecimalType | None:
    """The smallest decimal type that holds a number as it is written."""
    parts = Decimal(value).as_tuple()
    if not isinstance(parts.exponent, int):
        return None
    scale = max(-parts.exponent, 0)
    precision = max(len(parts.digits) + max(parts.exponent, 0), scale)
    return DecimalType(precision, scale) if precision <= MAX_DIGITS else None


def converted(value: Scalar, type_: DataType) -> Scalar:
    """A constant as a value of the type; raises ValueError where the type holds no equal one.

    Only floating point is rounded. Text in ISO format becomes a date or timestamp, and nothing else.
    """
    if value is None:
        return None
    if type_ == FLOAT and is_number(natural_type(value)):
        found = cast(value, FLOAT)
    else:
        where = place(value, type_)
        if not isinstance(where, At):
            raise ValueError(f"{value!r} is not a value of {type_}")
        found = where.value
    # A number too large for floating point would become infinity.
    if isinstance(found, float) and found in _INFINITIES and value not in _INFINITIES:
        raise ValueError(f"{value!r} is too large for {type_}")
    return found


def is_number(type_: DataType | None) -> bool:
    """Whether values of the type can be calculated with."""
    return type_ in (*INTEGRAL, FLOAT, DOUBLE) or isinstance(type_, DecimalType)


def as_decimal(type_: DataType) -> DecimalType:
    """The decimal type that holds every value of an integer or decimal type."""
    return type_ if isinstance(type_, DecimalType) else DecimalType(_DIGITS[type_], 0)


def common_type(left: DataType, right: DataType) -> DataType | None:
    """The type that values of both become where one column must hold them; None when there is none."""
    if widens(left, right):
        return right
    if widens(right, left):
        return left
    if not (is_number(left) and is_number(right)):
        return None
    if {left, right} & {FLOAT, DOUBLE}:
        return DOUBLE
    one, other = as_decimal(left), as_decimal(right)
    scale = max(one.scale, other.scale)
    return _bounded(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)


def decimal_result(function: Function, left: DecimalType, right: DecimalType) -> DecimalType:
    """The type of an operation on two decimals, as Spark has it."""
    scale = max(left.scale, right.scale)
    whole = left.precision - left.scale, right.precision - right.scale
    match function:
        case Function.MULTIPLY:
            return _bounded(left.precision + right.precision + 1, left.scale + right.scale)
        case Function.DIVIDE:
            scale = max(_KEPT_SCALE, left.scale + right.precision + 1)
            return _bounded(whole[0] + right.scale + scale, scale)
        case Function.REMAINDER:
            return _bounded(min(whole) + scale, scale)
        case _:
            return _bounded(max(whole) + scale + 1, scale)


def rounded_decimal(type_: DecimalType, digits: int) -> DecimalType:
    """The type of a decimal rounded to that many digits after the point."""
    whole = type_.precision - type_.scale + 1
    scale = min(type_.scale, max(digits, 0))
    return DecimalType(min(max(whole, 1 - digits) + scale, MAX_DIGITS), scale)


def _bounded(precision: int, scale: int) -> DecimalType:
    """The type with these digits, or with fewer after the point where there would be too many."""
    if precision <= MAX_DIGITS:
        return DecimalType(max(precision, 1), scale)
    return DecimalType(MAX_DIGITS, max(MAX_DIGITS - (precision - scale), min(scale, _KEPT_SCALE)))


def widens(given: DataType, wanted: DataType) -> bool:
    """Whether every value of the one type is a value of the other; nested types match by the names of their members."""
    if given in (wanted, VOID):
        return True
    if given in INTEGRAL and wanted in INTEGRAL:
        return INTEGRAL.index(given) <= INTEGRAL.index(wanted)
    if (given in INTEGRAL or isinstance(given, DecimalType)) and isinstance(wanted, DecimalType):
        held = as_decimal(given)
        return wanted.scale >= held.scale and wanted.precision - wanted.scale >= held.precision - held.scale
    if wanted in (FLOAT, DOUBLE):
        return given in (BYTE, SHORT) or (wanted == DOUBLE and given in (INTEGER, FLOAT))
    return (given == DATE and wanted in _MOMENTS) or _widens_inside(given, wanted)


def _widens_inside(given: DataType, wanted: DataType) -> bool:
    match given, wanted:
        case ArrayType(element), ArrayType(other):
            return widens(element, other)
        case MapType(key, value), MapType(other_key, other_value):
            return widens(key, other_key) and widens(value, other_value)
        case StructType(fields), StructType(others):
            by_name = {field.name.lower(): field.type for field in fields}
            names = [field.name.lower() for field in others]
            return sorted(by_name) == sorted(names) and all(
                widens(by_name[name], field.type) for name, field in zip(names, others)
            )
        case _:
            return False


def assignable(given: DataType, wanted: DataType) -> bool:
    """Whether values of the one type go into a column of the other without a CAST.

    Besides widening, whole numbers go into all number types, decimals into decimals of fewer digits, and all numbers
    into floating point; whether each value fits is then seen when it is there.
    """
    if widens(given, wanted):
        return True
    if not (is_number(given) and is_number(wanted)):
        return False
    if wanted in (FLOAT, DOUBLE):
        return True
    if given in (FLOAT, DOUBLE):
        return False
    return isinstance(wanted, DecimalType) or as_decimal(given).scale == 0


def castable(given: DataType, wanted: DataType) -> bool:
    """Whether CAST can turn values of the one type into the other."""
    if assignable(given, wanted):
        return True
    if is_number(given) or given == BOOLEAN:
        return is_number(wanted) or wanted in (BOOLEAN, STRING)
    if given == STRING:
        return is_number(wanted) or wanted in _FROM_TEXT
    return wanted in _CASTS.get(given, ())
