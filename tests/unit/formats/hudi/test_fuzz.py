"""Files with bytes flipped or cut: an error, or rows with a warning, and never a crash, a hang or rows made up in silence."""

from __future__ import annotations

import contextlib
import warnings
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tablespec
from tablespec.errors import TableSpecError, TableSpecWarning
from tablespec.formats.hudi.commit_metadata import parse_clean, parse_commit
from tablespec.formats.hudi.hfile import HFile
from tablespec.storage.store import Storage
from tests.unit.formats.hudi.conftest import COLUMNS, HudiTable, time
from tests.unit.formats.hudi.log_writing import avro_block, delete_block
from tests.unit.formats.hudi.test_merge_on_read import MOR

FIXTURES = Path(__file__).parents[3] / "fixtures" / "hudi"
BLOCKS = (
    avro_block(time(20), COLUMNS, [("1", {"id": "1", "part": "a", "qty": 11}), ("3", {"id": "3", "part": "a"})]),
    delete_block(time(20), [("2", ("IntWrapper", {"value": 5}))]),
    avro_block(time(20), COLUMNS, [("4", {"id": "4", "part": "a", "qty": 40})]),
)
LOG = b"".join(BLOCKS)
# Of every block the bytes that frame it: magic, length, version, type and count of entries, and the length at the end.
FRAMES = [
    start + place
    for start, block in zip((0, len(BLOCKS[0]), len(BLOCKS[0] + BLOCKS[1])), BLOCKS)
    for place in (*range(26), *range(len(block) - 8, len(block)))
]
WHOLE = [("1", "a", 11), ("3", "a", None), ("4", "a", 40)]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> HudiTable:
    made = HudiTable(Storage.at(str(tmp_path_factory.mktemp("fuzz"))), 9)
    made.properties(**MOR)
    made.write(10, "a", "f", [("1", "a", 10), ("2", "a", 20)])
    made.append(20, "a", "f", LOG)
    return made


def read(table: HudiTable, log: bytes) -> tuple[list[tuple[object, ...]] | None, bool]:
    """The rows, or None for an error of ours, and whether a warning was given."""
    table.log("a", "f", 20, log)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableSpecWarning)
        try:
            found = tablespec.open_table(table.storage.url).scan().to_table().to_pylist()
        except TableSpecError:
            return None, False
    return sorted((tuple(row.values()) for row in found), key=str), any(
        one.category is TableSpecWarning for one in caught
    )


def flipped(data: bytes, place: int, mask: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= mask
    return bytes(changed)


def test_a_sound_log_is_read_whole(table):
    assert read(table, LOG) == (WHOLE, False)


@settings(max_examples=60, deadline=None)
@given(place=st.sampled_from(FRAMES), mask=st.integers(1, 255))
def test_a_flipped_byte_of_the_frame_is_an_error_or_warned_of(table, place, mask):
    rows, warned = read(table, flipped(LOG, place, mask))

    assert rows is None or warned


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(0, len(LOG) - 1))
def test_a_cut_log_gives_the_rows_of_its_whole_blocks_and_a_warning(table, cut):
    borders = [0, len(BLOCKS[0]), len(BLOCKS[0] + BLOCKS[1])]
    rows, warned = read(table, LOG[:cut])

    assert rows is not None
    assert warned is (cut not in borders)
    assert set(rows) <= {*WHOLE, ("1", "a", 10), ("2", "a", 20)}


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, len(LOG) - 1), mask=st.integers(1, 255), more=st.binary(max_size=4))
def test_any_flipped_bytes_end_in_rows_or_an_error_of_ours(table, place, mask, more):
    changed = flipped(LOG, place, mask)
    rows, _ = read(table, changed[:place] + more + changed[place:])

    assert rows is None or len(rows) <= 6


def members(pattern: str) -> list[bytes]:
    found = []
    for archive in sorted(FIXTURES.glob("*.zip")):
        with zipfile.ZipFile(archive) as files:
            found += [files.read(name) for name in files.namelist() if Path(name).match(pattern)]
    return found[:8]


HFILES = members("*.hfile")
COMMITS = [*members("*_*.deltacommit"), *members("*_*.replacecommit"), *members("*.commit")]
CLEANS = members("*_*.clean")


def test_the_fixtures_hold_files_to_damage():
    assert HFILES and COMMITS and CLEANS
    assert all(HFile.of(body).entries().keys and HFile.of(body).schema() for body in HFILES)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_hfile_is_read_or_refused(data):
    body = data.draw(st.sampled_from(HFILES))
    place = data.draw(st.integers(0, len(body) - 1))
    changed = flipped(body, place, data.draw(st.integers(1, 255)))[: data.draw(st.integers(0, len(body)))]

    for read_it in (HFile.entries, HFile.schema, lambda file: file.entries({"k01", ""})):
        with contextlib.suppress(ValueError):
            read_it(HFile.of(changed))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_metadata_of_a_commit_is_read_or_refused(data):
    parse, bodies = data.draw(st.sampled_from([(parse_commit, COMMITS), (parse_clean, CLEANS)]))
    body = data.draw(st.sampled_from(bodies))
    place = data.draw(st.integers(0, len(body) - 1))
    changed = flipped(body, place, data.draw(st.integers(1, 255)))[: data.draw(st.integers(0, len(body)))]

    with contextlib.suppress(TableSpecError):
        parse("table", "instant", changed)
