"""Values computed over Arrow data.

Integers and decimals that overflow are an error, floating point goes to infinity, and division by zero is null. Only
what a row needs is computed for it: the branch of CASE that it takes, the arguments of COALESCE up to its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.arithmetic import calculated, rounded_number, whole_number
from tablespec.arrow.cast import cast_array
from tablespec.arrow.convert import by_logical_name, convert
from tablespec.arrow.evaluate import evaluate, matching
from tablespec.arrow.schema import arrow_type
from tablespec.errors import ValueOverflowError
from tablespec.expr.nodes import Column, Compare, Literal, Op
from tablespec.expr.render_value import render_value
from tablespec.expr.value import Call, Case, Cast, Function, Value, columns_of_value, type_of
from tablespec.expr.value_type import common_type
from tablespec.model.schema import INTEGRAL, DataType, DecimalType, Field


def evaluate_value(value: Value, batch: pa.RecordBatch) -> pa.Array:
    """The bound value for each row, as an array of exactly its type; columns are found by their logical names.

    Raises ValueOverflowError, naming the part of the expression whose type cannot hold its value.
    """
    match value:
        case Column():
            return _column(value, batch)
        case Literal(constant):
            return pa.repeat(pa.scalar(constant, arrow_type(type_of(value))), batch.num_rows)
        case Call(Function.COALESCE, arguments):
            return _coalesce(arguments, _narrow(value, batch))
        case Call() | Cast():
            return _computed(value, batch)
        case Case():
            return _case(value, _narrow(value, batch))
        case _:
            assert_never(value)


def _column(column: Column, batch: pa.RecordBatch) -> pa.Array:
    values = batch.column(column.path[0])
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    return convert(values, Field(name=column.name, type=type_of(column)), by_logical_name)


def _computed(value: Call | Cast, batch: pa.RecordBatch) -> pa.Array:
    inner = value.arguments if isinstance(value, Call) else (value.value,)
    arrays = [evaluate_value(argument, batch) for argument in inner]
    type_ = type_of(value)
    try:
        return _call(value, arrays, type_) if isinstance(value, Call) else cast_array(arrays[0], type_)
    except (ValueError, ArithmeticError) as error:
        raise ValueOverflowError(render_value(value), str(type_), str(error)) from error


def _call(call: Call, arrays: list[pa.Array], type_: DataType) -> pa.Array:
    function = call.function
    if function in (Function.ADD, Function.SUBTRACT, Function.MULTIPLY, Function.DIVIDE, Function.REMAINDER):
        return calculated(function, arrays[0], arrays[1], type_)
    if function in (Function.FLOOR, Function.CEIL):
        return whole_number(function, arrays[0], type_)
    if function is Function.ROUND:
        return rounded_number(arrays[0], _number(call.arguments[1]), type_)
    if function in (Function.GREATEST, Function.LEAST):
        return _extreme(Op.GT if function is Function.GREATEST else Op.LT, arrays)
    if function is Function.NULLIF:
        equal = _compared(Op.EQ, *_comparable(arrays, [type_of(argument) for argument in call.arguments]))
        return pc.if_else(pc.fill_null(equal, False), pa.scalar(None, arrays[0].type), arrays[0])
    if function is Function.SUBSTRING:
        return _substring(arrays[0], *(_number(argument) for argument in call.arguments[1:]))
    if function is Function.REPLACE:
        return _replaced(arrays[0], *(_text(argument) for argument in call.arguments[1:]))
    return _KERNELS[function](*arrays)


_KERNELS: dict[Function, Callable[..., pa.Array]] = {
    Function.NEGATE: pc.negate_checked,
    Function.ABS: pc.abs_checked,
    Function.UPPER: pc.utf8_upper,
    Function.LOWER: pc.utf8_lower,
    Function.LENGTH: pc.utf8_length,
    Function.TRIM: lambda text: pc.utf8_trim(text, characters=" "),
    Function.CONCAT: lambda *texts: pc.binary_join_element_wise(*texts, ""),
}


def _number(value: Value) -> int:
    assert isinstance(value, Literal) and isinstance(value.value, int)
    return value.value


def _text(value: Value) -> str:
    assert isinstance(value, Literal) and isinstance(value.value, str)
    return value.value


def _compared(op: Op, left: pa.Array, right: pa.Array) -> pa.Array:
    """The comparison of two arrays as predicates have it."""
    pair = pa.RecordBatch.from_arrays([left, right], ["left", "right"])
    return evaluate(Compare(op, Column(("left",)), Column(("right",))), pair)


def _comparable(arrays: list[pa.Array], types: list[DataType]) -> list[pa.Array]:
    """Two arrays that predicates can compare; integers and decimals they compare as they are, digit by digit."""
    common = common_type(*types)
    if common is None or common in INTEGRAL or isinstance(common, DecimalType):
        return arrays
    return [cast_array(array, common) for array in arrays]


def _extreme(op: Op, arrays: list[pa.Array]) -> pa.Array:
    best = arrays[0]
    for other in arrays[1:]:
        better = pc.or_(pc.fill_null(_compared(op, other, best), False), pc.is_null(best))
        best = pc.if_else(better, other, best)
    return best


def _substring(texts: pa.Array, position: int, length: int | None = None) -> pa.Array:
    start = position - 1 if position > 0 else position
    if length is None:
        return pc.utf8_slice_codeunits(texts, start=start)
    stop = start + max(length, 0)
    if start < 0 <= stop:
        # What reaches the end of the text cannot be said by a place counted from the end.
        return pc.utf8_slice_codeunits(texts, start=start)
    return pc.utf8_slice_codeunits(texts, start=start, stop=stop)


def _replaced(texts: pa.Array, old: str, new: str) -> pa.Array:
    # Arrow never comes back from a search for nothing.
    return pc.replace_substring(texts, pattern=old, replacement=new) if old else texts


def _narrow(value: Value, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that a value needs, so that only they are copied when rows are told apart."""
    names = {path[0] for path in columns_of_value(value)}
    return batch.select(sorted(names)) if names else batch


def _case(case: Case, rows: pa.RecordBatch) -> pa.Array:
    places, parts = [], []
    left = _all_places(rows)
    for predicate, value in case.branches:
        chosen = matching(predicate, rows)
        places.append(left.filter(chosen))
        parts.append(evaluate_value(value, rows.filter(chosen)))
        others = pc.invert(chosen)
        left, rows = left.filter(others), rows.filter(others)
    return _in_order([*places, left], [*parts, evaluate_value(case.otherwise, rows)])


def _coalesce(arguments: tuple[Value, ...], rows: pa.RecordBatch) -> pa.Array:
    places, parts = [], []
    left = _all_places(rows)
    for argument in arguments[:-1]:
        values = evaluate_value(argument, rows)
        found, missing = pc.is_valid(values), pc.is_null(values)
        places.append(left.filter(found))
        parts.append(values.filter(found))
        left, rows = left.filter(missing), rows.filter(missing)
    return _in_order([*places, left], [*parts, evaluate_value(arguments[-1], rows)])


def _all_places(rows: pa.RecordBatch) -> pa.Array:
    return pc.indices_nonzero(pa.repeat(True, rows.num_rows))


def _in_order(places: list[pa.Array], parts: list[pa.Array]) -> pa.Array:
    """The parts as one array in which each value stands at its place."""
    return pa.concat_arrays(parts).take(pc.sort_indices(pa.concat_arrays(places)))
