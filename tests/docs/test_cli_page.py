"""docs/cli.md says what the command really does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
import typer

import tablespec
from tablespec.cli.app import app, run
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands
DOCUMENTS = sorted(set(COMMANDS) - {"read", "changes", "search", "index"})
ARGUMENTS = {
    "delete": ["--where", "id = 1"],
    "update": ["--set", "id=2", "--where", "id = 1"],
    "replace-where": ["--where", "id = 1", "--data-columns", "--data", "new.csv"],
    "cluster": ["--by", "id"],
    "restore": ["--at", "0"],
    "sql": ["DELETE FROM trips WHERE id = 1"],
}


def test_every_command_has_a_section():
    assert re.findall(r"^### ([\w-]+)$", PAGE, re.MULTILINE) == list(COMMANDS)


def test_every_option_is_described():
    options = {name for command in COMMANDS.values() for option in command.params for name in option.opts}

    assert [name for name in sorted(options) if name.startswith("--") and f"`{name}" not in PAGE] == []


@pytest.mark.parametrize("command", DOCUMENTS)
def test_the_keys_of_a_document_are_those_of_its_section(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("id\n1\n")
    table = tablespec.create_table(str(tmp_path / "trips"), pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": [1]}))
    if command == "fsck":
        (tmp_path / "trips" / table.scan().slices[0].slice.base.path).unlink()

    run([command, str(tmp_path / "trips"), *ARGUMENTS.get(command, []), "--json"])

    section = PAGE.split(f"### {command}\n")[1].split("\n### ")[0]
    described = re.findall(r"`(\w+)`", section.split("Keys: ")[1].split("\nThe kinds")[0])
    assert [key for key in _keys(json.loads(capsys.readouterr().out)) if key not in described] == []


def _keys(document: dict[str, object]) -> Iterator[str]:
    """The keys of a document and of the objects in its lists; what properties a table has is its own matter."""
    for key, value in document.items():
        yield key
        if isinstance(value, list):
            for member in value:
                if isinstance(member, dict):
                    yield from member
