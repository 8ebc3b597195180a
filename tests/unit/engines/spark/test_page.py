"""docs/spark.md, run as it is written."""

from __future__ import annotations

import pytest

from tests.docs.blocks import blocks

pytestmark = pytest.mark.spark


def test_the_examples_of_the_page_run_from_top_to_bottom(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example", "spark": spark}

    for block in blocks("docs/spark.md"):
        exec(compile(block.text, f"docs/spark.md:{block.line}", "exec"), names)
        assert block.printed in (None, capsys.readouterr().out), f"docs/spark.md:{block.line}"
