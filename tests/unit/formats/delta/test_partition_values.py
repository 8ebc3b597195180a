"""Partition values between their types, their text in the log and the names of folders."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import CorruptLogError, TypeMismatchError
from tablespec.formats.delta.actions import AddAction
from tablespec.formats.delta.adds import from_actions, partition_column
from tablespec.formats.delta.partition_values import HiveFolders, format_value, parse_value, to_uri
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
    Field,
)

TABLE = "memory:///table"
TYPES: dict[str, tuple[DataType, st.SearchStrategy[object]]] = {
    "boolean": (BOOLEAN, st.booleans()),
    "byte": (BYTE, st.integers(-(2**7), 2**7 - 1)),
    "short": (SHORT, st.integers(-(2**15), 2**15 - 1)),
    "integer": (INTEGER, st.integers(-(2**31), 2**31 - 1)),
    "long": (LONG, st.integers(-(2**63), 2**63 - 1)),
    "float": (FLOAT, st.floats(width=32)),
    "double": (DOUBLE, st.floats()),
    "string": (STRING, st.text(min_size=1)),
    "binary": (BINARY, st.text(min_size=1).map(str.encode)),
    "date": (DATE, st.dates()),
    "timestamp": (TIMESTAMP, st.datetimes().map(lambda moment: moment.replace(tzinfo=UTC, fold=0))),
    "timestamp_ntz": (TIMESTAMP_NTZ, st.datetimes().map(lambda moment: moment.replace(fold=0))),
    "decimal": (DecimalType(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "decimal of all digits": (DecimalType(38, 18), st.decimals(-(10**20) + 1, 10**20 - 1, places=18)),
}


@pytest.mark.parametrize(("data_type", "values"), TYPES.values(), ids=TYPES)
@given(data=st.data())
def test_a_value_is_read_back_from_its_text(data_type, values, data):
    value = data.draw(values)

    text = format_value(value, data_type)
    read = parse_value(text, data_type, TABLE)

    assert isinstance(text, str)
    assert repr(read) == repr(value)


@pytest.mark.parametrize(("data_type", "_"), TYPES.values(), ids=TYPES)
def test_null_has_no_text_and_no_text_is_null(data_type, _):
    assert format_value(None, data_type) is None
    assert parse_value(None, data_type, TABLE) is None


@pytest.mark.parametrize(("data_type", "_"), [TYPES[name] for name in TYPES if name != "string"])
def test_an_empty_text_is_null_unless_it_is_a_string(data_type, _):
    assert parse_value("", data_type, TABLE) is None
    assert parse_value("", STRING, TABLE) == ""


@pytest.mark.parametrize("value", ["", b""], ids=["string", "binary"])
def test_an_empty_value_is_written_as_null(value):
    assert format_value(value, STRING) is None


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        ("2020-02-29 23:59:59", TIMESTAMP, datetime(2020, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("2020-02-29 23:59:59.5", TIMESTAMP, datetime(2020, 2, 29, 23, 59, 59, 500000, tzinfo=UTC)),
        ("2020-02-29 23:59:59.123456789", TIMESTAMP, datetime(2020, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)),
        ("2020-02-29T23:59:59.123456Z", TIMESTAMP, datetime(2020, 2, 29, 23, 59, 59, 123456, tzinfo=UTC)),
        ("2020-02-29T23:59:59.123+02:00", TIMESTAMP, datetime(2020, 2, 29, 21, 59, 59, 123000, tzinfo=UTC)),
        ("1969-12-31T23:59:59.000001Z", TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)),
        ("2020-03-29 02:30:00.123456", TIMESTAMP_NTZ, datetime(2020, 3, 29, 2, 30, 0, 123456)),
        ("2020-03-29T02:30:00.12Z", TIMESTAMP_NTZ, datetime(2020, 3, 29, 2, 30, 0, 120000)),
        ("2020-03-29 00:00:00", DATE, date(2020, 3, 29)),
        ("TRUE", BOOLEAN, True),
        ("1.0E300", DOUBLE, 1e300),
        ("Infinity", DOUBLE, math.inf),
        ("-Infinity", FLOAT, -math.inf),
        ("1.5", DecimalType(10, 3), Decimal("1.500")),
        ("-1E+2", DecimalType(5, 1), Decimal("-100.0")),
    ],
)
def test_texts_of_other_writers_are_understood(text, data_type, value):
    assert repr(parse_value(text, data_type, TABLE)) == repr(value)


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", INTEGER),
        ("128", BYTE),
        ("-32769", SHORT),
        ("9223372036854775808", LONG),
        ("yes", BOOLEAN),
        ("2020-13-01", DATE),
        ("2020-02-30 00:00:00", TIMESTAMP),
        ("2020-01-01 00:00:00.Z", TIMESTAMP),
        ("1.5.5", DOUBLE),
        ("1000", DecimalType(3, 0)),
        ("NaN", DecimalType(3, 0)),
        ("Infinity", DecimalType(3, 0)),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_told_with_the_text_and_the_type(text, data_type):
    with pytest.raises(CorruptLogError) as raised:
        parse_value(text, data_type, TABLE)

    assert text in str(raised.value)
    assert str(data_type) in str(raised.value)


@pytest.mark.parametrize(
    ("value", "data_type", "folder"),
    [
        ("sf", STRING, "p=sf"),
        ("a b", STRING, "p=a b"),
        ("a/b", STRING, "p=a%2Fb"),
        ("100%", STRING, "p=100%25"),
        ("k=v", STRING, "p=k%3Dv"),
        ('it\'s "x" #1?*:^[]{', STRING, "p=it%27s %22x%22 %231%3F%2A%3A%5E%5B%5D%7B"),
        ("back\\slash", STRING, "p=back%5Cslash"),
        ("\x01\x1f\x7f", STRING, "p=%01%1F%7F"),
        ("é€𝄞", STRING, "p=é€𝄞"),
        (None, STRING, "p=__HIVE_DEFAULT_PARTITION__"),
        ("", STRING, "p=__HIVE_DEFAULT_PARTITION__"),
        (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), TIMESTAMP, "p=2020-01-02T03%3A04%3A05.000000Z"),
        (datetime(2020, 1, 2, 3, 4, 5), TIMESTAMP_NTZ, "p=2020-01-02 03%3A04%3A05.000000"),
        (Decimal("1E-7"), DecimalType(10, 7), "p=0.0000001"),
        (True, BOOLEAN, "p=true"),
        (-0.0, DOUBLE, "p=-0.0"),
    ],
)
def test_a_folder_bears_the_value_as_hive_writes_it(value, data_type, folder):
    assert HiveFolders((Field(name="p", type=data_type),)).folder((value,)) == folder


def test_every_partition_column_makes_a_level_of_folders_under_its_physical_name():
    fields = (Field(name="day", type=DATE), Field(name="city", type=STRING, physical_name="col/1"))

    assert HiveFolders(fields).folder((date(2026, 1, 31), "sf")) == "day=2026-01-31/col%2F1=sf"


@given(text=st.text(min_size=1))
def test_a_string_is_read_back_from_its_folder(text):
    folder = HiveFolders((Field(name="p", type=STRING),)).folder((text,))

    assert "/" not in folder
    assert unquote(folder.removeprefix("p=")) == text


@given(path=st.text())
def test_a_path_is_read_back_from_its_uri(path):
    uri = to_uri(path)

    assert unquote(uri) == path
    assert uri.isascii()
    assert not set(uri) & set(' #?"<>\\^`{|}')


def test_bytes_that_are_no_text_cannot_name_a_partition():
    folders = HiveFolders((Field(name="key", type=BINARY),))

    with pytest.raises(TypeMismatchError, match="column key is of type binary"):
        folders.folder((b"\xff\x00",))


@pytest.mark.parametrize(("start", "length"), [(0, 6), (0, 3), (2, 3), (3, 0)], ids=["all", "head", "middle", "none"])
@pytest.mark.parametrize("keys", [("p", "q"), ("q", "p"), ("p",)], ids=lambda keys: "".join(keys))
def test_values_are_those_of_their_adds_wherever_an_array_of_adds_is_cut(start, length, keys):
    texts = ["4", None, "3", "", "2", "1"]
    actions = [
        AddAction(path=str(index), partition_values=dict.fromkeys(keys, text)) for index, text in enumerate(texts)
    ]
    adds = from_actions(actions).slice(start, length)

    values = partition_column(adds, Field(name="p", type=INTEGER), TABLE)

    assert values.equals(pa.array([4, None, 3, None, 2, 1][start : start + length], pa.int32()))


def test_a_partition_value_that_an_add_lacks_is_null():
    adds = from_actions([AddAction(path="a", partition_values={"q": "1"}), AddAction(path="b", partition_values={})])

    assert partition_column(adds, Field(name="p", type=INTEGER), TABLE).to_pylist() == [None, None]
