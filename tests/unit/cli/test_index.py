"""The commands about indexes, and the one that searches text."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two notes."""
    notes = pa.table({"id": [1, 2], "body": ["a quick fox", "a lazy dog"]})
    tablespec.create_table(str(tmp_path / "notes"), notes.schema, key=["id"]).append(notes)
    return str(tmp_path / "notes")


def test_indexes_are_made_listed_refreshed_and_dropped(command, url):
    made = json.loads(command("index", "create", url, "--text", "body", "--tokenizer", "en_stem", "--json").out)
    command("index", "create", url, "--key", "--name", "keys")
    listed = json.loads(command("index", "list", url, "--json").out)["indexes"]
    refreshed = json.loads(command("index", "refresh", url, "--json").out)["indexes"]
    command("index", "drop", url, "keys")

    assert {key: made[key] for key in ("name", "kind", "columns", "tokenizer", "covered")} == {
        "name": "text-body",
        "kind": "text",
        "columns": ["body"],
        "tokenizer": "en_stem",
        "covered": 1,
    }
    assert [(one["name"], one["kind"], one["covered"]) for one in listed] == [
        ("keys", "record", 1),
        ("text-body", "text", 1),
    ]
    assert [(one["name"], one["indexed"], one["covered"]) for one in refreshed] == [("keys", 0, 1), ("text-body", 0, 1)]
    assert command("index", "list", url).out.splitlines()[2].split()[:3] == ["text-body", "text", '["body"]']


def test_search_gives_rows_with_snippets(command, url):
    outcome = command("search", url, "foxes OR do*", "--tokenizer", "en_stem", "--columns", "id", "--json")

    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert sorted((one["id"], one["_snippet"]) for one in found) == [(1, "a quick <b>fox</b>"), (2, "a lazy dog")]
    assert command("search", url, "fox", "--in", "body").out.splitlines()[-1] == "(1 row)"


def test_bad_requests_end_with_an_error_and_the_place(command, url):
    malformed = command("search", url, "quick AND")
    unknown = command("index", "drop", url, "words")
    both = command("index", "create", url, "--key", "--text", "body")

    assert (malformed.code, unknown.code, both.code) == (2, 2, 2)
    assert "position 9" in malformed.err
    assert "has no index 'words'" in unknown.err
    assert "give either --text" in both.err
