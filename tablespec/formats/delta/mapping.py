"""Column mapping: logical columns under ids and physical names of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator

import attrs
import msgspec

from tablespec.formats.delta.schema_json import FIELD_ID, PHYSICAL_NAME
from tablespec.model.schema import ArrayType, DataType, Field, MapType, Schema, StructType

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"


def mapped(
    schema: Schema, greatest: int, physical_name: Callable[[], str] = lambda: f"col-{uuid.uuid4()}"
) -> tuple[Schema, int]:
    """The schema with an id and a physical name for every field that has none, and the greatest id now in use."""
    counter = _Counter(max([greatest, *_ids(schema.fields)]), physical_name)
    return Schema(tuple(counter.field(field) for field in schema)), counter.greatest


def keeping_names(schema: Schema) -> Schema:
    """The schema whose fields, at every depth, have their names as physical names: what files know that were never mapped."""
    return Schema(tuple(_keeping(field) for field in schema))


def _keeping(field: Field) -> Field:
    return attrs.evolve(field, physical_name=field.name, type=_keeping_below(field.type))


def _keeping_below(data_type: DataType) -> DataType:
    match data_type:
        case StructType(fields):
            return StructType(tuple(_keeping(field) for field in fields))
        case ArrayType(element, contains_null):
            return ArrayType(_keeping_below(element), contains_null)
        case MapType(key, value, value_contains_null):
            return MapType(_keeping_below(key), _keeping_below(value), value_contains_null)
        case _:
            return data_type


def _ids(fields: Iterable[Field]) -> Iterator[int]:
    for field in fields:
        if field.field_id is not None:
            yield field.field_id
        yield from _ids(_members(field.type))


def _members(data_type: DataType) -> tuple[Field, ...]:
    match data_type:
        case StructType(fields):
            return fields
        case ArrayType(element):
            return _members(element)
        case MapType(key, value):
            return (*_members(key), *_members(value))
        case _:
            return ()


@attrs.define
class _Counter:
    greatest: int
    physical_name: Callable[[], str]

    def field(self, field: Field) -> Field:
        if field.field_id is None:
            self.greatest += 1
            name = field.physical_name or self.physical_name()
            pairs = {FIELD_ID: str(self.greatest), PHYSICAL_NAME: msgspec.json.encode(name).decode()}
            metadata = tuple({**dict(field.metadata), **pairs}.items())
            field = attrs.evolve(field, field_id=self.greatest, physical_name=name, metadata=metadata)
        return attrs.evolve(field, type=self.type(field.type))

    def type(self, data_type: DataType) -> DataType:
        match data_type:
            case StructType(fields):
                return StructType(tuple(self.field(field) for field in fields))
            case ArrayType(element, contains_null):
                return ArrayType(self.type(element), contains_null)
            case MapType(key, value, value_contains_null):
                return MapType(self.type(key), self.type(value), value_contains_null)
            case _:
                return data_type
