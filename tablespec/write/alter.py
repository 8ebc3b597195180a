"""Changing what a table is rather than what it holds: properties, constraints, columns, protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from tablespec.arrow.schema import arrow_schema, columns_of
from tablespec.errors import InvalidOptionError, InvalidPropertyError, InvalidSchemaError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE
from tablespec.formats.base import Change, ReadsWhere, TableFormat
from tablespec.model.instant import Instant
from tablespec.model.schema import Schema
from tablespec.read.scan import Scan
from tablespec.txn.transaction import commit
from tablespec.write.append import writable
from tablespec.write.check import constraints, verified
from tablespec.write.fit import fit

CONSTRAINT = "delta.constraints."


def set_properties(format_: TableFormat, properties: Mapping[str, str | None], *, auto_upgrade: bool = True) -> Instant:
    """Set table properties, and drop those that are given as None; constraints can only be dropped here."""
    target = writable(format_, "set_properties")
    if not isinstance(properties, Mapping):
        raise InvalidOptionError("properties", repr(properties), "names with values, such as {'owner': 'me'}")
    state = target.latest()
    for name, value in properties.items():
        if str(name).lower().startswith(CONSTRAINT) and value not in (None, state.properties.get(name)):
            expected = "no new constraint: add_constraint looks whether all rows satisfy it"
            raise InvalidPropertyError(name, str(value), expected)
    merged = {**state.properties, **{name: value for name, value in properties.items() if value is not None}}
    kept = {name: value for name, value in merged.items() if properties.get(name, "") is not None}
    parameters = (("properties", str(sorted(map(str, properties)))),)
    change = Change(
        operation="SET TBLPROPERTIES", parameters=parameters, properties=tuple(kept.items()), auto_upgrade=auto_upgrade
    )
    return commit(target, change, state)


def upgrade_protocol(format_: TableFormat, features: Sequence[str]) -> Instant:
    """Declare table features; they cannot be taken back."""
    target = writable(format_, "upgrade_protocol")
    named = isinstance(features, Collection) and not isinstance(features, str)
    if not named or not all(isinstance(feature, str) for feature in features):
        raise InvalidOptionError("features", repr(features), "the names of features, such as ['rowTracking']")
    state = target.latest()
    change = Change(
        operation="UPGRADE PROTOCOL", parameters=(("features", ", ".join(features)),), features=frozenset(features)
    )
    return commit(target, change, state)


def add_columns(format_: TableFormat, columns: Schema | pa.Schema, *, auto_upgrade: bool = True) -> Instant:
    """Add columns at the end; rows that are there already have nulls in them."""
    target = writable(format_, "add_columns")
    state = target.latest()
    new = columns_of(columns)
    required = [field.name for field in new if not field.nullable]
    if required:
        raise InvalidSchemaError(
            f"the new columns {', '.join(required)} must be nullable: the rows of the table have no value for them"
        )
    taken = {name.lower() for name in state.schema.names}
    present = [name for name in new.names if name.lower() in taken]
    if present:
        raise InvalidSchemaError(f"the table has the columns {', '.join(present)} already")
    both = arrow_schema(Schema((*state.schema.fields, *new.fields)))
    found = fit(both, state.schema, target.storage.url, state.partition_columns, merge_schema=True)
    schema = target.grown(state, found.schema)
    change = Change(
        operation="ADD COLUMNS", parameters=(("columns", str(new.names)),), schema=schema, auto_upgrade=auto_upgrade
    )
    return commit(target, change, state)


def add_constraint(format_: TableFormat, name: str, predicate: str, *, auto_upgrade: bool = True) -> Instant:
    """Add a CHECK constraint that all rows satisfy already; a row that does not raises ConstraintViolatedError."""
    target = writable(format_, "add_constraint")
    if not isinstance(name, str) or not name:
        raise InvalidOptionError("name", repr(name), "what the constraint is called")
    state = target.latest()
    key = f"{CONSTRAINT}{name.lower()}"
    if key in state.properties:
        raise InvalidSchemaError(f"the table has a constraint {name.lower()} already: {state.properties[key]}")
    bind(predicate, state.schema)
    rules = constraints(target.storage.url, state.schema, ((name.lower(), predicate),))
    for _ in verified(Scan(storage=target.storage, state=state).to_batches(), rules):
        pass
    change = Change(
        operation="ADD CONSTRAINT",
        parameters=(("name", name.lower()), ("expr", predicate)),
        properties=tuple({**state.properties, key: predicate}.items()),
        reads=ReadsWhere(TRUE),
        auto_upgrade=auto_upgrade,
    )
    return commit(target, change, state)
