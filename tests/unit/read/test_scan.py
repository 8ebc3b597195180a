import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import ColumnNotFoundError
from tablespec.formats.delta.format import DeltaFormat
from tablespec.formats.delta.state import ROW_ID_COLUMN
from tablespec.table import Table
from tests.handmade import LEGACY, add, commit, metadata
from tests.rows import assert_same_rows
from tests.storages import CountingStorage

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("tags", pa.list_(pa.string()))])
ROWS = pa.table({"id": [1, 2, 3], "city": ["sf", "la", None], "tags": [["a"], [], None]}, SCHEMA)


@pytest.fixture
def table(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(ROWS)
    return table


def test_a_scan_gives_the_rows_of_the_newest_state(table):
    assert_same_rows(table.scan(), ROWS)
    assert table.scan().to_table().schema == SCHEMA
    assert table.scan().schema == table.schema


def test_a_scan_is_of_the_state_at_which_it_was_made(table):
    scan = table.scan()
    table.append(ROWS)

    assert_same_rows(scan, ROWS)
    assert scan.count() == 3
    assert scan.instant.version == 1


def test_a_scan_can_be_read_any_number_of_times(table):
    scan = table.scan("id > 1")

    assert scan.to_table().equals(scan.to_table())
    assert_same_rows(scan.to_reader(), [(2, "la", []), (3, None, None)])
    assert_same_rows(pa.table(scan), [(2, "la", []), (3, None, None)])


def test_columns_come_in_the_order_asked_for(table):
    found = table.scan(columns=["tags", "id"]).to_table()

    assert found.schema.names == ["tags", "id"]
    assert_same_rows(table.scan("city = 'la'", columns=["id"]), [(2,)])
    assert_same_rows(table.scan("id = 2", columns=["city"]), [("la",)])


def test_a_scan_of_no_columns_counts_rows(table):
    assert sum(batch.num_rows for batch in table.scan(columns=[]).to_batches()) == 3


def test_a_column_may_be_spelled_in_another_case(table):
    assert table.scan(columns=["ID"]).to_table().schema.names == ["id"]


@pytest.mark.parametrize("name", ["idd", "Cities", "tag"])
def test_an_unknown_column_is_told_with_near_names(table, name):
    near = {"idd": "id", "Cities": "city", "tag": "tags"}[name]

    with pytest.raises(ColumnNotFoundError, match=f"'{name}'; did you mean {near}"):
        table.scan(columns=[name]).to_table()


def test_filters_may_be_added_to_a_scan(table):
    assert_same_rows(table.scan("id > 1").where("city = 'la'"), [(2, "la", [])])
    assert_same_rows(table.scan("id > 1").where(["id < 3", "city is not null"]), [(2, "la", [])])


@pytest.mark.parametrize(
    ("where", "count"),
    [(None, 3), ("city = 'sf'", 1), ("id >= 2", 2), ("id = 2 or city is null", 2), ("false", 0), ("id is not null", 3)],
)
def test_rows_are_counted(table, where, count):
    assert table.scan(where).count() == count
    assert table.scan(where).to_table().num_rows == count


def test_counting_reads_only_files_that_must_be_looked_at(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(pa.table({"id": [1, 2, 7, 9], "city": ["sf", "sf", "la", "la"]}))
    storage = CountingStorage.at(str(tmp_path))
    table = Table(DeltaFormat(storage))

    def opened(where):
        scan = table.scan(where)
        scan.slices  # noqa: B018 - planning is not counted
        storage.calls.clear()
        scan.count()
        return [path.split("/")[0] for verb, path in storage.calls if verb == "open" and path.endswith(".parquet")]

    assert opened(None) == []
    assert opened("city = 'sf'") == []
    assert opened("id >= 1") == []
    assert opened("id > 1") == ["city=sf"]
    assert opened("id = 8") == ["city=la"]


def test_a_table_that_is_asked_again_lists_its_log_and_reads_nothing_of_it(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["city"])
    table.append(pa.table({"id": [1, 7], "city": ["sf", "la"]}))
    table.checkpoint()
    storage = CountingStorage.at(str(tmp_path))
    again = Table(DeltaFormat(storage))
    first = again.scan().slices
    storage.calls.clear()

    assert again.scan().slices == first
    assert storage.calls == [("list", "_delta_log")]
    table.append(pa.table({"id": [9], "city": ["ny"]}))
    assert_same_rows(again.scan(columns=["id", "city"]), [(1, "sf"), (7, "la"), (9, "ny")])


def test_files_of_unknown_length_are_counted_by_reading(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", pa.table({"id": [1, 2]}), stats=None))

    table = tablespec.open_table(str(tmp_path))

    assert table.scan().count() == 2
    assert table.scan("id = 1").count() == 1


def test_an_empty_table_has_columns_and_no_rows(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)

    found = table.scan().to_table()

    assert (found.num_rows, found.schema, table.scan().count()) == (0, SCHEMA, 0)
    assert table.scan().tasks() == []


def test_a_file_without_rows_is_no_matter(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "1.parquet", pa.table({"id": pa.array([], pa.int64())})))

    assert_same_rows(tablespec.open_table(str(tmp_path)).scan(), [])


def test_slices_are_planned_without_touching_data_files(table, tmp_path):
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()

    assert len(table.scan("city = 'sf'").slices) == 1
    assert table.scan().count() == 3


def test_other_libraries_read_a_scan(table):
    polars = pytest.importorskip("polars")

    assert polars.DataFrame(table.scan("id = 1")).to_dicts() == [{"id": 1, "city": "sf", "tags": ["a"]}]


@pytest.mark.parametrize("checkpointed", ["never", "before the deletes", "after the deletes", "in between"])
@pytest.mark.parametrize("where", [None, "p = 'a'"])
def test_a_survey_tells_what_the_slices_tell_one_by_one(tmp_path, checkpointed, where):
    schema = pa.schema({"n": pa.int64(), "p": pa.string()})
    table = tablespec.create_table(str(tmp_path / "t"), schema, partition_by=["p"])
    for first in range(0, 40, 10):
        table.append(pa.table({"n": list(range(first, first + 10)), "p": ["a", "b"] * 5}))
    if checkpointed == "before the deletes":
        table.checkpoint()
    table.delete("n = 4 or n = 5")
    if checkpointed == "in between":
        table.checkpoint()
    table.delete("n = 6 or n = 24")
    if checkpointed == "after the deletes":
        table.checkpoint()

    scan = tablespec.open_table(table.url).scan(where)

    slices = [judged.slice for judged in scan.slices]
    survey = scan.survey()
    assert {*survey.unclean} == {slice_ for slice_ in slices if not slice_.is_clean}
    assert len(survey.unclean) == (3 if where is None else 2)
    assert survey.bytes >= sum(slice_.size for slice_ in slices)


def test_rows_come_in_the_order_of_the_slices_however_they_are_read(tmp_path):
    table = tablespec.create_table(str(tmp_path / "t"), pa.schema({"n": pa.int64()}))
    for number in range(8):
        table.append(pa.table({"n": [number] * (1 if number % 2 else 20_000)}))
    scan = table.scan()

    in_order = pa.concat_tables(pa.Table.from_batches(table.slice_reader().open(one.slice)) for one in scan.slices)

    assert scan.to_table().equals(in_order)
    assert pa.Table.from_batches(scan.to_batches()).equals(in_order)


def test_a_name_with_a_dot_that_reads_like_a_member_of_a_struct_is_its_own_column(tmp_path):
    member = pa.struct({"b": pa.string()})
    rows = pa.table(
        {"n": [1, 2, 3], "a.b": ["x", "x", "y"], "a": pa.array([{"b": "p"}, {"b": "p"}, None], member)},
    )
    table = tablespec.create_table(str(tmp_path / "t"), rows.schema)
    table.append(rows)

    assert_same_rows(table.scan("n > 1"), rows.slice(1))


# --- hidden columns ---


@pytest.fixture
def changed(tmp_path):
    """A table of two files, of which one has a row that was moved there by an update and one that is deleted."""
    table = tablespec.create_table(str(tmp_path / "changed"), pa.schema({"id": pa.int64(), "city": pa.string()}))
    table.append(pa.table({"id": [1, 2, 3], "city": ["sf", "sf", "la"]}))
    table.append(pa.table({"id": [4, 5], "city": ["la", "la"]}))
    table.update({"city": "'ny'"}, "id = 2")
    table.delete("id = 5")
    return table


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("_row_id = 1", [2]),
        ("_ROW_ID = 1", [2]),
        ("_row_id > 0 AND city = 'la'", [3, 4]),
        ("_row_id = 0 OR city = 'la'", [1, 3, 4]),
        ("NOT (_row_id = 0 OR id > 2)", [2]),
        ("_row_id IS NOT NULL", [1, 2, 3, 4]),
        ("_row_id IS NULL", []),
        ("_row_id < id", [1, 2, 3, 4]),
        ("_row_commit_version = 3", [2]),
        ("_row_commit_version BETWEEN 2 AND 3", [2, 4]),
        ("_position = 0 AND _row_commit_version < 3", [1, 4]),
        ("_file IS NULL", []),
        ("_file LIKE '%.parquet'", [1, 2, 3, 4]),
        ("_row_id >= 0", [1, 2, 3, 4]),
    ],
)
def test_a_filter_may_ask_for_hidden_columns(changed, where, ids):
    assert_same_rows(changed.scan(where, columns=["id"]), [(number,) for number in ids])
    assert changed.scan(where).count() == len(ids)
    assert changed.scan().where(where).schema.names == ("id", "city")


def test_a_filter_on_hidden_columns_holds_in_older_states_and_in_tasks(changed):
    scan = changed.scan("_row_id = 1", at=2)

    assert_same_rows(scan, [(2, "sf")])
    assert [row for task in scan.tasks() for batch in task.read() for row in batch["id"].to_pylist()] == [2]


def test_a_filter_on_hidden_columns_holds_in_base_files_alone(changed):
    assert_same_rows(changed.read_optimized("_row_id = 4"), [(5, "la")])


def test_a_filter_on_row_ids_finds_rows_in_any_row_group_of_a_file_that_stores_only_some(tmp_path):
    rows = pa.table({"id": [1, 2, 3, 4], "stored": pa.array([7, 8, None, None], pa.int64())})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=2)
    named = metadata({"id": "long"}, properties={ROW_ID_COLUMN: "stored"})
    size = (tmp_path / "a.parquet").stat().st_size
    file = {"path": "a.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    commit(tmp_path, 0, LEGACY, named, {"add": {**file, "baseRowId": 100}})
    table = tablespec.open_table(str(tmp_path))

    assert_same_rows(table.scan("_row_id = 8", columns=["id"]), [(2,)])
    assert_same_rows(table.scan("_row_id = 103", columns=["id"]), [(4,)])
    assert_same_rows(table.scan("_row_id > 7", columns=["id", "_row_id"]), [(2, 8), (3, 102), (4, 103)])


def test_rows_keep_their_ids_for_filters_when_files_are_compacted(changed):
    changed.compact(max_deleted_fraction=0.0)

    assert_same_rows(changed.scan("_row_id IN (1, 3)", columns=["id", "_row_commit_version"]), [(2, 3), (4, 2)])


def test_a_slice_is_left_out_by_what_a_filter_says_of_other_columns(changed):
    all_match = [one.all_match for task in changed.scan("id > 3 AND _row_id > 3").tasks() for one in task.slices]

    assert len(changed.scan("_row_id = 1").slices) == 3
    assert all_match == [False]


def test_the_filter_on_the_hidden_file_gives_the_rows_of_that_file(changed):
    path = changed.scan("id = 4", columns=["_file"]).to_table()["_file"][0].as_py()

    assert_same_rows(changed.scan(f"_file = '{path}'", columns=["id", "_position"]), [(4, 0)])


def test_a_hidden_column_may_be_spelled_in_another_case(changed):
    found = changed.scan("id = 2", columns=["_ROW_ID", "_File", "id"])

    assert found.schema.names == ("_row_id", "_file", "id")
    assert found.to_table()["_row_id"].to_pylist() == [1]


def test_a_filter_means_the_column_of_the_table_where_one_is_called_like_a_hidden_one(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema({"_ROW_ID": pa.int64()}))
    table.append(pa.table({"_ROW_ID": [7, 8]}))

    assert_same_rows(table.scan("_row_id = 8"), [(8,)])


def test_a_filter_on_an_unknown_column_names_the_hidden_one_that_was_meant(table):
    with pytest.raises(ColumnNotFoundError, match="did you mean _row_id"):
        table.scan("_rowid = 1")


def test_files_are_listed_by_filters_on_hidden_columns(changed):
    assert len(changed.file_index.list_files_at(filters="_row_id = 1 AND id > 3")[0].file_slices) == 1
