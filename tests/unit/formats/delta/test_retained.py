import pyarrow as pa
import pytest

import tablespec
from tablespec.formats.delta.log import sort_out
from tablespec.formats.delta.retained import disposable, expired_log, run_starts
from tablespec.storage.store import FileInfo, Storage
from tests.handmade import LEGACY, add, commit, metadata, protocol


def needed(folder, version):
    return tablespec.open_table(str(folder)).format.needed_since(version)


def files(*paths):
    return [FileInfo(path, 1, 1) for path in paths]


def log_files(*names):
    return files(*(f"_delta_log/{name}" for name in names))


# --- what is needed ---


def test_a_version_needs_what_it_holds_and_what_later_ones_add(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "a.parquet", pa.table({"id": [1]})))
    commit(tmp_path, 1, {"remove": {"path": "a.parquet"}}, add(tmp_path, "b.parquet", pa.table({"id": [1]})))
    commit(tmp_path, 2, {"remove": {"path": "b.parquet"}}, add(tmp_path, "c.parquet", pa.table({"id": [1]})))

    assert [needed(tmp_path, version) for version in (0, 1, 2)] == [
        {"a.parquet", "b.parquet", "c.parquet"},
        {"b.parquet", "c.parquet"},
        {"c.parquet"},
    ]


def test_deletion_vectors_are_needed_wherever_the_log_says_they_lie(tmp_path):
    vectors = {
        "beside": {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1},
        "absolute": {"storageType": "p", "pathOrInlineDv": f"file://{tmp_path}/x/y%20z.bin", "offset": 1},
        "elsewhere": {"storageType": "p", "pathOrInlineDv": "s3://bucket/z.bin", "offset": 1},
        "inline": {"storageType": "i", "pathOrInlineDv": "wi5b="},
    }
    adds = [
        add(
            tmp_path,
            f"{name}.parquet",
            pa.table({"id": [1]}),
            deletionVector={**vector, "sizeInBytes": 4, "cardinality": 1},
        )
        for name, vector in vectors.items()
    ]
    commit(tmp_path, 0, protocol(3, 7, reader_features=["deletionVectors"]), metadata(), *adds[:1])
    commit(tmp_path, 1, *adds[1:])

    assert needed(tmp_path, 0) == {
        *(f"{name}.parquet" for name in vectors),
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "x/y z.bin",
        # What lies elsewhere may be here under another name of this place: whatever ends like it.
        *("/bucket/z.bin", "bucket/z.bin", "z.bin"),
    }


def test_change_files_are_needed_by_versions_before_them(tmp_path):
    changes = {"cdc": {"path": "_change_data/a%20b.parquet", "partitionValues": {}, "size": 1, "dataChange": False}}
    commit(tmp_path, 0, LEGACY, metadata())
    commit(tmp_path, 1, changes)

    assert needed(tmp_path, 0) == {"_change_data/a b.parquet", "_change_data/a%20b.parquet"}
    assert needed(tmp_path, 1) == frozenset()


def test_paths_are_needed_as_they_stand_and_as_they_read(tmp_path):
    commit(tmp_path, 0, LEGACY, metadata(), add(tmp_path, "a%25b.parquet", pa.table({"id": [1]})))

    assert needed(tmp_path, 0) == {"a%25b.parquet", "a%b.parquet"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a/b", "a/b"),
        ("./a//b", "a/b"),
        ("file:/table/a", "a"),
        ("file:///table/a", "a"),
        ("/table/a", "a"),
        ("/tablet/a", None),
        ("../a", None),
        ("s3://bucket/a", None),
        ("hdfs://host/a", None),
    ],
)
def test_a_path_is_listed_below_the_table_or_lies_elsewhere(path, found):
    assert Storage.at("/table").relative(path) == found


# --- what may go ---


def test_hidden_places_are_left_alone_but_for_changes_temporaries_and_partitions():
    temporary = f".{'0123abcd' * 4}.tmp"
    going = ["a", "p=1/a", temporary, f"p=1/{temporary}", "_change_data/a", "_change_data/p=1/a", "_q=1/a", "dv/a.bin"]
    staying = ["_delta_log/a", "_a", ".a", "p=1/_a", "p=1/_b/a", "_r=1/a", f"_a/{temporary}", "p=1/.a.tmp"]
    staying += ["_change_data/_a", "_tablespec/a", "a/_change_data/b"]

    found = disposable(files(*going, *staying), ["p", "_q"])

    assert [file.path for file in found] == going


def test_a_log_expires_up_to_the_newest_checkpoint_that_is_not_younger():
    going = log_files(
        "00000000000000000000.json",
        "00000000000000000001.json",
        "00000000000000000001.crc",
        "00000000000000000001.checkpoint.parquet",
        "00000000000000000001.00000000000000000003.compacted.json",
    )
    staying = log_files(
        "00000000000000000002.json",
        "00000000000000000002.checkpoint.parquet",
        "00000000000000000003.json",
        "00000000000000000004.checkpoint.parquet",
        "_last_checkpoint",
        "_sidecars/00000000000000000001.parquet",
        "notes.json",
    )

    listed = sorted([*going, *staying])

    assert expired_log(sort_out(listed), listed, 3) == sorted(going)


def test_a_log_without_a_checkpoint_does_not_expire():
    listed = log_files("00000000000000000000.json", "00000000000000000001.json")

    assert expired_log(sort_out(listed), listed, 1) == []


def test_runs_of_versions_start_where_the_one_before_is_missing():
    assert run_starts([0, 1, 4, 5, 9]) == [0, 4, 9]
