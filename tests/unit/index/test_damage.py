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
from tests.unit.index.test_any_history import answers

WORDS = ("fox", "dog", "quick", "lazy", "the", "brown", "owl")
ASKED = (
    ("MATCH(body, 'fox')", "fox"),
    ("MATCH(body, '\"quick dog\"')", "quick dog"),
    ("NOT MATCH(body, 'lazy')", "qui*"),
    ("MATCH(body, 'foxes', 'en_stem')", "NOT the"),
    ("id IN (3, 8, 11, 40)", "owl"),
)


@attrs.frozen
class Indexed:
    """A table with indexes of every kind, and what is asked of it with the answers that it gives without them."""

    table: tablespec.Table
    files: tuple[Path, ...]
    right: tuple[object, ...]


@pytest.fixture(scope="module")
def indexed() -> Iterator[Indexed]:
    chance = Random(1)
    with TemporaryDirectory() as place:
        table = tablespec.create_table(f"{place}/t", SCHEMA, key=["id"])
        for start in (0, 40):
            rows = [
                (start + n, "ab"[n % 2], " ".join(chance.choices(WORDS, k=4)) if n % 7 else None) for n in range(40)
            ]
            table.append(data(rows))
        right = tuple(answers(table, *asked) for asked in ASKED)
        table.create_text_index(["body"])
        table.create_text_index(["kind", "body"], "en_stem", name="stems")
        table.create_record_index()
        files = tuple(sorted(path for path in Path(place, "t/_tablespec").rglob("*") if path.stat().st_size))
        yield Indexed(table, tuple(path for path in files if path.is_file()), right)


def turn(path: Path, places: list[float], bits: list[int]) -> None:
    """Turn some bits of a file around in place, as a disk would do it; once more, and it is as it was."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place, bit in zip(places, bits):
            file.seek(int(place * size))
            byte = file.read(1)[0]
            file.seek(-1, 1)
            file.write(bytes([byte ^ 1 << bit]))


@settings(max_examples=60)
@given(
    st.floats(0, 1, exclude_max=True),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3),
    st.lists(st.integers(0, 7), min_size=3, max_size=3),
    st.integers(0, len(ASKED) - 1),
)
def test_no_bit_that_turns_in_a_file_of_an_index_changes_an_answer(
    indexed: Indexed, file: float, places: list[float], bits: list[int], asked: int
) -> None:
    path = indexed.files[int(file * len(indexed.files))]
    turn(path, places, bits)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableSpecWarning)
            assert answers(indexed.table, *ASKED[asked]) == indexed.right[asked]
    finally:
        turn(path, places, bits)


@pytest.mark.parametrize("ending", ["term", "idx", "pos", "fast", "fieldnorm", "arrow"])
def test_a_single_bit_in_a_segment_costs_a_warning_until_a_refresh(new_table: NewTable, ending: str) -> None:
    table = new_table([(1, "a", "quick fox"), (2, "a", "lazy dog")], key=["id"])
    table.create_text_index(["body"])
    table.create_record_index()
    where = "id = 2" if ending == "arrow" else "MATCH(body, 'dog')"
    assert table.scan(where).count() == 1
    path, *_ = Path(table.url.removeprefix("file://")).glob(f"_tablespec/index/**/*.{ending}")

    turn(path, [0.5], [0])

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

    turn(copy, [0.5], [0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan("MATCH(body, 'dog')").count() == 1
    assert copy.read_bytes() == before
