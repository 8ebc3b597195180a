"""Real Delta tables, held against what Delta on Spark and deltalake read from them."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import os
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tablespec_polars
from deltalake import DeltaTable, QueryBuilder

import tablespec
from tablespec.errors import CorruptLogError, DataFileMissingError, NotATableError, TableSpecError
from tablespec.expr.nodes import Column, Compare, IsNull, Literal, Op, Predicate
from tablespec.formats.delta.schema_json import format_schema
from tablespec.model.schema import ArrayType, DataType, DecimalType, MapType, Primitive, StructType
from tests.interop.variant import variant_json
from tests.rows import assert_same_rows

FOLDER = os.environ.get("TABLESPEC_REAL_TABLES")
ROOT = Path(FOLDER or "nowhere")
GOLDEN = sorted((ROOT / "delta").glob("*.zip"))
BY_SPARK = sorted((ROOT / "delta_spark").glob("*.zip"))
ANSWERS = json.loads((ROOT / "delta_spark/expected.json").read_text()) if BY_SPARK else {}

# The one column in which Spark's answer is not ours: its partition values are timestamps without a zone, which the
# writer meant in its own. No log tells which that was, so every client but the writer takes them as UTC.
ZONE_LESS = {"data-reader-partition-values": ("as_timestamp", timedelta(hours=7))}

# Tables that are broken on purpose, or are a log without data, with what opening and reading them gives: an error, or
# the number of rows.
BROKEN: dict[str, type[TableSpecError] | int] = {
    # A file is added and removed under two spellings of one path, so none is left.
    "canonicalized-paths-normal-a": 0,
    "canonicalized-paths-normal-b": 0,
    "canonicalized-paths-special-a": 0,
    "canonicalized-paths-special-b": 0,
    "checkpoint": DataFileMissingError,
    "data-reader-absolute-paths-escaped-chars": CorruptLogError,
    "delete-re-add-same-file-different-transactions": DataFileMissingError,
    "deltalog-commit-info": CorruptLogError,
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": CorruptLogError,
    "deltalog-state-reconstruction-without-metadata": CorruptLogError,
    "deltalog-state-reconstruction-without-protocol": DataFileMissingError,
    "hive": NotATableError,
    "log-replay-special-characters-b": DataFileMissingError,
    "no-delta-log-folder": NotATableError,
    "update-deleted-directory": CorruptLogError,
}

# What deltalake cannot read: features that it lacks, and paths of which it knows only one spelling.
NOT_FOR_DELTALAKE = (
    "basic-with-vacuum-protocol-check-feature",
    "canonicalized-paths-normal-a",
    "canonicalized-paths-normal-b",
    "canonicalized-paths-special-a",
    "canonicalized-paths-special-b",
    "type_widening_partition",
)
# Timestamps of 96 bits outside of the years 1677 to 2262 wrap around in deltalake.
WRAPPED_BY_DELTALAKE = {"timestamp_ntz": ("z",)}

pytestmark = [
    pytest.mark.real_tables,
    pytest.mark.skipif(FOLDER is None, reason="TABLESPEC_REAL_TABLES names no folder of real tables"),
]


def has_answer(archive: Path) -> bool:
    with zipfile.ZipFile(archive) as files:
        return any(name.startswith(f"{archive.stem}/expected/") for name in files.namelist())


def named(archive: Path) -> str:
    return archive.stem


ANSWERED = [archive for archive in GOLDEN if has_answer(archive)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Callable[[Path], Path]:
    """Gives the folder that an archive holds, unpacked once."""
    done: dict[Path, Path] = {}

    def unpack(archive: Path) -> Path:
        if archive not in done:
            done[archive] = tmp_path_factory.mktemp("table")
            with zipfile.ZipFile(archive) as files:
                files.extractall(done[archive])
        return done[archive] / archive.stem

    return unpack


def table_in(folder: Path) -> str:
    """The table in the folder of an archive: the golden ones keep it beside the answer."""
    return str(folder / "delta" if folder.joinpath("delta").is_dir() else folder)


def answer_in(folder: Path) -> pa.Table:
    """What Delta on Spark read from a golden table."""
    files = sorted(file for file in folder.joinpath("expected").rglob("*.parquet") if not file.name.startswith("."))
    return pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])


# --- golden tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("archive", [one for one in ANSWERED if one.stem not in ZONE_LESS], ids=named)
def test_a_table_reads_as_delta_on_spark_reads_it(unpacked, archive):
    answer = answer_in(unpacked(archive))

    scan = tablespec.open_table(table_in(unpacked(archive))).scan()

    assert scan.to_table().column_names == answer.column_names
    assert_same_rows(scan, answer)
    assert scan.count() == answer.num_rows


@pytest.mark.parametrize("archive", [one for one in ANSWERED if one.stem in ZONE_LESS], ids=named)
def test_a_partition_timestamp_without_a_zone_is_taken_as_utc(unpacked, archive):
    answer = answer_in(unpacked(archive))
    column, away = ZONE_LESS[archive.stem]
    index = answer.column_names.index(column)
    moved = [None if moment is None else moment - away for moment in answer.column(column).to_pylist()]

    rows = tablespec.open_table(table_in(unpacked(archive))).scan().to_table()

    shifted = pa.array(moved, answer.schema.field(index).type)
    assert any(moment is not None for moment in moved)
    assert_same_rows(rows, answer.set_column(index, column, shifted))


@pytest.mark.parametrize("archive", [*ANSWERED, *BY_SPARK], ids=named)
def test_a_filtered_scan_gives_what_filtering_all_rows_gives(unpacked, archive):
    table = tablespec.open_table(table_in(unpacked(archive)))
    everything = table.scan().to_table()

    for predicate, holds in questions(table.schema.leaves(), everything):
        wanted = [tuple(row.values()) for row in everything.to_pylist() if holds(row)]
        assert_same_rows(table.scan(where=predicate), wanted)
        assert table.scan(where=predicate).count() == len(wanted)


@pytest.mark.parametrize("columns", [None, ["id"]], ids=["all columns", "one beside it"])
def test_polars_reads_tables_with_variants(unpacked, columns):
    table = tablespec.open_table(table_in(unpacked(ROOT / "delta_spark/variant.zip")))

    assert_same_rows(tablespec_polars.scan(table, columns=columns).collect(), table.scan(columns=columns))


@pytest.mark.parametrize("archive", [*ANSWERED, *BY_SPARK], ids=named)
def test_chosen_columns_come_in_the_order_asked_for(unpacked, archive):
    table = tablespec.open_table(table_in(unpacked(archive)))
    everything = table.scan().to_table()
    names = everything.column_names[::-2]

    assert_same_rows(table.scan(columns=names), everything.select(names))
    assert table.scan(columns=names).to_table().column_names == names


@pytest.mark.parametrize("archive", [one for one in GOLDEN if one not in ANSWERED], ids=named)
@pytest.mark.filterwarnings("default::tablespec.errors.TableSpecWarning")
def test_a_broken_table_gives_a_clear_error_or_its_rows(unpacked, archive):
    def rows() -> int:
        return tablespec.open_table(table_in(unpacked(archive))).scan().to_table().num_rows

    match BROKEN.get(archive.stem):
        case None:
            with contextlib.suppress(TableSpecError):
                rows()
        case int(count):
            assert rows() == count
        case error:
            with pytest.raises(error):
                rows()


@pytest.mark.parametrize("archive", [*GOLDEN, *BY_SPARK], ids=named)
@pytest.mark.filterwarnings("default::tablespec.errors.TableSpecWarning")
def test_every_version_reads_as_deltalake_reads_it(unpacked, archive):
    url = table_in(unpacked(archive))
    try:
        table = tablespec.open_table(url)
        versions = [instant.version for instant in table.timeline]
    except TableSpecError:
        with pytest.raises(Exception):  # noqa: B017 - deltalake raises what it likes
            DeltaTable(url)
        return

    for version in versions:
        ours, theirs = rows_or_none(table, version), deltalake_rows(url, version)
        if theirs is None:
            assert ours is None or archive.stem in NOT_FOR_DELTALAKE
            continue
        assert ours is not None
        wrapped = WRAPPED_BY_DELTALAKE.get(archive.stem, ())
        assert ours.column_names == theirs.column_names
        assert_same_rows(ours.drop_columns(wrapped), theirs.drop_columns(wrapped))


# --- tables of Delta on Spark, at every version -----------------------------------------------------------------------


def versions() -> Iterator[object]:
    for archive in BY_SPARK:
        for version, answer in ANSWERS[archive.stem]["versions"].items():
            yield pytest.param(archive, int(version), answer, id=f"{archive.stem}-{version}")


@pytest.mark.parametrize(("archive", "version", "answer"), list(versions()))
def test_a_version_reads_as_delta_on_spark_read_it(unpacked, archive, version, answer):
    table = tablespec.open_table(str(unpacked(archive)))
    scan = table.scan(at=version)
    types = [field.type for field in scan.schema]

    rows = scan.to_table()

    columns = [[plain(value, type_) for value in column.to_pylist()] for column, type_ in zip(rows.columns, types)]
    found = sorted(json.dumps(row) for row in zip(*columns))
    wanted = sorted(json.dumps([of_spark(value, type_) for value, type_ in zip(row, types)]) for row in answer["rows"])
    assert rows.column_names == [field["name"] for field in answer["schema"]["fields"]]
    assert without_metadata(json.loads(format_schema(scan.schema))) == without_metadata(answer["schema"])
    assert found == wanted
    assert scan.count() == len(wanted)


@pytest.mark.parametrize("archive", BY_SPARK, ids=named)
def test_the_history_tells_the_operations_that_spark_tells(unpacked, archive):
    history = tablespec.open_table(str(unpacked(archive))).history()

    told = [(entry.instant.version, entry.operation) for entry in reversed(history)]
    assert told == [(version, operation) for version, _, operation in ANSWERS[archive.stem]["history"]]


@pytest.mark.parametrize("archive", [one for one in BY_SPARK if one.stem == "ict"], ids=named)
def test_in_commit_timestamps_are_the_times_of_the_timeline(unpacked, archive):
    timeline = tablespec.open_table(str(unpacked(archive))).timeline

    times = [(instant.version, instant.timestamp) for instant in timeline]
    assert times == [(version, stamp) for version, stamp, _ in ANSWERS[archive.stem]["history"]]
    for version, stamp in times:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp)
        assert timeline.find_latest_completed_action_at(moment).version == version


# --- questions to a table, made from its rows -------------------------------------------------------------------------


def questions(
    leaves: Iterator[tuple[tuple[str, ...], object]], rows: pa.Table
) -> Iterator[tuple[Predicate, Callable[[dict[str, object]], bool]]]:
    """Predicates about every leaf column, with whether a row matches; the constants are values that stand in the table."""
    everything = rows.to_pylist()
    for path, _ in leaves:
        values = [value for value in (value_at(row, path) for row in everything) if value is not None]
        if any(isinstance(value, list | dict) for value in values):
            continue
        column = Column(path)
        yield IsNull(column), lambda row, path=path: value_at(row, path) is None
        for value in values[len(values) // 2 :][:1]:
            yield Compare(Op.EQ, column, Literal(value)), compared(path, operator.eq, value)
            if not isinstance(value, bool | bytes):
                yield Compare(Op.LT, column, Literal(value)), compared(path, operator.lt, value)
                yield Compare(Op.GE, column, Literal(value)), compared(path, operator.ge, value)


def compared(
    path: tuple[str, ...], holds: Callable[[object, object], bool], right: object
) -> Callable[[dict[str, object]], bool]:
    def of_row(row: dict[str, object]) -> bool:
        left = value_at(row, path)
        return left is not None and holds(in_order(left), in_order(right))

    return of_row


def value_at(row: object, path: tuple[str, ...]) -> object:
    for name in path:
        row = row[name] if isinstance(row, dict) else None
    return row


def in_order(value: object) -> tuple[bool, object]:
    """A value that compares as tables do: NaN equals itself and is greater than all numbers."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, None if is_nan else value


# --- what others read, in one form ------------------------------------------------------------------------------------


def rows_or_none(table: tablespec.Table, version: int) -> pa.Table | None:
    try:
        return table.scan(at=version).to_table()
    except TableSpecError:
        return None


def deltalake_rows(url: str, version: int) -> pa.Table | None:
    try:
        query = QueryBuilder().register("t", DeltaTable(url, version=version))
        return pa.table(query.execute("SELECT * FROM t").read_all())
    except Exception:  # noqa: BLE001 - deltalake raises what it likes
        return None


def without_metadata(schema: object) -> object:
    """A schema in JSON without the metadata of its fields, which Spark shows only in part."""
    if isinstance(schema, dict):
        return {key: without_metadata(value) for key, value in schema.items() if key != "metadata"}
    return [without_metadata(item) for item in schema] if isinstance(schema, list) else schema


def plain(value: object, type_: DataType) -> object:
    """A value as the answers of Spark are written."""
    if value is None:
        return None
    match type_:
        case StructType(fields):
            return [plain(value[field.name], field.type) for field in fields]
        case ArrayType(element):
            return [plain(item, element) for item in value]
        case MapType(key, item):
            return sorted(([plain(one, key), plain(other, item)] for one, other in value), key=json.dumps)
        case DecimalType():
            return format(value, "f")
        case Primitive("variant"):
            return variant_json(value["metadata"], value["value"])
        case _:
            return plain_scalar(value)


def plain_scalar(value: object) -> object:
    match value:
        case float():
            return repr(value)
        case bytes():
            return value.hex()
        case datetime():
            since = value - datetime(1970, 1, 1, tzinfo=UTC) if value.tzinfo else None
            return value.isoformat(timespec="microseconds") if since is None else since // timedelta(microseconds=1)
        case date():
            return value.isoformat()
        case _:
            return value


def of_spark(value: object, type_: DataType) -> object:
    """An answer of Spark with the JSON text of variants in the form of ours: Spark writes numbers in its own way."""
    if value is None:
        return None
    match type_:
        case StructType(fields):
            return [of_spark(item, field.type) for item, field in zip(value, fields)]
        case ArrayType(element):
            return [of_spark(item, element) for item in value]
        case MapType(key, item):
            return [[of_spark(one, key), of_spark(other, item)] for one, other in value]
        case Primitive("variant"):
            return json.dumps(json.loads(value, parse_float=lambda text: str(Decimal(text).normalize())))
        case _:
            return value
