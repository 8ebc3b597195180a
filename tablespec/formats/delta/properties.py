"""Table properties that Delta knows: what they mean and which features they need."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tablespec.errors import InvalidPropertyError
from tablespec.formats.delta.schema_json import metadata_of
from tablespec.model.schema import ArrayType, DataType, Field, MapType, Schema, StructType

CONSTRAINT = "delta.constraints."
INVARIANT = "delta.invariants"
TYPE_CHANGES = "delta.typeChanges"

# A property that, set to that value, asks for features; "*" stands for any value.
PROPERTY_FEATURES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("delta.appendOnly", "true", ("appendOnly",)),
    ("delta.enableChangeDataFeed", "true", ("changeDataFeed",)),
    ("delta.enableDeletionVectors", "true", ("deletionVectors",)),
    ("delta.enableRowTracking", "true", ("rowTracking", "domainMetadata")),
    ("delta.enableInCommitTimestamps", "true", ("inCommitTimestamp",)),
    ("delta.enableTypeWidening", "true", ("typeWidening",)),
    ("delta.columnMapping.mode", "name", ("columnMapping",)),
    ("delta.columnMapping.mode", "id", ("columnMapping",)),
    ("delta.checkpointPolicy", "v2", ("v2Checkpoint",)),
    ("tablespec.topLevelActions", "true", ("tablespec-topLevelActions",)),
)

_CHOICES: dict[str, tuple[str, ...]] = {
    "delta.columnMapping.mode": ("none", "name", "id"),
    "delta.isolationLevel": ("Serializable", "WriteSerializable"),
    "delta.checkpointPolicy": ("classic", "v2"),
}
_BOOLEANS = (
    "delta.appendOnly",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableRowTracking",
    "delta.enableInCommitTimestamps",
    "delta.enableTypeWidening",
    "tablespec.topLevelActions",
)
_POSITIVE = ("delta.checkpointInterval", "delta.targetFileSize")


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise for a known property with a value that it cannot have."""
    for name, value in properties.items():
        if name in _BOOLEANS and value not in ("true", "false"):
            raise InvalidPropertyError(name, value, "true or false")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise InvalidPropertyError(name, value, " or ".join(_CHOICES[name]))
        if name in _POSITIVE and not (value.isdigit() and int(value) > 0):
            raise InvalidPropertyError(name, value, "a whole number above zero")


def needed_features(properties: Mapping[str, str], schema: Schema) -> frozenset[str]:
    """The features that a table with these properties and columns must declare."""
    needed = {
        feature for name, value, features in PROPERTY_FEATURES for feature in features if properties.get(name) == value
    }
    if any(name.startswith(CONSTRAINT) for name in properties):
        needed.add("checkConstraints")
    for field in _all_fields(schema.fields):
        needed |= _features_of_field(field)
    return frozenset(needed)


def used_by_schema(schema: Schema) -> frozenset[str]:
    """Features that old protocol versions imply, as far as columns really use them."""
    keys = {key for field in _all_fields(schema.fields) for key, _ in field.metadata}
    used = set()
    if "delta.generationExpression" in keys:
        used.add("generatedColumns")
    if any(key.startswith("delta.identity.") for key in keys):
        used.add("identityColumns")
    return frozenset(used)


def constraints_of(properties: Mapping[str, str], schema: Schema) -> tuple[tuple[str, str], ...]:
    """The (name, expression) pairs of CHECK constraints and column invariants."""
    checks = [
        (name.removeprefix(CONSTRAINT), value) for name, value in properties.items() if name.startswith(CONSTRAINT)
    ]
    for field in schema:
        invariant = metadata_of(field, INVARIANT)
        if isinstance(invariant, str):
            checks.append((f"of column {field.name}", _invariant_text(invariant)))
    return tuple(checks)


def _invariant_text(text: str) -> str:
    # {"expression": {"expression": "x > 3"}}, itself kept as text.
    document = msgspec.json.decode(text)
    return str(document["expression"]["expression"])


def _features_of_field(field: Field) -> set[str]:
    needed = set()
    if _holds(field.type, "timestamp_ntz"):
        needed.add("timestampNtz")
    if _holds(field.type, "variant"):
        needed.add("variantType")
    keys = {key for key, _ in field.metadata}
    if INVARIANT in keys or not field.nullable:
        needed.add("invariants")
    if TYPE_CHANGES in keys:
        needed.add("typeWidening")
    return needed


def _holds(data_type: DataType, name: str) -> bool:
    match data_type:
        case ArrayType(element):
            return _holds(element, name)
        case MapType(key, value):
            return _holds(key, name) or _holds(value, name)
        case _:
            return str(data_type) == name


def _all_fields(fields: tuple[Field, ...]) -> list[Field]:
    found = []
    for field in fields:
        found.append(field)
        found += _below(field.type)
    return found


def _below(data_type: DataType) -> list[Field]:
    match data_type:
        case StructType(fields):
            return _all_fields(fields)
        case ArrayType(element):
            return _below(element)
        case MapType(key, value):
            return [*_below(key), *_below(value)]
        case _:
            return []
