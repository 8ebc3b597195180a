"""Statistics in the log: parsed in whole columns as a plain parser would, and written so that they bound every value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import TableSpecWarning
from tablespec.formats.delta.stats_json import TIE_BREAKER, Leaf, Parts, format_stats, json_of_parsed, parse_stats
from tablespec.model.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
)
from tablespec.model.stats import ColumnStats, FileStats

TABLE = "memory:///table"
PRICE, HUGE = DecimalType(9, 2), DecimalType(38, 18)
LEAVES = (
    Leaf(("id",), LONG),
    Leaf(("small",), BYTE),
    Leaf(("ratio",), DOUBLE),
    Leaf(("name",), STRING),
    Leaf(("day",), DATE),
    Leaf(("at",), TIMESTAMP),
    Leaf(("local",), TIMESTAMP_NTZ),
    Leaf(("price",), PRICE),
    Leaf(("huge",), HUGE),
    Leaf(("flag",), BOOLEAN),
    Leaf(("trip", "stop", "no"), INTEGER),
    Leaf(("trip", "note"), STRING),
)
BOUNDED = [leaf for leaf in LEAVES if leaf.type != BOOLEAN]


def parsed(*texts: str | None, leaves: Sequence[Leaf] = LEAVES, parts: Parts = Parts.ALL) -> list[object]:
    return [plain(row) for row in parse_stats(pa.array(texts, pa.string()), leaves, TABLE, parts).to_pylist()]


def plain(row: object) -> object:
    """A row of statistics without the members that are null: a missing one and a null one say the same."""
    if not isinstance(row, dict):
        return {} if row is None else row
    below = {name: plain(value) for name, value in row.items() if value is not None}
    return {name: value for name, value in below.items() if value != {}}


# --- parsing ----------------------------------------------------------------------------------------------------------


def test_counts_and_bounds_of_every_type_are_parsed():
    text = json.dumps(
        {
            "numRecords": 7,
            "tightBounds": False,
            "minValues": {
                "id": -5,
                "small": -128,
                "ratio": 1,
                "name": "a",
                "day": "0001-01-01",
                "at": "2020-01-01T00:00:00.123Z",
                "local": "2020-01-01T00:00:00.123",
                "price": 1.5,
                "trip": {"stop": {"no": 3}, "note": ""},
                "unknown": 1,
            },
            "maxValues": {"at": "2020-01-01T00:00:00.000+02:00", "huge": 12345678901234567890},
            "nullCount": {"id": 0, "flag": 7, "trip": {"stop": {"no": 2}}},
        }
    )

    assert parsed(text) == [
        {
            "numRecords": 7,
            "tightBounds": False,
            "minValues": {
                "id": -5,
                "small": -128,
                "ratio": 1.0,
                "name": "a",
                "day": date(1, 1, 1),
                "at": datetime(2020, 1, 1, 0, 0, 0, 123000, tzinfo=UTC),
                "local": datetime(2020, 1, 1, 0, 0, 0, 123000),
                "price": Decimal("1.50"),
                "trip": {"stop": {"no": 3}, "note": ""},
            },
            "maxValues": {
                "at": datetime(2019, 12, 31, 22, tzinfo=UTC),
                "huge": Decimal("12345678901234567890.000000000000000000"),
            },
            "nullCount": {"id": 0, "flag": 7, "trip": {"stop": {"no": 2}}},
        }
    ]


def test_a_file_without_statistics_has_none():
    assert parsed(None, '{"numRecords": 3}', None) == [{}, {"numRecords": 3}, {}]
    assert parsed(None, None) == [{}, {}]
    assert parsed() == []


def test_only_the_parts_asked_for_are_there():
    text = '{"numRecords":1,"tightBounds":true,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'
    bounds, counts = {"minValues": {"id": 1}, "maxValues": {"id": 2}}, {"numRecords": 1, "nullCount": {"id": 0}}

    assert parsed(text, parts=Parts.BOUNDS) == [bounds]
    assert parsed(text, parts=Parts.COUNTS) == [{**bounds, **counts}]
    assert parsed(text, parts=Parts.ALL) == [{**bounds, **counts, "tightBounds": True}]
    assert parsed(text, leaves=()) == [{"numRecords": 1, "tightBounds": True}]


def test_line_breaks_and_blanks_between_the_members_change_nothing():
    document = {"numRecords": 2, "minValues": {"trip": {"stop": {"no": 1}}}, "nullCount": {"id": 1}}

    assert parsed(json.dumps(document, indent=4)) == parsed(json.dumps(document, separators=(",", ":"))) == [document]


@pytest.mark.parametrize("odd", ["", "not json", "{", "[1]", "7", "null", '"text"', '{"numRecords":}'])
def test_statistics_that_are_no_json_object_are_not_used_and_a_warning_counts_them(odd):
    with pytest.warns(TableSpecWarning, match="the statistics of 2 files are not JSON"):
        rows = parsed('{"numRecords":1,"minValues":{"id":1}}', odd, None, odd)

    assert rows == [{"numRecords": 1, "minValues": {"id": 1}}, {}, {}, {}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('{"numRecords":7}{"numRecords":8}', ""),
        ('{"numRecords":7}\n{"numRecords":8}', " "),
        ('{"numRecords":7', "}"),
        ('{"numRecords":', "7}"),
        ('{"minValues":{"name":"}', '{"}}'),
    ],
)
def test_texts_are_never_taken_together(first, second):
    with pytest.warns(TableSpecWarning, match="the statistics of 2 files are not JSON"):
        rows = parsed('{"numRecords":1}', first, second, '{"numRecords":2}')

    assert rows == [{"numRecords": 1}, {}, {}, {"numRecords": 2}]


@pytest.mark.parametrize(
    "bounds",
    [
        {"id": "5"},
        {"id": 1.5},
        {"id": True},
        {"id": 2**63},
        {"id": {}},
        {"small": 128},
        {"ratio": "NaN"},
        {"ratio": "Infinity"},
        {"ratio": False},
        {"name": 5},
        {"day": "yesterday"},
        {"day": 18262},
        {"at": "+10000-01-01T00:00:00.000Z"},
        {"local": 0},
        {"price": "cheap"},
        {"price": "NaN"},
        {"price": 10_000_000},
        {"price": 1e300},
        {"trip": 5},
        {"trip": {"stop": None}},
        {"trip": {"stop": {"no": [1]}}},
        None,
        5,
    ],
    ids=repr,
)
def test_a_bound_that_is_no_value_of_its_type_is_unknown_and_the_others_stay(bounds):
    text = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": {"id": 5}, "nullCount": {"id": 0}})

    assert parsed(text) == [{"numRecords": 1, "maxValues": {"id": 5}, "nullCount": {"id": 0}}]


@pytest.mark.parametrize("count", ["5", True, 1.5, 2**70, None, {}], ids=repr)
def test_a_count_that_is_no_whole_number_is_unknown(count):
    text = json.dumps({"numRecords": count, "nullCount": {"id": count, "name": 2}})

    assert parsed(text) == [{"nullCount": {"name": 2}}]


@pytest.mark.parametrize("quote", ["", '"'], ids=["number", "text"])
@pytest.mark.parametrize("others", [(), ('{"maxValues":{"ratio":"NaN"}}',)], ids=["alone", "beside odd ones"])
def test_a_decimal_keeps_all_its_digits(quote, others):
    exact = f'{{"maxValues":{{"huge":{quote}12345678901234567890.123456789012345678{quote}}}}}'

    assert parsed(exact, *others)[0] == {"maxValues": {"huge": Decimal("12345678901234567890.123456789012345678")}}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "trip", "stop"]), inner),
    max_leaves=4,
)
GOOD: dict[DataType, st.SearchStrategy[object]] = {
    LONG: st.integers(-(2**63), 2**63 - 1),
    INTEGER: st.integers(-(2**31), 2**31 - 1),
    BYTE: st.integers(-128, 127),
    DOUBLE: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    STRING: st.text(max_size=5),
    DATE: st.dates().map(date.isoformat),
    TIMESTAMP: st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z"),
    TIMESTAMP_NTZ: st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds")),
    PRICE: st.integers(-(10**7) + 1, 10**7 - 1) | st.integers(-999, 999).map(lambda cents: cents / 4),
    HUGE: st.integers(-(10**20) + 1, 10**20 - 1),
    BOOLEAN: st.integers(0, 9),
}


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Statistics as other writers may write them, with an odd value here and there."""
    odd = draw(st.booleans())

    def members(kind: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for leaf in draw(st.lists(st.sampled_from(LEAVES), max_size=4, unique=True)):
            good = st.integers(0, 9) if kind == "nullCount" else GOOD[leaf.type]
            put(found, leaf.path, draw(JSON | good if odd else good))
        return found

    document: dict[str, object] = {kind: members(kind) for kind in ("minValues", "maxValues", "nullCount")}
    if draw(st.booleans()):
        document["numRecords"] = draw(JSON | st.integers(0, 9) if odd else st.integers(0, 9))
    return json.dumps(document, indent=draw(st.sampled_from([None, 1])))


@given(texts=st.lists(st.none() | documents(), max_size=4))
def test_many_texts_are_parsed_as_a_plain_parser_parses_each(texts):
    assert parsed(*texts) == [reference(text) for text in texts]


def reference(text: str | None) -> object:
    """The statistics in a text, parsed in the plainest way."""
    document = {} if text is None else json.loads(text, parse_float=Decimal)
    row: dict[str, object] = {"numRecords": whole(document.get("numRecords"), 64)}
    for kind in ("minValues", "maxValues", "nullCount"):
        row[kind] = {}
        for leaf in LEAVES if kind == "nullCount" else BOUNDED:
            raw = dug(document.get(kind), leaf.path)
            put(row[kind], leaf.path, whole(raw, 64) if kind == "nullCount" else typed(raw, leaf.type))
    return plain(row)


def typed(raw: object, data_type: DataType) -> object:
    try:
        match data_type:
            case DecimalType(precision, scale):
                value = None if isinstance(raw, bool) or not isinstance(raw, int | Decimal | str) else Decimal(raw)
                fits = value is not None and value.is_finite() and abs(value) < 10 ** (precision - scale)
                return Decimal(format(value, f".{scale}f")) if fits else None
            case _ if data_type in (LONG, INTEGER, BYTE):
                return whole(raw, {LONG: 64, INTEGER: 32, BYTE: 8}[data_type])
            case _ if data_type == DOUBLE:
                return float(raw) if isinstance(raw, int | Decimal) and not isinstance(raw, bool) else None
            case _ if not isinstance(raw, str) or data_type == STRING:
                return raw if isinstance(raw, str) else None
            case _ if data_type == DATE:
                return date.fromisoformat(raw)
            case _:
                moment = datetime.fromisoformat(raw)
                return moment.replace(tzinfo=UTC) if data_type == TIMESTAMP else moment.replace(tzinfo=None)
    except (ValueError, InvalidOperation):
        return None


def whole(raw: object, bits: int) -> int | None:
    if isinstance(raw, bool) or not isinstance(raw, int | Decimal) or raw != int(raw):
        return None
    return int(raw) if -(2 ** (bits - 1)) <= raw < 2 ** (bits - 1) else None


def dug(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def put(document: object, path: tuple[str, ...], value: object) -> None:
    assert isinstance(document, dict)
    if len(path) == 1:
        document[path[0]] = value
        return
    if not isinstance(document.setdefault(path[0], {}), dict):
        return
    put(document[path[0]], path[1:], value)


# --- writing ----------------------------------------------------------------------------------------------------------


def written(data_type: DataType, low: object, high: object, nulls: int | None = 0) -> dict[str, object]:
    stats = FileStats(3, (ColumnStats(("x",), low, high, nulls),))
    return json.loads(format_stats(stats, {("x",): data_type}), parse_float=Decimal)


def test_counts_and_nested_bounds_are_written_under_physical_names():
    columns = (
        ColumnStats(("id",), 1, 9, 0),
        ColumnStats(("trip", "stop", "no"), 3, 4, 2),
        ColumnStats(("trip", "note"), None, None, 3),
        ColumnStats(("flag",), False, True, 1),
        ColumnStats(("key",), b"a", b"b", None),
    )
    types = {("id",): LONG, ("trip", "stop", "no"): INTEGER, ("trip", "note"): STRING, ("flag",): BOOLEAN}

    text = format_stats(FileStats(3, columns), {**types, ("key",): BINARY}, tight=False)

    assert json.loads(text) == {
        "numRecords": 3,
        "tightBounds": False,
        "minValues": {"id": 1, "trip": {"stop": {"no": 3}}},
        "maxValues": {"id": 9, "trip": {"stop": {"no": 4}}},
        "nullCount": {"id": 0, "trip": {"stop": {"no": 2}, "note": 3}, "flag": 1},
    }


@pytest.mark.parametrize(
    ("data_type", "value", "low", "high"),
    [
        (STRING, "é" * 32, "é" * 32, "é" * 32),
        (STRING, "a" * 33, "a" * 32, "a" * 32 + TIE_BREAKER),
        (STRING, "𝄞" * 40, "𝄞" * 32, "𝄞" * 32 + TIE_BREAKER),
        (STRING, "a" * 32 + TIE_BREAKER * 2, "a" * 32, "a" * 32 + TIE_BREAKER * 2),
        (STRING, "a" * 32 + TIE_BREAKER * 2 + "bc", "a" * 32, "a" * 32 + TIE_BREAKER * 3),
        (
            TIMESTAMP,
            datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            "2020-01-01T00:00:00.000Z",
            "2020-01-01T00:00:00.001Z",
        ),
        (TIMESTAMP, datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z"),
        (
            TIMESTAMP,
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00.000Z",
        ),
        (TIMESTAMP_NTZ, datetime(1, 1, 1, 0, 0, 0, 1), "0001-01-01T00:00:00.000", "0001-01-01T00:00:00.001"),
        (
            TIMESTAMP_NTZ,
            datetime.max,
            "9999-12-31T23:59:59.999",
            "9999-12-31T23:59:59.999999",
        ),
        (DATE, date(1, 1, 1), "0001-01-01", "0001-01-01"),
        (HUGE, Decimal("-0.000000000000000001"), Decimal("-0.000000000000000001"), Decimal("-0.000000000000000001")),
        (DOUBLE, 0.1, Decimal("0.1"), Decimal("0.1")),
    ],
)
def test_bounds_are_cut_so_that_they_still_bound(data_type, value, low, high):
    text = written(data_type, value, value)

    assert (text["minValues"], text["maxValues"]) == ({"x": low}, {"x": high})


@pytest.mark.parametrize(
    ("data_type", "low", "high"),
    [
        (DOUBLE, -math.inf, 1.0),
        (FLOAT, 1.0, math.inf),
        (DOUBLE, math.nan, math.nan),
        (LONG, None, None),
        (BOOLEAN, False, True),
        (BINARY, b"", b"\xff"),
    ],
)
def test_there_are_no_bounds_where_clients_could_not_use_them(data_type, low, high):
    text = written(data_type, low, high, nulls=1)

    assert text == {"numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"x": 1}}


VALUES: Mapping[str, tuple[DataType, st.SearchStrategy[object]]] = {
    "byte": (BYTE, st.integers(-128, 127)),
    "short": (SHORT, st.integers(-(2**15), 2**15 - 1)),
    "integer": (INTEGER, st.integers(-(2**31), 2**31 - 1)),
    "long": (LONG, st.integers(-(2**63), 2**63 - 1)),
    "float": (FLOAT, st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    "string": (
        STRING,
        st.text(st.characters(codec="utf-8") | st.sampled_from(["a", TIE_BREAKER]), min_size=28, max_size=40),
    ),
    "date": (DATE, st.dates()),
    "timestamp": (TIMESTAMP, st.datetimes().map(lambda moment: moment.replace(tzinfo=UTC))),
    "timestamp_ntz": (TIMESTAMP_NTZ, st.datetimes()),
    "decimal": (HUGE, st.decimals(-(10**20) + 1, 10**20 - 1, places=18)),
}


@pytest.mark.parametrize(("data_type", "values"), VALUES.values(), ids=VALUES)
@given(data=st.data())
def test_what_is_read_back_bounds_every_value(data_type, values, data):
    some = data.draw(st.lists(values, min_size=1, max_size=3))
    text = format_stats(FileStats(len(some), (ColumnStats(("x",), min(some), max(some), 0),)), {("x",): data_type})

    (row,) = parsed(text, leaves=(Leaf(("x",), data_type),))

    assert row["numRecords"] == len(some)
    assert row["minValues"]["x"] <= min(some)
    assert row["maxValues"]["x"] >= max(some)


def test_parsed_statistics_become_text_that_parses_to_the_same():
    text = json.dumps(
        {
            "numRecords": 2,
            "tightBounds": False,
            "minValues": {"id": 1, "day": "2020-01-01", "trip": {"note": "a"}, "huge": 12345678901234567890},
            "maxValues": {"at": "2020-01-01T00:00:00.123Z", "ratio": 0.5},
            "nullCount": {"flag": 2},
        }
    )
    (row,) = parse_stats(pa.array([text]), LEAVES, TABLE, Parts.ALL).to_pylist()

    assert parsed(json_of_parsed(row)) == parsed(text)
    assert json_of_parsed(None) is None
    assert json_of_parsed({"maxValues": {"ratio": math.inf}}) == '{"maxValues":{}}'
