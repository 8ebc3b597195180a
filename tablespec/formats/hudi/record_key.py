"""Record keys as `_hoodie_record_key` and the indexes of Hudi spell them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tablespec.formats.hudi.key_generator import FieldKind, key_generator_of, knows_record_keys
from tablespec.formats.hudi.log_records import virtual_keys
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.schema import parse_avro_schema
from tablespec.model.schema import INTEGRAL, STRING, Schema

# Types whose values every writer spells in the same way.
_PLAIN = (*INTEGRAL, STRING)


def spelt_keys(table: TableProperties, schema: Schema, columns: Sequence[pa.Array]) -> frozenset[str] | None:
    """All ways in which keys may be spelt, given by the columns of the record key; None where they are not known for certain.

    Releases differ in whether a key of one column carries its name.
    """
    created = parse_avro_schema(table.create_schema) if table.create_schema else schema
    shown_as_text = {field.name for field in key_generator_of(table).fields if field.kind is not FieldKind.SIMPLE}
    for name in table.record_key:
        plain = all(name in one and one.field(name).type in _PLAIN for one in (schema, created))
        if not plain or name in shown_as_text or not knows_record_keys(table):
            return None
    texts = virtual_keys(list(zip(table.record_key, columns))).drop_null().to_pylist()
    if len(columns) == 1:
        texts += [f"{table.record_key[0]}:{text or '__empty__'}" for text in texts]
    return frozenset(texts)
