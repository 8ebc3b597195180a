"""Numbers as a log writes them, held to the range of their column type."""

from __future__ import annotations

from decimal import Context, Decimal

from tablespec.model.schema import BYTE, INTEGER, LONG, SHORT, DataType, DecimalType

_BITS: dict[DataType, int] = {BYTE: 8, SHORT: 16, INTEGER: 32, LONG: 64}
# Python's own context has fewer digits than a decimal may have.
_ALL_DIGITS = Context(prec=76)


def as_decimal(value: Decimal, data_type: DecimalType) -> Decimal:
    """The value with the scale of its type; raises ValueError or InvalidOperation where it has too many digits."""
    scaled = value.quantize(Decimal((0, (1,), -data_type.scale)), context=_ALL_DIGITS)
    if not scaled.is_finite() or scaled.adjusted() >= data_type.precision - data_type.scale:
        raise ValueError(f"{value} does not fit {data_type}")
    return scaled


def as_integer(value: int, data_type: DataType) -> int:
    """The same value; raises ValueError where the type is too narrow for it."""
    limit = 1 << (_BITS[data_type] - 1)
    if not -limit <= value < limit:
        raise ValueError(f"{value} does not fit {data_type}")
    return value
