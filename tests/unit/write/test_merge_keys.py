"""Keys of a merge whose types differ between the source and the table."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import attrs
import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import TypeMismatchError
from tests.handmade import contents
from tests.rows import assert_same_rows

KINDS = {
    "byte": (pa.int8(), [1, 2, -128, 127, None]),
    "int": (pa.int32(), [1, 2, 300, 16777217, 2**31 - 1, None]),
    "long": (pa.int64(), [1, 2, 300, 16777217, 2**31, 2**53, 2**53 + 1, 2**63 - 1, None]),
    "float": (pa.float32(), [1.0, 0.1, 1.5, 300.0, 16777216.0, float("nan"), -0.0, float("inf"), None]),
    "double": (pa.float64(), [1.0, 0.1, 0.124, 1.5, 300.0, 1e300, float("nan"), 0.0, float("-inf"), None]),
    "short decimal": (pa.decimal128(5, 2), [Decimal("1.00"), Decimal("0.10"), Decimal("0.12"), None]),
    "decimal": (pa.decimal128(20, 4), [Decimal("1"), Decimal("0.1"), Decimal("0.1234"), Decimal(2**53 + 1), None]),
    "whole decimal": (pa.decimal128(38, 0), [Decimal(1), Decimal(2**53 + 1), Decimal(10) ** 37, Decimal(0), None]),
}
# A condition that says the same as `t.k = s.k` and has no equal columns, so that every pair is looked at.
EQUAL = "t.k >= s.k and t.k <= s.k"


@attrs.frozen(eq=False)
class Gathered:
    """A source that an engine holds in many places, all of which are here."""

    table: pa.Table

    @property
    def arrow_schema(self):
        return self.table.schema

    def key_values(self, columns):
        return [tablespec.KeyValues.of(self.table.column(column)) for column in columns]

    def read_all(self):
        return self.table

    def merge(self, work, table_rows):
        order = pa.array(range(self.table.num_rows), pa.int64())
        (rows,) = self.table.combine_chunks().to_batches()
        batches = [work.source_rows(rows, order), *(batch for task in table_rows for batch in task.read())]
        return work.store(page for _, page in work.pages(batches, 1))


def _filled(folder, kind):
    arrow, values = KINDS[kind]
    table = tablespec.create_table(str(folder), pa.schema([("k", arrow), ("n", pa.int64())]))
    table.append(pa.table({"k": pa.array(values, arrow), "n": range(len(values))}))
    return table


@pytest.mark.parametrize(("kind", "given"), list(permutations(KINDS, 2)))
def test_keys_of_different_types_are_equal_where_the_columns_are(tmp_path, kind, given):
    arrow, values = KINDS[given]
    table = _filled(tmp_path, kind)
    state = table.instant().version
    clauses = (
        tablespec.when_matched_delete(),
        tablespec.when_not_matched_by_source_update({"n": "n + 100"}, "t.n = 0"),
    )

    source = pa.table({"k": pa.array(values, arrow)})
    answers = {}
    for name, rows, on, some in [
        ("pairs", source, EQUAL, clauses),
        ("keys", source, "t.k = s.k", clauses),
        ("keys alone", source, "t.k = s.k", clauses[:1]),
        ("spread", Gathered(source), "t.k = s.k", clauses[:1]),
    ]:
        table.merge(rows, on, *some)
        answers[name] = sorted(row % 100 for row in table.scan().to_table().column("n").to_pylist())
        table.restore(state)

    assert answers == dict.fromkeys(answers, answers["pairs"])


@pytest.mark.parametrize(
    ("kind", "key"), [("long", 2.0**53), ("long", -(2.0**60)), ("decimal", 1e11), ("whole decimal", 1e15)]
)
def test_keys_that_several_values_of_the_table_equal_are_refused_and_nothing_changes(tmp_path, kind, key):
    table = _filled(tmp_path, kind)
    before = contents(tmp_path)

    with pytest.raises(TypeMismatchError, match="several values equal it; cast the keys of the source"):
        table.merge(pa.table({"k": [key]}), "t.k = s.k", tablespec.when_matched_delete())

    assert contents(tmp_path) == before


def test_keys_as_floating_point_update_the_rows_that_they_name(tmp_path):
    table = tablespec.create_table(str(tmp_path), pa.schema([("id", pa.int64()), ("v", pa.string())]), key=["id"])
    table.append(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))

    table.merge(
        pa.table({"id": [2.0, 2.5, None, 7.0], "v": ["x", "y", "z", "w"]}),
        "t.id = s.id",
        tablespec.when_matched_update({"v": "s.v"}),
        tablespec.when_not_matched_insert({"v": "s.v"}),
    )

    assert_same_rows(table.scan(), [(1, "a"), (2, "x"), (3, "c"), (None, "y"), (None, "z"), (None, "w")])
