"""Which columns a file stores, of which types, as a short text by which files that are alike are known."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from tablespec.model.schema import ArrayType, DataType, Field, MapType, StructType

# Another way of storing a type makes other files.
_WRITTEN = "1"


def stored_form(fields: Iterable[Field]) -> str:
    """The form of files that tablespec writes with these columns; names are those in files, and nulls play no part."""
    described = f"{_WRITTEN} {_described(tuple(fields))}"
    return hashlib.blake2b(described.encode(), digest_size=8).hexdigest()


def _described(fields: tuple[Field, ...]) -> str:
    return ",".join(f"{json.dumps(field.stored_name)}:{_type(field.type)}" for field in fields)


def _type(data_type: DataType) -> str:
    match data_type:
        case StructType(fields):
            return f"struct<{_described(fields)}>"
        case ArrayType(element):
            return f"array<{_type(element)}>"
        case MapType(key, value):
            return f"map<{_type(key)},{_type(value)}>"
        case _:
            return str(data_type)
