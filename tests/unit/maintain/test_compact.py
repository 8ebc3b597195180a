import pyarrow as pa
import pytest
from pyroaring import BitMap64

import tablespec
from tablespec.arrow.schema import schema_of
from tablespec.errors import UnsupportedTableError
from tablespec.expr.nodes import TRUE
from tablespec.formats.base import Change
from tablespec.maintain.rewrite import RewriteResult
from tablespec.txn import transaction as txn
from tests.handmade import LEGACY, actions_of, add, commit, contents, metadata, versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import (
    SMALL_FILES,
    append,
    data_files,
    deltalake_rows,
    new_table,
    small_files,
    tracked_rows,
    vector_files,
)

NOTHING = RewriteResult(instant=None)


@pytest.fixture
def table(tmp_path):
    return small_files(tmp_path)


# --- what it does ---


def test_the_small_files_of_each_partition_become_one(table):
    result = table.compact()

    assert (result.files_removed, result.files_added, result.rows_moved) == (6, 2, 8)
    assert len(data_files(table)) == 2


def test_rows_with_their_ids_and_commit_versions_stay_the_same(table, tmp_path):
    before = tracked_rows(table)

    table.compact()

    assert_same_rows(tracked_rows(table), before)
    assert_same_rows(table.scan(), SMALL_FILES)
    assert_same_rows(deltalake_rows(tmp_path), SMALL_FILES)


def test_ids_and_versions_survive_a_compaction_of_what_was_compacted(table):
    table.compact()
    append(table, (31, "sf", 1))
    before = tracked_rows(table)

    table.compact()

    assert_same_rows(tracked_rows(table), before)


def test_deletion_vectors_of_compacted_files_vanish(table):
    assert vector_files(table)

    result = table.compact()

    assert result.vectors_removed == 1
    assert vector_files(table) == set()


def test_nothing_counts_as_changed(table, tmp_path):
    version = table.compact().instant.version

    actions = [*actions_of(tmp_path, version, "add"), *actions_of(tmp_path, version, "remove")]
    assert {action["dataChange"] for action in actions} == {False}
    assert actions_of(tmp_path, version, "cdc") == []
    assert table.incremental(version - 1).to_table().num_rows == 0
    assert table.changes(version - 1).to_table().num_rows == 0


def test_incremental_reads_across_a_compaction_show_what_was_new_before_it(table):
    table.compact()

    assert_same_rows(table.incremental(2), [(21, "sf", 1), (22, "", 1), (23, "sf", 2)])


def test_older_versions_read_as_before(table):
    table.compact()

    assert_same_rows(table.scan(at=3), [*SMALL_FILES, (12, "ny", 1)])


def test_a_second_compaction_finds_nothing_to_do(table, tmp_path):
    table.compact()
    before = contents(tmp_path)

    assert table.compact() == NOTHING
    assert contents(tmp_path) == before


def test_only_files_that_may_match_are_compacted(table):
    untouched = {path for path in data_files(table) if path.startswith("day=2")}

    result = table.compact(where="day = 1")

    assert result.files_removed == 3
    assert untouched < data_files(table)


def test_the_result_and_the_commit_tell_the_same_numbers(table, tmp_path):
    before = {path: (tmp_path / path).stat().st_size for path in data_files(table)}

    result = table.compact()

    (info,) = actions_of(tmp_path, result.instant.version, "commitInfo")
    after = sum((tmp_path / path).stat().st_size for path in data_files(table))
    assert (result.bytes_removed, result.bytes_added) == (sum(before.values()), after)
    assert info["operation"] == "OPTIMIZE"
    assert info["isBlindAppend"] is False
    assert info["operationMetrics"] == {name: str(value) for name, value in result.metrics}


def test_a_file_all_of_whose_rows_are_deleted_just_goes(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "la", 1))
    state = table.format.latest()
    (file,) = table.format.live_files(state, TRUE)
    revised = tuple(table.format.revise(state, [(file.origin, BitMap64([0, 1]))]))
    txn.commit(table.format, Change(operation="DELETE", revised=revised), state)

    result = table.compact()

    assert (result.files_removed, result.files_added) == (1, 0)
    assert data_files(table) == set()


def test_the_parameters_of_a_compaction_are_text(table, tmp_path):
    version = table.compact(where="day = 1").instant.version

    (info,) = actions_of(tmp_path, version, "commitInfo")
    assert info["operationParameters"] == {
        "predicate": "`day` = 1",
        "targetBytes": str(256 << 20),
        "minFiles": "2",
    }


# --- tables of others ---


def test_rows_of_a_writer_without_ids_get_ids_and_are_not_new(table, tmp_path):
    version = len(versions_of(tmp_path))
    foreign = pa.table({"id": pa.array([41, 42], pa.int64()), "city": ["sf", "la"]})
    commit(tmp_path, version, add(tmp_path, "day=1/foreign.parquet", foreign, partitionValues={"day": "1"}))

    done = table.compact()

    told = {row[0]: row[-2:] for row in tracked_rows(table)}
    assert [told[number][1] for number in (41, 42)] == [version, version]
    assert len({row_id for row_id, _ in told.values()}) == 10
    assert table.incremental(version).to_table().num_rows == 0
    assert_same_rows(table.incremental(version - 1), [(41, "sf", 1), (42, "la", 1)])
    assert done.instant.version == version + 1


def test_a_table_without_row_ids_is_compacted_without(tmp_path):
    adds = [add(tmp_path, f"{number}.parquet", pa.table({"id": [number]})) for number in range(3)]
    commit(tmp_path, 0, LEGACY, metadata(), *adds)
    table = tablespec.open_table(str(tmp_path))

    result = table.compact()

    assert_same_rows(table.scan(), [(0,), (1,), (2,)])
    assert "baseRowId" not in actions_of(tmp_path, result.instant.version, "add")[0]


def test_an_empty_text_partition_of_another_writer_stays_what_it_is(tmp_path):
    columns = {"id": "long", "p": "string"}
    adds = [
        add(tmp_path, f"p=/{number}.parquet", pa.table({"id": [number]}), partitionValues={"p": ""})
        for number in (1, 2)
    ]
    commit(tmp_path, 0, LEGACY, metadata(columns, partition_by=["p"]), *adds)
    table = tablespec.open_table(str(tmp_path))

    assert table.compact() == NOTHING
    assert_same_rows(table.scan(), [(1, ""), (2, "")])


def test_a_table_with_a_column_that_hides_row_ids_is_refused(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("_row_id", pa.int64())]))

    with pytest.raises(UnsupportedTableError, match="a column named _row_id"):
        table.compact()


@pytest.mark.parametrize("type_", [pa.string(), pa.int64()], ids=str)
def test_a_table_with_a_column_named_like_the_one_of_groups_is_refused(tmp_path, type_):
    table = tablespec.create_table(str(tmp_path), pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": [1, 2, 3]}))
    table.delete("id = 1")
    table.add_columns(schema_of(pa.schema({"__tablespec_group": type_})))
    before = contents(tmp_path)

    with pytest.raises(UnsupportedTableError, match=r"named __tablespec_group, .* rename it to compact the table"):
        table.compact()

    assert contents(tmp_path) == before


def test_columns_that_were_added_later_are_null_in_old_rows(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    wider = pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.int64()), ("fare", pa.float64())])
    table.append(pa.Table.from_pylist([{"id": 2, "city": "la", "day": 1, "fare": 2.5}], wider), merge_schema=True)

    table.compact()

    assert_same_rows(table.scan(), [(1, "sf", 1, None), (2, "la", 1, 2.5)])


def test_mapped_columns_are_found_after_a_compaction(tmp_path):
    table = new_table(tmp_path, delta__columnMapping__mode="name")
    append(table, (1, "sf", 1))
    append(table, (2, "la", 1))
    before = tracked_rows(table)

    table.compact()

    assert len(data_files(table)) == 1
    assert_same_rows(tracked_rows(table), before)
