import json
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    ConstraintViolatedError,
    InvalidOptionError,
    ReplaceWhereMismatchError,
    SchemaMismatchError,
    StorageError,
    TypeMismatchError,
    UnsupportedConstraintError,
    UnsupportedTypeError,
)
from tablespec.formats.base import Profile
from tablespec.formats.delta.format import DeltaFormat
from tablespec.table import Table
from tablespec.write.append import append
from tablespec.write.data_file import Buffers
from tests.handmade import LEGACY, actions_of, checkpoint_file, commit, contents, field, metadata, versions_of
from tests.rows import assert_same_rows
from tests.storages import CountingStorage, Refusing

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
ROWS = pa.table({"id": [1, 2], "city": ["sf", "la"]})


@pytest.fixture
def table(tmp_path):
    return tablespec.create_table(str(tmp_path), SCHEMA)


def batches(schema, *rows):
    return pa.RecordBatchReader.from_batches(schema, (pa.RecordBatch.from_pylist(part, schema) for part in rows))


# --- rows ---


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        ROWS.to_batches()[0],
        pa.RecordBatchReader.from_batches(SCHEMA, ROWS.to_batches()),
        batches(SCHEMA, [{"id": 1, "city": "sf"}], [], [{"id": 2, "city": "la"}]),
    ],
    ids=["table", "batch", "reader", "generator"],
)
def test_rows_of_anything_that_speaks_arrow_are_added(table, data):
    appended = table.append(data)

    assert (appended.rows, appended.files, appended.instant.version) == (2, 1, 1)
    assert_same_rows(table.scan(), [(1, "sf"), (2, "la")])


def test_frames_of_other_libraries_are_taken(table):
    polars = pytest.importorskip("polars")

    table.append(polars.DataFrame({"id": [1], "city": ["sf"]}))

    assert_same_rows(table.scan(), [(1, "sf")])


def test_a_scan_of_one_table_is_data_for_another(table, tmp_path):
    table.append(ROWS)
    other = tablespec.create_table(f"{tmp_path}/other", SCHEMA)

    other.append(table.scan("id > 1"))

    assert_same_rows(other.scan(), [(2, "la")])


def test_every_type_is_read_back_as_it_was_written(tmp_path):
    rows = {
        "boolean": pa.array([True, False, None]),
        "byte": pa.array([-128, 127, None], pa.int8()),
        "short": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
        "integer": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        "long": pa.array([-(2**63), 2**63 - 1, None]),
        "float": pa.array([1.5, float("nan"), None], pa.float32()),
        "double": pa.array([float("inf"), -0.0, None]),
        "decimal": pa.array([Decimal("1.10"), Decimal("-99999.99"), None], pa.decimal128(7, 2)),
        "string": pa.array(["", "ü\x00🍏", None]),
        "binary": pa.array([b"", b"\x00\xff", None]),
        "date": pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
        "timestamp": pa.array(
            [datetime(1900, 1, 1), datetime(2020, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us", "UTC")
        ),
        "ntz": pa.array([datetime(1900, 1, 1), datetime(2020, 2, 29, 1, 2, 3, 456789), None], pa.timestamp("us")),
        "array": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "map": pa.array([[("a", 1), ("b", None)], [], None], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None]),
    }
    data = pa.table(rows)
    table = tablespec.create_table(str(tmp_path), data.schema)

    table.append(data)

    assert_same_rows(table.scan(), list(zip(*(column.to_pylist() for column in data.columns))))
    for name in ("boolean", "string", "date", "decimal"):
        assert table.scan(f"`{name}` is null").count() == 1


def test_data_without_rows_makes_no_commit(table, tmp_path):
    before = contents(tmp_path)

    appended = table.append(ROWS.slice(0, 0))

    assert (appended.rows, appended.files, appended.bytes, appended.instant) == (0, 0, 0, table.instant())
    assert contents(tmp_path) == before


def test_data_without_rows_that_brings_columns_makes_a_commit(table, tmp_path):
    table.append(pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.string())}), merge_schema=True)

    assert table.schema.names == ("id", "city", "x")
    assert actions_of(tmp_path, 1, "add") == []


def test_a_transaction_without_rows_is_recorded(table, tmp_path):
    appended = table.append(ROWS.slice(0, 0), transaction=("loader", 3))

    assert appended.instant.version == 1
    assert [(found["appId"], found["version"]) for found in actions_of(tmp_path, 1, "txn")] == [("loader", 3)]


def test_appending_tells_what_it_wrote(table, tmp_path):
    appended = table.append(ROWS)

    (added,) = actions_of(tmp_path, 1, "add")
    assert (appended.rows, appended.files, appended.bytes) == (2, 1, added["size"])


@pytest.mark.parametrize("profile", list(Profile))
def test_a_checkpoint_is_written_every_ten_commits(tmp_path, profile):
    table = tablespec.create_table(str(tmp_path), SCHEMA, profile=profile)
    for _ in range(21):
        table.append(ROWS.slice(0, 1))

    written = [version for version in range(22) if checkpoint_file(tmp_path, version).exists()]
    assert written == [10, 20]
    assert json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())["version"] == 20
    assert tablespec.open_table(str(tmp_path)).scan().count() == 21


def test_an_append_to_an_open_table_reads_no_data_and_one_commit(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA).append(ROWS)
    storage = CountingStorage.at(str(tmp_path))
    table = Table(DeltaFormat(storage))
    table.append(ROWS)
    storage.calls.clear()

    table.append(ROWS)

    read = [path for verb, path in storage.calls if verb in ("read", "open") and path != "_delta_log"]
    assert set(read) <= {f"_delta_log/{3:020d}.json"}


# --- columns that grow ---


def test_a_table_grows_by_the_columns_of_the_data(table):
    table.append(ROWS)
    table.append(pa.table({"id": [3], "when": [date(2020, 1, 1)]}), merge_schema=True)
    table.append(pa.table({"city": ["ny"]}))

    assert_same_rows(table.scan(), [(1, "sf", None), (2, "la", None), (3, None, date(2020, 1, 1)), (None, "ny", None)])
    assert_same_rows(table.scan(at=1), [(1, "sf"), (2, "la")])
    assert table.schema_at(1).names == ("id", "city")


def test_old_rows_are_read_in_the_wider_type(tmp_path):
    narrow = pa.table(
        {
            "i": pa.array([1], pa.int32()),
            "f": pa.array([0.5], pa.float32()),
            "d": pa.array([Decimal("1.5")], pa.decimal128(5, 1)),
            "l": pa.array([[1]], pa.list_(pa.int16())),
        }
    )
    wide = pa.table(
        {
            "i": pa.array([2**40]),
            "f": pa.array([0.1]),
            "d": pa.array([Decimal("12345.123")], pa.decimal128(10, 3)),
            "l": pa.array([[2**20]], pa.list_(pa.int32())),
        }
    )
    table = tablespec.create_table(str(tmp_path), narrow.schema)
    table.append(narrow)
    table.append(wide, merge_schema=True)

    assert_same_rows(table.scan(), [(1, 0.5, Decimal("1.500"), [1]), (2**40, 0.1, Decimal("12345.123"), [2**20])])
    assert_same_rows(table.scan("i < 10 and d < 2"), [(1, 0.5, Decimal("1.500"), [1])])
    assert_same_rows(table.scan(at=1), [(1, 0.5, Decimal("1.5"), [1])])


def test_a_partition_column_may_become_wider(tmp_path):
    table = tablespec.create_table(
        str(tmp_path), pa.schema([("p", pa.int32()), ("x", pa.string())]), partition_by=["p"]
    )
    table.append(pa.table({"p": pa.array([1], pa.int32()), "x": ["a"]}))
    table.append(pa.table({"p": [2**40], "x": ["b"]}), merge_schema=True)

    assert_same_rows(table.scan("p > 1"), [(2**40, "b")])
    assert_same_rows(table.scan("p = 1"), [(1, "a")])


def test_a_new_column_with_members_that_must_be_there_does_not_bind_rows_without_it(table):
    struct = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    table.append(pa.table({"id": [1], "s": pa.array([{"a": 1}], struct)}), merge_schema=True)

    table.append(ROWS)

    assert table.scan("s is null").count() == 2


# --- data that is refused ---


def broken_by(table, folder, data, error, **how):
    before = contents(folder)
    with pytest.raises(error) as caught:
        table.append(data, **how)
    assert contents(folder) == before
    return str(caught.value)


def test_a_column_that_the_table_lacks_is_refused(table, tmp_path):
    text = broken_by(table, tmp_path, ROWS.append_column("x", pa.array([1, 2])), SchemaMismatchError)

    assert "the column x is not in the table" in text
    assert "merge_schema=True" in text


def test_a_column_of_another_type_is_refused(table, tmp_path):
    text = broken_by(table, tmp_path, pa.table({"id": ["a"]}), SchemaMismatchError)

    assert "id is long and the data has string" in text


def test_data_that_lacks_the_partition_column_is_refused(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])

    assert "the partition column city is missing" in broken_by(
        table, tmp_path, pa.table({"id": [1]}), SchemaMismatchError
    )


def test_columns_that_differ_in_case_only_are_refused(table, tmp_path):
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "ID"])

    assert "the column id stands more than once" in broken_by(table, tmp_path, data, SchemaMismatchError)


@pytest.mark.parametrize("data", [None, [1, 2], {"id": [1]}, "rows", object()], ids=lambda given: type(given).__name__)
def test_what_does_not_speak_arrow_is_refused(table, tmp_path, data):
    text = broken_by(table, tmp_path, data, UnsupportedTypeError)

    assert "__arrow_c_stream__" in text


def test_types_that_tables_cannot_hold_are_refused(table, tmp_path):
    text = broken_by(
        table, tmp_path, pa.table({"t": pa.array([1], pa.time64("us"))}), UnsupportedTypeError, merge_schema=True
    )

    assert "column t has the type time64[us]: tables cannot hold it" in text


@pytest.mark.parametrize("partition_by", [[], ["city"]], ids=["unpartitioned", "partitioned"])
def test_a_value_that_does_not_fit_in_a_late_batch_leaves_no_file_behind(tmp_path, partition_by):
    schema = pa.schema([("id", pa.timestamp("us")), ("city", pa.string())])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=partition_by)
    incoming = pa.schema([("id", pa.timestamp("ns")), ("city", pa.string())])
    parts = [
        pa.RecordBatch.from_arrays([pa.array([n], pa.timestamp("ns")), pa.array(["x"])], schema=incoming)
        for n in (0, 7)
    ]

    text = broken_by(table, tmp_path, pa.RecordBatchReader.from_batches(incoming, parts), TypeMismatchError)

    assert "column id" in text


@pytest.mark.parametrize("partition_by", [[], ["city"]], ids=["unpartitioned", "partitioned"])
def test_an_error_in_the_middle_of_the_data_leaves_no_file_behind(tmp_path, partition_by):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=partition_by)
    before = contents(tmp_path)

    def rows():
        for number in range(5):
            yield pa.RecordBatch.from_pydict({"id": [number], "city": [str(number)]}, SCHEMA)
        raise RuntimeError("the source went away")

    with pytest.raises(RuntimeError, match="the source went away"):
        append(
            table.format,
            pa.RecordBatchReader.from_batches(SCHEMA, rows()),
            # So small that files are finished, open and being written when it happens.
            buffers=Buffers(row_group_bytes=1, waiting_bytes=1, open_files=2),
        )

    assert contents(tmp_path) == before
    assert_same_rows(table.scan(), [])


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_store_that_fails_while_files_are_written_leaves_none_behind(tmp_path, fails_at):
    tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    before = contents(tmp_path)
    seen = []

    def when(path):
        seen.append(path)
        return len(seen) == fails_at

    table = Table(DeltaFormat(Refusing(Refusing.at(str(tmp_path)).url, verbs=("create",), when=when)))

    with pytest.raises(StorageError, match="the disk is full"):
        append(
            table.format,
            pa.table({"id": list(range(6)), "city": list("abcdef")}),
            buffers=Buffers(row_group_bytes=1, open_files=1),
        )

    assert len(seen) == fails_at
    assert contents(tmp_path) == before


# --- constraints ---


def test_a_column_that_must_not_be_null_must_be_given(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64()), pa.field("must", pa.string(), False)]))

    assert "the column must is missing and must not be null" in broken_by(
        table, tmp_path, pa.table({"id": [1]}), SchemaMismatchError
    )
    assert "must NOT NULL" in broken_by(
        table, tmp_path, pa.table({"id": [1, 2], "must": ["x", None]}), ConstraintViolatedError
    )


def test_a_member_that_must_not_be_null_is_checked(tmp_path):
    struct = pa.struct([pa.field("a", pa.int64(), False)])
    table = tablespec.create_table(str(tmp_path), pa.schema([("s", struct)]))
    data = pa.table({"s": pa.array([{"a": 1}, {"a": None}], pa.struct([("a", pa.int64())]))})

    assert "s.a NOT NULL" in broken_by(table, tmp_path, data, ConstraintViolatedError)


def test_elements_that_must_not_be_null_are_checked(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("l", pa.list_(pa.field("element", pa.int64(), False)))]))

    assert "l.element NOT NULL" in broken_by(table, tmp_path, pa.table({"l": [[1], [None]]}), ConstraintViolatedError)
    table.append(pa.table({"l": [[1], [], None]}))
    assert_same_rows(table.scan(), [([1],), ([],), (None,)])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", "UTC")),
        pa.array([0, 2_932_897], pa.int32()).view(pa.date32()),
        pa.array([b"a", b"\xff"]).view(pa.string()),
    ],
    ids=["a time after the year 9999", "a day after the year 9999", "bytes that are no text"],
)
def test_a_partition_that_the_log_cannot_tell_is_refused(tmp_path, values):
    data = pa.table({"id": [1, 2], "p": values})
    table = tablespec.create_table(str(tmp_path), data.schema, partition_by=["p"])

    text = broken_by(table, tmp_path, data, TypeMismatchError)

    assert "in a partition column, which does not fit a value that the log has no text for" in text


@pytest.mark.parametrize("name", [".a", ".[0]", "[0]", "a.b", ".."])
def test_columns_and_members_may_be_named_like_paths(tmp_path, name):
    member = pa.struct([pa.field(name, pa.float64(), False)])
    schema = pa.schema([("id", pa.int64()), (name, pa.string()), ("s", member)])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=[name])

    table.append(
        pa.table([[1, 2, 3], ["x", "y", None], [{name: 1.0}, {name: float("nan")}, {name: 2.0}]], schema=schema)
    )
    table.overwrite_partitions(pa.table([[4], ["x"], [{name: 4.0}]], schema=schema))
    table.replace_using([name], pa.table([[5], ["y"], [{name: 5.0}]], schema=schema))

    assert_same_rows(table.scan(), [(4, "x", {name: 4.0}), (5, "y", {name: 5.0}), (3, None, {name: 2.0})])


def test_a_partition_that_must_not_be_null_must_not_be_empty_either(tmp_path):
    schema = pa.schema([("id", pa.int64()), pa.field("p", pa.string(), False)])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p"])

    text = broken_by(table, tmp_path, pa.table({"id": [1, 2], "p": ["a", ""]}), ConstraintViolatedError)

    assert "p NOT NULL" in text


@pytest.mark.parametrize("bad", [-1, None], ids=["false", "null"])
def test_a_row_that_breaks_a_check_is_refused(table, tmp_path, bad):
    table.add_constraint("positive", "id > 0")

    text = broken_by(table, tmp_path, pa.table({"id": [1, bad], "city": ["a", "b"]}), ConstraintViolatedError)

    assert text == (
        f"a row breaks the constraint positive (id > 0) of {table.url}: {{'id': {bad}, 'city': 'b'}}; nothing was written"
    )


def test_an_invariant_of_a_member_of_a_struct_is_a_check(tmp_path):
    invariant = json.dumps({"expression": {"expression": "s.a > 3"}})
    struct = {"type": "struct", "fields": [field("a", "long", delta__invariants=invariant)]}
    commit(tmp_path, 0, LEGACY, metadata([field("s", struct)]))
    table = tablespec.open_table(str(tmp_path))

    text = broken_by(table, tmp_path, pa.table({"s": [{"a": 4}, {"a": 3}]}), ConstraintViolatedError)

    assert "of column s.a (s.a > 3)" in text


@pytest.mark.parametrize("invariant", ["{oops", "{}", "[1]", "true", {"expression": 1}, 7], ids=str)
def test_an_invariant_that_cannot_be_read_stops_writes_by_name(tmp_path, invariant):
    commit(tmp_path, 0, LEGACY, metadata([field("id", "long", delta__invariants=invariant)]))
    table = tablespec.open_table(str(tmp_path))

    text = broken_by(table, tmp_path, pa.table({"id": [1]}), UnsupportedConstraintError)

    assert "of column id" in text
    assert_same_rows(table.scan(), [])


def test_a_check_counts_whatever_the_case_of_its_property(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(properties={"Delta.Constraints.Small": "id < 9"}))

    text = broken_by(tablespec.open_table(str(tmp_path)), tmp_path, pa.table({"id": [9]}), ConstraintViolatedError)

    assert "Small (id < 9)" in text


@pytest.mark.parametrize(("kind", "value"), [(pa.date32(), 2**31 - 1), (pa.timestamp("us"), 2**62)], ids=str)
def test_times_beyond_the_years_of_python_are_refused_as_partitions_alone(tmp_path, kind, value):
    schema = pa.schema([("id", pa.int64()), ("at", kind)])
    data = pa.table([pa.array([1, 2]), pa.array([value, None], kind)], schema=schema)
    plain = tablespec.create_table(str(tmp_path / "plain"), schema, key=["at"])
    parted = tablespec.create_table(str(tmp_path / "parted"), schema, partition_by=["at"])
    before = contents(tmp_path / "parted")

    plain.append(data)
    plain.upsert(data.slice(0, 1))
    plain.replace_using(["at"], data.slice(0, 1))
    assert plain.scan().to_table().sort_by("id").equals(data)
    with pytest.raises(ReplaceWhereMismatchError, match="`id` = 2"):
        plain.replace_where("id = 2", data, data_columns=True)
    for change in (parted.append, parted.overwrite_partitions, lambda rows: parted.replace_using(["at"], rows)):
        with pytest.raises(TypeMismatchError, match=r"years 1 to 9999|no text for"):
            change(data.slice(0, 1))

    assert contents(tmp_path / "parted") == before


def of_spark(name, declared, kind="string"):
    return {**field(name, kind), "metadata": {"__CHAR_VARCHAR_TYPE_STRING": declared}}


@pytest.mark.parametrize("declared", ["varchar(3)", "char(3)"])
def test_a_text_that_is_longer_than_spark_declared_is_refused(tmp_path, declared):
    commit(tmp_path, 0, LEGACY, metadata([field("id", "long"), of_spark("name", declared)]))
    table = tablespec.open_table(str(tmp_path))
    rows = {"id": [1, 2, 3, 4], "name": ["", None, "äö😀", "four"]}

    text = broken_by(table, tmp_path, pa.table(rows), ConstraintViolatedError)
    table.append(pa.table(rows).slice(0, 3))
    for change in (
        lambda: table.update({"name": "'four'"}, "id = 1"),
        lambda: table.replace_where("id = 4", pa.table(rows).slice(3), data_columns=True),
    ):
        with pytest.raises(ConstraintViolatedError, match="breaks the constraint name"):
            change()

    assert f"the constraint name {declared} of {table.url}: {{'id': 4, 'name': 'four'}}" in text
    assert_same_rows(table.scan(), [(1, ""), (2, None), (3, "äö😀")])


def test_lengths_of_texts_inside_of_others_stop_writes_by_name(tmp_path):
    array = {"type": "array", "elementType": "string", "containsNull": True}
    commit(tmp_path, 0, LEGACY, metadata([of_spark("names", "array<varchar(3)>", array)]))

    text = broken_by(
        tablespec.open_table(str(tmp_path)), tmp_path, pa.table({"names": [["a"]]}), UnsupportedConstraintError
    )

    assert "names array<varchar(3)>" in text


def test_an_invariant_of_a_column_is_a_check(tmp_path):
    invariant = json.dumps({"expression": {"expression": "id > 3"}})
    commit(tmp_path, 0, LEGACY, metadata([field("id", "long", delta__invariants=invariant)]))
    table = tablespec.open_table(str(tmp_path))

    assert "of column id (id > 3)" in broken_by(table, tmp_path, pa.table({"id": [4, 3]}), ConstraintViolatedError)
    table.append(pa.table({"id": [4]}))


def test_a_check_that_cannot_be_evaluated_stops_every_append(tmp_path):
    properties = {"delta.constraints.odd": "regexp_like(city, 'x')"}
    commit(
        tmp_path,
        0,
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}},
        metadata({"id": "long", "city": "string"}, properties=properties),
    )
    table = tablespec.open_table(str(tmp_path))

    text = broken_by(table, tmp_path, ROWS, UnsupportedConstraintError)

    assert "odd (regexp_like(city, 'x'))" in text
    assert "write with Spark instead" in text


@pytest.mark.parametrize(
    "transaction",
    [
        ("loader", "1"),
        ("loader", 1.5),
        ("loader", True),
        ("loader", None),
        ("loader", 1 << 63),
        ("loader", 1, 2),
        (1, 1),
        ("\ud800", 1),
        "ab",
    ],
    ids=repr,
)
def test_a_transaction_that_no_log_can_tell_is_refused(table, tmp_path, transaction):
    told = "expected the name of an application with a whole number"
    assert told in broken_by(table, tmp_path, ROWS, InvalidOptionError, transaction=transaction)

    before = contents(tmp_path)
    with pytest.raises(InvalidOptionError, match=told):
        table.replace_where("city = 'sf'", ROWS, data_columns=True, transaction=transaction)
    assert contents(tmp_path) == before


def test_appends_make_versions_without_gaps(table, tmp_path):
    for _ in range(3):
        table.append(ROWS)

    assert versions_of(tmp_path) == [0, 1, 2, 3]
