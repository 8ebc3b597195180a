"""Table properties that Delta knows: what they mean and which features they need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

import attrs
import msgspec

from tablespec.errors import InvalidPropertyError, TableSpecError, UnsupportedOperatorError
from tablespec.expr.bind import bind
from tablespec.formats.delta.schema_json import metadata_of
from tablespec.model.schema import ArrayType, DataType, Field, MapType, Schema, StructType

CONSTRAINT = "delta.constraints."
INVARIANT = "delta.invariants"
TYPE_CHANGES = "delta.typeChanges"
DELETION_VECTORS = "delta.enableDeletionVectors"
TOP_LEVEL_ACTIONS = "tablespec.topLevelActions"
IN_COMMIT_TIMESTAMPS = "delta.enableInCommitTimestamps"
_OLD_READERS = "tablespec.oldReaders"

# A property that, set to that value, asks for features.
PROPERTY_FEATURES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("delta.appendOnly", "true", ("appendOnly",)),
    ("delta.enableChangeDataFeed", "true", ("changeDataFeed",)),
    (DELETION_VECTORS, "true", ("deletionVectors",)),
    ("delta.enableRowTracking", "true", ("rowTracking", "domainMetadata")),
    (IN_COMMIT_TIMESTAMPS, "true", ("inCommitTimestamp",)),
    ("delta.enableTypeWidening", "true", ("typeWidening",)),
    ("delta.columnMapping.mode", "name", ("columnMapping",)),
    ("delta.columnMapping.mode", "id", ("columnMapping",)),
    ("delta.checkpointPolicy", "v2", ("v2Checkpoint",)),
    (TOP_LEVEL_ACTIONS, "true", ("tablespec-topLevelActions",)),
)

_CHOICES: dict[str, tuple[str, ...]] = {
    "delta.columnMapping.mode": ("none", "name", "id"),
    "delta.isolationLevel": ("Serializable", "WriteSerializable"),
    "delta.checkpointPolicy": ("classic", "v2"),
}
_BOOLEANS = (
    "delta.appendOnly",
    "delta.enableChangeDataFeed",
    DELETION_VECTORS,
    "delta.enableRowTracking",
    IN_COMMIT_TIMESTAMPS,
    "delta.enableTypeWidening",
    "tablespec.mergeOnRead",
    TOP_LEVEL_ACTIONS,
    _OLD_READERS,
)
_ENABLED_AT = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
# What the format writes itself; another value would make files or row ids unreadable.
_KEPT = frozenset(
    {
        "delta.columnMapping.maxColumnId",
        *_ENABLED_AT,
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }
)
_MAPPING_MODE = "delta.columnMapping.mode"
_INTERVAL = "delta.checkpointInterval"
_FILE_SIZE = "delta.targetFileSize"
_BYTES = re.compile(r"([0-9]+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_FILE_RETENTION = "delta.deletedFileRetentionDuration"
_LOG_RETENTION = "delta.logRetentionDuration"
_INTERVALS = re.compile(
    r"(?:interval\s+)?((?:\d+\s+(?:week|day|hour|minute|second|millisecond|microsecond)s?\s*)+)", re.IGNORECASE
)
# Halves of characters, which no file of text can have.
_SURROGATES = re.compile("[\ud800-\udfff]")
# Properties by which files are read or a feature works; they do not go back with the rest when a table does.
_BOUND_TO_FILES = _KEPT | {
    "delta.columnMapping.mode",
    DELETION_VECTORS,
    "delta.enableRowTracking",
    IN_COMMIT_TIMESTAMPS,
    "delta.enableTypeWidening",
    "delta.checkpointPolicy",
    TOP_LEVEL_ACTIONS,
}


def of_new_table(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties without those that the format keeps itself: what they are for another table tells nothing about this one."""
    return {name: value for name, value in properties.items() if name not in _KEPT}


def check_properties(properties: Mapping[str, str]) -> None:
    """Raise for what is no text, and for a known property with a value that it cannot have."""
    _check_texts(properties)
    for name, value in properties.items():
        if name in _BOOLEANS and value not in ("true", "false"):
            raise InvalidPropertyError(name, value, "true or false")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise InvalidPropertyError(name, value, " or ".join(_CHOICES[name]))
        if name == _INTERVAL and not _whole_number(value):
            raise InvalidPropertyError(name, value, "a whole number above zero")
        if name == _FILE_SIZE and not _bytes(value):
            raise InvalidPropertyError(name, value, "a number of bytes, such as 134217728 or 128mb")
        if name in (_FILE_RETENTION, _LOG_RETENTION):
            _interval(name, value)


def check_constraints(properties: Mapping[str, str], schema: Schema) -> None:
    """Raise for a constraint of a new table that no row could be held against."""
    for name, text in properties.items():
        if _is_constraint(name):
            try:
                bind(text, schema)
            except UnsupportedOperatorError:
                # What Spark can check, for rows that Spark writes.
                continue
            except TableSpecError as error:
                raise InvalidPropertyError(name, text, f"a condition on rows: {error}") from error


def check_change(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise for new values that make no sense, or by which what was written would not be found any more."""
    _check_texts(after)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    check_properties({name: after[name] for name in changed if name in after})
    for name in changed:
        if name in _KEPT:
            raise InvalidPropertyError(name, after.get(name, ""), "no change, since the format keeps it itself")
    old, new = (properties.get(_MAPPING_MODE, "none") for properties in (before, after))
    if new not in (old, "name") or (old == "id" and new != old):
        raise InvalidPropertyError(_MAPPING_MODE, new, f"{old}: the files that are there would lose their columns")


def checkpoint_interval(properties: Mapping[str, str]) -> int:
    """After how many commits a checkpoint is due."""
    return _whole_number(properties.get(_INTERVAL, "")) or 10


def has_old_readers(properties: Mapping[str, str]) -> bool:
    """Whether files must stay readable for clients from before table features, which do not know every encoding of Parquet."""
    return properties.get(_OLD_READERS) == "true"


def file_bytes(properties: Mapping[str, str]) -> int:
    """How large data files should become."""
    return _bytes(properties.get(_FILE_SIZE, "")) or 256 << 20


def file_retention(properties: Mapping[str, str]) -> timedelta:
    """For how long files stay that no longer belong to the table."""
    return _interval(_FILE_RETENTION, properties.get(_FILE_RETENTION, "interval 7 days"))


def log_retention(properties: Mapping[str, str]) -> timedelta:
    """For how long the log tells of the past."""
    return _interval(_LOG_RETENTION, properties.get(_LOG_RETENTION, "interval 30 days"))


@attrs.frozen
class Enablement:
    """The version from which on commits stamp themselves, and its time where the table tells it."""

    version: int
    timestamp: int | None


def enablement(properties: Mapping[str, str]) -> Enablement | None:
    """Since when the times of commits are those in them; None where they are those of their files."""
    if properties.get(IN_COMMIT_TIMESTAMPS) != "true":
        return None
    version, timestamp = (_whole_number(properties.get(name, "")) for name in _ENABLED_AT)
    return Enablement(version, timestamp or None)


def taken_back(then: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The properties of an older state, but those by which files are read or a feature works as they are now."""
    old = {name: value for name, value in then.items() if name not in _BOUND_TO_FILES}
    return {**old, **{name: value for name, value in now.items() if name in _BOUND_TO_FILES}}


def needed_features(properties: Mapping[str, str], schema: Schema) -> frozenset[str]:
    """The features that a table with these properties and columns must declare."""
    needed = {
        feature for name, value, features in PROPERTY_FEATURES for feature in features if properties.get(name) == value
    }
    if any(map(_is_constraint, properties)):
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
    """The (name, expression) pairs of CHECK constraints and of invariants of columns and members of structs."""
    checks = [(name[len(CONSTRAINT) :], value) for name, value in properties.items() if _is_constraint(name)]
    return (*checks, *_invariants(schema.fields, ""))


def _is_constraint(name: str) -> bool:
    # Delta on Spark finds them whatever their case.
    return name.lower().startswith(CONSTRAINT)


def _invariants(fields: tuple[Field, ...], prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        path = f"{prefix}{field.name}"
        invariant = metadata_of(field, INVARIANT)
        if invariant is not None:
            yield f"of column {path}", _invariant_text(invariant)
        if isinstance(field.type, StructType):
            yield from _invariants(field.type.fields, f"{path}.")


def _check_texts(properties: Mapping[str, str]) -> None:
    # The log takes any value of Python, and nobody could read it after that.
    for name, value in properties.items():
        if not _is_text(name) or not _is_text(value):
            raise InvalidPropertyError(str(name), str(value), f"a text under a text, and not {value!r} under {name!r}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _SURROGATES.search(value)


def _whole_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def _bytes(text: str) -> int:
    found = _BYTES.fullmatch(text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else 0


def _interval(name: str, text: str) -> timedelta:
    found = _INTERVALS.fullmatch(text.strip())
    if found is None:
        raise InvalidPropertyError(name, text, "an interval, such as 'interval 7 days'")
    words = found[1].lower().split()
    try:
        parts = [
            timedelta(**{unit.removesuffix("s") + "s": int(count)}) for count, unit in zip(words[::2], words[1::2])
        ]
        return sum(parts, timedelta())
    except OverflowError:
        # Whoever asks for more years than there are asks for all of them.
        return timedelta.max


def _invariant_text(kept: object) -> str:
    # {"expression": {"expression": "x > 3"}}, itself kept as text. Anything else is told as it is: nobody can check it.
    try:
        document = msgspec.json.decode(str(kept))
        return str(document["expression"]["expression"])
    except (msgspec.DecodeError, LookupError, TypeError):
        return f"? {kept}"


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
