"""Avro schemas of commits, turned into the schemas of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tablespec.errors import UnsupportedTypeError
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    Schema,
    StructType,
)

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
META_SCHEMA = Schema(tuple(Field(name=name, type=STRING) for name in META_COLUMNS))
OPERATION_COLUMN = "_hoodie_operation"
RECORD_KEY_COLUMN = "_hoodie_record_key"
COMMIT_TIME_COLUMN = "_hoodie_commit_time"

_PRIMITIVES: Mapping[str, DataType] = {
    "null": VOID,
    "boolean": BOOLEAN,
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "string": STRING,
    "enum": STRING,
    "fixed": BINARY,
}
_LOGICAL: Mapping[tuple[str, str], DataType] = {
    ("int", "date"): DATE,
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): TIMESTAMP_NTZ,
    ("long", "local-timestamp-micros"): TIMESTAMP_NTZ,
}
# Stored as something that its plain Avro type does not tell.
_UNSUPPORTED_LOGICAL = frozenset({"variant", "vector", "blob", "timestamp-nanos", "local-timestamp-nanos"})

Json = object


def parse_avro_schema(text: str) -> Schema:
    """The columns of an Avro record, meta columns of Hudi left out; text that is no Avro record raises ValueError."""
    parsed: Json = json.loads(text)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError("the schema is no Avro record")
    try:
        struct = _Reader().data_type(parsed, "", "")
    except (KeyError, TypeError) as error:
        raise ValueError(f"the Avro schema lacks {error}") from error
    assert isinstance(struct, StructType)
    hidden = {*META_COLUMNS, OPERATION_COLUMN}
    return Schema(tuple(field for field in struct.fields if field.name not in hidden))


class _Reader:
    """Remembers the named types of one schema, which later parts refer to by name."""

    def __init__(self) -> None:
        self._named: dict[str, DataType] = {}

    def data_type(self, avro: Json, path: str, namespace: str) -> DataType:
        if isinstance(avro, list):
            return self._union(avro, path, namespace)[0]
        if isinstance(avro, str):
            return _PRIMITIVES[avro] if avro in _PRIMITIVES else self._named[full_name(avro, namespace)]
        if not isinstance(avro, dict):
            raise TypeError(f"a type at {path or 'the top'}")
        return self._complex(avro, path, namespace)

    def _complex(self, avro: Mapping[str, Json], path: str, namespace: str) -> DataType:
        kind = avro["type"]
        if str(avro.get("logicalType")) in _UNSUPPORTED_LOGICAL:
            raise UnsupportedTypeError(path, str(avro["logicalType"]), "tablespec cannot read it from Hudi tables")
        match kind:
            case "record":
                return self._record(avro, path, namespace)
            case "array":
                element, nullable = self._nullable(avro["items"], f"{path}.element", namespace)
                return ArrayType(element, nullable)
            case "map":
                value, nullable = self._nullable(avro["values"], f"{path}.value", namespace)
                return MapType(STRING, value, nullable)
            case "fixed" | "enum":
                data_type = leaf_type(avro, str(kind))
                self._named[full_name(str(avro["name"]), str(avro.get("namespace") or namespace))] = data_type
                return data_type
            case str() if kind in _PRIMITIVES:
                return leaf_type(avro, kind)
            case _:
                return self.data_type(kind, path, namespace)

    def _record(self, avro: Mapping[str, Json], path: str, namespace: str) -> DataType:
        name = full_name(str(avro["name"]), str(avro.get("namespace") or namespace))
        inner = name.rpartition(".")[0]
        members = avro["fields"]
        if not isinstance(members, list):
            raise TypeError(f"the fields of {name}")
        struct = StructType(tuple(self._field(member, path, inner) for member in members))
        self._named[name] = struct
        return struct

    def _field(self, member: Mapping[str, Json], path: str, namespace: str) -> Field:
        name = str(member["name"])
        data_type, nullable = self._nullable(member["type"], f"{path}.{name}" if path else name, namespace)
        return Field(name=name, type=data_type, nullable=nullable)

    def _nullable(self, avro: Json, path: str, namespace: str) -> tuple[DataType, bool]:
        if isinstance(avro, list):
            return self._union(avro, path, namespace)
        return self.data_type(avro, path, namespace), False

    def _union(self, members: list[Json], path: str, namespace: str) -> tuple[DataType, bool]:
        types = [member for member in members if member != "null"]
        if len(types) != 1:
            raise UnsupportedTypeError(path, f"union of {json.dumps(types)}", "a column of a table has one type")
        return self.data_type(types[0], path, namespace), len(types) < len(members)


def leaf_type(avro: Mapping[str, Json], kind: str) -> DataType:
    """The column type of an Avro type that holds no others."""
    logical = str(avro.get("logicalType") or "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return DecimalType(int(str(avro["precision"])), int(str(avro.get("scale") or 0)))
    return _LOGICAL.get((kind, logical), _PRIMITIVES[kind])


def full_name(name: str, namespace: str) -> str:
    """The name of a type with its namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"
