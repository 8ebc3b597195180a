"""Bounds of statistics, loosened by what writers are known to lose of them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.model.schema import TIMESTAMP, TIMESTAMP_NTZ, DataType, DecimalType

_MILLISECOND = pa.scalar(999, pa.duration("us"))
# Decimals of up to this many digits survive being written as floating-point numbers; longer ones come out this much off.
_EXACT_DIGITS = 15
_PART = pa.scalar(Decimal(10) ** 14, pa.decimal256(15, 0))


def outer_bounds(low: pa.Array, high: pa.Array, data_type: DataType) -> tuple[pa.Array, pa.Array]:
    """Bounds that hold for all values, though timestamps were cut to milliseconds and decimals written as doubles.

    Those of long decimals come in a wider type.
    """
    if data_type in (TIMESTAMP, TIMESTAMP_NTZ):
        return low, pc.add(high, _MILLISECOND)
    if isinstance(data_type, DecimalType) and data_type.precision > _EXACT_DIGITS:
        wide = pa.decimal256(data_type.precision, data_type.scale)
        low, high = low.cast(wide), high.cast(wide)
        return pc.subtract(low, _slack(low)), pc.add(high, _slack(high))
    return low, high


def _slack(bound: pa.Array) -> pa.Array:
    return pc.divide(pc.abs(bound), _PART)
