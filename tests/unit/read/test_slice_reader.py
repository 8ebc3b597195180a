import json
import pickle
import struct
import time
import uuid
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import tablespec
from tablespec.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    DataFileMissingError,
    PathOutsideTableError,
    UnsupportedTableError,
)
from tablespec.formats.delta.deletion_vector import encode_positions, encode_z85
from tablespec.model.file import BaseFile, FileGroupId, FileSlice, LogFile
from tablespec.model.reading import Cdc, ReadOptimized, Snapshot
from tablespec.model.schema import LONG, Field, Schema
from tests.handmade import LEGACY, actions_of, add, commit, contents, metadata, protocol
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", None, "d"]})


@pytest.fixture
def table(tmp_path):
    table = tablespec.create_table(str(tmp_path), ROWS.schema)
    table.append(ROWS)
    return table


def only_slice(table, at=None):
    ((slice_,),) = (partition.file_slices for partition in table.file_index.list_files_at(at))
    return slice_


def read(reader, slice_):
    return pa.Table.from_batches(reader.open(slice_))


# --- what a reader gives ---


def test_a_reader_gives_the_rows_of_a_slice_in_their_order(table):
    found = read(table.slice_reader(), only_slice(table))

    assert found.to_pydict() == ROWS.to_pydict()
    assert found.schema == ROWS.schema


def test_the_time_for_a_slice_grows_with_the_columns_and_not_with_their_square(tmp_path):
    def seconds(columns):
        rows = pa.table({f"c{number}": [1.5] for number in range(columns)})
        table = tablespec.create_table(str(tmp_path / str(columns)), rows.schema)
        table.append(rows)
        reader, slice_ = table.slice_reader(), only_slice(table)

        def once():
            start = time.process_time()
            assert read(reader, slice_).shape == (1, columns)
            return time.process_time() - start

        return min(once() for _ in range(5))

    # Ten times the columns; a square would make it a hundred.
    assert seconds(1500) < 30 * seconds(150)


@pytest.mark.parametrize("columns", [("name",), ("name", "id"), ("NAME",), ()])
def test_columns_come_as_they_are_asked_for(table, columns):
    reader = table.slice_reader().project(columns)

    found = list(reader.open(only_slice(table)))

    assert [batch.schema.names for batch in found] == [[name.lower() for name in columns]]
    assert sum(batch.num_rows for batch in found) == 4


def test_a_schema_names_the_columns_to_project(table):
    reader = table.slice_reader().project(Schema((Field(name="id", type=LONG),)))

    assert read(reader, only_slice(table)).to_pydict() == {"id": [1, 2, 3, 4]}


def test_filters_remove_rows(table):
    reader = table.slice_reader().push_down_filters("name is null or id = 1").project(("id",))

    assert read(reader, only_slice(table)).to_pydict() == {"id": [1, 3]}


def test_a_setting_gives_a_new_reader(table):
    reader = table.slice_reader()

    reader.project(("id",)).push_down_filters("id = 1").reading_mode(ReadOptimized())

    assert reader == table.slice_reader()
    assert reader.mode == Snapshot()


def test_nothing_is_read_before_the_first_batch_is_asked_for(table, tmp_path):
    slice_ = only_slice(table)
    (tmp_path / slice_.base.path).unlink()

    batches = table.slice_reader().open(slice_)

    with pytest.raises(DataFileMissingError):
        next(batches)


def test_a_reader_pickles(table):
    reader = table.slice_reader().project(("name",)).push_down_filters("id > 2")

    again = pickle.loads(pickle.dumps(reader))

    assert again == reader
    assert read(again, only_slice(table)).to_pydict() == {"name": [None, "d"]}


def test_a_reader_that_was_used_pickles_as_one_that_was_not(table):
    reader = table.slice_reader().project(["id"]).push_down_filters("id > 2")
    fresh = pickle.dumps(reader)

    for partition in table.file_index.list_files_at():
        for slice_ in partition.file_slices:
            list(reader.open(slice_))

    assert pickle.dumps(reader) == fresh


def test_large_files_come_in_batches(tmp_path):
    rows = pa.table({"id": list(range(200_000))})
    table = tablespec.create_table(str(tmp_path), rows.schema)
    table.append(rows)

    batches = list(table.slice_reader().open(only_slice(table)))

    assert len(batches) > 1
    assert pa.Table.from_batches(batches).equals(rows)


def test_rows_tell_where_they_lie_when_asked(table, tmp_path):
    (added,) = actions_of(tmp_path, 1, "add")
    reader = table.slice_reader().project(("id", "_position", "_file", "_row_id", "_row_commit_version"))

    found = read(reader.push_down_filters("id > 2"), only_slice(table))

    assert_same_rows(found, [(3, 2, added["path"], 2, 1), (4, 3, added["path"], 3, 1)])


def test_columns_that_a_file_lacks_are_null(table):
    slice_ = only_slice(table)
    table.add_columns(Schema((Field(name="new", type=LONG),)))

    assert read(table.slice_reader(), slice_).column("new").to_pylist() == [None] * 4
    assert read(table.slice_reader().push_down_filters("new is null"), slice_).num_rows == 4
    assert list(table.slice_reader().push_down_filters("new = 1").open(slice_)) == []


def test_columns_of_a_file_that_the_table_lacks_are_passed_over(tmp_path):
    rows = pa.table({"id": [1], "_hoodie_key": ["k"]})
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", rows))

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), [(1,)])


# --- refusals ---


def test_an_unknown_column_is_told_at_once_with_near_names(table):
    with pytest.raises(ColumnNotFoundError, match="the table has no column 'nmae'; did you mean name"):
        table.slice_reader().project(("nmae",))
    with pytest.raises(ColumnNotFoundError, match="did you mean name"):
        table.slice_reader().push_down_filters("nam = 'x'")


def test_changes_are_not_read_from_single_slices(table):
    with pytest.raises(UnsupportedTableError, match=r"Table\.changes reads them"):
        next(table.slice_reader().reading_mode(Cdc(0)).open(only_slice(table)))


def test_log_files_are_refused_in_a_snapshot_and_left_aside_read_optimized(table):
    slice_ = only_slice(table)
    log = LogFile(path=".x.log.1", size=1, instant=1, version=1)
    with_log = FileSlice(group=slice_.group, instant=1, base=slice_.base, logs=(log,))

    with pytest.raises(UnsupportedTableError, match=r"log files, .*; read it in the mode ReadOptimized"):
        next(table.slice_reader().open(with_log))
    assert read(table.slice_reader().reading_mode(ReadOptimized()), with_log).num_rows == 4


def test_a_slice_without_a_base_file_has_no_rows_of_its_own(table):
    empty = FileSlice(group=FileGroupId("", "x"), instant=1, base=None)

    assert list(table.slice_reader().open(empty)) == []


# --- damaged data ---


def test_a_missing_data_file_is_named(table, tmp_path):
    (added,) = actions_of(tmp_path, 1, "add")
    (tmp_path / added["path"]).unlink()

    with pytest.raises(DataFileMissingError) as caught:
        table.scan().to_table()

    assert str(caught.value) == (
        f"file://{tmp_path} names the file {added['path']}, and it is not there; `tablespec fsck` lists all that are missing"
    )
    assert table.scan().count() == 4  # the log knows


DAMAGES = {
    "empty": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    "not Parquet": lambda data: b"a,b\n1,2\n" * 50,
    "damaged footer": lambda data: data[:-200] + bytes(100) + data[-100:],
    "damaged pages": lambda data: data[:4] + bytes(len(data) // 3) + data[4 + len(data) // 3 :],
}


@pytest.mark.parametrize("damage", list(DAMAGES.values()), ids=list(DAMAGES))
def test_a_damaged_data_file_is_named(table, tmp_path, damage):
    (added,) = actions_of(tmp_path, 1, "add")
    path = tmp_path / added["path"]
    path.write_bytes(damage(path.read_bytes()))
    before = contents(tmp_path)

    with pytest.raises(CorruptFileError) as caught:
        table.scan("name = 'a'").to_table()

    assert caught.value.path == added["path"]
    assert str(caught.value).startswith(f"{added['path']} of file://{tmp_path} is damaged: ")
    assert contents(tmp_path) == before


def test_a_column_that_cannot_be_what_the_table_says_is_named(tmp_path):
    rows = pa.table({"id": ["not a number"]})
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", rows, stats=None))

    with pytest.raises(tablespec.TableSpecError, match="column id"):
        tablespec.open_table(str(tmp_path)).scan().to_table()


# --- deletion vectors ---


def vector(folder, positions):
    """Write a deletion vector and give its descriptor."""
    identifier = uuid.uuid4()
    data = encode_positions(BitMap64(positions))
    framed = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (folder / f"deletion_vector_{identifier}.bin").write_bytes(b"\x01" + framed)
    return {
        "storageType": "u",
        "pathOrInlineDv": encode_z85(identifier.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


@pytest.fixture
def with_vector(tmp_path):
    """The rows 1 to 4, of which 2 and 3 are deleted."""
    stats = json.dumps({"numRecords": 4, "minValues": {"id": 1}, "maxValues": {"id": 4}, "nullCount": {"id": 0}})
    commit(
        tmp_path,
        0,
        protocol(3, 7, reader_features=["deletionVectors"]),
        metadata({"id": "long", "name": "string"}),
        add(tmp_path, "1.parquet", ROWS, stats=stats, deletionVector=vector(tmp_path, [1, 2])),
    )
    return tablespec.open_table(str(tmp_path))


def test_deleted_rows_are_not_read(with_vector):
    assert_same_rows(with_vector.scan(), [(1, "a"), (4, "d")])
    assert_same_rows(with_vector.scan("id >= 2"), [(4, "d")])
    assert with_vector.scan().count() == 2
    assert with_vector.scan("id < 4").count() == 1


def test_deleted_rows_are_read_when_changes_are_left_aside(with_vector):
    assert_same_rows(with_vector.read_optimized(), ROWS)
    assert with_vector.read_optimized().count() == 4


def test_positions_count_deleted_rows(with_vector):
    assert_same_rows(with_vector.scan(columns=["id", "_position"]), [(1, 0), (4, 3)])


def test_deleted_rows_stay_deleted_in_a_checkpoint(with_vector, tmp_path):
    with_vector.checkpoint()

    table = tablespec.open_table(str(tmp_path))
    assert_same_rows(table.scan(), [(1, "a"), (4, "d")])
    assert table.scan().count() == 2


def test_a_missing_deletion_vector_is_named(with_vector, tmp_path):
    (path,) = tmp_path.glob("deletion_vector_*.bin")
    path.unlink()

    with pytest.raises(DataFileMissingError) as caught:
        with_vector.scan().to_table()

    assert caught.value.path == path.name


def test_a_deletion_vector_may_span_row_groups_and_batches(tmp_path):
    rows = pa.table({"id": list(range(100_000))})
    gone = [0, 9_999, 10_000, 10_001, 65_535, 65_536, 99_999]
    action = add(tmp_path, "1.parquet", rows, deletionVector=vector(tmp_path, gone))
    pq.write_table(rows, tmp_path / "1.parquet", row_group_size=10_000)
    action["add"]["size"] = (tmp_path / "1.parquet").stat().st_size
    commit(tmp_path, 0, protocol(3, 7, reader_features=["deletionVectors"]), metadata(), action)
    table = tablespec.open_table(str(tmp_path))

    assert table.scan().to_table().column("id").to_pylist() == [n for n in range(100_000) if n not in set(gone)]
    assert table.scan("id >= 65535").count() == 100_000 - 65_535 - 3


# --- files elsewhere ---


@pytest.mark.parametrize("path", ["../outside/1.parquet", "..%2Foutside/1.parquet", "a/../../outside/1.parquet"])
def test_a_path_that_leaves_the_table_is_refused(tmp_path, path):
    folder, outside = tmp_path / "table", tmp_path / "outside"
    folder.mkdir()
    action = add(outside, "1.parquet", ROWS)
    action["add"]["path"] = path
    commit(folder, 0, LEGACY, metadata({"id": "long", "name": "string"}), action)

    with pytest.raises(PathOutsideTableError) as caught:
        tablespec.open_table(str(folder), allowed_roots=[str(tmp_path)]).scan().to_table()

    assert "which lies outside the table" in str(caught.value)


@pytest.mark.parametrize("scheme", ["file://", "file:", ""])
def test_an_absolute_path_is_read_only_where_the_caller_allows_it(tmp_path, scheme):
    folder, outside = tmp_path / "table", tmp_path / "outside"
    folder.mkdir()
    action = add(outside, "1.parquet", ROWS)
    action["add"]["path"] = f"{scheme}{outside}/1.parquet"
    commit(folder, 0, LEGACY, metadata({"id": "long", "name": "string"}), action)

    for roots in ([], [f"{tmp_path}/out"], [f"{tmp_path}/other"]):
        with pytest.raises(PathOutsideTableError, match=r"open the table with allowed_roots=\[\.\.\.\]"):
            tablespec.open_table(str(folder), allowed_roots=roots).scan().to_table()
    assert_same_rows(tablespec.open_table(str(folder), allowed_roots=[str(outside)]).scan(), ROWS)


def test_an_absolute_path_inside_of_the_table_is_read(tmp_path):
    action = add(tmp_path, "1.parquet", ROWS)
    action["add"]["path"] = f"file://{tmp_path}/1.parquet"
    commit(tmp_path, 0, LEGACY, metadata({"id": "long", "name": "string"}), action)

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), ROWS)


def test_a_slice_that_names_another_place_is_refused_by_a_reader(table, tmp_path):
    elsewhere = FileSlice(group=FileGroupId("", "x"), instant=1, base=BaseFile(path="/etc/passwd", size=1))

    with pytest.raises(PathOutsideTableError):
        next(table.slice_reader().open(elsewhere))
