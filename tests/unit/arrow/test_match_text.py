"""Rows are told by their words."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tablespec.arrow.match_text import DamagedTextIndexError, indexed_rows, match_text, opened_index
from tablespec.errors import InvalidTextQueryError
from tablespec.expr.tokenizer import TOKENIZERS

TEXTS = pa.array(["Hello big World", None, "the world says hello", "", "running, runs", "foo-bar baz"])


def rows(query: str, tokenizer: str = "default") -> list[int]:
    """The numbers of the texts that match."""
    found = match_text({"body": TEXTS}, query, tokenizer).to_pylist()
    assert [number for number, outcome in enumerate(found) if outcome is None] == [1]
    return [number for number, outcome in enumerate(found) if outcome]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("hello", [0, 2]),
        ("HELLO", [0, 2]),
        ("hell", []),
        ("hel*", [0, 2]),
        ("helo~1", [0, 2]),
        ("hlelo~1", [0, 2]),
        ("hexxo~1", []),
        ("hexxo~2", [0, 2]),
        ('"hello world"', []),
        ('"hello world"~1', [0]),
        ('"big world"', [0]),
        ('"big wor"*', [0]),
        ("foo-bar", [5]),
        ("foo-ba*", [5]),
        ("bar-foo", []),
        ("big says", [0, 2]),
        ("big AND says", []),
        ("+hello -big", [2]),
        ("-hello", [3, 4, 5]),
        ("NOT (hello OR running)", [3, 5]),
        ("big OR NOT hello", [0, 3, 4, 5]),
        ("*", [0, 2, 3, 4, 5]),
        ("hello AND ...", [0, 2]),
        ("body:big", [0]),
    ],
)
def test_a_query_finds_the_rows_that_it_describes(query: str, found: list[int]) -> None:
    assert rows(query) == found


def test_a_tokenizer_says_what_a_word_is() -> None:
    assert rows("run", "en_stem") == [4]
    assert rows("run", "default") == []
    assert rows("running*", "en_stem") == []
    assert rows("foo-bar", "whitespace") == [5]
    assert rows("foo", "whitespace") == []
    assert rows('"foo-bar baz"', "raw") == [5]
    assert rows("foo-b*", "raw") == [5]
    assert match_text({"body": pa.array(["Café"])}, "cafe", "folded").to_pylist() == [True]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_every_tokenizer_finds_a_whole_text(tokenizer: str) -> None:
    assert match_text({"body": pa.array(["abc", "xyz"])}, "abc", tokenizer).to_pylist() == [True, False]


def test_several_columns_are_looked_through_together() -> None:
    columns = {"a": pa.array(["x", None, None, "y"]), "b": pa.array(["y", "y", None, "x"])}

    assert match_text(columns, "x AND y", "default").to_pylist() == [True, False, None, True]
    assert match_text(columns, "a:x", "default").to_pylist() == [True, False, None, False]
    assert match_text(columns, "-x", "default").to_pylist() == [False, True, None, False]


def test_a_query_without_a_word_is_refused() -> None:
    with pytest.raises(InvalidTextQueryError, match="no word in it that the tokenizer default keeps"):
        rows("...")
    with pytest.raises(InvalidTextQueryError, match="makes 2 words of it"):
        rows("foo-bar~1")


def test_words_of_any_length_are_found() -> None:
    long = "a" * 5000

    assert match_text({"body": pa.array([f"x {long}", "x"])}, long, "default").to_pylist() == [True, False]


def test_an_index_in_a_folder_finds_what_one_in_memory_finds(tmp_path: Path) -> None:
    indexed_rows(["body"], "default", [(0, [TEXTS.slice(0, 3)]), (3, [TEXTS.slice(3)])], str(tmp_path))

    again = opened_index(str(tmp_path), ("body",), "default")

    assert sorted(again.hits("hello OR foo", ("body",))[0]) == [0, 2, 5]
    assert sorted(again.nulls(("body",))) == [1]
    assert again.rows == 6


def test_rows_are_ranked_completely_and_equal_ones_by_position() -> None:
    texts = pa.array(["word"] * 300 + ["word word"])

    ranked = list(indexed_rows(["body"], "default", [(0, [texts])]).ranked("word", ("body",)))

    assert [position for _, position in ranked] == [300, *range(300)]


def test_a_damaged_folder_is_told(tmp_path: Path) -> None:
    indexed_rows(["body"], "default", [(0, [TEXTS])], str(tmp_path))
    (tmp_path / "meta.json").write_text("{")

    with pytest.raises(DamagedTextIndexError):
        opened_index(str(tmp_path), ("body",), "default").hits("hello", ("body",))
