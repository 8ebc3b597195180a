"""The history of a table's columns under schema-on-read: which name each had when, told by ids that never change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import attrs

from tablespec.errors import CorruptLogError
from tablespec.formats.hudi.instant_time import instant_number
from tablespec.storage.store import Storage

_FOLDER = ".hoodie/.schema"
_COMPLETED = re.compile(r"(\d+)(?:_\d+)?\.schemacommit")
# No column has this name, so that none is found.
_ABSENT = "\0"


@attrs.frozen
class SchemaVersion:
    """The columns from an instant on and all members below them, as pairs of id and path, joined by dots.

    Elements of arrays and the two sides of maps are steps of a path.
    """

    since: int
    columns: tuple[tuple[int, str], ...]


@attrs.frozen
class SchemaHistory:
    """The versions of a schema, oldest first; empty where the table has no history and names never changed."""

    versions: tuple[SchemaVersion, ...] = ()

    def stored_names(self, upto: int, written: int) -> tuple[tuple[str, str], ...]:
        """The paths as of a time whose last step had another name in files written at another one, with that name."""
        if not self.versions:
            return ()
        then = {number: _last(path) for number, path in self._at(written).columns}
        pairs = ((path, then.get(number, _ABSENT)) for number, path in self._at(upto).columns)
        return tuple((path, old) for path, old in pairs if _last(path) != old)

    def _at(self, instant: int) -> SchemaVersion:
        known = [version for version in self.versions if version.since <= instant]
        return known[-1] if known else self.versions[0]


def load_schema_history(storage: Storage) -> SchemaHistory:
    """The history that the newest completed schema commit tells."""
    _, files = storage.list_folder(_FOLDER)
    found = [(match[1], file.path) for file in files if (match := _COMPLETED.fullmatch(file.path.rsplit("/", 1)[-1]))]
    if not found:
        return SchemaHistory()
    _, path = max(found, key=lambda one: instant_number(one[0]))
    try:
        versions = [_version(one) for one in json.loads(storage.read(path))["schemas"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(storage.url, path, 0, f"it is no history of schemas ({error})") from error
    return SchemaHistory(tuple(sorted(versions, key=lambda version: version.since)))


def _version(described: Mapping[str, object]) -> SchemaVersion:
    return SchemaVersion(instant_number(str(described["version_id"])), tuple(_members(described, "")))


def _members(described: object, prefix: str) -> Iterator[tuple[int, str]]:
    """The ids and paths of everything below a type that has an id and a name of its own."""
    if isinstance(described, str):
        return
    if not isinstance(described, dict):
        raise ValueError(f"a type that is {described!r}")
    for step in ("element", "key", "value"):
        if step in described:
            yield from _members(described[step], f"{prefix}{step}.")
    if "element" in described or "value" in described:
        return
    fields = described["fields"]
    if not isinstance(fields, list):
        raise ValueError("a schema without fields")
    for field in fields:
        path = f"{prefix}{field['name']}"
        yield int(field["id"]), path
        yield from _members(field.get("type", ""), f"{path}.")


def _last(path: str) -> str:
    # Names in Avro schemas have no dots.
    return path.rpartition(".")[2]
