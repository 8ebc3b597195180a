"""Every example of the README and the documentation, run as it is written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks

LANGUAGES = {"python", "sh", "text"}
# The examples of these pages need the shared Spark session; a test of the adapter runs them.
WITH_SPARK = {"docs/spark.md"}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITH_SPARK])
def test_the_examples_of_a_page_run_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}

    for block in blocks(page):
        match block.language:
            case "python":
                exec(compile(block.text, f"{page}:{block.line}", "exec"), names)
                printed = capsys.readouterr().out
            case "sh":
                printed = "".join(_run(command) for command in block.text.splitlines())
            case _:
                continue
        assert block.printed in (None, printed), f"{page}:{block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_its_language(page):
    assert [block.line for block in blocks(page) if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_of_the_project_leads_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]

    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []


def test_the_tests_are_run_by_the_command_of_the_readme():
    commands = [line for block in blocks("README.md") if block.language == "sh" for line in block.text.splitlines()]

    assert "make test" in commands
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def _run(command: str) -> str:
    """What a command prints; those that set up or test the project itself are only checked to exist."""
    program, *arguments = shlex.split(command)
    if program == "pip":
        return _check_extras(arguments)
    if program == "make":
        return _check_target(arguments)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        env={**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _check_extras(arguments: list[str]) -> str:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    verb, what = arguments
    extras = re.fullmatch(r"\.\[([\w,]+)\]", what)
    assert verb == "install"
    assert extras is not None
    assert set(extras[1].split(",")) <= set(known)
    return ""


def _check_target(arguments: list[str]) -> str:
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return ""
