"""Partition paths, read back through the key generator that made them."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from datetime import date

import attrs

from tablespec.formats.hudi.properties import TableProperties
from tablespec.model.schema import BOOLEAN, BYTE, DATE, INTEGER, INTEGRAL, LONG, SHORT, STRING, DataType, Field, Schema

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_BITS = {BYTE: 7, SHORT: 15, INTEGER: 31, LONG: 63}
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_CLASS = re.compile(r"(?:.*\.)?(Simple|Complex|TimestampBased|Custom|Nonpartitioned|GlobalDelete)(?:Avro)?KeyGenerator")
_TYPE_OF_CLASS = {
    "Simple": "SIMPLE",
    "Complex": "COMPLEX",
    "TimestampBased": "TIMESTAMP",
    "Custom": "CUSTOM",
    "Nonpartitioned": "NON_PARTITION",
    "GlobalDelete": "GLOBAL_DELETE",
}


class FieldKind(enum.Enum):
    """How a column becomes a part of the path: as its own text, as a formatted time, or in a way that nobody knows."""

    SIMPLE = "simple"
    TIMESTAMP = "timestamp"
    UNKNOWN = "unknown"


@attrs.frozen
class PartitionField:
    """A partition column and how the path shows it."""

    name: str
    kind: FieldKind


@attrs.frozen(kw_only=True)
class KeyGenerator:
    """How partition paths come from partition columns; with `times_as_text` Hudi on Spark shows these as strings."""

    fields: tuple[PartitionField, ...]
    hive_style: bool = False
    url_encoded: bool = False
    times_as_text: bool = False


def key_generator_of(properties: TableProperties) -> KeyGenerator:
    """The key generator of a table. One that is not known makes columns whose values only the files tell."""
    kind = _generator_type(properties.key_generator)
    if kind in ("NON_PARTITION", "GLOBAL_DELETE"):
        return KeyGenerator(fields=())
    return KeyGenerator(
        fields=tuple(_field(kind, text) for text in properties.partition_fields),
        hive_style=properties.hive_style,
        url_encoded=properties.url_encoded,
        times_as_text=kind == "TIMESTAMP",
    )


def knows_record_keys(properties: TableProperties) -> bool:
    """Whether it is known how the key generator of a table spells record keys."""
    return _generator_type(properties.key_generator) in _TYPE_OF_CLASS.values()


def key_prefix(properties: TableProperties) -> str:
    """What some releases write before a key of one column; empty where none does."""
    named = len(properties.record_key) == 1 and _generator_type(properties.key_generator) == "COMPLEX"
    return f"{properties.record_key[0]}:" if named else ""


def shown_schema(schema: Schema, generator: KeyGenerator) -> Schema:
    """The schema as Hudi on Spark shows it: partition columns are nullable, those of formatted times are strings."""
    names = {field.name for field in generator.fields}
    return Schema(tuple(_shown(field, generator) if field.name in names else field for field in schema))


def partition_values(generator: KeyGenerator, schema: Schema, paths: Sequence[str]) -> list[list[object] | None]:
    """For each field the values that partition paths tell, in their order; None where of one of them only the files can tell."""
    types = {field.name: field.type for field in schema}
    split = [path.split("/") for path in paths]
    # A value with a slash, or a time that is formatted with one: the levels cannot be told apart for certain.
    if any(len(segments) != len(generator.fields) for segments in split):
        return [None] * len(generator.fields)
    return [
        _values(generator, field, types.get(field.name), [segments[place] for segments in split])
        for place, field in enumerate(generator.fields)
    ]


def _generator_type(text: str) -> str:
    found = _CLASS.fullmatch(text)
    return _TYPE_OF_CLASS[found[1]] if found else text.upper().removesuffix("_AVRO")


def _field(generator_type: str, text: str) -> PartitionField:
    name, _, kind = text.partition(":")
    if generator_type == "CUSTOM":
        kinds = {"SIMPLE": FieldKind.SIMPLE, "TIMESTAMP": FieldKind.TIMESTAMP}
        return PartitionField(name, kinds.get(kind.upper(), FieldKind.UNKNOWN))
    kinds = {"SIMPLE": FieldKind.SIMPLE, "COMPLEX": FieldKind.SIMPLE, "TIMESTAMP": FieldKind.TIMESTAMP}
    return PartitionField(name, kinds.get(generator_type, FieldKind.UNKNOWN))


def _shown(field: Field, generator: KeyGenerator) -> Field:
    return attrs.evolve(field, nullable=True, type=STRING if generator.times_as_text else field.type)


def _values(
    generator: KeyGenerator, field: PartitionField, data_type: DataType | None, segments: list[str]
) -> list[object] | None:
    if not segments:
        return []
    prefix = f"{field.name}="
    if field.kind is not FieldKind.SIMPLE or data_type is None:
        return None
    if any(segment.startswith(prefix) != generator.hive_style for segment in segments):
        return None
    texts = [segment.removeprefix(prefix) for segment in segments] if generator.hive_style else segments
    shown = [_decoded(text) for text in texts] if generator.url_encoded else texts
    typed: Sequence[object] = shown if data_type == STRING else [_typed(text, data_type) for text in shown]
    values = [None if text == NULL_PARTITION else value for text, value in zip(texts, typed)]
    return values if values.count(None) == texts.count(NULL_PARTITION) else None


def _decoded(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _typed(text: str, data_type: DataType) -> bool | int | date | None:
    """The value that a text certainly is."""
    if data_type == BOOLEAN and text in ("true", "false"):
        return text == "true"
    if data_type in INTEGRAL and re.fullmatch(r"-?[0-9]{1,19}", text):
        number = int(text)
        return number if -(1 << _BITS[data_type]) <= number < 1 << _BITS[data_type] else None
    # Writers store dates as text or as days, timestamps and decimals in several ways: only a plain date is certain.
    if data_type == DATE and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return _date(text)
    return None


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
