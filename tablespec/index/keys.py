"""Record keys as one sortable value each: equal keys make equal values, and no others do."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.errors import UnsupportedTypeError
from tablespec.model.schema import DataType, DecimalType, Primitive

_NUMBERS = frozenset({"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"})
_TEXTS = frozenset({"string", "binary", "boolean"})


def check_key_type(column: str, type_: DataType) -> None:
    """Raise for a type whose values have no one form, such as floating point with its two zeros."""
    match type_:
        case Primitive(name) if name in _NUMBERS or name in _TEXTS:
            return
        case DecimalType():
            return
        case _:
            raise UnsupportedTypeError(column, f"a record index on the type {type_}")


def key_values(columns: Sequence[pa.Array]) -> pa.Array:
    """One value for each key, null where a part of it is: a number for one column of numbers, else text or bytes."""
    if len(columns) == 1:
        return _single(columns[0])
    parts: list[pa.Array] = []
    for column in columns:
        values = _bytes(column)
        # With its length before it no part can run into the next.
        parts += [pc.binary_length(values).cast(pa.large_string()).cast(pa.large_binary()), values]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.large_binary()))


def _single(column: pa.Array) -> pa.Array:
    type_ = column.type
    if pa.types.is_integer(type_):
        return column.cast(pa.int64())
    if pa.types.is_date32(type_):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(type_):
        return column.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())
    if pa.types.is_string(type_):
        return column.cast(pa.large_string())
    return _bytes(column)


def _bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.large_binary())
    if not pa.types.is_string(column.type):
        column = _single(column) if _is_number(column.type) else column
        column = column.cast(pa.string())
    return column.cast(pa.large_string()).cast(pa.large_binary())


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_))
