"""Arrays as they lie in files or come from users, turned into a table's types, however deep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.java_text import spark_text
from tablespec.arrow.schema import FIELD_ID, arrow_type
from tablespec.errors import TypeMismatchError
from tablespec.model.schema import ArrayType, DataType, Field, MapType, StructType

# What a field of a table is found by among the fields at hand: its number there.
Places = Callable[[Field], int | None]
# The candidates are looked at once, and not again for each of many columns.
Finder = Callable[[Sequence[pa.Field]], Places]


def by_stored_name(candidates: Sequence[pa.Field]) -> Places:
    """Finds the candidate with the physical name of a field; one that differs only in case where none fits exactly."""
    place = _by_name(candidates)
    return lambda field: place(field.stored_name)


def by_logical_name(candidates: Sequence[pa.Field]) -> Places:
    """Finds the candidate with the logical name of a field; one that differs only in case where none fits exactly."""
    place = _by_name(candidates)
    return lambda field: place(field.name)


def by_field_id(candidates: Sequence[pa.Field]) -> Places:
    """Finds the candidate with the id of a field."""
    numbered = reversed(list(enumerate(candidates)))
    places = {one.metadata[FIELD_ID]: index for index, one in numbered if one.metadata and FIELD_ID in one.metadata}
    return lambda field: places.get(str(field.field_id).encode())


def convert(array: pa.Array, field: Field, find: Finder) -> pa.Array:
    """The values of `array` as the type of `field`; members of structs are found by `find`, missing ones are null."""
    return _convert(array, field.type, find, field.name)


def nulls(length: int, data_type: DataType) -> pa.Array:
    """That many nulls of a column type."""
    return pa.nulls(length, arrow_type(data_type))


def relabelled(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values as a type that differs only in the names of its members; nothing is copied.

    A cast would look for members by name and give nulls.
    """
    return array if array.type.equals(wanted, check_metadata=True) else pa.array(_Relabelled(array, wanted))


@attrs.frozen
class _Relabelled:
    array: pa.Array
    wanted: pa.DataType

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        _, data = self.array.__arrow_c_array__()
        return self.wanted.__arrow_c_schema__(), data


def _convert(array: pa.Array, data_type: DataType, find: Finder, path: str) -> pa.Array:
    wanted = arrow_type(data_type)
    if array.type.equals(wanted) and not _renamed(data_type):
        return array
    if pa.types.is_dictionary(array.type):
        return _convert(_decoded(array), data_type, find, path)
    if pa.types.is_run_end_encoded(array.type):
        return _convert(pc.run_end_decode(array), data_type, find, path)
    if isinstance(data_type, StructType) and pa.types.is_struct(array.type):
        return _convert_struct(array, data_type, find, path)
    if isinstance(data_type, ArrayType) and hasattr(array.type, "value_field"):
        return _convert_list(array, data_type, find, path)
    if isinstance(data_type, MapType) and pa.types.is_map(array.type):
        return _convert_map(array, data_type, find, path)
    return _cast(array, wanted, path)


def _convert_struct(array: pa.StructArray, data_type: StructType, find: Finder, path: str) -> pa.Array:
    place = find([array.type.field(index) for index in range(array.type.num_fields)])
    children = []
    for field in data_type.fields:
        index = place(field)
        if index is None:
            children.append(nulls(len(array), field.type))
        else:
            children.append(_convert(array.field(index), field.type, find, f"{path}.{field.name}"))
    fields = [pa.field(field.name, arrow_type(field.type), field.nullable) for field in data_type.fields]
    mask = array.is_null() if array.null_count else None
    if not fields:
        return pa.array([None if null else {} for null in array.is_null().to_pylist()], pa.struct([]))
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _convert_list(array: pa.Array, data_type: ArrayType, find: Finder, path: str) -> pa.Array:
    values = _convert(_whole(pc.list_flatten(array)), data_type.element, find, f"{path}.element")
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(_offsets(array), values, type=arrow_type(data_type), mask=mask)


def _convert_map(array: pa.MapArray, data_type: MapType, find: Finder, path: str) -> pa.Array:
    # Seen as a list of key-value structs, a map can be flattened with its slice and its nulls taken into account.
    entries = _whole(pc.list_flatten(array.cast(pa.list_(array.type.field(0)))))
    keys = _convert(entries.field(0), data_type.key, find, f"{path}.key")
    items = _convert(entries.field(1), data_type.value, find, f"{path}.value")
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(_offsets(array), keys, items, type=arrow_type(data_type), mask=mask)


def _decoded(array: pa.DictionaryArray) -> pa.Array:
    # Under a null struct a position may point behind the end of the dictionary; no value is seen there anyway.
    inside = pc.less(array.indices, pa.scalar(len(array.dictionary), pa.int64()))
    dictionary = array.dictionary
    if pa.types.is_string_view(dictionary.type) or pa.types.is_binary_view(dictionary.type):
        # Polars writes categories so; Arrow cannot pick from them.
        dictionary = dictionary.cast(
            pa.large_string() if pa.types.is_string_view(dictionary.type) else pa.large_binary()
        )
    return dictionary.take(pc.if_else(inside, array.indices, None))


def _offsets(array: pa.Array) -> pa.Array:
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(array.type.field(0)))
    lengths = pc.fill_null(pc.cast(pc.list_value_length(array), pa.int32()), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), _whole(pc.cumulative_sum(lengths))])


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _cast(array: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    try:
        return _cast_leaf(array, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise TypeMismatchError(path, str(wanted), f"values of type {array.type} ({error})") from error


def _cast_leaf(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(wanted):
        # The zone is a label on the same instants; nanoseconds that microseconds cannot hold are an error, not a rounding.
        return array.cast(pa.timestamp("us", array.type.tz)).cast(wanted)
    if pa.types.is_string(wanted) and not (pa.types.is_large_string(array.type) or pa.types.is_string_view(array.type)):
        return spark_text(array)
    # Columns may have been promoted from whole numbers to floating ones, which keep no more digits than they have.
    return array.cast(wanted, safe=not (pa.types.is_integer(array.type) and pa.types.is_floating(wanted)))


def _renamed(data_type: DataType) -> bool:
    # Two members that swapped their names have the same Arrow type before and after.
    match data_type:
        case StructType(fields):
            return any(field.stored_name != field.name or _renamed(field.type) for field in fields)
        case ArrayType(element):
            return _renamed(element)
        case MapType(key, value):
            return _renamed(key) or _renamed(value)
        case _:
            return False


def _by_name(candidates: Sequence[pa.Field]) -> Callable[[str], int | None]:
    names = [candidate.name for candidate in candidates]
    # The first of several with the same name counts.
    places = {name: index for index, name in reversed(list(enumerate(names)))}
    folded: dict[str, int | None] = {}
    for index, name in enumerate(names):
        folded[name.lower()] = None if name.lower() in folded else index
    return lambda name: places[name] if name in places else folded.get(name.lower())
