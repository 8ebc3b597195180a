"""Bounds cut out of statistics that look alike: what the decoder finds, or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.formats.delta.stats_alike import alike_bounds
from tablespec.formats.delta.stats_json import Leaf, Parts, parse_stats
from tablespec.model.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    DecimalType,
    Field,
    Schema,
    StructType,
)

TABLE = "memory:///table"
ID, NAME, RATIO, INNER = Leaf(("id",), LONG), Leaf(("name",), STRING), Leaf(("ratio",), DOUBLE), Leaf(("s", "id"), LONG)
SCHEMA = Schema(
    (
        Field(name="id", type=LONG),
        Field(name="name", type=STRING),
        Field(name="s", type=StructType((Field(name="id", type=LONG), Field(name="name", type=STRING)))),
        Field(name="ratio", type=DOUBLE),
    )
)


def written(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def stats(low: object, high: object, counts: object = None) -> str:
    """Statistics as most writers write them."""
    return written({"numRecords": 3, "minValues": low, "maxValues": high, "nullCount": counts or {"id": 0, "name": 0}})


def cut(texts: Sequence[str | None], *leaves: Leaf, schema: Schema = SCHEMA) -> list[Any] | None:
    found = alike_bounds(pa.array(texts, pa.string()), leaves, schema)
    return None if found is None else found.to_pylist()


def decoded(texts: Sequence[str], *leaves: Leaf) -> list[Any]:
    rows: list[Any] = parse_stats(pa.array(texts, pa.string()), leaves, TABLE, Parts.BOUNDS).to_pylist()
    return rows


LIKE = stats({"id": 1, "name": "a"}, {"id": 3, "name": "c"})


@pytest.mark.parametrize("leaves", [(ID,), (NAME,), (ID, NAME), (NAME, ID)])
def test_bounds_are_cut_out_of_texts_that_are_alike(leaves: tuple[Leaf, ...]) -> None:
    texts = [stats({"id": -low, "name": f"a{low}"}, {"id": 9, "name": "ü {}:"}) for low in range(200)]
    assert cut(texts, *leaves) == decoded(texts, *leaves)


@pytest.mark.parametrize(
    ("leaf", "low", "high"),
    [
        (Leaf(("x",), LONG), -(2**63), 2**63 - 1),
        (Leaf(("x",), SHORT), -5, 7),
        (Leaf(("x",), DOUBLE), -1.5e-300, 1e300),
        (Leaf(("x",), DOUBLE), 1, 2.5),
        (Leaf(("x",), DATE), "2024-02-29", "9999-12-31"),
        (Leaf(("x",), TIMESTAMP), "2024-02-29T12:00:00.123Z", "2024-02-29T12:00:00.123456Z"),
        (Leaf(("x",), STRING), "", "\U0010ffff"),
    ],
)
def test_bounds_of_many_types_are_cut_out(leaf: Leaf, low: object, high: object) -> None:
    texts = [stats({"x": low}, {"x": high}), stats({"x": low}, {"x": low})]
    assert cut(texts, leaf) == decoded(texts, leaf)


def test_members_of_structs_are_told_from_columns_of_the_same_name() -> None:
    texts = [stats({"s": {"id": 1, "name": "a"}, "id": 5}, {"s": {"id": 2, "name": "b"}, "id": 6})] * 2
    assert cut(texts, INNER) == [{"minValues": {"s": {"id": 1}}, "maxValues": {"s": {"id": 2}}}] * 2
    assert cut(texts, ID) == [{"minValues": {"id": 5}, "maxValues": {"id": 6}}] * 2


def test_bounds_that_come_last_are_cut_out() -> None:
    texts = [written({"nullCount": {"id": 0}, "minValues": {"id": 1}, "maxValues": {"id": high}}) for high in (2, 3)]
    assert cut(texts, ID) == decoded(texts, ID)
    assert cut([*texts, texts[0][:-1] + ',"x":1}'], ID) is None


def test_what_comes_after_the_last_wanted_bound_need_not_be_alike() -> None:
    texts = [LIKE, stats({"id": 2, "name": "a"}, {"id": 4, "name": "x, y"}, {"id": 1})]
    assert cut(texts, ID) == decoded(texts, ID)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(stats({"id": 2}, {"id": 4}), id="a column less"),
        pytest.param(stats({"name": "a", "id": 2}, {"name": "b", "id": 4}), id="another order"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": ",b"}), id="a text that begins with a comma"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": "b,"}), id="a text that ends with a comma"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": '",b'}), id="a quotation mark before a comma"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": "b\\"}), id="a backslash"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": "b\n"}), id="a new line"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": None}), id="null"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4, "name": 5}), id="a number for a text"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": "4", "name": "b"}), id="a text for a number"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 4.5, "name": "b"}), id="a fraction"),
        pytest.param(stats({"id": 2, "name": "a"}, {"id": 2**63, "name": "b"}), id="a number too large"),
        pytest.param(LIKE.replace(":3,", ":3e0,"), id="an exponent"),
        pytest.param(LIKE.replace(",", ", "), id="blanks"),
        pytest.param(LIKE.replace("maxValues", "max"), id="no maximums"),
        pytest.param(LIKE[:-20], id="cut off"),
        pytest.param("{}", id="nothing"),
        pytest.param("not JSON", id="not JSON"),
        pytest.param(None, id="no statistics"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_texts_that_differ_are_left_to_the_decoder(other: str | None, *, first: bool) -> None:
    texts = [other, *[LIKE] * 100] if first else [*[LIKE] * 100, other]
    assert cut(texts, ID, NAME) is None


def test_a_null_count_is_not_taken_for_a_maximum_that_is_missing() -> None:
    full = stats({"id": 1, "name": "a", "ratio": 1.0}, {"id": 3, "name": "c", "ratio": 2.0})
    lacking = '{"numRecords":3,"minValues":{"id":1,"name":"a","ratio":1.0},"maxValues":{"id":3},"nullCount":{"x":0,"ratio":0}}'
    assert cut([full, lacking], RATIO) is None


def test_columns_named_like_members_of_the_statistics_are_left_to_the_decoder() -> None:
    schema = Schema(
        (Field(name="id", type=LONG), Field(name="s", type=StructType((Field(name="maxValues", type=LONG),))))
    )
    assert cut([LIKE], ID, schema=schema) is None
    assert cut([LIKE], ID) is not None


def test_leaves_without_bounds_or_with_decimal_ones_are_left_to_the_decoder() -> None:
    texts = [stats({"x": 1.25}, {"x": 2.5})]
    assert cut(texts, Leaf(("x",), DecimalType(9, 2))) is None
    assert cut(texts, Leaf(("x",), BOOLEAN)) is None
    assert cut([], ID) is None


ODD_TEXTS = st.text(st.sampled_from('ab,":{}[]\\ü\n 1'), max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES = {"id": NUMBERS, "name": ODD_TEXTS, "ratio": st.floats(allow_nan=False, allow_infinity=False)}
PLAIN = VALUES | {"name": st.text("abc{}: ", max_size=4)}


@st.composite
def _bounds(draw: st.DrawFn, *, plain: bool) -> dict[str, object]:
    """The bounds of one kind; plain ones have all columns in their order."""
    values = PLAIN if plain else VALUES
    full: dict[str, object] = {name: draw(value) for name, value in values.items()}
    full["s"] = {"id": draw(NUMBERS), "name": draw(values["name"])}
    if plain:
        return full
    names = draw(st.lists(st.sampled_from(sorted(full)), unique=True))
    return {name: full[name] for name in names}


@st.composite
def _texts(draw: st.DrawFn) -> list[str]:
    """Statistics of which most are alike; every text is JSON, and a column is a struct in all of them or in none."""
    texts = []
    for odd in draw(st.lists(st.sampled_from([False, False, False, True]), min_size=1, max_size=5)):
        members: dict[str, object] = {"numRecords": draw(st.integers(0, 10**6))}
        members |= {kind: draw(_bounds(plain=not odd or draw(st.booleans()))) for kind in ("minValues", "maxValues")}
        members["nullCount"] = dict.fromkeys(("id", "name", "ratio"), 0) | {"s": {"id": 0, "name": 0}}
        order = draw(st.permutations(sorted(members))) if odd else list(members)
        texts.append(json.dumps({name: members[name] for name in order}, separators=(",", ":"), ensure_ascii=odd))
    return texts


@given(_texts(), st.lists(st.sampled_from([ID, NAME, RATIO, INNER]), min_size=1, unique=True))
def test_what_is_cut_out_is_what_the_decoder_finds(texts: list[str], leaves: list[Leaf]) -> None:
    found = cut(texts, *leaves)
    assert found is None or found == decoded(texts, *leaves)


@given(st.lists(st.tuples(_bounds(plain=True), _bounds(plain=True)), min_size=1, max_size=5))
def test_plain_texts_of_one_writer_need_no_decoder(bounds: list[tuple[dict[str, object], dict[str, object]]]) -> None:
    texts = [stats(low, high) for low, high in bounds]
    assert cut(texts, ID, NAME, INNER) == decoded(texts, ID, NAME, INNER)
