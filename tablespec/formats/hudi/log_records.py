"""The records of log blocks, as Arrow columns under the names and types of a table's schema."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablespec.arrow.convert import by_stored_name, convert, nulls
from tablespec.arrow.java_text import spark_text
from tablespec.arrow.schema import arrow_schema, arrow_type
from tablespec.formats.base import LoggedChanges
from tablespec.formats.hudi.avro import datum
from tablespec.formats.hudi.avro_columns import decode_records
from tablespec.formats.hudi.log_file import BlockType, LogBlock
from tablespec.formats.hudi.merge import Records
from tablespec.formats.hudi.merge_rules import MergeRules
from tablespec.formats.hudi.schema import OPERATION_COLUMN, RECORD_KEY_COLUMN
from tablespec.model.schema import BOOLEAN, STRING, DataType, Field, Schema

IS_DELETED_COLUMN = "_hoodie_is_deleted"
_CONTENT_VERSION = 3
_DELETING_OPERATIONS = ("D", "-U")
_INTS = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")


def _wrapper(name: str, value: object) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": value}]}


_WRAPPED: dict[str, object] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": "int",
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": "long",
    "TimestampMicrosWrapper": "long",
}
_SEVERAL = {
    "type": "record",
    "name": "ArrayWrapper",
    "fields": [{"name": "wrappedValues", "type": ["null", {"type": "array", "items": ["null", *_WRAPPED]}]}],
}
_DELETE_RECORD = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {
            "name": "orderingVal",
            "type": ["null", *(_wrapper(name, value) for name, value in _WRAPPED.items()), _SEVERAL],
        },
    ],
}
_DELETE_RECORDS = {
    "type": "record",
    "name": "HoodieDeleteRecordList",
    "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": _DELETE_RECORD}}],
}


@attrs.frozen
class RecordShape:
    """What is wanted of records: columns, and what merging needs to know; ordering fields have the types of the table."""

    wanted: Schema
    ordering: tuple[Field, ...]
    key: tuple[Field, ...]
    rules: MergeRules

    @property
    def stored(self) -> Schema:
        """All columns that must be read from a base file."""
        fields = {field.name: field for field in (*self.wanted, *self.ordering, *self.key)}
        return Schema(tuple(fields.values()))

    @property
    def logged(self) -> Schema:
        """All columns that must be read from a log block."""
        marker = self.rules.delete_marker
        extra = [Field(name=IS_DELETED_COLUMN, type=BOOLEAN), Field(name=OPERATION_COLUMN, type=STRING)]
        extra += [Field(name=marker[0], type=STRING)] if marker else []
        return Schema((*self.stored, *(field for field in extra if field.name not in self.stored)))

    def stored_as(self, names: Mapping[str, str]) -> RecordShape:
        """The same columns in a block where some have other names."""
        if not names:
            return self
        ordering, key = (Schema(fields).stored_as(names).fields for fields in (self.ordering, self.key))
        return RecordShape(self.wanted.stored_as(names), ordering, key, self.rules)

    def of_base(self, batch: pa.RecordBatch) -> Records:
        """The records of a base file."""
        return Records(
            keys=self._keys(batch),
            orderings=tuple(batch.column(field.name) for field in self.ordering),
            rows=batch.select(list(self.wanted.names)),
        )

    def of_log(self, batch: pa.RecordBatch, columns: frozenset[str] | None) -> Records:
        """The records of a log block; raises ValueError where one has no key."""
        keys = self._keys(batch)
        if keys.null_count:
            raise ValueError("a record has no key")
        return Records(
            keys=keys,
            orderings=tuple(batch.column(field.name) for field in self.ordering),
            deleted=self._deleted(batch),
            rows=batch.select(list(self.wanted.names)),
            columns=columns,
        )

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        texts = [(field.name, batch.column(field.name)) for field in self.key]
        return texts[0][1] if self.rules.key is None else virtual_keys(texts)

    def _deleted(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        found = pc.fill_null(_as_flag(batch.column(IS_DELETED_COLUMN)), False)
        operation = pc.is_in(batch.column(OPERATION_COLUMN), pa.array(_DELETING_OPERATIONS))
        found = pc.or_(found, operation)
        if self.rules.delete_marker is not None:
            name, value = self.rules.delete_marker
            found = pc.or_(found, pc.fill_null(pc.equal(spark_text(batch.column(name)), value), False))
        return found


def records_of(block: LogBlock, shape: RecordShape) -> Records:
    """The records of a data or delete block; raises ValueError where its content cannot be understood."""
    if block.type is BlockType.DELETE:
        return _deletes(block, shape)
    stored = stored_batch(block, frozenset(field.stored_name for field in shape.logged))
    columns = None
    if block.is_partial:
        columns = frozenset(field.name for field in shape.wanted if field.stored_name in stored.schema.names)
    return shape.of_log(fitted(stored, shape.logged), columns)


def changes_of(block: LogBlock, columns: Schema, key_prefix: str = "") -> LoggedChanges:
    """The changes of a change block, with these columns of their rows where the block holds rows."""
    if block.type is not BlockType.CDC:
        raise ValueError(f"it holds a block of type {block.type.name} instead of changes")
    stored = stored_batch(block, frozenset({"op", "record_key", "before", "after"}))
    names = stored.schema.names
    return LoggedChanges(
        stored.column("op"),
        without_prefix(stored.column("record_key"), key_prefix) if "record_key" in names else None,
        *(_image(stored.column(side), columns) if side in names else None for side in ("before", "after")),
    )


def counts_records(block: LogBlock) -> bool:
    """Whether an Avro or change block says that it has records."""
    return len(block.content) >= _INTS.size and _INTS.unpack_from(block.content, 0)[1] != 0


def _image(rows: pa.StructArray, columns: Schema) -> pa.RecordBatch:
    return fitted(pa.RecordBatch.from_struct_array(rows), columns)


def stored_batch(block: LogBlock, names: frozenset[str]) -> pa.RecordBatch:
    """The records of a data or change block with the types that they are stored in."""
    if block.type is BlockType.PARQUET:
        return _parquet(block.content, names)
    if block.type not in (BlockType.AVRO, BlockType.CDC):
        raise ValueError(f"it holds a block of type {block.type.name}, which data files cannot have")
    starts, ends = _record_bounds(block.content)
    if not len(starts):
        return pa.RecordBatch.from_arrays([], names=[])
    return decode_records(block.content, starts, ends, block.schema, names)


def fitted(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The columns of a schema, found by name and converted; missing ones are null."""
    place = by_stored_name(list(batch.schema))
    columns = []
    for field in schema:
        index = place(field)
        columns.append(
            nulls(batch.num_rows, field.type) if index is None else convert(batch.column(index), field, by_stored_name)
        )
    nullable = [field.with_nullable(True) for field in arrow_schema(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(nullable))


def virtual_keys(columns: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """The keys of rows that do not carry them: the value itself, or all values with the names of their columns."""
    if len(columns) == 1:
        return _key_text(columns[0][1])
    parts = []
    for name, values in columns:
        text = pc.fill_null(_key_text(values), "__null__")
        text = pc.if_else(pc.equal(text, ""), "__empty__", text)
        parts.append(pc.binary_join_element_wise(f"{name}:", text, ""))
    return pc.binary_join_element_wise(*parts, ",")


def without_prefix(keys: pa.Array, prefix: str) -> pa.Array:
    """The keys as rows tell them, where some releases write the name of the column before the value."""
    if not prefix:
        return keys
    return pc.if_else(pc.starts_with(keys, prefix), pc.utf8_slice_codeunits(keys, len(prefix)), keys)


def _key_text(values: pa.Array) -> pa.Array:
    return spark_text(values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values)


def _as_flag(values: pa.Array) -> pa.BooleanArray:
    return values if pa.types.is_boolean(values.type) else pc.equal(spark_text(values), "true")


def _record_bounds(content: memoryview) -> tuple[pa.Array, pa.Array]:
    """Where the records of an Avro block begin and end."""
    try:
        version, count = _INTS.unpack_from(content, 0)
        if version != _CONTENT_VERSION:
            raise ValueError(f"its Avro block has version {version}, and only {_CONTENT_VERSION} is known")
        starts, ends, offset = [], [], 8
        unpack = _LENGTH.unpack_from
        for _ in range(count):
            offset += 4
            starts.append(offset)
            offset += unpack(content, offset - 4)[0]
            ends.append(offset)
            if offset < starts[-1]:
                raise ValueError("a record has a negative length")
    except struct.error as error:
        raise ValueError(f"its Avro block ends too early ({error})") from error
    if offset != len(content):
        raise ValueError("its Avro block does not end with its last record")
    return pa.array(starts, pa.int64()), pa.array(ends, pa.int64())


def _parquet(content: memoryview, names: frozenset[str]) -> pa.RecordBatch:
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)), coerce_int96_timestamp_unit="us")
        present = [name for name in file.schema_arrow.names if name in names]
        table = file.read(columns=present).combine_chunks()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"its Parquet block cannot be read ({error})") from error
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def deleted_keys(block: LogBlock) -> list[str]:
    """The keys of a delete block."""
    return [str(one["recordKey"]) for one in _delete_records(block)]


def _delete_records(block: LogBlock) -> list[dict[str, object]]:
    if len(block.content) < _INTS.size:
        raise ValueError("its delete block ends too early")
    version, length = _INTS.unpack_from(block.content, 0)
    if version != _CONTENT_VERSION:
        raise ValueError(f"its delete block has version {version}, and only {_CONTENT_VERSION} is known")
    if length != len(block.content) - _INTS.size:
        raise ValueError("its delete block does not end with its last record")
    listed = datum(block.content[_INTS.size :], _DELETE_RECORDS, name_records=True)["deleteRecordList"]
    assert isinstance(listed, list)
    return listed


def _deletes(block: LogBlock, shape: RecordShape) -> Records:
    listed, ordering = _delete_records(block), shape.ordering
    values = [_unwrapped(one["orderingVal"], len(ordering)) for one in listed]
    return Records(
        keys=without_prefix(pa.array([one["recordKey"] for one in listed], pa.string()), shape.rules.key_prefix),
        orderings=tuple(
            _ordering([value[index] for value in values], field.type) for index, field in enumerate(ordering)
        ),
    )


def _unwrapped(wrapped: object, fields: int) -> tuple[object, ...]:
    """The ordering value of each field; no value, and the number 0 of type int, stand for none."""
    match wrapped:
        case None | ("IntWrapper", {"value": 0}):
            return (None,) * fields
        case ("ArrayWrapper", {"wrappedValues": list(inner)}) if len(inner) == fields:
            return tuple(None if one is None else one[1]["value"] for one in inner)
        case (str(), {"value": value}) if fields <= 1:
            return (value,) * fields
        case _:
            return (None,) * fields


def _ordering(values: Sequence[object], data_type: DataType) -> pa.Array:
    """Ordering values as the type of their column; one of another type counts as none, so that the later record wins."""
    wanted = arrow_type(data_type)
    if pa.types.is_temporal(wanted):
        width = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
        return pa.array([value if isinstance(value, int) else None for value in values], width).cast(wanted)
    fitting = [_as_ordering(value, wanted) for value in values]
    return pa.array(fitting, wanted)


def _as_ordering(value: object, wanted: pa.DataType) -> object:
    if pa.types.is_decimal(wanted) and isinstance(value, Decimal):
        return value.quantize(Decimal(1).scaleb(-wanted.scale))
    try:
        return pa.scalar(value, wanted).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


KEY_FIELD = Field(name=RECORD_KEY_COLUMN, type=STRING)
