"""What lies in a log, and which of it makes up a version."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import InstantNotFoundError, MissingLogError
from tablespec.formats.delta.log import (
    Listing,
    commit_path,
    last_checkpoint_version,
    list_log,
    reachable,
    segment,
    sort_out,
)
from tablespec.storage.store import FileInfo, Storage

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def commit(version: int) -> str:
    return f"{version:020d}.json"


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, count: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{count:010d}.parquet"


def compacted(start: int, end: int) -> str:
    return f"{start:020d}.{end:020d}.compacted.json"


def listing(*names: str) -> Listing:
    return sort_out(FileInfo(f"_delta_log/{name}", 1, 1) for name in names)


def commits(*versions: int) -> list[str]:
    return [commit(version) for version in versions]


def names(files: Sequence[FileInfo]) -> list[str]:
    return [file.path.removeprefix("_delta_log/") for file in files]


# --- sorting out ------------------------------------------------------------------------------------------------------


def test_digits_of_other_scripts_make_no_version():
    assert listing("\N{ARABIC-INDIC DIGIT SEVEN}" * 20 + ".json", classic(1)) == listing(classic(1))


def test_every_kind_of_file_is_told_by_its_name():
    found = listing(
        compacted(0, 2),
        commit(2),
        commit(10),
        f"{3:020d}.checkpoint.{UUID}.json",
        f"{4:020d}.checkpoint.{UUID}.parquet",
        classic(1),
        part(2, 2, 2),
        part(2, 1, 2),
    )

    assert [version for version, _ in found.commits] == [2, 10]
    assert [(one.version, len(one.files)) for one in found.checkpoints] == [(1, 1), (2, 2), (3, 1), (4, 1)]
    assert names(found.checkpoints[1].files) == [part(2, 1, 2), part(2, 2, 2)]
    assert [(one.start, one.end) for one in found.compactions] == [(0, 2)]
    assert found.latest_version == 10


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "_last_vacuum_info",
        f"{1:020d}.crc",
        f"{1:020d}.json#1",
        f"{1:020d}.json.tmp",
        f".{1:020d}.json",
        f".{1:020d}.json.crc",
        f"{1:019d}.json",
        f"{1:021d}.json",
        f"{1:020d}.tablespec.json",
        f"{1:020d}.checkpoint.parquet.tmp",
        f"{1:020d}.checkpoint.{UUID}.orc",
        f"{1:020d}.checkpoint.json",
        f"_sidecars/{UUID}.parquet",
        f"_staged_commits/{1:020d}.{UUID}.json",
        f"_staged_commits/{1:020d}.json",
        f"_tablespec/{1:020d}.json",
    ],
)
def test_other_files_do_not_count(name):
    assert listing(name) == Listing()


@pytest.mark.parametrize(
    "parts",
    [
        [part(5, 1, 2)],
        [part(5, 2, 2)],
        [part(5, 1, 3), part(5, 3, 3)],
        [part(5, 1, 2), part(5, 2, 3)],
        [part(5, 1, 2), part(6, 2, 2)],
        [part(5, 0, 2), part(5, 1, 2)],
    ],
)
def test_a_checkpoint_that_lacks_a_part_does_not_count(parts):
    assert listing(*parts).checkpoints == ()


def test_of_two_cuts_of_a_checkpoint_the_complete_one_counts():
    found = listing(part(5, 1, 3), part(5, 1, 2), part(5, 2, 2), part(5, 3, 3))

    assert [names(one.files) for one in found.checkpoints] == [[part(5, 1, 2), part(5, 2, 2)]]


def test_an_empty_log_has_no_latest_version():
    assert listing().latest_version == -1


def test_the_latest_version_may_be_that_of_a_checkpoint():
    assert listing(commit(3), classic(4)).latest_version == 4


# --- the files of a version -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "version", "checkpoint", "tail"),
    [
        (commits(0, 1, 2), 1, None, commits(0, 1)),
        ([*commits(0, 1, 2, 3), classic(1)], 3, classic(1), commits(2, 3)),
        ([*commits(0, 1, 2, 3), classic(1), classic(3)], 3, classic(3), []),
        ([*commits(0, 1, 2, 3), classic(1), classic(3)], 2, classic(1), commits(2)),
        ([*commits(0, 1, 2, 3), classic(1), classic(3)], 0, None, commits(0)),
        ([*commits(4, 5), classic(3)], 5, classic(3), commits(4, 5)),
        ([classic(3)], 3, classic(3), []),
        ([*commits(0, 1, 2, 3, 4), compacted(1, 3)], 4, None, [commit(0), compacted(1, 3), commit(4)]),
        ([*commits(0, 1, 2, 3, 4), compacted(1, 3)], 2, None, commits(0, 1, 2)),
        ([*commits(0, 1, 2, 3, 4), compacted(0, 1), compacted(0, 3)], 4, None, [compacted(0, 3), commit(4)]),
        ([*commits(0, 1, 2, 3, 4), compacted(0, 3), classic(2)], 4, classic(2), commits(3, 4)),
        ([*commits(0, 1, 2, 3, 4), compacted(3, 4), classic(2)], 4, classic(2), [compacted(3, 4)]),
        ([*commits(0, 4), compacted(1, 3)], 4, None, [commit(0), compacted(1, 3), commit(4)]),
    ],
)
def test_a_version_is_made_of_the_newest_checkpoint_before_it_and_what_follows(files, version, checkpoint, tail):
    found = segment(listing(*files), version, "table")

    assert found.version == version
    assert (found.checkpoint and names(found.checkpoint.files)) == (checkpoint and [checkpoint])
    assert names(found.tail) == tail


def test_without_a_checkpoint_that_cannot_be_used_the_files_before_it_do():
    found = listing(*commits(0, 1, 2, 3), classic(1), classic(3))
    newest, middle = found.checkpoints[1], found.checkpoints[0]

    without_one = segment(found, 3, "table", frozenset({newest}))
    without_both = segment(found, 3, "table", frozenset({newest, middle}))

    assert (without_one.checkpoint, names(without_one.tail)) == (middle, commits(2, 3))
    assert (without_both.checkpoint, names(without_both.tail)) == (None, commits(0, 1, 2, 3))


@pytest.mark.parametrize(
    ("files", "version", "missing"),
    [
        (commits(0, 2), 2, 1),
        (commits(1, 2), 2, 0),
        ([*commits(0, 1, 4), classic(2)], 4, 3),
    ],
)
def test_a_version_that_the_log_lacks_is_named(files, version, missing):
    with pytest.raises(MissingLogError) as raised:
        segment(listing(*files), version, "table")

    assert (raised.value.missing, raised.value.wanted) == (missing, version)


@pytest.mark.parametrize("version", [-1, 3, 2**60])
def test_a_version_outside_of_the_log_is_told_with_those_it_has(version):
    with pytest.raises(InstantNotFoundError, match="0 to 2"):
        segment(listing(*commits(0, 1, 2)), version, "table")


def test_a_version_that_was_cleaned_up_is_told_with_those_that_are_left():
    with pytest.raises(InstantNotFoundError, match="5 to 6"):
        segment(listing(*commits(4, 5, 6), classic(5)), 4, "table")


@given(data=st.data())
def test_the_files_of_a_version_cover_every_version_after_the_checkpoint_once(data):
    last = data.draw(st.integers(0, 8))
    spans = st.tuples(st.integers(0, last), st.integers(0, last)).filter(lambda span: span[0] < span[1])
    spans_drawn = data.draw(st.lists(spans, max_size=3)) if last else []
    checkpoints = data.draw(st.lists(st.integers(0, last), max_size=2))
    version = data.draw(st.integers(0, last))
    files = listing(*commits(*range(last + 1)), *map(classic, checkpoints), *(compacted(*span) for span in spans_drawn))

    found = segment(files, version, "table")

    covered = []
    for name in names(found.tail):
        numbers = [int(number) for number in name.split(".") if number.isdigit()]
        covered += range(numbers[0], numbers[-1] + 1)
    usable = [number for number in checkpoints if number <= version]
    assert covered == list(range(max(usable, default=-1) + 1, version + 1))


@pytest.mark.parametrize(
    ("files", "versions"),
    [
        (commits(0, 1, 2), [0, 1, 2]),
        ([*commits(3, 4, 5, 6), classic(5)], [5, 6]),
        ([*commits(6, 7), classic(5)], [5, 6, 7]),
        ([*commits(0, 1), *commits(5, 6), classic(5)], [0, 1, 5, 6]),
        ([*commits(0, 1, 3)], [0, 1]),
        (commits(3, 4), []),
    ],
)
def test_the_versions_that_can_be_named_are_those_that_can_be_made(files, versions):
    assert [version for version, _ in reachable(listing(*files))] == versions


# --- in a store -------------------------------------------------------------------------------------------------------


@pytest.fixture
def storage(tmp_path) -> Storage:
    return Storage.at(str(tmp_path))


def test_a_log_is_listed_from_a_version_on(storage):
    for name in [*commits(8, 9, 10, 11), classic(9), classic(10), "_last_checkpoint"]:
        storage.put(f"_delta_log/{name}", b"")

    found = list_log(storage, start=10)

    assert [version for version, _ in found.commits] == [10, 11]
    assert [one.version for one in found.checkpoints] == [10]
    assert [version for version, _ in list_log(storage).commits] == [8, 9, 10, 11]


def test_a_commit_lies_under_its_version_in_twenty_digits():
    assert commit_path(123) == "_delta_log/00000000000000000123.json"


@pytest.mark.parametrize(
    ("hint", "version"),
    [
        (b'{"version":10,"size":5}', 10),
        (b'{"version":10,"size":5,"v2Checkpoint":{"path":"x"},"unknown":[]}', 10),
        (None, 0),
        (b"", 0),
        (b"{", 0),
        (b"[]", 0),
        (b"null", 0),
        (b'"10"', 0),
        (b"{}", 0),
        (b'{"version":"10"}', 0),
        (b'{"version":1.5}', 0),
        (b'{"version":null}', 0),
        (b'{"version":-1}', 0),
        (b"\xff\xfe", 0),
        (b'{"version":10,"note":"\xff\xfe"}', 0),
    ],
)
def test_a_hint_that_is_missing_or_damaged_says_nothing(storage, hint, version):
    if hint is not None:
        storage.put("_delta_log/_last_checkpoint", hint)

    assert last_checkpoint_version(storage) == version
