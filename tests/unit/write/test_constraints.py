"""Constraints hold for changed rows as they will be read back, whichever verb changes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablespec
from tablespec import Strategy, when_matched_update, when_not_matched_by_source_update, when_not_matched_insert
from tablespec.errors import ConstraintViolatedError
from tests.handmade import contents

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("p", pa.string(), False), pa.field("q", pa.string())])
SOURCE = pa.table([[1], ["a"], [""]], schema=SCHEMA)
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


@pytest.fixture
def table(tmp_path):
    """Two rows in partitions by p, which must not be null, and q, which a check wants to be there."""
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["p", "q"], key=["id"])
    table.append(pa.table([[1, 2], ["a", "a"], ["x", "x"]], schema=SCHEMA))
    table.add_constraint("filled", "q IS NOT NULL")
    return table


@both
@pytest.mark.parametrize(("column", "constraint"), [("p", "p NOT NULL"), ("q", "filled")])
@pytest.mark.parametrize(
    "change",
    [
        lambda table, column, how: table.update({column: "''"}, "id = 1", **how),
        lambda table, column, how: table.update({column: "substring(p, 1, 0)"}, "id = 1", **how),
        lambda table, column, how: table.merge(SOURCE, "t.id = s.id", when_matched_update({column: "s.q"}), **how),
        lambda table, column, how: table.merge(
            SOURCE, "t.id = s.id", when_not_matched_by_source_update({column: "''"}), **how
        ),
        lambda table, column, how: table.merge(
            SOURCE,
            "t.id = s.id AND t.id > 9",
            when_not_matched_insert({"id": "9", "p": "'a'", "q": "'x'", column: "s.q"}),
            **how,
        ),
        lambda table, column, how: table.upsert(
            pa.table({"id": [1], "p": ["a"], "q": ["x"], column: [""]}, SCHEMA), **how
        ),
    ],
    ids=["update", "expression", "matched", "not matched by source", "inserted", "upsert"],
)
def test_no_characters_in_a_partition_column_are_the_null_that_is_stored(
    change, column, constraint, strategy, table, tmp_path
):
    before = contents(tmp_path)

    with pytest.raises(ConstraintViolatedError, match=constraint):
        change(table, column, {"strategy": strategy})

    assert contents(tmp_path) == before
