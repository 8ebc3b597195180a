"""What a change to a table writes into the log: decided here, written elsewhere."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import msgspec

from tablespec.errors import CorruptLogError, InvalidSchemaError, UnsupportedTableError
from tablespec.formats.base import Change, NewFile, Profile, ReadsNothing
from tablespec.formats.delta.actions import (
    AddAction,
    CdcAction,
    DomainMetadataAction,
    Line,
    MetadataAction,
    ProtocolAction,
    TxnAction,
)
from tablespec.formats.delta.adds import FORM_TAG, GROUP_TAG, INSTANT_TAG, TableShape
from tablespec.formats.delta.mapping import MAX_COLUMN_ID, keeping_names, mapped
from tablespec.formats.delta.partition_values import format_value, to_uri
from tablespec.formats.delta.properties import (
    DELETION_VECTORS,
    IN_COMMIT_TIMESTAMPS,
    TOP_LEVEL_ACTIONS,
    check_change,
    check_constraints,
    check_properties,
    needed_features,
    of_new_table,
    used_by_schema,
)
from tablespec.formats.delta.protocol import DEFAULT_PROTOCOL, check_writable, require_upgrade_allowed, upgraded
from tablespec.formats.delta.returned import returning
from tablespec.formats.delta.row_change import addition, decode_add, removal
from tablespec.formats.delta.row_tracking import DOMAIN as MARK_DOMAIN
from tablespec.formats.delta.row_tracking import (
    all_numbered,
    hidden_column_properties,
    high_water_mark,
    is_tracked,
    mark_action,
)
from tablespec.formats.delta.schema_json import format_schema, parse_schema
from tablespec.formats.delta.state import MAPPING_MODE, DeltaState
from tablespec.formats.delta.stats_json import format_stats
from tablespec.model.schema import DataType, Field, Schema, StructType, repeated_names

ENGINE = "tablespec/0.1.0"
# What every new table declares from the start: all known clients can write it.
OPEN_FEATURES = frozenset({"changeDataFeed", "appendOnly", "invariants"})
ISOLATION = "delta.isolationLevel"
ROW_TRACKING = "delta.enableRowTracking"
STRICT_PROPERTIES = ((ROW_TRACKING, "true"), (IN_COMMIT_TIMESTAMPS, "true"))


def creation(
    table: str,
    schema: Schema,
    partition_columns: tuple[str, ...],
    properties: tuple[tuple[str, str], ...],
    profile: Profile,
    *,
    now: int,
    operation_id: str,
) -> list[Line]:
    """The first commit of a table."""
    check_columns(schema, partition_columns)
    declared = STRICT_PROPERTIES if profile is Profile.STRICT else ()
    configuration = {**dict(hidden_column_properties()), **dict(declared), **of_new_table(dict(properties))}
    check_properties(configuration)
    check_constraints(configuration, schema)
    schema, configuration = with_mapping(schema, configuration)
    protocol = upgraded(
        ProtocolAction(min_reader_version=1, min_writer_version=1),
        OPEN_FEATURES | needed_features(configuration, schema),
    )
    check_writable(protocol, table, used_by_schema(schema))
    metadata = MetadataAction(
        id=str(uuid.uuid4()),
        schema_string=_readable(schema, table),
        partition_columns=partition_columns,
        configuration=configuration,
        created_time=now,
    )
    change = Change(operation="CREATE TABLE", operation_id=operation_id)
    info = _commit_info(change, None, now, configuration)
    return [info, Line(protocol=protocol), Line(meta_data=metadata)]


def commit_lines(change: Change, state: DeltaState, now: int) -> list[Line]:
    """The next commit of a table."""
    version = state.instant.version + 1
    configuration = dict(state.properties if change.properties is None else change.properties)
    check_change(state.properties, configuration)
    if change.revised:
        configuration = {**configuration, DELETION_VECTORS: "true"}
    configuration = _enabled(configuration, state, version, now)
    schema = state.schema if change.schema is None else change.schema
    schema, configuration = with_mapping(schema, configuration, mode_before=state.mapping_mode)
    lines = [_commit_info(change, state, now, configuration)]
    if configuration.get(TOP_LEVEL_ACTIONS) == "true":
        lines += _top_level(change)
    protocol = _protocol(change, state, needed_features(configuration, schema) | change.features)
    if protocol != state.reconciled.protocol:
        check_writable(protocol, state.storage.url, used_by_schema(schema))
        lines.append(Line(protocol=protocol))
    partitions = state.partition_columns if change.partition_columns is None else change.partition_columns
    if (schema, configuration, partitions) != (state.schema, dict(state.properties), state.partition_columns):
        lines.append(Line(meta_data=_metadata(state, schema, configuration, partitions)))
    lines += [Line(txn=TxnAction(app_id=app, version=number, last_updated=now)) for app, number in change.transactions]
    lines += [Line(domain_metadata=_domain(name, text)) for name, text in change.domains]
    shape = TableShape(table=state.storage.url, schema=schema, partition_columns=partitions)
    return lines + _file_lines(change, state, shape, now)


def _top_level(change: Change) -> list[Line]:
    """What the commit says about itself, by actions of their own."""
    lines = []
    for name, text in change.details:
        match name:
            case "replaceWhere":
                metrics = {metric: str(value) for metric, value in change.metrics}
                lines.append(Line(replace_where={**msgspec.json.decode(text), "operationMetrics": metrics}))
            case "skip":
                lines += [Line(skip=skipped) for skipped in msgspec.json.decode(text)]
    return lines


def _file_lines(change: Change, state: DeltaState, shape: TableShape, now: int) -> list[Line]:
    version = state.instant.version + 1
    lines = []
    for origin in (*change.removes, *(old for old, _ in change.revised)):
        lines.append(Line(remove=removal(origin, now, data_change=change.data_change)))
    for origin in (new for _, new in change.revised):
        lines.append(Line(add=addition(origin, data_change=change.data_change)))
    gone = {add.path: add for add in map(decode_add, change.removes)} if change.restored else {}
    for origin in change.restored:
        add = addition(origin, data_change=change.data_change)
        lines.append(Line(add=returning(add, gone.get(add.path), version) if is_tracked(state) else add))
    # Where no mark is kept, the files that go may be the only ones that show how far the ids have come.
    unmarked = bool(change.removes) and MARK_DOMAIN not in state.reconciled.domains
    if is_tracked(state) and (change.adds or unmarked):
        mark = high_water_mark(state)
        adds, mark = _numbered(change.adds, mark)
        lines += [Line(add=add) for add in _add_actions(adds, change, shape, version)]
        lines.append(Line(domain_metadata=mark_action(mark)))
    else:
        lines += [Line(add=add) for add in _add_actions([(file, None) for file in change.adds], change, shape, version)]
    return lines + [Line(cdc=_cdc_action(file, shape)) for file in change.change_files]


def _add_actions(
    files: Sequence[tuple[NewFile, int | None]], change: Change, shape: TableShape, version: int
) -> Iterator[AddAction]:
    """The adds of new files, each with the id of its first row where the table numbers them."""
    types = leaf_types(shape.schema)
    for file, base_row_id in files:
        tags: dict[str, object] = {GROUP_TAG: file.group, INSTANT_TAG: str(version)}
        if file.form:
            tags[FORM_TAG] = file.form
        yield AddAction(
            path=to_uri(file.path),
            partition_values=_texts(file, shape),
            size=file.size,
            modification_time=file.modified,
            data_change=change.data_change,
            stats=format_stats(file.stats, types),
            tags=tags,
            base_row_id=base_row_id,
            default_row_commit_version=None if base_row_id is None else version,
        )


def _cdc_action(file: NewFile, shape: TableShape) -> CdcAction:
    return CdcAction(path=to_uri(file.path), partition_values=_texts(file, shape), size=file.size, data_change=False)


def _texts(file: NewFile, shape: TableShape) -> dict[str, str | None]:
    named = zip(shape.partition_fields, file.partition_values)
    # New rows have null in the place of ''; here it is what another writer gave to rows that are copied or told, and stays.
    return {field.stored_name: "" if value == "" else format_value(value, field.type) for field, value in named}


def leaf_types(schema: Schema) -> dict[tuple[str, ...], DataType]:
    """The type of every leaf by its path of physical names."""
    return dict(_leaf_types(schema.fields, ()))


def _leaf_types(fields: tuple[Field, ...], prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], DataType]]:
    for field in fields:
        path = (*prefix, field.stored_name)
        if isinstance(field.type, StructType):
            yield from _leaf_types(field.type.fields, path)
        else:
            yield path, field.type


def check_columns(schema: Schema, partition_columns: tuple[str, ...]) -> None:
    """Raise unless these columns can make a table."""
    twice = repeated_names(schema.fields)
    if twice:
        raise InvalidSchemaError(f"the columns {', '.join(twice)} stand more than once in the schema, case aside")
    if not schema.fields:
        raise InvalidSchemaError("a table needs at least one column")
    for name in partition_columns:
        field = schema.field(name)
        if field.name != name:
            raise InvalidSchemaError(f"the partition column {name} is spelled {field.name} in the schema")
        if isinstance(field.type, StructType) or not _partitionable(field.type):
            raise InvalidSchemaError(f"column {name} of type {field.type} cannot be a partition column")
    if len(set(partition_columns)) != len(partition_columns):
        raise InvalidSchemaError("a partition column is named more than once")
    if len(partition_columns) == len(schema.fields):
        raise InvalidSchemaError("a table needs at least one column that is not a partition column")


def _readable(schema: Schema, table: str) -> str:
    """The text of a schema; raises for one made by hand that nobody could read back from it."""
    try:
        text = format_schema(schema)
        parse_schema(text, table, mapped=False)
    except (CorruptLogError, UnsupportedTableError, UnicodeEncodeError) as error:
        raise InvalidSchemaError(f"the columns cannot make a table: {error}") from error
    return text


def _partitionable(data_type: DataType) -> bool:
    return not str(data_type).startswith(("array", "map", "struct", "variant", "void"))


def _numbered(files: tuple[NewFile, ...], mark: int) -> tuple[list[tuple[NewFile, int]], int]:
    numbered = []
    for file in files:
        numbered.append((file, mark + 1))
        mark += file.stats.rows
    return numbered, mark


def _protocol(change: Change, state: DeltaState, needed: frozenset[str]) -> ProtocolAction:
    current = state.reconciled.protocol or DEFAULT_PROTOCOL
    if not change.auto_upgrade:
        require_upgrade_allowed(current, needed, state.storage.url, change.operation)
    return upgraded(current, needed)


def _enabled(configuration: dict[str, str], state: DeltaState, version: int, now: int) -> dict[str, str]:
    """The properties with what the protocol asks of a table on which a feature is switched on late."""
    if _switched_on(IN_COMMIT_TIMESTAMPS, configuration, state):
        configuration = {
            **configuration,
            "delta.inCommitTimestampEnablementVersion": str(version),
            "delta.inCommitTimestampEnablementTimestamp": str(now),
        }
    if not _switched_on(ROW_TRACKING, configuration, state):
        return configuration
    if not all_numbered(state):
        way_out = "enable it with Spark, which numbers their rows first"
        raise UnsupportedTableError(
            state.storage.url, "files without row ids while row tracking is switched on", way_out
        )
    return {**dict(hidden_column_properties()), **configuration}


def _switched_on(name: str, configuration: dict[str, str], state: DeltaState) -> bool:
    return configuration.get(name) == "true" and state.properties.get(name) != "true"


def _metadata(
    state: DeltaState, schema: Schema, configuration: dict[str, str], partition_columns: tuple[str, ...]
) -> MetadataAction:
    return msgspec.structs.replace(
        state.metadata,
        schema_string=format_schema(schema),
        configuration=configuration,
        partition_columns=partition_columns,
    )


def _domain(name: str, text: str | None) -> DomainMetadataAction:
    return DomainMetadataAction(domain=name, configuration=text or "", removed=text is None)


def with_mapping(schema: Schema, configuration: dict[str, str], mode_before: str = "") -> tuple[Schema, dict[str, str]]:
    """The schema with ids and physical names for all columns, where the table maps its columns."""
    if configuration.get(MAPPING_MODE, "none") == "none":
        return schema, configuration
    if mode_before == "none":
        schema = keeping_names(schema)
    schema, greatest = mapped(schema, int(configuration.get(MAX_COLUMN_ID, "0")))
    return schema, {**configuration, MAX_COLUMN_ID: str(greatest)}


def _commit_info(change: Change, state: DeltaState | None, now: int, configuration: dict[str, str]) -> Line:
    info: dict[str, object] = {
        "inCommitTimestamp": now,
        "timestamp": now,
        "operation": change.operation,
        "operationParameters": dict(change.parameters),
        "isolationLevel": configuration.get(ISOLATION, "Serializable"),
        "isBlindAppend": isinstance(change.reads, ReadsNothing) and not change.touched and bool(change.adds),
        "operationMetrics": {name: str(value) for name, value in change.metrics},
        "engineInfo": ENGINE,
        "txnId": change.operation_id,
        "tablespec": {
            "operationId": change.operation_id,
            **{name: msgspec.Raw(text.encode()) for name, text in change.details},
        },
    }
    if state is not None:
        info["readVersion"] = state.instant.version
    return Line(commit_info=info)
