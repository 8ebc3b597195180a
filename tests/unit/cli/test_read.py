"""Rows on a screen and as lines of JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import tablespec
from tablespec.cli.cells import as_json, as_text


@pytest.fixture
def every_type(tmp_path) -> str:
    """The path of a table with a column of each type: one row of values, one of nulls, one of odd values."""
    noon = datetime(2026, 1, 31, 12, 0, 0, 5)
    nested = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
    columns = {
        "flag": pa.array([True, None, False]),
        "tiny": pa.array([-128, None, 0], pa.int8()),
        "small": pa.array([-32768, None, 0], pa.int16()),
        "number": pa.array([1, None, 0], pa.int32()),
        "big": pa.array([2**63 - 1, None, 0], pa.int64()),
        "single": pa.array([0.1, None, float("-inf")], pa.float32()),
        "double": pa.array([0.1, None, float("nan")], pa.float64()),
        "exact": pa.array([Decimal("0.0000000010"), None, Decimal("-12")], pa.decimal128(38, 10)),
        "text": pa.array(["Zoë", None, "a\n\x1b[31m[b]"]),
        "bytes": pa.array([b"\x00\xff", None, b""]),
        "day": pa.array([date(2026, 1, 31), None, date(1, 1, 1)]),
        "at": pa.array([noon.replace(tzinfo=UTC), None, datetime(1, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "local": pa.array([noon, None, datetime(9999, 12, 31)], pa.timestamp("us")),
        "nested": pa.array([{"x": 1, "tags": ["a", None]}, None, {"x": None, "tags": []}], nested),
        "map": pa.array([[(1, Decimal("1.50"))], None, []], pa.map_(pa.int32(), pa.decimal128(5, 2))),
    }
    rows = pa.table(columns)
    path = str(tmp_path / "every_type")
    tablespec.create_table(path, rows.schema).append(rows)
    return path


def test_json_lines_hold_every_type_without_loss(command, every_type):
    outcome = command("read", every_type, "--json")

    first, nulls, odd = map(json.loads, outcome.out.splitlines())
    assert first == {
        "flag": True,
        "tiny": -128,
        "small": -32768,
        "number": 1,
        "big": 2**63 - 1,
        "single": 0.1,
        "double": 0.1,
        "exact": "0.0000000010",
        "text": "Zoë",
        "bytes": "00ff",
        "day": "2026-01-31",
        "at": "2026-01-31T12:00:00.000005Z",
        "local": "2026-01-31T12:00:00.000005",
        "nested": {"x": 1, "tags": ["a", None]},
        "map": {"1": "1.50"},
    }
    assert nulls == dict.fromkeys(first)
    assert odd == {
        "flag": False,
        "tiny": 0,
        "small": 0,
        "number": 0,
        "big": 0,
        "single": "-Infinity",
        "double": "NaN",
        "exact": "-12.0000000000",
        "text": "a\n\x1b[31m[b]",
        "bytes": "",
        "day": "0001-01-01",
        "at": "0001-01-01T00:00:00Z",
        "local": "9999-12-31T00:00:00",
        "nested": {"x": None, "tags": []},
        "map": {},
    }


def test_a_table_of_rows_shows_each_row_on_one_line(command, every_type):
    outcome = command("read", every_type, "--columns", "tiny,double,text,nested,map")

    assert outcome.out.splitlines() == [
        "tiny   double   text             nested                          map",
        "──────────────────────────────────────────────────────────────────────────────",
        '-128      0.1   Zoë              {"x": 1, "tags": ["a", null]}   {"1": "1.50"}',
        "null     null   null             null                            null",
        '   0      NaN   a\\n\\x1b[31m[b]   {"x": null, "tags": []}         {}',
        "(3 rows)",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(253402300800000000, pa.timestamp("us", "UTC")), "10000-01-01T00:00:00Z"),
        (pa.scalar(2932897, pa.int32()).cast(pa.date32()), "10000-01-01"),
        (pa.array([b"a\xff"], pa.binary()).view(pa.string())[0], "a\\xff"),
        (pa.scalar(None, pa.null()), "null"),
    ],
    ids=["instant after 9999", "date after 9999", "text that is not UTF-8", "void"],
)
def test_values_that_python_cannot_hold_are_shown_all_the_same(value, text):
    assert as_text(as_json(value)) == text


def test_rows_can_be_filtered_projected_and_read_as_of_an_instant(command, trips):
    everything = command("read", trips.path, "--json")
    some = command("read", trips.path, "--json", "--where", "fare > 1", "--columns", "city,id", "--at", "1")

    assert everything.out.splitlines() == [
        '{"id": 3, "fare": "7.00", "city": "la"}',
        '{"id": 1, "fare": "12.50", "city": "sf"}',
        '{"id": 2, "fare": null, "city": "sf"}',
    ]
    assert some.out == '{"city": "sf", "id": 1}\n'


def test_a_limit_says_that_there_is_more(command, trips):
    limited, exact = command("read", trips.path, "--limit", 1), command("read", trips.path, "--limit", 3)

    assert limited.out.splitlines()[2:] == [" 3   7.00   la", "(the first 1 row; --limit 0 gives all)"]
    assert exact.out.splitlines()[2:] == [" 3    7.00   la", " 1   12.50   sf", " 2    null   sf", "(3 rows)"]


def test_the_limit_zero_gives_all_rows(command, tmp_path):
    path = str(tmp_path / "numbers")
    rows = pa.table({"n": range(2500)})
    tablespec.create_table(path, rows.schema).append(rows)

    assert command("read", path, "--json", "--limit", 0).out == "".join(f'{{"n": {n}}}\n' for n in range(2500))
    assert command("read", path, "--json").out == "".join(f'{{"n": {n}}}\n' for n in range(20))
    assert command("read", path, "--limit", 0).out.splitlines()[-1] == "(2500 rows)"


def test_an_empty_answer_still_has_its_columns(command, trips):
    outcome = command("read", trips.path, "--where", "id > 100")

    assert outcome.out.splitlines() == ["id   fare   city", "────────────────", "(0 rows)"]
    assert command("read", trips.path, "--where", "id > 100", "--json").out == ""
