"""What deltalake writes, tablespec reads: every type, every operation, at every version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import tablespec
from tablespec.expr.nodes import Column, Compare, IsNull, Literal, Op
from tests.handmade import commit_file
from tests.interop.every_type import NESTED, PARTITIONS, SCALARS, SPECIAL, column, deltalake_rows
from tests.rows import assert_same_rows

COLUMNS = {**SCALARS, **NESTED}
START = pa.table({"i": [1, 2, 3, 4], "p": ["a", None, SPECIAL, "a"], "x": [0.5, None, float("nan"), 4.0]})
# deltalake has them as views in the files that it writes anew.
TEXTS = {
    "string": pa.array(["a", "b", None, "long enough for a view"]),
    "binary": pa.array([b"a", b"b", None, b"long enough for a view"]),
    "struct": pa.array([{"s": "a", "b": b"b"}, None, {"s": None, "b": b""}, {"s": "d", "b": None}]),
    "list": pa.array([["a"], [], None, ["c", None]]),
    "map": pa.array([[("k", "v")], [], None, [("l", None)]], pa.map_(pa.string(), pa.string())),
    "deep": pa.array([[{"s": ["a"]}], [], None, [{"s": None}, {"s": ["b", None]}]]),
}
# deltalake cannot write them, or not read back itself: it gives long numbers names that are too long, negative decimals
# texts like -1.-5, and bytes texts like \\u0061.
NO_PARTITIONS = ("double", "finite double", "binary", *(name for name in PARTITIONS if name.startswith("decimal")))
Row = tuple[int, str | None, float | None]
ROWS: list[Row] = [(1, "a", 0.5), (2, None, None), (3, SPECIAL, float("nan")), (4, "a", 4.0)]


def rows_at(url: Path, version: int | None = None) -> pa.Table:
    return tablespec.open_table(str(url)).scan(at=version).to_table()


def assert_every_version_reads_alike(url: Path, first: int = 0) -> None:
    table = tablespec.open_table(str(url))
    versions = [instant.version for instant in table.timeline if instant.version >= first]
    assert versions == list(range(first, DeltaTable(str(url)).version() + 1))
    for version in versions:
        ours, theirs = table.scan(at=version), deltalake_rows(url, version=version)
        assert_same_rows(ours, theirs)
        assert ours.count() == theirs.num_rows


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", COLUMNS.values(), ids=COLUMNS)
def test_every_value_of_every_type_is_read(tmp_path, array):
    rows = column(array)

    write_deltalake(str(tmp_path), rows)

    assert_same_rows(rows_at(tmp_path), rows)


@pytest.mark.parametrize("checkpointed", [False, True], ids=["from the commit", "from a checkpoint"])
@pytest.mark.parametrize("name", [name for name in PARTITIONS if name not in NO_PARTITIONS])
def test_partitions_of_every_type_are_read(tmp_path, name, checkpointed):
    rows = column(PARTITIONS[name])
    write_deltalake(str(tmp_path), rows, partition_by=["v"])
    if checkpointed:
        DeltaTable(str(tmp_path)).create_checkpoint()
        commit_file(tmp_path, 0).unlink()

    assert_same_rows(rows_at(tmp_path).select(["i", "v"]), rows)
    found = tablespec.open_table(str(tmp_path)).scan(where="v IS NULL", columns=["i"])
    assert_same_rows(found, [(rows.num_rows - 1,)])


@pytest.mark.parametrize(
    "name", ["byte", "long", "string", "date", "timestamp", "timestamp_ntz", "decimal(38,18)", "double"]
)
def test_its_statistics_leave_the_right_rows(tmp_path, name):
    array = SCALARS[name]
    for number in range(len(array)):
        write_deltalake(str(tmp_path), column(array).slice(number, 1), mode="append")
    table = tablespec.open_table(str(tmp_path))

    for index, value in enumerate(array.to_pylist()):
        column_v = Column(("v",))
        where = IsNull(column_v) if value is None else Compare(Op.EQ, column_v, Literal(value))
        same = [number for number, other in enumerate(array.to_pylist()) if alike(value, other)]
        assert sorted(table.scan(where=where).to_table().column("i").to_pylist()) == same, index


def alike(one: object, other: object) -> bool:
    return one == other or (one != one and other != other)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_rows_are_picked_from_files_that_say_that_their_texts_were_views(tmp_path, text):
    rows = column(text)
    write_deltalake(str(tmp_path), rows)
    DeltaTable(str(tmp_path)).update({"i": "i + 100"}, predicate="i = 1")
    table = tablespec.open_table(str(tmp_path))
    expected = [(100 + i if i == 1 else i, value) for i, value in zip(*rows.select(["i", "v"]).to_pydict().values())]

    assert_same_rows(table.scan("i < 3", ["i", "v"]), [row for row in expected if row[0] < 3])
    table.delete("i = 101")

    assert_same_rows(table.scan(columns=["i", "v"]), [row for row in expected if row[0] != 101])


# --- operations -------------------------------------------------------------------------------------------------------


def append(url: str) -> None:
    write_deltalake(url, pa.table({"i": [5], "p": ["b"], "x": [5.0]}), mode="append")


def overwrite(url: str) -> None:
    write_deltalake(url, pa.table({"i": [6], "p": ["b"], "x": [6.0]}), mode="overwrite")


def replace_where(url: str) -> None:
    write_deltalake(url, pa.table({"i": [7], "p": ["a"], "x": [7.0]}), mode="overwrite", predicate="p = 'a'")


def delete(url: str) -> None:
    DeltaTable(url).delete("i = 1")


def delete_a_partition(url: str) -> None:
    DeltaTable(url).delete("p = 'a'")


def delete_all(url: str) -> None:
    DeltaTable(url).delete()


def update(url: str) -> None:
    DeltaTable(url).update({"x": "i * 100"}, predicate="i >= 3")


def merge(url: str) -> None:
    source = pa.table({"i": [1, 9], "p": ["z", "z"], "x": [1.0, 9.0]})
    merging = DeltaTable(url).merge(source, "t.i = s.i", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().when_not_matched_by_source_delete(
        "t.i = 2"
    ).execute()


def compact(url: str) -> None:
    append(url)
    append(url)
    DeltaTable(url).optimize.compact()


def z_order(url: str) -> None:
    append(url)
    DeltaTable(url).optimize.z_order(["i"])


def checkpoint(url: str) -> None:
    DeltaTable(url).create_checkpoint()
    append(url)


def compact_the_log(url: str) -> None:
    append(url)
    delete(url)
    DeltaTable(url).compact_logs(0, 2)


def restore(url: str) -> None:
    append(url)
    DeltaTable(url).restore(0)


def set_properties(url: str) -> None:
    DeltaTable(url).alter.set_table_properties({"delta.appendOnly": "false"})


def add_a_constraint(url: str) -> None:
    DeltaTable(url).alter.add_constraint({"positive": "i > 0"})


def add_a_column(url: str) -> None:
    grown = pa.table({"i": [5], "p": ["b"], "x": [5.0], "new": [["n"]]})
    write_deltalake(url, grown, mode="append", schema_mode="merge")


OPERATIONS: dict[Callable[[str], None], list[tuple[object, ...]]] = {
    append: [*ROWS, (5, "b", 5.0)],
    overwrite: [(6, "b", 6.0)],
    replace_where: [*ROWS[1:3], (7, "a", 7.0)],
    delete: ROWS[1:],
    delete_a_partition: ROWS[1:3],
    delete_all: [],
    update: [*ROWS[:2], (3, SPECIAL, 300.0), (4, "a", 400.0)],
    merge: [(1, "z", 1.0), *ROWS[2:], (9, "z", 9.0)],
    compact: [*ROWS, (5, "b", 5.0), (5, "b", 5.0)],
    z_order: [*ROWS, (5, "b", 5.0)],
    checkpoint: [*ROWS, (5, "b", 5.0)],
    compact_the_log: [*ROWS[1:], (5, "b", 5.0)],
    restore: ROWS,
    set_properties: ROWS,
    add_a_constraint: ROWS,
    add_a_column: [*((*row, None) for row in ROWS), (5, "b", 5.0, ["n"])],
}


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["not partitioned", "partitioned"])
@pytest.mark.parametrize(("operate", "rows"), OPERATIONS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_table_reads_right_after(tmp_path, operate, rows, partition_by):
    write_deltalake(str(tmp_path), START, partition_by=partition_by)

    operate(str(tmp_path))

    found = rows_at(tmp_path)
    names = [name for name in (*START.column_names, "new") if name in found.column_names]
    assert_same_rows(found.select(names), rows)
    assert_every_version_reads_alike(tmp_path)


VIEWS = pa.table(
    {"i": [1, 2, 3, 4], "s": ["a", "b", None, "d"], "b": [b"a", None, b"c", b"d"], "l": [["x"], [], None, ["y", None]]}
)


def _by_polars(url: str) -> None:
    pl.DataFrame(VIEWS).write_delta(url)


def _by_a_delete_of_deltalake(url: str) -> None:
    write_deltalake(url, pa.concat_tables([VIEWS, VIEWS.slice(0, 1).set_column(0, "i", pa.array([0]))]))
    DeltaTable(url).delete("i = 0")


@pytest.mark.parametrize("write", [_by_polars, _by_a_delete_of_deltalake])
def test_rows_of_files_that_call_their_texts_views_are_found_and_changed(tmp_path, write):
    write(str(tmp_path))
    table = tablespec.open_table(str(tmp_path))
    rows = VIEWS.to_pylist()
    assert any("view" in str(pq.read_schema(tmp_path / one.slice.base.path)) for one in table.scan().slices)

    assert_same_rows(table.scan("i > 2"), VIEWS.slice(2))
    assert_same_rows(table.scan("s = 'b'", columns=["l", "s"]), [([], "b")])
    table.delete("i = 1")
    table.update({"i": "7"}, "s = 'd'")
    table.compact()
    assert_same_rows(table.scan(), [tuple(rows[1].values()), tuple(rows[2].values()), (7, "d", b"d", ["y", None])])


def test_every_version_has_the_schema_of_its_time(tmp_path):
    write_deltalake(str(tmp_path), START)
    write_deltalake(str(tmp_path), pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite")

    table = tablespec.open_table(str(tmp_path))

    assert (table.schema_at(0).names, table.schema.names) == (("i", "p", "x"), ("other",))
    assert_same_rows(table.scan(), [("x",)])
    assert_every_version_reads_alike(tmp_path)


def test_a_long_history_reads_right_at_every_version(tmp_path):
    write_deltalake(str(tmp_path), START, partition_by=["p"], configuration={"delta.enableChangeDataFeed": "true"})
    for operate in (append, delete, merge, update, checkpoint, z_order, replace_where, compact, restore, add_a_column):
        operate(str(tmp_path))

    assert_every_version_reads_alike(tmp_path)
    history = tablespec.open_table(str(tmp_path)).history()
    theirs = DeltaTable(str(tmp_path)).history()
    assert [(entry.instant.version, entry.operation) for entry in history] == [
        (entry["version"], entry["operation"]) for entry in theirs
    ]


def test_a_log_that_was_cleaned_up_reads_from_its_checkpoint(tmp_path):
    write_deltalake(str(tmp_path), START, partition_by=["p"])
    append(str(tmp_path))
    delete(str(tmp_path))
    DeltaTable(str(tmp_path)).create_checkpoint()
    append(str(tmp_path))
    for version in (0, 1):
        commit_file(tmp_path, version).unlink()

    assert_every_version_reads_alike(tmp_path, first=2)


def test_a_vacuumed_table_reads_right(tmp_path):
    write_deltalake(str(tmp_path), START, partition_by=["p"])
    delete(str(tmp_path))
    removed = DeltaTable(str(tmp_path)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)

    assert len(removed) == 1
    assert_same_rows(rows_at(tmp_path), ROWS[1:])


def test_a_table_with_a_change_feed_reads_right(tmp_path):
    write_deltalake(str(tmp_path), START, configuration={"delta.enableChangeDataFeed": "true"})
    update(str(tmp_path))
    delete(str(tmp_path))

    assert tmp_path.joinpath("_change_data").is_dir()
    assert_same_rows(rows_at(tmp_path), [(2, None, None), (3, SPECIAL, 300.0), (4, "a", 400.0)])
    assert_every_version_reads_alike(tmp_path)


def test_its_transactions_are_known(tmp_path):
    properties = CommitProperties(app_transactions=[Transaction("loader", 5), Transaction("other", 1)])
    write_deltalake(str(tmp_path), START, commit_properties=properties)
    write_deltalake(
        str(tmp_path),
        START,
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("loader", 6)]),
    )
    DeltaTable(str(tmp_path)).create_checkpoint()
    commit_file(tmp_path, 0).unlink()

    transactions = tablespec.open_table(str(tmp_path)).format.latest().reconciled.transactions

    assert {app: one.version for app, one in transactions.items()} == {"loader": 6, "other": 1}


def test_its_constraints_and_required_columns_are_held(tmp_path):
    schema = pa.schema([pa.field("i", pa.int64(), nullable=False), pa.field("x", pa.float64())])
    write_deltalake(str(tmp_path), pa.table({"i": [1], "x": [1.0]}, schema=schema))
    DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "x > 0"})
    table = tablespec.open_table(str(tmp_path))

    for bad in ({"i": None, "x": 1.0}, {"i": 2, "x": -1.0}):
        with pytest.raises(tablespec.TableSpecError):
            table.append(pa.Table.from_pylist([bad], pa.schema([("i", pa.int64()), ("x", pa.float64())])))
    table.append(pa.table({"i": [2], "x": [2.0]}))

    assert_same_rows(deltalake_rows(tmp_path), [(1, 1.0), (2, 2.0)])


def test_appending_to_its_table_adds_no_requirement(tmp_path):
    write_deltalake(str(tmp_path), START, partition_by=["p"])
    before = DeltaTable(str(tmp_path)).protocol()

    tablespec.open_table(str(tmp_path)).append(START)

    assert DeltaTable(str(tmp_path)).protocol() == before
    assert_same_rows(deltalake_rows(tmp_path).select(["i", "p", "x"]), [*ROWS, *ROWS])
    append(str(tmp_path))
    assert_every_version_reads_alike(tmp_path)
