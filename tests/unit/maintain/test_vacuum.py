from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tablespec
from tablespec.errors import DataFileMissingError
from tablespec.maintain.vacuum import outside_of_tables, plan
from tablespec.storage.store import FileInfo
from tablespec.write.execution import Strategy
from tests.handmade import LEGACY, add, commit, commit_file, contents, metadata
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import (
    COMPACTED,
    aged,
    aged_commits,
    append,
    compacted,
    data_files,
    deltalake_rows,
    new_table,
    remove_all,
    vector_files,
    visible_files,
)

LINKED = pa.schema([("id", pa.int64()), ("p", pa.string())])


@pytest.fixture
def table(tmp_path):
    return compacted(tmp_path)


def test_files_that_no_retained_version_needs_go_and_no_other(table, tmp_path):
    aged(tmp_path, days=30)
    needed, everything = data_files(table), visible_files(tmp_path)

    removed = table.vacuum()

    assert set(removed.paths) == everything - needed
    assert len(removed.paths) == 3
    assert visible_files(tmp_path) == needed
    assert_same_rows(table.scan(), COMPACTED)
    assert_same_rows(deltalake_rows(tmp_path), COMPACTED)


def test_the_bytes_are_those_of_the_files(table, tmp_path):
    aged(tmp_path, days=30)
    sizes = {path: (tmp_path / path).stat().st_size for path in visible_files(tmp_path)}

    removed = table.vacuum()

    assert removed.bytes == sum(sizes[path] for path in removed.paths)
    assert list(removed.paths) == sorted(removed.paths)


def test_files_of_every_version_within_the_retention_stay(table, tmp_path):
    aged(tmp_path, days=30, paths=sorted(visible_files(tmp_path)))
    before = visible_files(tmp_path)

    assert table.vacuum().paths == ()
    assert visible_files(tmp_path) == before
    assert_same_rows(table.scan(at=2), [*COMPACTED, (12, "la", 1)])


def test_the_version_that_was_current_when_the_retention_began_can_be_read(table, tmp_path):
    # Version 2 is ten days old, version 3 five: seven days ago version 2 was the newest.
    aged(tmp_path, days=10)
    aged_commits(tmp_path, -5, 3)
    aged_commits(tmp_path, -10, 4)
    vectors = vector_files(table, 3)

    removed = table.vacuum()

    assert removed.paths == ()
    assert vectors <= visible_files(tmp_path)
    assert_same_rows(table.scan(at=2), [*COMPACTED, (12, "la", 1)])
    assert_same_rows(table.scan(at=3), COMPACTED)


def test_deletion_vectors_of_retained_versions_stay_and_older_ones_go(tmp_path):
    table = new_table(tmp_path)
    append(table, *((number, "sf", 1) for number in range(10)))
    table.delete("id = 1")
    table.delete("id = 2")
    table.delete("id = 3")
    aged(tmp_path, days=10)
    aged_commits(tmp_path, -9, 4)
    first, second, third = (vector_files(table, version) for version in (2, 3, 4))

    removed = table.vacuum()

    assert set(removed.paths) == first
    assert visible_files(tmp_path) == data_files(table) | second | third
    assert_same_rows(table.scan(at=3), [(number, "sf", 1) for number in range(10) if number not in (1, 2)])
    with pytest.raises(DataFileMissingError):
        table.scan(at=2).to_table()


def test_a_vector_file_stays_while_one_of_its_vectors_is_needed(tmp_path):
    table = new_table(tmp_path)
    append(table, (1, "sf", 1), (2, "sf", 1), (3, "sf", 2), (4, "sf", 2))
    table.delete("id in (1, 3)")
    (shared,) = vector_files(table)
    table.compact("day = 1", max_deleted_fraction=0)

    removed = remove_all(table)

    assert shared not in removed.paths
    assert len(removed.paths) == 1
    assert_same_rows(table.scan(), [(2, "sf", 1), (4, "sf", 2)])


def test_change_files_go_when_their_version_is_not_retained(tmp_path):
    table = new_table(tmp_path, delta__enableChangeDataFeed="true")
    append(table, (1, "sf", 1), (2, "la", 1))
    table.update({"city": "'ny'"}, "id = 1")
    old = {path for path in visible_files(tmp_path) if path.startswith("_change_data")}
    aged(tmp_path, days=10)
    table.update({"city": "'la'"}, "id = 2")
    new = {path for path in visible_files(tmp_path) if path.startswith("_change_data")} - old
    aged(tmp_path, days=10, paths=sorted(new))

    removed = table.vacuum()

    assert set(removed.paths) == old
    assert new <= visible_files(tmp_path)
    changed = DeltaTable(str(tmp_path)).load_cdf(starting_version=3).read_all()
    assert sorted(pa.table(changed).column("_change_type").to_pylist()) == ["update_postimage", "update_preimage"]


def test_young_files_that_no_commit_names_stay(table, tmp_path):
    (tmp_path / "day=1" / "being-written.parquet").write_bytes(b"PAR1")

    assert "day=1/being-written.parquet" not in table.vacuum().paths


def test_orphans_and_temporaries_of_writes_that_never_ended_go(table, tmp_path):
    orphans = {
        "orphan.parquet",
        "day=1/orphan.parquet",
        f"day=1/.{'0af3' * 8}.tmp",
        f".{'0af3' * 8}.tmp",
        f"_change_data/day=1/.{'0af3' * 8}.tmp",
        "_change_data/day=1/orphan.parquet",
        "dv/deletion_vector_0.bin",
    }
    for path in orphans:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    aged(tmp_path, days=30)
    needed = data_files(table)

    removed = table.vacuum()

    assert orphans <= set(removed.paths)
    assert visible_files(tmp_path) == needed


def test_hidden_files_and_folders_are_somebodys(table, tmp_path):
    hidden = {
        "_tablespec/index/x.parquet",
        f"_tablespec/.{'0af3' * 8}.tmp",
        "_index/x.parquet",
        ".cache/x",
        "_SUCCESS",
        ".hidden.parquet",
        "day=1/_side/x.parquet",
        "day=1/.other.tmp",
        "_change_data/_side/x.parquet",
        "_x=1/x.parquet",
    }
    for path in hidden:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x")
    aged(tmp_path, days=30)

    table.vacuum()

    assert visible_files(tmp_path) == data_files(table) | hidden


def test_folders_of_a_partition_column_are_not_hidden_by_its_name(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("_p", pa.string())])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["_p"])
    table.append(pa.table({"id": [1], "_p": ["a"]}, schema))
    table.append(pa.table({"id": [2], "_p": ["a"]}, schema))
    old = data_files(table)
    table.compact()

    assert set(remove_all(table).paths) == old


def test_the_log_is_never_touched(table, tmp_path):
    stray = tmp_path / "_delta_log" / f".{'0af3' * 8}.tmp"
    stray.write_bytes(b"x")
    aged(tmp_path, days=30)
    log = {path: data for path, data in contents(tmp_path).items() if path.startswith("_delta_log")}

    table.vacuum()

    assert {path: data for path, data in contents(tmp_path).items() if path.startswith("_delta_log")} == log


def test_a_table_inside_of_the_folder_keeps_its_files(table, tmp_path):
    inner = new_table(tmp_path / "inner" / "table")
    append(inner, (1, "sf", 1))
    aged(tmp_path, days=30)

    table.vacuum()

    assert_same_rows(inner.scan(), [(1, "sf", 1)])


def test_files_that_the_log_names_by_absolute_paths_stay(tmp_path):
    folder, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    inside = add(folder, "inside.parquet", pa.table({"id": [1]}), path=f"file://{folder}/inside.parquet")
    spelled = add(folder, "a b.parquet", pa.table({"id": [2]}), path=f"file:{folder}/a%20b.parquet")
    outside = add(elsewhere, "x.parquet", pa.table({"id": [3]}), path=f"file://{elsewhere}/x.parquet")
    strange = add(elsewhere, "y.parquet", pa.table({"id": [4]}), path="hdfs://host/y.parquet")
    commit(folder, 0, LEGACY, metadata(), inside, spelled, outside, strange)
    before = contents(tmp_path)

    assert remove_all(tablespec.open_table(str(folder))).paths == ()
    assert contents(tmp_path) == before


def test_files_that_the_log_names_by_another_name_of_the_table_stay(tmp_path):
    real = tmp_path / "real"
    named = add(real, "p=1/a b.parquet", pa.table({"id": [1]}))
    named["add"]["path"] = f"file://{real}/p=1/a%20b.parquet"
    commit(real, 0, LEGACY, metadata(), named)
    (real / "orphan.parquet").write_bytes(b"x")
    (tmp_path / "link").symlink_to(real)

    removed = remove_all(tablespec.open_table(str(tmp_path / "link")))

    assert removed.paths == ("orphan.parquet",)
    assert_same_rows(tablespec.open_table(str(real)).scan(), [(1,)])


def test_paths_with_odd_characters_are_the_files_of_their_names(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = tablespec.create_table(str(tmp_path), schema, partition_by=["p"])
    rows = pa.table({"id": [1, 2, 3], "p": ["a b/c%20d=é", "x%y", None]}, schema)
    table.append(rows)

    assert remove_all(table).paths == ()
    assert_same_rows(table.scan(), rows)


def test_a_table_is_vacuumed_from_its_checkpoint(table, tmp_path):
    table.checkpoint()
    table.delete("id = 1", strategy=Strategy.MERGE_ON_READ)
    table.delete("id = 2", strategy=Strategy.MERGE_ON_READ)
    for version in range(5):
        commit_file(tmp_path, version).unlink()
    table = tablespec.open_table(str(tmp_path))
    needed = data_files(table) | vector_files(table)

    remove_all(table)

    assert visible_files(tmp_path) == needed
    assert_same_rows(table.scan(), [(3, "ny", 2), (11, "sf", 1)])


def test_versions_behind_a_gap_in_the_log_keep_their_files(table, tmp_path):
    # Versions 0 and 1 can be read from commits, and then again 4 from a checkpoint.
    table.checkpoint()
    for version in (2, 3):
        commit_file(tmp_path, version).unlink()
    aged(tmp_path, days=30, paths=sorted(visible_files(tmp_path)))
    table = tablespec.open_table(str(tmp_path))

    removed = table.vacuum()

    assert [instant.version for instant in table.timeline] == [0, 1, 4]
    assert_same_rows(table.scan(at=1), COMPACTED[:3])
    assert_same_rows(table.scan(), COMPACTED)
    assert sum(path.startswith("day=1") for path in removed.paths) == 1


def test_removed_versions_cannot_be_read_and_newer_ones_can(table):
    remove_all(table)

    with pytest.raises(DataFileMissingError):
        table.scan(at=2).to_table()
    assert_same_rows(table.scan(at=4), COMPACTED)


def test_it_works_in_memory_too():
    table = tablespec.create_table("memory://vacuum/table", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    old = data_files(table)
    table.compact()

    assert set(remove_all(table).paths) == old
    assert_same_rows(table.scan(), [(1,), (2,)])


def test_needed_and_young_files_are_not_planned():
    files = [FileInfo("a", 1, 10), FileInfo("needed", 1, 10), FileInfo("young", 1, 11)]

    assert plan(files, frozenset({"needed"}), 10) == (FileInfo("a", 1, 10),)


def test_files_of_inner_tables_are_known_by_their_logs():
    paths = ["_delta_log/0.json", "a", "t/_delta_log/0.json", "t/x", "t2/x", "u/v/.hoodie/0.commit", "u/v/x", "u/x"]

    found = outside_of_tables([FileInfo(path, 1, 10) for path in paths])

    assert [file.path for file in found] == ["_delta_log/0.json", "a", "t2/x", "u/x"]


@pytest.mark.parametrize("aside", [False, True], ids=["a link beside the folder", "a link in the place of the folder"])
def test_needed_files_stay_that_links_show_under_another_name(tmp_path, aside):
    table = tablespec.create_table(str(tmp_path), LINKED, partition_by=["p"])
    table.append(pa.table({"id": [1], "p": ["a"]}))
    if aside:
        (tmp_path / "p=a").rename(tmp_path / "elsewhere")
        (tmp_path / "p=a").symlink_to("elsewhere")
    else:
        (tmp_path / "newest").symlink_to("p=a")

    removed = table.vacuum(timedelta(0), allow_short_retention=True)

    assert removed.paths == ()
    assert_same_rows(table.scan(), [(1, "a")])
