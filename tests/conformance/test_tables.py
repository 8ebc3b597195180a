"""Every engine reads every table, and gives the rows that are in it."""

from __future__ import annotations

import pytest

from tests.conformance.cells import cells
from tests.conformance.tables import SAMPLES
from tests.rows import assert_same_rows


@pytest.mark.parametrize(("engine", "capability"), cells("Tables"))
def test_an_engine_reads_all_rows_of_a_table(started, engine, capability, tmp_path):
    format_, name = capability.split(": ", 1)
    table, rows = SAMPLES[format_][name](tmp_path / "table")

    with started(engine) as running:
        found = running.read("scan", table)

    assert found.schema.names == list(table.schema.names)
    assert_same_rows(found, rows)


@pytest.mark.parametrize(("engine", "capability"), cells("Tables"))
def test_an_engine_reads_each_column_alone(started, engine, capability, tmp_path):
    format_, name = capability.split(": ", 1)
    table, rows = SAMPLES[format_][name](tmp_path / "table")

    with started(engine) as running:
        for index, column in enumerate(table.schema.names):
            assert_same_rows(running.read("scan", table, columns=[column]), [(row[index],) for row in rows])


@pytest.mark.parametrize(("engine", "capability"), cells("Tables"))
def test_an_engine_finds_the_rows_that_have_a_value_and_those_that_have_none(started, engine, capability, tmp_path):
    format_, name = capability.split(": ", 1)
    table, rows = SAMPLES[format_][name](tmp_path / "table")

    with started(engine) as running:
        for index, column in enumerate(table.schema.names):
            quoted = '"' + column.replace('"', '""') + '"'
            some = running.read("scan", table, where=f"{quoted} is not null")
            none = running.read("scan", table, where=f"{quoted} is null")

            assert_same_rows(some, [row for row in rows if row[index] is not None])
            assert_same_rows(none, [row for row in rows if row[index] is None])
