"""The keys of a merge: values of the source as values of the columns of the table that they are held against."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.cast import cast_array
from tablespec.arrow.evaluate import aligned, equal, one_zero
from tablespec.arrow.schema import arrow_type
from tablespec.errors import TypeMismatchError
from tablespec.model.schema import FLOAT, DataType, DecimalType, Field, Schema
from tablespec.write.merge_plan import OURS, MergePlan

NUMBER = f"{OURS}number"
# Beyond these, several values of a column are equal to the same double.
_WHOLE_NUMBERS = 2**53
_DIGITS = 15
_GREATEST_FLOAT = float.fromhex("0x1.fffffep+127")


def with_keys(source: pa.Table, merge_plan: MergePlan, table: Schema) -> pa.Table:
    """The source with its rows numbered and its keys once more, in the types of the table's keys."""
    source = source.append_column(NUMBER, pa.arange(0, source.num_rows))
    for index, (target_column, source_column) in enumerate(merge_plan.keys):
        values = source.column(source_column).combine_chunks()
        source = source.append_column(key_column(index), one_zero(as_keys(values, table.field(target_column))))
    return source


def key_column(index: int) -> str:
    """The column of a source that holds its keys in the type of the table's."""
    return f"{OURS}key{index}"


def as_keys(values: pa.Array, field: Field) -> pa.Array:
    """Each value as the one value of a column that equals it, as predicates compare columns; null where there is none.

    Raises TypeMismatchError for floating point that several values of the column are equal to.
    """
    wanted = arrow_type(field.type)
    if values.type.equals(wanted):
        return values
    to_floating, floating = pa.types.is_floating(wanted), pa.types.is_floating(values.type)
    held = values
    if not to_floating or (floating and field.type == FLOAT):
        within = _within(values, field.type)
        kept = pc.or_(within, pc.invert(pc.is_finite(values))) if to_floating else within
        held = pc.if_else(kept, values, pa.scalar(None, values.type))
    if floating and not to_floating:
        _refuse_unclear(held, field)
    found = cast_array(held, field.type)
    same = pc.fill_null(equal(*aligned(found, values)), False)
    return pc.if_else(same, found, pa.scalar(None, wanted))


def _within(values: pa.Array, type_: DataType) -> pa.Array:
    """Whether values lie between the least and the greatest of a type of numbers."""
    wanted = arrow_type(type_)
    if isinstance(type_, DecimalType):
        # Built from its digits: arithmetic would round to 28 of them.
        greatest = pa.scalar(Decimal((0, (9,) * type_.precision, -type_.scale)), wanted)
        least = pa.scalar(greatest.as_py().copy_negate(), wanted)
    elif type_ == FLOAT:
        least, greatest = pa.scalar(-_GREATEST_FLOAT), pa.scalar(_GREATEST_FLOAT)
    else:
        ends = 2 ** (wanted.bit_width - 1)
        least, greatest = pa.scalar(-ends, wanted), pa.scalar(ends - 1, wanted)
    return pc.and_(
        pc.greater_equal(*aligned(values, least)),
        pc.less_equal(*aligned(values, greatest)),
    )


def _refuse_unclear(values: pa.Array, field: Field) -> None:
    limit = 10.0 ** (_DIGITS - field.type.scale) if isinstance(field.type, DecimalType) else float(_WHOLE_NUMBERS)
    unclear = values.filter(pc.fill_null(pc.greater_equal(pc.abs(values), pa.scalar(limit, values.type)), False))
    if len(unclear):
        why = f"the key {unclear[0].as_py()!r}: as floating point several values equal it; cast the keys of the source"
        raise TypeMismatchError(field.name, str(field.type), why)
