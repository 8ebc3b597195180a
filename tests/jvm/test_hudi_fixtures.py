"""Hudi tables made anew by Hudi on Spark, as those of tests/fixtures/hudi were, and read as Hudi reads them."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

import tablespec
from tests.bench.venvs import python_with
from tests.interop.test_real_hudi_tables import changes_in_json, expected_rows, image, told
from tests.java import missing_java
from tests.jvm.delta_spark import FOREIGN

PACKAGES = ("pyspark==3.5.9",)
MAKE = Path(__file__).parents[1] / "fixtures" / "hudi" / "make.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with tables of all stories and with Hudi's answers; skipped where Hudi cannot be fetched."""
    if (reason := missing_java()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hudi")
    environment = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    try:
        python = python_with("hudi-venv", PACKAGES)
        subprocess.run(
            [python, MAKE, str(folder)], check=True, capture_output=True, text=True, env={**environment, "TZ": "UTC"}
        )
    except subprocess.CalledProcessError as error:
        if any(
            word in error.stderr
            for word in ("unresolved dependency", "No matching distribution", "Could not find a version")
        ):
            pytest.skip("Hudi on Spark cannot be fetched here")
        raise
    return folder


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", sorted(archive.stem for archive in MAKE.parent.glob("*.zip")))
def test_a_table_made_anew_reads_as_hudi_reads_it(made, tmp_path, name):
    with zipfile.ZipFile(made / f"{name}.zip") as files:
        files.extractall(tmp_path)
    expected = json.loads((tmp_path / f"{name}.expected.json").read_text())
    table = tablespec.open_table(str(tmp_path / name))

    def check(read, answer, *window, **options):
        names = [field["name"] for field in expected["schemas"][answer["schema"]]["fields"]]
        assert told(read(*window, columns=names, **options).to_table()) == expected_rows(names, answer)

    check(table.scan, expected["snapshot"])
    check(table.read_optimized, expected["read_optimized"])
    for at, answer in expected["as_of"].items():
        if "error" not in answer:
            check(table.scan, answer, at=at)
    for answer in expected["incremental"]:
        if "error" not in answer:
            check(table.incremental, answer, *bounds(answer))
    for answer in expected["cdc"]:
        if "error" not in answer:
            rows = [[op, str(at), image(before), image(after)] for op, at, before, after in answer["rows"]]
            found = changes_in_json(table.changes(*bounds(answer)).to_table().to_pylist(), table.record_key)
            assert found == sorted(json.dumps(row, sort_keys=True) for row in rows)


def bounds(answer: dict[str, str]) -> tuple[str | None, str]:
    return None if answer["begin"] == "000" else answer["begin"], answer["end"]
