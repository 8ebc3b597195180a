"""Tables that are hard to read, each with the rows that are in it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tablespec
from tablespec.storage.store import Storage
from tests.contracts.tables import hudi_sample
from tests.handmade import LEGACY, add, commit, field, metadata, protocol
from tests.unit.formats.hudi.conftest import COLUMNS as COLUMNS_OF_HUDI
from tests.unit.formats.hudi.conftest import HudiTable, avro_schema, time
from tests.unit.formats.hudi.log_writing import avro_block, delete_block

Rows = list[tuple[object, ...]]
Sample = tuple[tablespec.Table, Rows]

NOON = datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
LOCAL = datetime(1969, 12, 31, 23, 59, 59, 999999)
COLUMNS = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-(2**15), 2**15 - 1]),
    "integer": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [math.nan, -0.5]),
    "double": (pa.float64(), [math.nan, -math.inf]),
    "string": (pa.string(), ["", "naïve '\"\\ 🦆\n"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [date(1582, 10, 15), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [NOON, datetime(1900, 1, 1, tzinfo=UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [LOCAL, datetime(2024, 3, 10, 2, 30)]),
    "decimal": (pa.decimal128(38, 10), [Decimal("-1.5000000000"), Decimal("9" * 28 + ".0000000001")]),
    "small_decimal": (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.01")]),
}
NESTED = {
    "struct": (pa.struct({"a": pa.int32(), "b c": pa.string()}), [{"a": None, "b c": "x"}, {"a": 1, "b c": None}]),
    "list": (pa.list_(pa.string()), [[], ["x", None]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("k", 1), ("n", None)]]),
    "deep": (
        pa.list_(pa.struct({"m": pa.map_(pa.int32(), pa.list_(pa.date32()))})),
        [[{"m": [(1, [date(2024, 1, 1)])]}, None], None],
    ),
}
# The empty string is null in a partition column, and bytes there are UTF-8.
PARTITIONED = COLUMNS | {"string": (pa.string(), ["x", "y"]), "binary": (pa.binary(), [b"x", b"\x01"])}
ODD_TEXTS = ["a/b", "a=b", "a%2Fb", "ü 'q' \"d\"", "x*?[1]{y}", "__HIVE_DEFAULT_PARTITION", " ", None]


def _of(columns: dict[str, tuple[pa.DataType, list[object]]]) -> pa.Table:
    """Two rows of values and one of nulls."""
    return pa.table({name: pa.array([*values, None], kind) for name, (kind, values) in columns.items()})


def _written(url: str, data: pa.Table, **options: object) -> tablespec.Table:
    table = tablespec.create_table(url, data.schema, **options)
    table.append(data)
    return table


def _rows(data: pa.Table) -> Rows:
    return [tuple(row.values()) for row in data.to_pylist()]


def types(path: Path) -> Sample:
    data = _of(COLUMNS)
    return _written(str(path), data), _rows(data)


def nested_types(path: Path) -> Sample:
    data = _of(NESTED)
    return _written(str(path), data), _rows(data)


def partitions_of_every_type(path: Path) -> Sample:
    data = _of(PARTITIONED).append_column("n", pa.array([1, 2, 3]))
    return _written(str(path), data, partition_by=list(PARTITIONED)), _rows(data)


def odd_partition_values(path: Path) -> Sample:
    data = pa.table({"p": ODD_TEXTS, "n": list(range(len(ODD_TEXTS)))})
    return _written(f"{path}/a [1] *b", data, partition_by=["p"]), _rows(data)


def odd_names(path: Path) -> Sample:
    names = ["filename", "file_row_number", "file_index", 'a"b', "a.b", "a b", "SELECT", "ü", "_ROW"]
    data = pa.table({name: pa.array([number, None]) for number, name in enumerate(names)})
    table = _written(str(path), data, partition_by=["a b"], properties={"delta.columnMapping.mode": "name"})
    return table, _rows(data)


def added_columns(path: Path) -> Sample:
    table = _written(str(path), pa.table({"n": [1], "s": pa.array([{"a": 1}])}))
    wider = pa.table({"n": [2], "s": pa.array([{"a": 2, "b": "x"}]), "t": ["y"]})
    table.append(wider, merge_schema=True)
    return table, [(1, {"a": 1, "b": None}, None), (2, {"a": 2, "b": "x"}, "y")]


def dropped_columns(path: Path) -> Sample:
    before, after = metadata({"n": "long", "gone": "string"}), metadata({"n": "long"})
    commit(path, 0, LEGACY, before, add(path, "a.parquet", pa.table({"n": [1], "gone": ["x"]})))
    commit(path, 1, after, add(path, "b.parquet", pa.table({"n": [2]})))
    return tablespec.open_table(str(path)), [(1,), (2,)]


def widened_columns(path: Path) -> Sample:
    wanted = {"n": "long", "f": "double", "i": "double", "d": "decimal(12,4)", "t": "timestamp_ntz"}
    changed = [field(name, kind, delta__typeChanges=[]) for name, kind in wanted.items()]
    features = protocol(3, 7, reader_features=["typeWidening", "timestampNtz"])
    old = {
        "n": pa.array([1], pa.int32()),
        "f": pa.array([0.5], pa.float32()),
        "i": pa.array([2], pa.int32()),
        "d": pa.array([Decimal("1.25")], pa.decimal128(5, 2)),
        "t": pa.array([date(2024, 2, 29)]),
    }
    commit(path, 0, features, metadata(changed), add(path, "a.parquet", pa.table(old)))
    table = tablespec.open_table(str(path))
    new = (2**40, 0.1, 0.5, Decimal("99999999.1234"), LOCAL)
    table.append(pa.Table.from_pylist([dict(zip(wanted, new))], table.scan().arrow_schema))
    return table, [(1, 0.5, 2.0, Decimal("1.2500"), datetime(2024, 2, 29)), new]


def _mapped(path: Path, mode: str) -> Sample:
    """A table whose columns have other names in its files, nested ones too."""
    inner = [field("left", "long", **_mapping(3, "col-r")), field("right", "long", **_mapping(4, "col-l"))]
    kinds = [("n", "long", 1, "col-n"), ("s", {"type": "struct", "fields": inner}, 2, "col-s")]
    fields = [field(column, kind, **_mapping(number, stored)) for column, kind, number, stored in kinds]
    described = metadata(fields, properties={"delta.columnMapping.mode": mode})
    stored = pa.schema([_numbered("col-n", pa.int64(), 1), _numbered("col-s", _numbered_struct(), 2)])
    data = pa.Table.from_pylist([{"col-n": 1, "col-s": {"col-l": 20, "col-r": 10}}], stored)
    commit(path, 0, protocol(3, 7, reader_features=["columnMapping"]), described, add(path, "a.parquet", data))
    return tablespec.open_table(str(path)), [(1, {"left": 10, "right": 20})]


def _mapping(number: int, stored: str) -> dict[str, object]:
    return {"delta__columnMapping__id": number, "delta__columnMapping__physicalName": stored}


def _numbered(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def _numbered_struct() -> pa.DataType:
    return pa.struct([_numbered("col-l", pa.int64(), 4), _numbered("col-r", pa.int64(), 3)])


def columns_mapped_by_name(path: Path) -> Sample:
    return _mapped(path, "name")


def columns_mapped_by_id(path: Path) -> Sample:
    return _mapped(path, "id")


def renamed_columns(path: Path) -> Sample:
    fields = [field("b", "long", **_mapping(1, "a")), field("a", "string", **_mapping(2, "b"))]
    described = metadata(fields, properties={"delta.columnMapping.mode": "name"})
    file = add(path, "a.parquet", pa.table({"a": [1, 2], "b": ["x", None]}))
    commit(path, 0, protocol(3, 7, reader_features=["columnMapping"]), described, file)
    return tablespec.open_table(str(path)), [(1, "x"), (2, None)]


def legacy_timestamps(path: Path) -> Sample:
    rows = pa.table({"n": [1], "t": pa.array([NOON], pa.timestamp("us", "UTC"))})
    file = add(path, "a.parquet", rows)
    pq.write_table(rows, path / "a.parquet", use_deprecated_int96_timestamps=True)
    file["add"]["size"] = (path / "a.parquet").stat().st_size
    commit(path, 0, LEGACY, metadata({"n": "long", "t": "timestamp"}), file)
    return tablespec.open_table(str(path)), [(1, NOON)]


def deletion_vectors(path: Path) -> Sample:
    rows = [(n, "even" if n % 2 == 0 else "odd", n * 0.5) for n in range(100)]
    data = pa.table({name: list(column) for name, column in zip(("n", "p", "x"), zip(*rows))})
    table = _written(str(path), data, partition_by=["p"])
    table.append(pa.table({"n": [100], "p": ["odd"], "x": [0.0]}))
    table.delete("n > 10 and n < 90 and p = 'even'")
    table.update({"x": "-1.0"}, "n = 4")
    kept = [(n, p, -1.0 if n == 4 else x) for n, p, x in rows if p == "odd" or not 10 < n < 90]
    return table, [*kept, (100, "odd", 0.0)]


def no_rows(path: Path) -> Sample:
    return tablespec.create_table(str(path), _of(COLUMNS).schema), []


def only_partition_columns_asked(path: Path) -> Sample:
    table = _written(str(path), pa.table({"p": ["a", "a", None], "n": [1, 2, 3]}), partition_by=["p"])
    return table, [("a", 1), ("a", 2), (None, 3)]


def hudi_table(path: Path) -> Sample:
    sample = hudi_sample(Storage.at(str(path)), 9)
    return tablespec.open_table(str(path)), sample.rows[sample.versions[-1]]


def hudi_types(path: Path) -> Sample:
    kinds = {
        "n": ("long", pa.int64(), 2**40),
        "x": ("double", pa.float64(), math.nan),
        "b": ("bytes", pa.binary(), b"\x00"),
        "d": ({"type": "int", "logicalType": "date"}, pa.date32(), date(2024, 2, 29)),
        "t": ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC"), NOON),
        "l": ({"type": "array", "items": "string"}, pa.list_(pa.string()), ["x"]),
    }
    hudi = HudiTable(Storage.at(str(path)), 9)
    hudi.properties(hoodie_table_partition_fields="", hoodie_table_keygenerator_type="NON_PARTITION")
    base = hudi.base("", "group", 10)
    sink = io.BytesIO()
    pq.write_table(pa.table({name: pa.array([value], kind) for name, (_, kind, value) in kinds.items()}), sink)
    hudi.storage.put(base, sink.getvalue())
    described = avro_schema([(name, avro) for name, (avro, _, _) in kinds.items()])
    hudi.complete(10, written=[("", "group", base)], schema=described)
    return tablespec.open_table(str(path)), [tuple(value for _, _, value in kinds.values())]


def hudi_merge_on_read(path: Path) -> Sample:
    """Groups of a base file alone, with a log, and of logs alone; rows are updated, deleted and inserted by logs."""
    hudi = HudiTable(Storage.at(str(path)), 9)
    hudi.properties(hoodie_table_type="MERGE_ON_READ", hoodie_table_recordkey_fields="id")
    hudi.write(10, "a", "clean", [("1", "a", 10)])
    hudi.write(20, "b", "logged", [("2", "b", 20), ("3", "b", 30), ("4", "b", None)])

    def row(key: str, qty: int | None) -> tuple[str, dict[str, object]]:
        return key, {"id": key, "part": "b", "qty": qty}

    hudi.append(30, "b", "logged", avro_block(time(30), COLUMNS_OF_HUDI, [row("2", 21), row("5", 50)]))
    hudi.append(40, "b", "logged", delete_block(time(40), [("3", None)]))
    hudi.append(50, "b", "loose", avro_block(time(50), COLUMNS_OF_HUDI, [row("6", None)]))
    return tablespec.open_table(str(path)), [
        ("1", "a", 10),
        ("2", "b", 21),
        ("4", "b", None),
        ("5", "b", 50),
        ("6", "b", None),
    ]


def hudi_times(path: Path) -> Sample:
    """A table partitioned by the days of times: the times are numbers in its files, and Hudi shows them as texts."""
    hudi = HudiTable(Storage.at(str(path)), 9)
    hudi.properties(
        hoodie_table_partition_fields="at",
        hoodie_table_keygenerator_type="TIMESTAMP",
        hoodie_keygen_timebased_timestamp_type="EPOCHMILLISECONDS",
        hoodie_keygen_timebased_output_dateformat="yyyy/MM/dd",
    )
    base = hudi.base("2023/11/14", "group", 10)
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": ["1"], "at": [1_700_000_000_000]}), sink)
    hudi.storage.put(base, sink.getvalue())
    written = [("2023/11/14", "group", base)]
    hudi.complete(10, written=written, schema=avro_schema([("id", "string"), ("at", "long")]))
    return tablespec.open_table(str(path)), [("1", "1700000000000")]


SAMPLES: dict[str, dict[str, Callable[[Path], Sample]]] = {
    "delta": {
        "every type": types,
        "nested types": nested_types,
        "partitions of every type": partitions_of_every_type,
        "odd partition values": odd_partition_values,
        "odd names of columns": odd_names,
        "added columns": added_columns,
        "dropped columns": dropped_columns,
        "widened columns": widened_columns,
        "renamed columns": renamed_columns,
        "columns mapped by name": columns_mapped_by_name,
        "columns mapped by id": columns_mapped_by_id,
        "INT96 timestamps": legacy_timestamps,
        "deletion vectors": deletion_vectors,
        "no rows": no_rows,
        "partition columns alone": only_partition_columns_asked,
    },
    "hudi": {
        "copy-on-write": hudi_table,
        "types": hudi_types,
        "merge-on-read": hudi_merge_on_read,
        "partitions by time": hudi_times,
    },
}
