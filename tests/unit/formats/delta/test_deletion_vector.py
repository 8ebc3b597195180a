"""Deletion vectors: found wherever a log may put them, and refused when anything about them is wrong."""

from __future__ import annotations

import struct
import uuid
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tablespec.errors import CorruptFileError, CorruptLogError, PathOutsideTableError, UnsupportedTableError
from tablespec.formats.delta.actions import DeletionVectorAction
from tablespec.formats.delta.deletion_vector import (
    decode_positions,
    decode_z85,
    encode_positions,
    encode_z85,
    load,
    locate,
)
from tablespec.model.file import DeletionVector
from tablespec.storage.store import Storage

IDENTIFIER = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
POSITIONS = BitMap64([0, 3, 7, 2**33 + 1])
positions = st.sets(st.integers(0, 100) | st.integers(0, 2**40)).map(BitMap64)


def framed(vector: bytes) -> bytes:
    return struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))


def descriptor(kind: str, place: str, data: bytes, cardinality: int, offset: int | None = None) -> DeletionVectorAction:
    return DeletionVectorAction(
        storage_type=kind, path_or_inline_dv=place, offset=offset, size_in_bytes=len(data), cardinality=cardinality
    )


@pytest.fixture
def storage(tmp_path) -> Storage:
    return Storage.at(str(tmp_path / "table"))


def in_file(storage: Storage, content: bytes, **given: int) -> DeletionVector:
    """A vector of POSITIONS that the log puts at the start of a file with this content."""
    storage.put("dv/a.bin", content)
    data = encode_positions(POSITIONS)
    fields = {"offset": 1, "size": len(data), "cardinality": len(POSITIONS), **given}
    return DeletionVector(path="dv/a.bin", inline=None, **fields)


# --- finding them -----------------------------------------------------------------------------------------------------


def test_bytes_are_written_in_z85_as_zeromq_defines_it():
    assert encode_z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"
    assert decode_z85("HelloWorld") == bytes.fromhex("864FD26FB559F75B")


@given(words=st.lists(st.binary(min_size=4, max_size=4)))
def test_bytes_are_read_back_from_z85(words):
    assert decode_z85(encode_z85(b"".join(words))) == b"".join(words)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("^-aqEH.-t@S}K{vb[*k^", f"deletion_vector_{IDENTIFIER}.bin"),
        ("ab^-aqEH.-t@S}K{vb[*k^", f"ab/deletion_vector_{IDENTIFIER}.bin"),
        ("x/y^-aqEH.-t@S}K{vb[*k^", f"x/y/deletion_vector_{IDENTIFIER}.bin"),
    ],
    ids=["without prefix", "with prefix", "with folders"],
)
def test_a_relative_vector_lies_in_the_file_named_by_its_id(place, path):
    found = locate(descriptor("u", place, b"1234", 6, offset=4), "table")

    assert found == DeletionVector(path=path, inline=None, offset=4, size=4, cardinality=6)


def test_an_absolute_vector_lies_where_its_url_says():
    found = locate(descriptor("p", "file:///lake/a%20b%2525/v.bin", b"1234", 6, offset=1), "table")

    assert found.path == "file:///lake/a b%25/v.bin"


@pytest.mark.parametrize("padding", range(4))
def test_an_inline_vector_is_cut_to_its_size(padding):
    data = encode_positions(POSITIONS) + bytes(range(4 - padding))

    found = locate(descriptor("i", encode_z85(data + bytes(-len(data) % 4)), data, 4), "table")

    assert (found.path, found.inline) == (None, data)


def test_a_kind_of_vector_that_is_not_known_is_refused_by_name():
    with pytest.raises(UnsupportedTableError, match="storage type 'x'"):
        locate(descriptor("x", "abc", b"", 0), "table")


@pytest.mark.parametrize(("kind", "place"), [("u", ""), ("u", "short"), ("u", "é" * 20), ("i", "a"), ("i", "~\n~~~")])
def test_a_place_that_is_no_z85_is_a_damaged_log(kind, place):
    with pytest.raises(CorruptLogError, match="deletionVector"):
        locate(descriptor(kind, place, b"1234", 1), "table")


# --- loading them -----------------------------------------------------------------------------------------------------


@given(deleted=positions)
def test_positions_are_read_back_from_an_inline_vector(deleted):
    data = encode_positions(deleted)
    action = descriptor("i", encode_z85(data + bytes(-len(data) % 4)), data, len(deleted))

    assert load(Storage.at("memory://tests/table"), locate(action, "table")) == deleted


@pytest.mark.parametrize("prefix", ["", "dv", "x/y"])
def test_positions_are_read_back_from_each_vector_of_a_file(storage, prefix):
    several = [BitMap64([1, 2]), BitMap64(), BitMap64(range(100_000)), BitMap64([5, 2**35])]
    content, offsets = b"\x01", []
    for deleted in several:
        offsets.append(len(content))
        content += framed(encode_positions(deleted))
    storage.put(f"{prefix}/deletion_vector_{IDENTIFIER}.bin".removeprefix("/"), content)

    for deleted, offset in zip(several, offsets):
        place = prefix + encode_z85(IDENTIFIER.bytes)
        action = descriptor("u", place, encode_positions(deleted), len(deleted), offset)
        assert load(storage, locate(action, "table")) == deleted


def test_an_absolute_vector_is_read_only_where_the_caller_allowed_it(tmp_path):
    outside = tmp_path / "else where" / "v.bin"
    outside.parent.mkdir()
    outside.write_bytes(b"\x01" + framed(encode_positions(POSITIONS)))
    action = descriptor("p", outside.as_uri(), encode_positions(POSITIONS), len(POSITIONS), offset=1)

    with pytest.raises(PathOutsideTableError):
        load(Storage.at(str(tmp_path / "table")), locate(action, "table"))
    allowed = Storage.at(str(tmp_path / "table"), allowed_roots=[str(Path(outside).parent)])
    assert load(allowed, locate(action, "table")) == POSITIONS


def test_a_vector_whose_file_is_gone_is_told_as_a_missing_file(storage):
    gone = DeletionVector(path="dv/gone.bin", inline=None, offset=1, size=20, cardinality=1)

    with pytest.raises(FileNotFoundError):
        load(storage, gone)


def broken_vectors() -> dict[str, bytes]:
    good = encode_positions(POSITIONS)
    flipped = bytearray(b"\x01" + framed(good))
    flipped[15] ^= 1
    return {
        "a wrong checksum": b"\x01" + framed(good)[:-1] + b"\x00",
        "a flipped bit": bytes(flipped),
        "another size than the log says": b"\x01" + framed(good + b"1234"),
        "a negative size": b"\x01" + struct.pack(">i", -1) + good + bytes(4),
        "another number at its start": b"\x01" + framed(struct.pack("<I", 1681511376) + good[4:]),
        "the number at its start in the other order": b"\x01" + framed(good[3::-1] + good[4:]),
        "too few bytes": (b"\x01" + framed(good))[:-5],
        "hardly any bytes": b"\x01\x00",
        "nothing": b"",
    }


@pytest.mark.parametrize("content", broken_vectors().values(), ids=broken_vectors())
def test_a_vector_is_damaged_that_has(storage, content):
    with pytest.raises(CorruptFileError, match=r"dv/a\.bin"):
        load(storage, in_file(storage, content))


@pytest.mark.parametrize("size", [0, 4, 12, 30])
def test_a_vector_is_damaged_whose_positions_are_cut_off(storage, size):
    data = encode_positions(POSITIONS)[:size]

    with pytest.raises(CorruptFileError, match=r"dv/a\.bin"):
        load(storage, in_file(storage, b"\x01" + framed(data), size=size))


@pytest.mark.parametrize("cardinality", [0, len(POSITIONS) - 1, len(POSITIONS) + 1])
def test_a_vector_is_damaged_that_holds_another_number_of_positions_than_the_log_says(storage, cardinality):
    vector = in_file(storage, b"\x01" + framed(encode_positions(POSITIONS)), cardinality=cardinality)

    with pytest.raises(CorruptFileError, match=f"holds 4 positions where the log says {cardinality}"):
        load(storage, vector)


@pytest.mark.parametrize(
    ("offset", "size"), [(0, None), (2, None), (10_000, None), (1, 0), (1, -4), (1, 2**31 - 1)], ids=repr
)
def test_a_vector_is_damaged_that_is_not_where_the_log_says(storage, offset, size):
    place = {"offset": offset} if size is None else {"offset": offset, "size": size}
    vector = in_file(storage, b"\x01" + framed(encode_positions(POSITIONS)), **place)

    with pytest.raises(CorruptFileError):
        load(storage, vector)


@given(data=st.binary(max_size=40), start=st.sampled_from([b"", struct.pack("<I", 1681511377)]))
def test_any_bytes_are_positions_or_damaged(data, start):
    try:
        found = decode_positions(start + data, "table", "file")
    except CorruptFileError:
        return
    assert decode_positions(encode_positions(found), "table", "file") == found
