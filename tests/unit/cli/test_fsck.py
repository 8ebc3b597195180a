"""What fsck finds in sound and in broken tables, and how its exit code tells."""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from pathlib import Path

import attrs
import pytest
from pyroaring import BitMap64

import tablespec
from tablespec.formats.delta.deletion_vector import encode_positions, encode_z85
from tests.unit.cli.conftest import Trips, add_action

VECTOR_ID = uuid.UUID("0d6ac8a1-52d3-4a3e-9c1c-0f2d6d4a7f11")


@attrs.frozen
class Deletions:
    """The trips after version 3 has deleted the first row of sf by a deletion vector."""

    trips: Trips
    vector: Path


@pytest.fixture
def deletions(trips) -> Deletions:
    """A table with a deletion vector in a file of its own."""
    data = encode_positions(BitMap64([0]))
    vector = trips.path / f"deletion_vector_{VECTOR_ID}.bin"
    vector.write_bytes(b"\x01" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    descriptor = {
        "storageType": "u",
        "pathOrInlineDv": encode_z85(VECTOR_ID.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": 1,
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "appendOnly"]}
    trips.write_commit(
        3,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": "city=sf/1.parquet", "dataChange": True}},
        add_action("city=sf/1.parquet", "sf", trips.sizes[0], 2, deletionVector=descriptor),
    )
    return Deletions(trips, vector)


def test_a_sound_table_is_told_so(command, trips):
    outcome = command("fsck", trips.path)

    assert outcome.code == 0
    assert outcome.out == f"sound; checked 2 files of {sum(trips.sizes)} bytes\n"


def test_a_missing_file_is_named(command, trips):
    (trips.path / "city=sf/1.parquet").unlink()

    outcome = command("fsck", trips.path)

    assert outcome.code == 1
    assert outcome.out == (
        f"city=sf/1.parquet: the file is missing\n1 problem; checked 2 files of {sum(trips.sizes)} bytes\n"
    )


def test_every_problem_is_told_as_json(command, trips):
    (trips.path / "city=sf/1.parquet").unlink()
    other = trips.path / "city=la/2.parquet"
    other.write_bytes(other.read_bytes()[:100])

    outcome = command("fsck", trips.path, "--json")

    assert outcome.code == 1
    assert json.loads(outcome.out) == {
        "url": trips.url,
        "version": 2,
        "time": "2026-01-31T12:02:00.000+00:00",
        "sound": False,
        "files": 2,
        "bytes": sum(trips.sizes),
        "problems": [
            {
                "kind": "size",
                "path": "city=la/2.parquet",
                "message": f"the file has 100 bytes, the log says {trips.sizes[1]}",
            },
            {"kind": "missing", "path": "city=sf/1.parquet", "message": "the file is missing"},
        ],
    }


def test_a_file_that_grew_is_of_the_wrong_size(command, trips):
    with (trips.path / "city=la/2.parquet").open("ab") as file:
        file.write(b"more")

    outcome = command("fsck", trips.path)

    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == (
        f"city=la/2.parquet: the file has {trips.sizes[1] + 4} bytes, the log says {trips.sizes[1]}"
    )


def test_files_that_no_version_needs_any_more_are_no_problem(command, trips):
    trips.write_commit(3, {"remove": {"path": "city=sf/1.parquet", "dataChange": True}})
    (trips.path / "city=sf/1.parquet").unlink()

    outcome = command("fsck", trips.path)

    assert (outcome.code, outcome.out) == (0, f"sound; checked 1 file of {trips.sizes[1]} bytes\n")


def test_a_sound_deletion_vector_is_no_problem(command, deletions):
    files = command("files", deletions.trips.path, "--where", "city = 'sf'", "--json")

    assert command("fsck", deletions.trips.path).code == 0
    assert [(one["rows"], one["deletes"]) for one in json.loads(files.out)["files"]] == [(1, 1)]


def test_a_missing_deletion_vector_is_named(command, deletions):
    deletions.vector.unlink()

    outcome = command("fsck", deletions.trips.path)

    assert outcome.code == 1
    assert outcome.out.splitlines()[0] == f"{deletions.vector.name}: the deletion vector is missing"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:-1], "it ends at byte"),
        (lambda data: data[:-5] + b"\x07" + data[-4:], "the checksum of a deletion vector does not match"),
        (lambda data: b"\x01\x00\x00\x00\x09" + data[5:], "a vector of 9 bytes stands where the log says"),
    ],
    ids=["truncated", "a byte changed", "another length"],
)
def test_a_damaged_deletion_vector_is_named_with_the_damage(command, deletions, damage, why):
    deletions.vector.write_bytes(damage(deletions.vector.read_bytes()))

    outcome = command("fsck", deletions.trips.path, "--json")

    (problem,) = json.loads(outcome.out)["problems"]
    assert outcome.code == 1
    assert (problem["kind"], problem["path"]) == ("deletion_vector", deletions.vector.name)
    assert why in problem["message"]


@pytest.mark.parametrize("text", ["{not json}\n", '{"add": {"path"'], ids=["bad line", "torn line"])
def test_a_damaged_commit_is_named_with_its_line(command, trips, text):
    with trips.commit(1).open("a") as file:
        file.write(text)

    outcome = command("fsck", trips.path, "--json")

    document = json.loads(outcome.out)
    assert outcome.code == 1
    assert (document["version"], document["files"]) == (None, 0)
    assert [one["kind"] for one in document["problems"]] == ["log"]
    assert "00000000000000000001.json line 3" in document["problems"][0]["message"]


def test_a_version_missing_in_the_log_is_named(command, trips):
    trips.commit(1).unlink()

    outcome = command("fsck", trips.path)

    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        "version 1 is missing in the log",
        f"the log of {trips.url} lacks version 1, which version 2 needs, and no complete checkpoint covers it; "
        "restore the file from a backup or ask for another version",
        "2 problems; checked 0 files of 0 bytes",
    ]


def test_a_damaged_checkpoint_is_a_problem_even_where_the_log_makes_up_for_it(command, trips):
    tablespec.open_table(str(trips.path)).checkpoint()
    (checkpoint,) = trips.path.glob("_delta_log/*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:50])

    outcome = command("fsck", trips.path, "--json")

    document = json.loads(outcome.out)
    assert outcome.code == 1
    assert (document["version"], document["files"]) == (2, 2)
    assert [one["kind"] for one in document["problems"]] == ["log"]
    assert checkpoint.name in document["problems"][0]["message"]


def test_a_file_outside_of_the_table_cannot_be_checked(command, trips):
    trips.write_commit(3, add_action("file:///elsewhere/3.parquet", "sf", 10, 1))

    outcome = command("fsck", trips.path, "--json")

    (problem,) = json.loads(outcome.out)["problems"]
    assert (outcome.code, problem["kind"], problem["path"]) == (1, "unreachable", "file:///elsewhere/3.parquet")


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ([], "error: there is no table at "),
        (["notes.txt"], "holds neither a _delta_log nor a .hoodie folder"),
    ],
    ids=["nothing there", "not a table"],
)
def test_what_is_no_table_cannot_be_opened(command, tmp_path, files, error):
    for name in files:
        (tmp_path / name).touch()

    outcome = command("fsck", tmp_path)

    assert (outcome.code, outcome.out) == (2, "")
    assert error in outcome.err


def test_a_table_that_asks_for_an_unknown_feature_cannot_be_opened(command, trips):
    features = {"readerFeatures": ["teleport"], "writerFeatures": ["teleport"]}
    trips.write_commit(3, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})

    outcome = command("fsck", trips.path)

    assert (outcome.code, outcome.out) == (2, "")
    assert "Unknown features: teleport" in outcome.err
