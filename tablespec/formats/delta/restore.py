"""What a Delta table was at an older version, in a form that its newest protocol and files allow."""

from __future__ import annotations

import attrs

from tablespec.errors import UnsupportedTableError
from tablespec.formats.delta.mapping import keeping_names
from tablespec.formats.delta.properties import taken_back
from tablespec.formats.delta.schema_json import FIELD_ID, PHYSICAL_NAME
from tablespec.formats.delta.state import DeltaState
from tablespec.formats.maintenance import Definition
from tablespec.model.schema import Field, Schema


def definition_of(then: DeltaState, now: DeltaState) -> Definition:
    """The definition of an older state; properties by which files are read or features work stay as they are now."""
    return Definition(
        schema=_schema(then, now),
        partition_columns=then.partition_columns,
        properties=tuple(taken_back(then.properties, now.properties).items()),
    )


def _schema(then: DeltaState, now: DeltaState) -> Schema:
    if then.mapping_mode == now.mapping_mode:
        return then.schema
    if then.mapping_mode != "none":
        feature = f"the column mapping {then.mapping_mode} at version {then.instant.version} and {now.mapping_mode} now"
        raise UnsupportedTableError(then.storage.url, feature, "copy the rows of that version into a new table instead")
    # The table was mapped since, and its columns kept their names as physical names; those that are still there keep their ids.
    known = {field.stored_name: field for field in now.schema}
    return Schema(tuple(_known(field, known.get(field.name)) for field in keeping_names(then.schema)))


def _known(field: Field, now: Field | None) -> Field:
    if now is None or now.type != field.type or now.field_id is None:
        return field
    mapping = {name: value for name, value in now.metadata if name in (FIELD_ID, PHYSICAL_NAME)}
    metadata = tuple({**dict(field.metadata), **mapping}.items())
    return attrs.evolve(field, field_id=now.field_id, metadata=metadata)
