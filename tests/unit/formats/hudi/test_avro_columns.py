"""Records decoded column by column, held against fastavro, which decodes them one by one."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.formats.hudi.avro_columns import decode_records
from tablespec.formats.hudi.log_records import _record_bounds
from tests.unit.formats.hudi.log_writing import avro_content

INNER = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "a", "type": ["null", "string"]}, {"name": "z", "type": "long"}],
}
FIXED = {"type": "fixed", "name": "money", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
inner = st.fixed_dictionaries({"a": st.none() | st.text(), "z": st.integers(-(2**63), 2**63 - 1)})
times = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
KINDS: dict[str, tuple[object, st.SearchStrategy[object]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "bytes": ("bytes", st.binary()),
    "string": ("string", st.text()),
    "enum": ({"type": "enum", "name": "e", "symbols": ["x", "y"]}, st.sampled_from(["x", "y"])),
    "fixed": ({"type": "fixed", "name": "f", "size": 3}, st.binary(min_size=3, max_size=3)),
    "decimal": (FIXED, st.decimals(-(10**17), 10**17, places=2)),
    "decimal in bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        st.decimals(-(10**17), 10**17, places=2),
    ),
    "date": ({"type": "int", "logicalType": "date"}, st.dates(date(1, 1, 1))),
    "micros": (MICROS, times),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, times.map(lambda t: t.replace(microsecond=5000))),
    "record": (INNER, inner),
    "array": ({"type": "array", "items": ["null", "string"]}, st.lists(st.none() | st.text(), max_size=4)),
    "map": (
        {"type": "map", "values": ["null", "long"]},
        st.dictionaries(st.text(), st.none() | st.integers(0, 300), max_size=3),
    ),
    "array of records": ({"type": "array", "items": INNER}, st.lists(inner, max_size=3)),
    "array of arrays": (
        {"type": "array", "items": {"type": "array", "items": "long"}},
        st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3),
    ),
}


def decoded(schema: dict[str, object], rows: list[dict[str, object]], wanted: list[str]) -> pa.RecordBatch:
    content = memoryview(avro_content(schema, rows))
    return decode_records(content, *_record_bounds(content), json.dumps(schema), frozenset(wanted))


def record(*fields: tuple[str, object]) -> dict[str, object]:
    return {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nullable", [False, True], ids=["required", "nullable"])
def test_every_type_decodes_to_what_was_written(kind, nullable):
    avro, values = KINDS[kind]
    schema = record(("before", "string"), ("value", ["null", avro] if nullable else avro), ("after", "long"))

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.none() | values if nullable else values, max_size=6))
    def check(listed):
        rows = [{"before": "x" * n, "value": value, "after": n} for n, value in enumerate(listed)]
        found = decoded(schema, rows, ["before", "value", "after"]).to_pylist()
        if kind == "map":
            found = [{**row, "value": row["value"] if row["value"] is None else dict(row["value"])} for row in found]
        assert found == rows

    check()


def test_columns_that_are_not_wanted_are_passed_over():
    kinds = [(name.replace(" ", "_"), ["null", avro]) for name, (avro, _) in KINDS.items() if name != "record"]
    schema = record(*kinds, ("last", "string"))
    some = {"decimal": Decimal("1.50"), "array": ["a", None], "map": {"k": 1}, "double": math.pi, "fixed": b"abc"}
    others = {"string": "ü", "date": date(2024, 1, 1), "micros": datetime(2024, 1, 1, 0, 0, 0, 1, UTC)}
    rows = [{**some, "last": "z"}, {**others, "last": ""}]

    assert decoded(schema, rows, ["last"]).to_pylist() == [{"last": "z"}, {"last": ""}]


def test_a_type_may_be_referred_to_by_its_name():
    schema = {**record(("a", INNER), ("b", ["null", "inner"])), "namespace": "x.y"}
    row = {"a": {"a": None, "z": 1}, "b": {"a": "q", "z": 2}}

    assert decoded(schema, [row], ["a", "b"]).to_pylist() == [row]


@pytest.mark.parametrize(
    ("schema", "rows", "why"),
    [
        (record(("v", "string")), [{"v": 1000}], "length that the block cannot hold"),
        (record(("v", ["null", "string"])), [{"v": 77}], "no such branch"),
        (record(("v", "int"), ("w", "int")), [{"v": 1}], "fit"),
        (record(("v", {"type": "array", "items": "long"})), [{"v": 5000}], "more items"),
        (record(("v", "boolean")), [{"v": 1000}], "do not end"),
    ],
    ids=["string", "union", "missing", "array", "rest"],
)
def test_records_that_do_not_fit_their_schema_are_an_error(schema, rows, why):
    content = memoryview(avro_content(record(("v", "long")), rows))

    with pytest.raises(ValueError, match=why):
        decode_records(content, *_record_bounds(content), json.dumps(schema), frozenset({"v", "w"}))
