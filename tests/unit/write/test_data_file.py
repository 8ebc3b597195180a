import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.write.append import append
from tablespec.write.data_file import Buffers, by_partition
from tests.handmade import actions_of, contents
from tests.rows import assert_same_rows

TINY = Buffers(row_group_bytes=1)


def stats_of(folder, version=1):
    return [json.loads(added["stats"]) for added in actions_of(folder, version, "add")]


def files_of(folder, version=1):
    return [pq.ParquetFile(folder / added["path"]) for added in actions_of(folder, version, "add")]


def in_batches(table, rows):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


# --- which rows go where ---


def test_rows_of_each_partition_stand_apart_in_the_order_they_had():
    batch = pa.RecordBatch.from_pydict({"p": ["b", "a", None, "a", "b"], "q": [1, 1, 1, 2, 1], "x": [1, 2, 3, 4, 5]})

    found = {values: rows.column("x").to_pylist() for values, rows in by_partition(batch, ("p", "q"))}

    assert found == {("a", 1): [2], ("a", 2): [4], ("b", 1): [1, 5], (None, 1): [3]}


def test_rows_of_one_partition_are_not_copied():
    batch = pa.RecordBatch.from_pydict({"p": ["a", "a"], "x": [1, 2]})

    ((values, rows),) = by_partition(batch, ("p",))

    assert values == ("a",)
    assert rows.column("x").buffers()[1].address == batch.column("x").buffers()[1].address


def test_an_empty_batch_has_no_partitions():
    assert list(by_partition(pa.RecordBatch.from_pydict({"p": pa.array([], pa.string())}), ("p",))) == []


def test_a_small_part_of_a_batch_does_not_keep_the_rest_in_memory():
    size = 100_000
    batch = pa.RecordBatch.from_pydict({"p": ["a"] + ["b"] * (size - 1), "x": list(range(size))})

    parts = {values[0]: rows for values, rows in by_partition(batch.take(pa.array(range(size))[::-1]), ("p",))}

    assert parts["a"].get_total_buffer_size() < 1000


def test_a_partition_gets_one_file_however_its_rows_come(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("p", pa.int64()), ("x", pa.int64())]), partition_by=["p"])
    rows = pa.table({"p": [n % 3 for n in range(90)], "x": list(range(90))})

    appended = table.append(in_batches(rows, 7))

    assert appended.files == 3
    assert_same_rows(table.scan(), rows)
    for added in actions_of(tmp_path, 1, "add"):
        stored = pq.read_table(tmp_path / added["path"], partitioning=None)
        assert stored.column_names == ["x"]
        assert stored.column("x").to_pylist() == sorted(stored.column("x").to_pylist())


def test_more_partitions_than_files_may_be_open_are_written_all_the_same(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("p", pa.int64()), ("x", pa.int64())]), partition_by=["p"])
    rows = pa.table({"p": [n % 40 for n in range(4000)], "x": list(range(4000))})
    most = []

    def batches():
        for batch in rows.to_batches(max_chunksize=400):
            most.append(sum(path.suffix == ".tmp" for path in tmp_path.rglob("*")))
            yield batch

    appended = append(
        table.format,
        pa.RecordBatchReader.from_batches(rows.schema, batches()),
        buffers=Buffers(waiting_bytes=40_000, open_files=5),
    )

    # A few more are on their way out.
    assert 5 <= max(most) <= 5 + 5
    assert 40 < appended.files < 400
    assert_same_rows(table.scan(), rows)
    for partition in table.file_index.list_files_at(None):
        assert_same_rows(
            table.scan(f"p = {partition.descriptor.values[0]}"),
            [(n % 40, n) for n in range(4000) if n % 40 == partition.descriptor.values[0]],
        )


@pytest.mark.parametrize("values", [[float("nan"), 1.0], ["", None]], ids=["nan", "empty and null"])
def test_values_that_are_read_back_as_one_share_a_file(tmp_path, values):
    rows = pa.table({"p": values * 10, "x": list(range(20))})
    table = tablespec.create_table(str(tmp_path), rows.schema, partition_by=["p"])

    appended = table.append(in_batches(rows, 3))

    assert appended.files == len({str(value) for value in values if value != ""})


def test_rows_of_few_partitions_wait_until_they_fill_a_row_group(tmp_path):
    rows = pa.table({"p": [n % 200 for n in range(10_000)], "x": list(range(10_000))})
    table = tablespec.create_table(str(tmp_path), rows.schema, partition_by=["p"])

    appended = append(table.format, in_batches(rows, 1000), buffers=Buffers(open_files=3))

    assert appended.files == 200
    assert_same_rows(table.scan(), rows)


PARTITION_VALUES = {
    "string": (
        pa.string(),
        ["a", "", None, "a b", "a/b", "a=b", "ü%25", "c:\\x", "#?&", "..", ".", "true", "null", "\n\t'\""],
    ),
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-128, 127, 0, None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
    "float": (pa.float32(), [1.5, -0.25, math.inf, -math.inf, math.nan, None]),
    "double": (pa.float64(), [1e300, 0.1, math.inf, math.nan, None]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-12345678901234567.891"), None]),
    "date": (pa.date32(), [date(1, 1, 1), date(2020, 2, 29), date(9999, 12, 31), None]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2020, 1, 1, tzinfo=UTC), None],
    ),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(1900, 1, 1), datetime(2020, 1, 1, 1, 2, 3, 4), None]),
    "binary": (pa.binary(), [b"abc", "ü".encode(), None]),
}


@pytest.mark.parametrize(("kind", "values"), list(PARTITION_VALUES.values()), ids=list(PARTITION_VALUES))
@pytest.mark.parametrize("checkpointed", [False, True], ids=["log", "checkpoint"])
def test_partition_values_of_every_type_are_read_back(tmp_path, kind, values, checkpointed):
    schema = pa.schema([("p", kind), ("x", pa.int64())])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p"])
    table.append(pa.table({"p": pa.array(values, kind), "x": list(range(len(values)))}, schema))
    if checkpointed:
        table.checkpoint()
        table = tablespec.open_table(str(tmp_path))

    expected = [(None if value in ("", b"") else value, number) for number, value in enumerate(values)]
    assert_same_rows(table.scan(), expected)
    assert table.scan("p is null").count() == sum(value is None for value, _ in expected)
    assert table.scan("p is not null").count() == sum(value is not None for value, _ in expected)


# --- how large files become ---


def noise(rows):
    """Rows that no compression makes smaller: eight random bytes each."""
    state, values = 88172645463325252, []
    for _ in range(rows):
        state ^= (state << 13) & (2**64 - 1)
        state ^= state >> 7
        state ^= (state << 17) & (2**64 - 1)
        values.append(state - 2**63)
    return pa.table({"x": pa.array(values, pa.int64())})


@pytest.mark.parametrize("batch", [1_000, 1_000_000], ids=["many batches", "one batch"])
def test_files_end_near_the_size_that_the_table_asks_for(tmp_path, batch):
    rows = noise(100_000)
    table = tablespec.create_table(str(tmp_path), rows.schema, properties={"delta.targetFileSize": "100kb"})

    appended = table.append(in_batches(rows, batch))

    sizes = [added["size"] for added in actions_of(tmp_path, 1, "add")]
    assert appended.bytes > 700_000
    assert len(sizes) >= 7
    assert max(sizes) < 300_000
    assert_same_rows(table.scan(), rows)


def test_rows_that_compress_well_fill_a_file_with_several_row_groups(tmp_path):
    rows = pa.table({"x": [7] * 500_000})
    table = tablespec.create_table(str(tmp_path), rows.schema, properties={"delta.targetFileSize": "400kb"})

    appended = table.append(in_batches(rows, 10_000))

    assert appended.files == 1
    assert files_of(tmp_path)[0].num_row_groups > 5
    assert table.scan("x = 7").count() == 500_000


@pytest.mark.parametrize("batch", [500, 1_000_000], ids=["many batches", "one batch"])
def test_row_groups_are_as_large_as_the_buffers_say(tmp_path, batch):
    rows = noise(20_000)
    table = tablespec.create_table(str(tmp_path), rows.schema)

    append(table.format, in_batches(rows, batch), buffers=Buffers(row_group_bytes=32_000))

    (file,) = files_of(tmp_path)
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert sum(sizes) == 20_000
    assert len(sizes) >= 4
    assert max(sizes) <= 4_500
    assert pq.read_table(tmp_path / actions_of(tmp_path, 1, "add")[0]["path"]).equals(rows)


# --- statistics ---


def test_statistics_span_all_row_groups_of_a_file(tmp_path):
    rows = pa.table(
        {
            "i": [5, None, 3, 9],
            "s": ["m", "z", None, "a"],
            "f": [0.5, -1.5, None, 2.0],
            "d": [date(2020, 1, 2), None, date(1999, 1, 1), date(2020, 1, 1)],
            "n": [{"a": 4}, {"a": None}, None, {"a": -4}],
            "all_null": pa.array([None] * 4, pa.int64()),
        }
    )
    table = tablespec.create_table(str(tmp_path), rows.schema)

    append(table.format, in_batches(rows, 1), buffers=TINY)

    assert files_of(tmp_path)[0].num_row_groups == 4
    assert stats_of(tmp_path) == [
        {
            "numRecords": 4,
            "minValues": {"i": 3, "s": "a", "f": -1.5, "d": "1999-01-01", "n": {"a": -4}},
            "maxValues": {"i": 9, "s": "z", "f": 2.0, "d": "2020-01-02", "n": {"a": 4}},
            "nullCount": {"i": 1, "s": 1, "f": 1, "d": 1, "n": {"a": 2}, "all_null": 4},
        }
    ]


@pytest.mark.parametrize("where", [0, 3], ids=["first row", "last row"])
@pytest.mark.parametrize("buffers", [TINY, Buffers()], ids=["a row group each", "one row group"])
def test_a_column_with_nan_has_no_bounds(tmp_path, where, buffers):
    values = [1.0, 2.0, 3.0, 4.0]
    values[where] = math.nan
    rows = pa.table({"f": values, "x": [1, 2, 3, 4]})
    table = tablespec.create_table(str(tmp_path), rows.schema)

    append(table.format, in_batches(rows, 1), buffers=buffers)

    with_nan = [found for found in stats_of(tmp_path) if "f" not in found["minValues"]]
    assert len(with_nan) == 1
    assert with_nan[0]["nullCount"] == {"f": 0, "x": 0}
    assert sum(found["numRecords"] for found in stats_of(tmp_path)) == 4
    assert table.scan("f > 100").count() == 1  # NaN is greater than every number
    assert table.scan("f < 100").count() == 3


def test_a_file_with_nan_has_no_statistics_of_that_column(tmp_path):
    member = pa.struct({"a.b": pa.float32(), "c": pa.int64()})
    rows = pa.table(
        {
            "f": [1.0, None, math.nan, None],
            "g": [1.0, 2.0, 3.0, 4.0],
            "n": pa.array([None, {"a.b": math.nan, "c": 1}, {"a.b": 1.0, "c": 2}, None], member),
            "l": pa.array([[1.0], [math.nan], None, []]),
        }
    )
    table = tablespec.create_table(str(tmp_path), rows.schema)

    append(table.format, rows)

    (file,), (stats,) = files_of(tmp_path), stats_of(tmp_path)
    group = file.metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    assert [(one.path_in_schema, one.statistics is not None and one.statistics.has_min_max) for one in columns] == [
        ("f", False),
        ("g", True),
        ("n.a.b", False),
        ("n.c", True),
        ("l.list.element", True),
    ]
    assert stats == {
        "numRecords": 4,
        "minValues": {"g": 1.0, "n": {"c": 1}},
        "maxValues": {"g": 4.0, "n": {"c": 2}},
        "nullCount": {"f": 2, "g": 0, "n": {"a.b": 2, "c": 2}},
    }
    assert table.scan().to_table().num_rows == 4


def test_infinite_values_have_no_bounds_that_json_cannot_hold(tmp_path):
    rows = pa.table({"f": [1.0, math.inf], "g": [-math.inf, 1.0], "h": [0.0, 1.0]})
    table = tablespec.create_table(str(tmp_path), rows.schema)

    table.append(rows)

    (added,) = actions_of(tmp_path, 1, "add")
    json.loads(added["stats"], parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert table.scan("f > 5").count() == 1
    assert table.scan("g < -5").count() == 1
    assert table.scan("h > 0.5").count() == 1


def test_the_first_thirty_two_leaves_have_statistics(tmp_path):
    rows = pa.table({"s": [{f"m{n}": n for n in range(20)}], **{f"c{n}": [n] for n in range(20)}})
    table = tablespec.create_table(str(tmp_path), rows.schema)

    table.append(rows)

    (found,) = stats_of(tmp_path)
    assert list(found["nullCount"]) == ["s", *(f"c{n}" for n in range(12))]
    assert len(found["nullCount"]["s"]) == 20
    assert table.scan("c19 = 19 and c0 = 0").count() == 1


def test_long_texts_have_bounds_that_still_hold(tmp_path):
    texts = ["a" * 100, "z" * 100, "\U0010ffff" * 40]
    for text in texts:
        rows = pa.table({"s": [text]})
        table = tablespec.create_table(f"{tmp_path}/{ord(text[0])}", rows.schema)
        table.append(rows)

        assert table.scan(f"s = '{text}'").count() == 1
        assert table.scan(f"s >= '{text[:50]}'").count() == 1
        assert table.scan(f"s > '{text}'").count() == 0


def test_files_know_their_columns_by_name_and_hold_no_partition_values(tmp_path):
    table = tablespec.create_table(
        str(tmp_path), pa.schema([("p", pa.string()), ("x", pa.int64()), ("Y", pa.string())]), partition_by=["p"]
    )

    table.append(pa.table({"Y": ["y"], "x": [1], "p": ["a"]}))

    (file,) = files_of(tmp_path)
    assert file.schema_arrow.names == ["x", "Y"]
    assert file.schema_arrow.metadata is None


ODD_NAMES = [
    "a b",
    "c,d",
    "e;f",
    "g{h}",
    "k=l",
    "m\nn",
    "q`r",
    "s'",
    't"',
    "u\\v",
    "ü",
    "add",
    "1",
    ".x",
    "x.y",
    "%41",
    "/",
]


@pytest.mark.parametrize("checkpointed", [False, True], ids=["log", "checkpoint"])
def test_columns_may_have_odd_names(tmp_path, checkpointed):
    rows = pa.table({name: [number, number + 100] for number, name in enumerate(ODD_NAMES)})
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows.slice(0, 1))
    table.append(rows.slice(1, 1))
    if checkpointed:
        table.checkpoint()
        table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.scan(), rows)
    for number, name in enumerate(ODD_NAMES):
        quoted = "`" + name.replace("`", "``") + "`"
        assert_same_rows(table.scan(f"{quoted} = {number}"), rows.slice(0, 1))


@pytest.mark.parametrize("checkpointed", [False, True], ids=["log", "checkpoint"])
def test_partition_columns_may_have_odd_names(tmp_path, checkpointed):
    names = ["a b", "k=l", "q`r", "ü", "%41", "a/b", 't"']
    rows = pa.table({**{name: ["v", "w"] for name in names}, "x": [1, 2]})
    table = tablespec.create_table(str(tmp_path), rows.schema, partition_by=names)
    table.append(rows)
    if checkpointed:
        table.checkpoint()
        table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.scan(), rows)
    for name in names:
        quoted = "`" + name.replace("`", "``") + "`"
        assert_same_rows(table.scan(f"{quoted} = 'w'"), rows.slice(1, 1))


def test_nothing_but_the_files_of_the_log_is_left_after_an_append(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("p", pa.int64()), ("x", pa.int64())]), partition_by=["p"])

    append(
        table.format, pa.table({"p": list(range(9)), "x": [0] * 9}), buffers=Buffers(open_files=2, row_group_bytes=1)
    )

    data = {path for path in contents(tmp_path) if not path.startswith("_delta_log/")}
    assert data == {added["path"] for added in actions_of(tmp_path, 1, "add")}


# --- how columns lie in files ---


def encodings_of(folder, version=1):
    (file,) = files_of(folder, version)
    group = file.metadata.row_group(0)
    return {
        group.column(index).path_in_schema: {*group.column(index).encodings} - {"RLE", "PLAIN"}
        for index in range(group.num_columns)
    }


NUMBERS = pa.schema(
    [("id", pa.int64()), ("small", pa.int8()), ("time", pa.timestamp("us", "UTC")), ("kind", pa.string())]
)


def numbers(rows=20_000):
    values = {
        "id": [None if number % 1000 == 5 else 10**12 + 3 * number for number in range(rows)],
        "small": [number * 37 % 251 - 125 for number in range(rows)],
        "time": [10**15 + number * 10**6 for number in range(rows)],
        "kind": ["ab"[number % 2] for number in range(rows)],
    }
    return pa.table(values, schema=NUMBERS)


def test_numbers_that_move_by_small_steps_are_stored_as_steps(tmp_path):
    table = tablespec.create_table(str(tmp_path), NUMBERS)

    table.append(numbers())

    assert encodings_of(tmp_path) == {
        "id": {"DELTA_BINARY_PACKED"},
        "small": {"RLE_DICTIONARY"},
        "time": {"DELTA_BINARY_PACKED"},
        "kind": {"RLE_DICTIONARY"},
    }
    assert_same_rows(table.scan(), numbers())
    assert_same_rows(table.scan("id = 1000000000300"), numbers().slice(100, 1))


def test_where_old_clients_read_a_table_nothing_is_stored_as_steps(tmp_path):
    table = tablespec.create_table(str(tmp_path), NUMBERS, properties={"tablespec.oldReaders": "true"})

    table.append(numbers())

    assert encodings_of(tmp_path)["id"] == encodings_of(tmp_path)["time"] == set()
    assert_same_rows(table.scan(), numbers())
    recent = tablespec.create_table(str(tmp_path / "recent"), NUMBERS)
    recent.append(numbers())
    (plain,), (steps,) = (actions_of(folder, 1, "add") for folder in (tmp_path, tmp_path / "recent"))
    assert 4 * steps["size"] < plain["size"]


def test_tables_from_before_table_features_stay_as_they_are(tmp_path):
    deltalake.write_deltalake(tmp_path, numbers(10))

    tablespec.open_table(str(tmp_path)).append(numbers())

    assert encodings_of(tmp_path)["id"] == encodings_of(tmp_path)["time"] == set()
    assert deltalake.DeltaTable(tmp_path).protocol().min_writer_version < 7
