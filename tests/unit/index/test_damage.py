"""Whichever bits of whichever file of an index change, every answer is the one that it would be without the index."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tablespec
from tablespec.errors import TableSpecWarning
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
