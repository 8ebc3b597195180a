"""What tablespec writes, other clients of Delta read: deltalake first, then Polars and DuckDB."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tablespec_duckdb
import tablespec_polars
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import tablespec
from tablespec import Profile
from tests.handmade import commit_file
from tests.interop.every_type import NESTED, PARTITIONS, SCALARS, SPECIAL, STEPS, column, deltalake_rows
from tests.rows import assert_same_rows

COLUMNS = {**SCALARS, **NESTED}
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}


def written(url: Path, rows: pa.Table, **settings: object) -> tablespec.Table:
    table = tablespec.create_table(str(url), rows.schema, **settings)
    table.append(rows)
    return table


# --- encodings --------------------------------------------------------------------------------------------------------

STEPPED = STEPS.column_names[:-1]
CONDITIONS = ["{} = 0", "{} > 0", "{} is null", "text = '17'"]


def test_numbers_that_are_stored_as_steps_are_read_by_every_client(tmp_path):
    table = written(tmp_path, STEPS)
    (partition,) = table.file_index.list_files_at()
    file = tmp_path / partition.file_slices[0].base.path

    group = pq.ParquetFile(file).metadata.row_group(0)
    encodings = [group.column(index).encodings for index in range(group.num_columns)]
    assert ["DELTA_BINARY_PACKED" in one for one in encodings] == [True] * len(STEPPED) + [False]
    assert_same_rows(deltalake_rows(tmp_path), STEPS)
    assert_same_rows(pl.scan_delta(str(tmp_path)).collect(), STEPS)
    assert_same_rows(duckdb.sql(f"select * from '{file}'").to_arrow_table(), STEPS)


@pytest.mark.parametrize("name", STEPPED)
def test_filters_on_steps_find_the_same_rows_in_every_engine(tmp_path, name):
    table = written(tmp_path, STEPS)
    table.delete("text = '18'")
    con = duckdb.connect()
    zeros = {"day": "date '1970-01-01'", "time": "timestamp '1970-01-01T00:00:00Z'"}

    for condition in CONDITIONS:
        where = condition.format(name).replace(" 0", f" {zeros.get(name, 0)}")
        wanted = table.scan(where).to_table()

        assert_same_rows(tablespec_duckdb.scan(con, table, where).to_arrow_table(), wanted)
        assert_same_rows(tablespec_polars.scan(table, where).collect(), wanted)
    everything = zip(*(STEPS.column(each).to_pylist() for each in STEPS.column_names))
    position = STEPS.column_names.index(name)
    assert_same_rows(table.scan(f"{name} is null"), [row for row in everything if row[position] is None])


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", COLUMNS.values(), ids=COLUMNS)
def test_every_value_of_every_type_is_read(tmp_path, array):
    rows = column(array)

    written(tmp_path, rows)

    assert_same_rows(deltalake_rows(tmp_path), rows)


@pytest.mark.parametrize("properties", [{}, MAPPED, BY_ID], ids=["plain", "mapped by name", "mapped by id"])
@pytest.mark.parametrize("profile", Profile)
def test_all_types_beside_each_other_are_read(tmp_path, profile, properties):
    count = max(map(len, COLUMNS.values()))
    padded = {
        name: pa.concat_arrays([array, pa.nulls(count - len(array), array.type)]) for name, array in COLUMNS.items()
    }
    rows = pa.table({name.replace(" ", "_"): array for name, array in padded.items()})

    table = written(tmp_path, rows, profile=profile, properties=properties)
    table.checkpoint()

    assert_same_rows(deltalake_rows(tmp_path), rows)


# --- partitions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
@pytest.mark.parametrize("array", PARTITIONS.values(), ids=PARTITIONS)
def test_partitions_of_every_type_are_read(tmp_path, array, properties):
    rows = column(array)

    table = written(tmp_path, rows, partition_by=["v"], properties=properties)

    assert_same_rows(deltalake_rows(tmp_path).select(["i", "v"]), rows)
    table.checkpoint()
    commit_file(tmp_path, 0).unlink()
    assert_same_rows(deltalake_rows(tmp_path).select(["i", "v"]), rows)
    assert_same_rows(deltalake_rows(tmp_path, "v IS NULL").select(["i"]), [(len(array) - 1,)])


def test_an_empty_string_in_a_partition_column_is_null_for_all(tmp_path):
    table = written(tmp_path, pa.table({"i": [1, 2], "p": ["", "x"]}), partition_by=["p"])

    assert_same_rows(deltalake_rows(tmp_path), [(1, None), (2, "x")])
    assert_same_rows(table.scan(), [(1, None), (2, "x")])


def test_partition_columns_of_several_types_with_odd_names_are_read(tmp_path):
    rows = pa.table(
        {
            "key col": pa.array([SPECIAL, None, "x"]),
            "i": [1, 2, 3],
            "día=%": pa.array(
                [datetime(2020, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")
            ),
        }
    )

    written(tmp_path, rows, partition_by=["key col", "día=%"])

    assert_same_rows(deltalake_rows(tmp_path), rows)


# --- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_a_table_that_grew_is_read(tmp_path, properties):
    table = tablespec.create_table(
        str(tmp_path), pa.schema([("i", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]), properties=properties
    )
    table.append(pa.table({"i": [1], "s": [{"a": 1}]}))
    table.append(pa.table({"i": [2], "s": [{"a": 2, "b": "x"}], "t": [["new"]]}), merge_schema=True)
    table.append(pa.table({"i": [3], "t": [None]}, schema=pa.schema([("i", pa.int64()), ("t", pa.list_(pa.string()))])))

    assert_same_rows(deltalake_rows(tmp_path, version=1), [(1, {"a": 1})])
    assert_same_rows(
        deltalake_rows(tmp_path),
        [(1, {"a": 1, "b": None}, None), (2, {"a": 2, "b": "x"}, ["new"]), (3, None, None)],
    )


@pytest.mark.parametrize("profile", Profile)
def test_every_version_of_a_table_with_checkpoints_is_read(tmp_path, profile):
    schema = pa.schema([("i", pa.int64()), ("p", pa.string())])
    properties = {"delta.checkpointInterval": "3"}
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p"], properties=properties, profile=profile)
    rows: list[tuple[int, str]] = []
    states = [[]]
    for number in range(8):
        rows.append((number, "even" if number % 2 == 0 else "odd"))
        table.append(pa.Table.from_pylist([dict(zip(schema.names, rows[-1]))], schema))
        states.append(list(rows))

    for version, state in enumerate(states):
        assert_same_rows(deltalake_rows(tmp_path, version=version), state)
    for version in range(6):
        commit_file(tmp_path, version).unlink()
    for version in (6, 7, 8):
        assert_same_rows(deltalake_rows(tmp_path, version=version), states[version])
    assert_same_rows(deltalake_rows(tmp_path, "p = 'odd' AND i > 2"), [(3, "odd"), (5, "odd"), (7, "odd")])


@pytest.mark.parametrize("profile", Profile)
def test_the_history_is_read(tmp_path, profile):
    table = written(tmp_path, pa.table({"i": [1]}), profile=profile)
    table.set_properties({"tablespec.note": "x"})

    told = DeltaTable(str(tmp_path)).history()

    assert [(entry["version"], entry["operation"]) for entry in told] == [
        (2, "SET TBLPROPERTIES"),
        (1, "WRITE"),
        (0, "CREATE TABLE"),
    ]
    if profile is Profile.STRICT:
        assert [entry["timestamp"] for entry in told] == [one.timestamp for one in reversed(list(table.timeline))]


def test_a_transaction_of_an_application_is_known(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("i", pa.int64())]))
    table.append(pa.table({"i": [1]}), transaction=("loader", 17))
    table.checkpoint()

    assert DeltaTable(str(tmp_path)).transaction_version("loader") == 17


# --- statistics -------------------------------------------------------------------------------------------------------

LONG_TEXT = "a" * 32
QUESTIONS = {
    "i = 3": [3],
    "i >= 4": [4, 5],
    "i IS NULL": [],
    "s.n > 25": [3, 4, 5],
    "s.n IS NULL": [0],
    f"t = '{LONG_TEXT}b'": [1],
    f"t > '{LONG_TEXT}c'": [2, 3, 4],
    f"t >= '{LONG_TEXT}d'": [3, 4],
    f"t < '{LONG_TEXT}b'": [0],
    "at = TIMESTAMP '2020-01-01T00:00:01.000001Z'": [1],
    "at > TIMESTAMP '2020-01-01T00:00:03.000002Z'": [3, 4, 5],
    "at <= TIMESTAMP '2020-01-01T00:00:01.000001Z'": [0, 1],
    "d = 2.50": [2],
    "d > 3": [3, 4, 5],
    "day >= DATE '2020-01-05'": [4, 5],
    "x IS NULL": [5],
    "x < 1": [0, 1],
    "b = true": [0, 2, 4],
}


@pytest.fixture(scope="module")
def many_files(tmp_path_factory) -> Path:
    """Six files of one row each, so that bounds tell exactly which of them matches."""
    url = tmp_path_factory.mktemp("many")
    start = datetime(2020, 1, 1, tzinfo=UTC)
    table = None
    for number in range(6):
        row = {
            "i": number,
            "s": None if number == 0 else {"n": number * 10},
            "t": None if number == 5 else LONG_TEXT + chr(ord("a") + number) * 3 if number != 1 else LONG_TEXT + "b",
            "at": start + timedelta(seconds=number, microseconds=number),
            "d": Decimal(number) + Decimal("0.50"),
            "day": (start + timedelta(days=number)).date(),
            "x": None if number == 5 else float("nan") if number == 4 else number / 2,
            "b": number % 2 == 0,
        }
        schema = pa.schema(
            [
                ("i", pa.int32()),
                ("s", pa.struct([("n", pa.int64())])),
                ("t", pa.string()),
                ("at", pa.timestamp("us", "UTC")),
                ("d", pa.decimal128(20, 2)),
                ("day", pa.date32()),
                ("x", pa.float64()),
                ("b", pa.bool_()),
            ]
        )
        table = table or tablespec.create_table(str(url), schema)
        table.append(pa.Table.from_pylist([row], schema))
    table.checkpoint()
    return url


@pytest.mark.parametrize(("where", "numbers"), QUESTIONS.items(), ids=QUESTIONS)
def test_pruning_by_our_statistics_leaves_the_right_rows(many_files, where, numbers):
    theirs = deltalake_rows(many_files, where).column("i").to_pylist()
    ours = tablespec.open_table(str(many_files)).scan(where=where.replace("T00", " 00").replace("Z'", "'"))

    assert sorted(theirs) == numbers
    assert sorted(ours.to_table().column("i").to_pylist()) == numbers


def test_our_statistics_are_known_to_deltalake(many_files):
    actions = add_actions(many_files)

    assert [action["num_records"] for action in actions] == [1] * 6
    assert [action["min"]["i"] for action in actions] == list(range(6))
    assert [action["max"]["d"] for action in actions] == [Decimal(f"{number}.50") for number in range(6)]
    assert [action["null_count"]["s"]["n"] for action in actions] == [1, 0, 0, 0, 0, 0]


def add_actions(url: Path) -> list[dict[str, object]]:
    actions = pa.table(DeltaTable(str(url)).get_add_actions()).to_pylist()
    return sorted(actions, key=lambda action: action["min"]["i"])


# --- writing in turns -------------------------------------------------------------------------------------------------


def test_deltalake_and_tablespec_write_to_one_table_in_turns(tmp_path):
    table = written(tmp_path, pa.table({"i": [1, 2, 3], "p": ["a", None, SPECIAL]}), partition_by=["p"])

    write_deltalake(str(tmp_path), pa.table({"i": [4, 5], "p": ["a", "b"]}), mode="append")
    assert_same_rows(table.scan(), [(1, "a"), (2, None), (3, SPECIAL), (4, "a"), (5, "b")])

    DeltaTable(str(tmp_path)).delete("i = 4")
    assert_same_rows(table.scan(where="p = 'a'"), [(1, "a")])

    table.append(pa.table({"i": [6], "p": ["b"]}))
    source = pa.table({"i": [2, 6, 7], "p": ["c", "c", "c"]})
    merge = DeltaTable(str(tmp_path)).merge(source, "t.i = s.i", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert_same_rows(table.scan(), [(1, "a"), (2, "c"), (3, SPECIAL), (5, "b"), (6, "c"), (7, "c")])

    DeltaTable(str(tmp_path)).update({"i": "i * 10"}, predicate="p = 'b'")
    table.checkpoint()
    DeltaTable(str(tmp_path)).create_checkpoint()
    table.append(pa.table({"i": [9], "p": ["d"]}))

    wanted = [(1, "a"), (2, "c"), (3, SPECIAL), (50, "b"), (6, "c"), (7, "c"), (9, "d")]
    assert_same_rows(table.scan(), wanted)
    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), wanted)
    assert_same_rows(deltalake_rows(tmp_path), wanted)
    assert [entry.operation for entry in table.history()] == [
        "WRITE",
        "UPDATE",
        "MERGE",
        "WRITE",
        "DELETE",
        "WRITE",
        "WRITE",
        "CREATE TABLE",
    ]


def test_row_ids_are_never_given_twice_though_deltalake_does_not_know_them(tmp_path):
    table = written(tmp_path, pa.table({"i": [1, 2, 3]}))
    write_deltalake(str(tmp_path), pa.table({"i": [4, 5]}), mode="append")
    DeltaTable(str(tmp_path)).create_checkpoint()
    table.append(pa.table({"i": [6]}))
    DeltaTable(str(tmp_path)).optimize.compact()
    table.append(pa.table({"i": [7, 8]}))

    starts = []
    for path in sorted(tmp_path.joinpath("_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            add = json.loads(line).get("add", {})
            if add.get("baseRowId") is not None:
                starts.append((add["baseRowId"], json.loads(add["stats"])["numRecords"]))

    assert starts == [(0, 3), (3, 1), (4, 2)]
    assert_same_rows(table.scan(), [(number,) for number in range(1, 9)])


def test_a_strict_table_is_read_by_deltalake_and_refused_to_its_writer(tmp_path):
    table = written(tmp_path, pa.table({"i": [1]}), profile=Profile.STRICT)

    assert_same_rows(deltalake_rows(tmp_path), [(1,)])
    with pytest.raises(DeltaError, match="RowTracking"):
        write_deltalake(str(tmp_path), pa.table({"i": [2]}), mode="append")
    assert_same_rows(table.scan(), [(1,)])


def test_a_constraint_is_kept_by_deltalake(tmp_path):
    table = written(tmp_path, pa.table({"i": [1]}))
    table.add_constraint("positive", "i > 0")

    write_deltalake(str(tmp_path), pa.table({"i": [2]}), mode="append")
    with pytest.raises(DeltaError):
        write_deltalake(str(tmp_path), pa.table({"i": [-2]}), mode="append")

    assert_same_rows(table.scan(), [(1,), (2,)])


# --- other engines ----------------------------------------------------------------------------------------------------

PARTITIONED = pa.table(
    {
        "i": [1, 2, 3, 4],
        "p": ["x", None, SPECIAL, "é€"],
        "n": pa.array([1, 2, None, -4], pa.int32()),
        "at": pa.array([datetime(2020, 1, 1, 12, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC")),
    }
)


def test_polars_reads_values_and_partitions_from_our_folders(tmp_path):
    written(tmp_path, PARTITIONED, partition_by=["p", "n"])

    frame = pl.scan_delta(str(tmp_path))

    assert_same_rows(frame.select(PARTITIONED.column_names).collect(), PARTITIONED)
    assert frame.filter(pl.col("p").is_null()).select("i").collect().rows() == [(2,)]
    assert frame.filter(pl.col("p") == SPECIAL).select("i").collect().rows() == [(3,)]
    assert frame.filter(pl.col("n") < 2).select("i").sort("i").collect().rows() == [(1,), (4,)]


def test_duckdb_reads_a_scan_as_an_arrow_stream(tmp_path):
    scan = written(tmp_path, PARTITIONED, partition_by=["p", "n"]).scan(where="i > 1")

    found = duckdb.from_arrow(scan).filter("n IS NULL OR n < 0")

    assert_same_rows(found.to_arrow_table(), PARTITIONED.slice(2))


def test_duckdb_reads_partitions_from_our_folders(tmp_path):
    written(tmp_path, PARTITIONED, partition_by=["p", "n"])

    files = duckdb.read_parquet(f"{tmp_path}/**/*.parquet", hive_partitioning=True)
    found = files.project('i, p, n::INT AS n, "at"')

    assert_same_rows(found.to_arrow_table(), PARTITIONED)
