"""Between typed partition values, their text in the log, and the folders that bear their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from urllib.parse import quote

import attrs

from tablespec.errors import CorruptLogError, TypeMismatchError
from tablespec.formats.delta.numbers import as_decimal, as_integer
from tablespec.model.schema import DataType, DecimalType, Field, Primitive

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"

# What Hive escapes in folder names, so that engines that read folders see the same values.
_HIVE_ESCAPED = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")
_ZONED = re.compile(r"(Z|[+-]\d\d:?\d\d)$")


def parse_value(text: str | None, data_type: DataType, table: str) -> object:
    """The typed value of a partition column; an empty text is null for every type but strings."""
    if text is None or (text == "" and data_type != Primitive("string")):
        return None
    try:
        return _parse(text, data_type)
    except (ValueError, InvalidOperation, OverflowError) as error:
        raise CorruptLogError(table, "add.partitionValues", 0, f"{text!r} is no value of type {data_type}") from error


def format_value(value: object, data_type: DataType) -> str | None:
    """The text of a partition value in the log; the empty string becomes null, as Delta on Spark has it."""
    match value:
        case None | "" | b"":
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.decode("utf-8")
        case datetime():
            return _format_timestamp(value)
        case float():
            return _format_float(value)
        case _:
            return format(value, "f") if isinstance(value, Decimal) else str(value)


@attrs.frozen
class HiveFolders:
    """Folders named `column=value`, one level for each partition column."""

    fields: tuple[Field, ...]

    def folder(self, values: tuple[object, ...]) -> str:
        """The folder of a partition; raises TypeMismatchError for bytes that are no text, which no log can hold."""
        return folder(
            self.fields, {field.stored_name: _text(value, field) for field, value in zip(self.fields, values)}
        )


def folder(fields: Sequence[Field], texts: Mapping[str, str | None]) -> str:
    """The Hive-style folder of a partition, as it stands on disk."""
    return "/".join(f"{escape(field.stored_name)}={_folder_value(texts.get(field.stored_name))}" for field in fields)


def escape(text: str) -> str:
    """Text as Hive writes it into a folder name."""
    return _HIVE_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def to_uri(path: str) -> str:
    """A path on disk as the log writes it."""
    return quote(path, safe="/=:,@+!$&'()*;~-._")


def _text(value: object, field: Field) -> str | None:
    try:
        return format_value(value, field.type)
    except UnicodeDecodeError as error:
        raise TypeMismatchError(field.name, "binary in a partition column", f"{value!r}, which is not UTF-8") from error


def _folder_value(text: str | None) -> str:
    return NULL_FOLDER if text is None or text == "" else escape(text)


def _parse(text: str, data_type: DataType) -> object:
    if isinstance(data_type, DecimalType):
        return as_decimal(Decimal(text), data_type)
    match str(data_type):
        case "string":
            return text
        case "byte" | "short" | "integer" | "long":
            return as_integer(int(text), data_type)
        case "float" | "double":
            return float(text)
        case "boolean":
            return _parse_boolean(text)
        case "date":
            # Old writers put the time of midnight behind the date.
            return date.fromisoformat(text[:10])
        case "timestamp":
            parsed = _parse_datetime(text)
            return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
        case "timestamp_ntz":
            return _parse_datetime(_ZONED.sub("", text))
        case "binary":
            return text.encode("utf-8")
        case other:
            raise ValueError(other)


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _parse_datetime(text: str) -> datetime:
    # Spark writes up to nine digits of a second and may leave trailing zeros out.
    whole, dot, rest = text.partition(".")
    if not dot:
        return datetime.fromisoformat(text)
    found = re.match(r"(\d+)(.*)", rest)
    if found is None:
        raise ValueError(text)
    micros = int(found[1].ljust(6, "0")[:6])
    return datetime.fromisoformat(whole + found[2]) + timedelta(microseconds=micros)


def _format_timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(sep=" ", timespec="microseconds")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _format_float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)
