"""Whichever bits of whichever file of an index change, every answer is the one that it would be without the index."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tablespec
from tablespec.errors import StorageError, TableSpecWarning
from tablespec.formats.detect import open_format
from tablespec.storage.store import FileInfo, Storage
from tests.handmade import contents
from tests.unit.index.conftest import SCHEMA, NewTable, data

WORDS = ("fox", "dog", "quick", "lazy", "the", "brown", "owl")
FILTERS = (
    "MATCH(body, 'fox')",
    "MATCH(body, '\"quick dog\"')",
    "MATCH(body, 'foxes', 'en_stem') AND NOT MATCH(body, 'lazy')",
    "id IN (3, 8, 411, 4000)",
)


@attrs.frozen
class Indexed:
    """A table with indexes of every kind, and the answers that it gave before it had them."""

    table: tablespec.Table
    files: tuple[Path, ...]
    right: tuple[object, ...] = attrs.field(repr=False)


def answer(table: tablespec.Table, filter_: str) -> object:
    return sorted(map(str, table.scan(filter_).to_table().to_pylist()))


@pytest.fixture(scope="module")
def indexed() -> Iterator[Indexed]:
    chance = Random(1)
    with TemporaryDirectory() as place:
        table = tablespec.create_table(f"{place}/t", SCHEMA, key=["id"])
        bodies = [" ".join(chance.choices(WORDS, k=4)) for _ in range(1000)]
        table.append(data([(number, "a", body if number % 7 else None) for number, body in enumerate(bodies)]))
        right = tuple(answer(table, filter_) for filter_ in FILTERS)
        table.create_text_index(["body"])
        table.create_text_index(["kind", "body"], "en_stem", name="stems")
        table.create_record_index()
        files = tuple(path for path in Path(place, "t/_tablespec").rglob("*") if path.is_file())
        yield Indexed(table, tuple(path for path in sorted(files) if path.stat().st_size), right)


def turn(path: Path, bits: int, seed: int = 0) -> None:
    """Turn some bits of a file around in place, as a disk would do it; once more, and it is as it was."""
    chance = Random(seed)
    with path.open("r+b") as file:
        for _ in range(bits):
            place = chance.randrange(path.stat().st_size)
            file.seek(place)
            turned = file.read(1)[0] ^ 1 << chance.randrange(8)
            file.seek(place)
            file.write(bytes([turned]))


@settings(max_examples=50)
@given(
    st.sampled_from([".term", ".idx", ".pos", ".fast", ".arrow", ".json"]),
    st.integers(1, 20),
    st.integers(0, 1 << 32),
    st.integers(0, len(FILTERS) - 1),
)
def test_no_bits_that_turn_in_the_files_of_an_index_change_an_answer(
    indexed: Indexed, ending: str, bits: int, seed: int, asked: int
) -> None:
    chosen = [path for path in indexed.files if path.suffix == ending]
    for path in chosen:
        turn(path, bits, seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableSpecWarning)
            assert answer(indexed.table, FILTERS[asked]) == indexed.right[asked]
    finally:
        for path in chosen:
            turn(path, bits, seed)


@pytest.mark.parametrize("ending", ["term", "idx", "pos", "fast", "fieldnorm", "arrow"])
def test_a_single_bit_in_a_segment_costs_a_warning_until_a_refresh(new_table: NewTable, ending: str) -> None:
    table = new_table([(1, "a", "quick fox"), (2, "a", "lazy dog")], key=["id"])
    table.create_text_index(["body"])
    table.create_record_index()
    where = "id = 2" if ending == "arrow" else "MATCH(body, 'dog')"
    assert table.scan(where).count() == 1
    path, *_ = Path(table.url.removeprefix("file://")).glob(f"_tablespec/index/**/*.{ending}")

    turn(path, 1)

    with pytest.warns(TableSpecWarning, match="is not what was written: rows are read instead"):
        assert table.scan(where).to_table().to_pylist() == [{"id": 2, "kind": "a", "body": "lazy dog"}]
    with pytest.warns(TableSpecWarning, match="is not what was written"):
        assert sum(index.refresh().indexed for index in table.indexes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan(where).count() == 1


def test_a_damaged_copy_of_an_index_on_this_machine_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = tablespec.create_table("memory://damaged-copy/t", SCHEMA, key=["id"])
    table.append(data([(1, "a", "quick fox"), (2, "a", "lazy dog")]))
    table.create_text_index(["body"])
    assert table.scan("MATCH(body, 'dog')").count() == 1
    copy, *_ = tmp_path.glob("tablespec-index-*/*/*.term")
    before = copy.read_bytes()

    turn(copy, 1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan("MATCH(body, 'dog')").count() == 1
    assert copy.read_bytes() == before


@attrs.frozen
class Reluctant(Storage):
    """Fails what is asked of it about indexes, for the verbs that are named."""

    verbs: tuple[str, ...] = ()

    def list_folder(self, prefix: str) -> tuple[tuple[str, ...], tuple[FileInfo, ...]]:
        self._refuse("list_folder", prefix)
        return super().list_folder(prefix)

    def head(self, path: str) -> FileInfo | None:
        self._refuse("head", path)
        return super().head(path)

    def read(self, path: str) -> bytes:
        self._refuse("read", path)
        return super().read(path)

    def local_path(self, path: str) -> str | None:
        return None if "head" in self.verbs else super().local_path(path)

    def _refuse(self, verb: str, path: str) -> None:
        if verb in self.verbs and path.startswith("_tablespec"):
            raise StorageError(f"{self.url}/{path}", "access denied")


@pytest.mark.parametrize("verb", ["list_folder", "head", "read"])
def test_what_a_store_does_not_tell_about_indexes_costs_a_warning(indexed: Indexed, verb: str) -> None:
    table = tablespec.Table(open_format(Reluctant(indexed.table.url, verbs=(verb,))))

    with pytest.warns(TableSpecWarning, match="access denied"):
        answers = [answer(table, filter_) for filter_ in FILTERS]

    assert answers == list(indexed.right)


def test_a_store_that_does_not_tell_what_indexes_need_keeps_all_of_them_from_vacuum(new_table: NewTable) -> None:
    made = new_table([(1, "a", "quick fox")], key=["id"])
    made.create_record_index()
    made.compact()
    folder = Path(made.url.removeprefix("file://"))
    before = contents(folder)
    table = tablespec.Table(open_format(Reluctant(made.url, verbs=("read",))))

    for vacuum in (table.vacuum, table.vacuum_indexes):
        with pytest.raises(StorageError, match="access denied"):
            vacuum(timedelta(0), allow_short_retention=True)

    assert contents(folder) == before


class Full(Storage):
    """Has no room for the folders of segments."""

    def local_path(self, path: str) -> str | None:
        return super().local_path("_delta_log/00000000000000000000.json/x" if "/index/" in path else path)


def test_a_text_index_for_which_there_is_no_room_is_refused_by_name(new_table: NewTable) -> None:
    made = new_table([(1, "a", "quick fox")])
    table = tablespec.Table(open_format(Full(made.url)))

    with pytest.raises(StorageError, match="the text index cannot be written"):
        table.create_text_index(["body"])

    assert made.scan("MATCH(body, 'fox')").count() == 1
