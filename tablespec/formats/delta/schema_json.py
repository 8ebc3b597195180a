"""Between the schema text of a Delta log and a schema."""

from __future__ import annotations

import re
from typing import Any, assert_never

import msgspec

from tablespec.errors import CorruptLogError, UnsupportedTableError
from tablespec.model.schema import (
    PRIMITIVES,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Primitive,
    Schema,
    StructType,
)

PHYSICAL_NAME = "delta.columnMapping.physicalName"
FIELD_ID = "delta.columnMapping.id"

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_DIGITS = 38
_ALIASES = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte", "null": "void"}


def parse_schema(text: str, table: str, *, mapped: bool) -> Schema:
    """The schema that a metaData action describes; physical names and ids count only when `mapped`."""
    try:
        root = msgspec.json.decode(text)
        return Schema(tuple(_field(field, table, mapped) for field in root["fields"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptLogError(table, "metaData.schemaString", 0, f"the schema cannot be read ({error})") from error


def format_schema(schema: Schema) -> str:
    """The text of a schema for a metaData action."""
    return msgspec.json.encode({"type": "struct", "fields": [_field_json(field) for field in schema]}).decode()


def metadata_of(field: Field, key: str) -> object | None:
    """The value under `key` in the metadata of a field, or None."""
    text = dict(field.metadata).get(key)
    return None if text is None else msgspec.json.decode(text)


def _object(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise TypeError(f"{raw!r} is no object")
    return raw


def _field(given: object, table: str, mapped: bool) -> Field:
    raw = _object(given)
    metadata = _object(raw.get("metadata") or {})
    identifier = metadata.get(FIELD_ID)
    return Field(
        name=str(raw["name"]),
        type=_type(raw["type"], table, mapped),
        nullable=bool(raw.get("nullable", True)),
        physical_name=str(metadata.get(PHYSICAL_NAME, "")) if mapped else "",
        field_id=int(identifier) if mapped and identifier is not None else None,
        metadata=tuple((key, msgspec.json.encode(value).decode()) for key, value in metadata.items()),
    )


def _type(raw: object, table: str, mapped: bool) -> DataType:
    if isinstance(raw, str):
        return _primitive(raw, table)
    raw = _object(raw)
    match raw["type"]:
        case "struct":
            return StructType(tuple(_field(field, table, mapped) for field in raw["fields"]))
        case "array":
            return ArrayType(_type(raw["elementType"], table, mapped), bool(raw.get("containsNull", True)))
        case "map":
            key, value = _type(raw["keyType"], table, mapped), _type(raw["valueType"], table, mapped)
            return MapType(key, value, bool(raw.get("valueContainsNull", True)))
        case other:
            raise UnsupportedTableError(table, f"the column type {other}")


def _primitive(name: str, table: str) -> DataType:
    name = _ALIASES.get(name, name)
    if name in PRIMITIVES:
        return Primitive(name)
    if name == "decimal":
        return DecimalType(10, 0)
    found = _DECIMAL.fullmatch(name)
    if found and 0 < int(found[1]) <= _DIGITS and int(found[2]) <= int(found[1]):
        return DecimalType(int(found[1]), int(found[2]))
    raise UnsupportedTableError(table, f"the column type {name}")


def _field_json(field: Field) -> dict[str, object]:
    metadata = {key: msgspec.Raw(value.encode()) for key, value in field.metadata}
    return {"name": field.name, "type": _type_json(field.type), "nullable": field.nullable, "metadata": metadata}


def _type_json(data_type: DataType) -> object:
    match data_type:
        case Primitive() | DecimalType():
            return str(data_type)
        case ArrayType(element, contains_null):
            return {"type": "array", "elementType": _type_json(element), "containsNull": contains_null}
        case MapType(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": _type_json(key),
                "valueType": _type_json(value),
                "valueContainsNull": value_contains_null,
            }
        case StructType(fields):
            return {"type": "struct", "fields": [_field_json(field) for field in fields]}
        case _:
            assert_never(data_type)
