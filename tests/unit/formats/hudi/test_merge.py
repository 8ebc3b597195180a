"""The merge of log records with base records, held against a plain model that merges one record at a time."""

from __future__ import annotations

import math

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablespec.formats.hudi.merge import Records, merge

COLUMNS = ("id", "x", "y")
SCHEMA = pa.schema([("id", pa.string()), ("x", pa.int64()), ("y", pa.int64())])


@attrs.frozen
class One:
    """A record; `values` lacks the columns that a partial record does not set."""

    key: str
    ordering: tuple[int | None, ...]
    deleted: bool
    values: dict[str, object]
    partial: bool = False


# --- the model ---


def wins(newer: One, older: One, *, event_time: bool) -> bool:
    if not event_time:
        return True
    default_newer, default_older = (all(v is None for v in one.ordering) for one in (newer, older))
    if newer.deleted and older.deleted and default_older:
        return False
    if default_newer or default_older:
        return True
    lowest = -math.inf
    as_pairs = [tuple(lowest if v is None else v for v in one.ordering) for one in (newer, older)]
    return as_pairs[0] >= as_pairs[1]


def combined(newer: One, older: One, *, event_time: bool) -> One:
    top, below = (newer, older) if wins(newer, older, event_time=event_time) else (older, newer)
    if not top.partial or top.deleted:
        return top
    if below.deleted:
        # What a partial record is laid over is gone, unless it came later and lost.
        return attrs.evolve(top, partial=False) if below is older else top
    return attrs.evolve(top, values={**below.values, **top.values}, partial=below.partial)


def model(base: list[One], log: list[One], *, event_time: bool) -> list[tuple[object, ...]]:
    found: dict[str, One] = {}
    for one in log:
        found[one.key] = combined(one, found[one.key], event_time=event_time) if one.key in found else one
    rows = []
    for one in base:
        newer = found.pop(one.key, None)
        merged = one if newer is None else combined(newer, one, event_time=event_time)
        if not merged.deleted:
            rows.append(merged)
    rows += [one for one in found.values() if not one.deleted]
    return sorted((tuple(one.values.get(name) for name in COLUMNS) for one in rows), key=repr)


# --- the merge itself ---


def records(listed: list[One], columns: frozenset[str] | None = None, fields: int = 1) -> Records:
    rows = [{name: one.values.get(name) for name in COLUMNS} for one in listed]
    return Records(
        keys=pa.array([one.key for one in listed], pa.string()),
        orderings=tuple(pa.array([one.ordering[index] for one in listed], pa.int64()) for index in range(fields)),
        deleted=pa.array([one.deleted for one in listed], pa.bool_()),
        rows=pa.RecordBatch.from_pylist(rows, SCHEMA),
        columns=columns,
    )


def merged(base: list[list[Records]], log: list[Records], *, event_time: bool) -> list[tuple[object, ...]]:
    batches = merge(base, log, event_time=event_time)
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


KEYS = st.sampled_from(["a", "b", "c", "d"])
ORDERING = st.none() | st.integers(0, 3)


@st.composite
def block(draw, fields: int):
    """Log records that set the same columns."""
    columns = draw(st.none() | st.sampled_from([frozenset({"x"}), frozenset({"y"}), frozenset({"x", "y"})]))
    listed = draw(st.lists(st.tuples(KEYS, st.tuples(*[ORDERING] * fields), st.booleans()), max_size=4))
    kept = COLUMNS if columns is None else [name for name in COLUMNS if name in columns]
    number = draw(st.integers(0, 10**6))
    return columns, [
        One(
            key,
            ordering,
            deleted,
            {} if deleted else {name: key if name == "id" else number + index for name in kept},
            partial=columns is not None,
        )
        for index, (key, ordering, deleted) in enumerate(listed)
    ]


@pytest.mark.parametrize("event_time", [False, True], ids=["commit time", "event time"])
@pytest.mark.parametrize("fields", [1, 2])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_log_over_any_base_merges_as_record_by_record(event_time, fields, data):
    blocks = data.draw(st.lists(block(fields), max_size=5))
    listed = data.draw(st.lists(st.tuples(KEYS, st.tuples(*[ORDERING] * fields)), max_size=6))
    base = [One(key, order, False, {"id": key, "x": -n, "y": -n}) for n, (key, order) in enumerate(listed)]
    cut = data.draw(st.integers(0, len(base)))

    found = merged(
        [records(part, fields=fields) for part in (base[:cut], base[cut:])],
        [records(listed, columns, fields) for columns, listed in blocks],
        event_time=event_time,
    )

    assert found == model(base, [one for _, listed in blocks for one in listed], event_time=event_time)


def row(key: str, x: int | None, ordering: int | None = None) -> One:
    return One(key, (ordering,), False, {"id": key, "x": x, "y": 0})


def test_a_later_record_with_a_lower_ordering_loses_by_event_time_and_wins_by_commit_time():
    base, log = [records([row("a", 1, 5)])], [records([row("a", 2, 4)])]

    assert merged(base, log, event_time=True) == [("a", 1, 0)]
    assert merged(base, log, event_time=False) == [("a", 2, 0)]


def test_equal_orderings_let_the_later_record_win():
    assert merged([records([row("a", 1, 5)])], [records([row("a", 2, 5)])], event_time=True) == [("a", 2, 0)]


def test_a_delete_without_an_ordering_wins_and_a_later_record_comes_back():
    deletes = Records(keys=pa.array(["a", "b"]), orderings=(pa.array([None, None], pa.int64()),))
    base = [records([row("a", 1, 5), row("b", 1, 5)])]

    assert merged(base, [deletes, records([row("b", 2, 6)])], event_time=True) == [("b", 2, 0)]
    # As in Hudi the log forgets the delete once a record follows, which then loses against the base row.
    assert merged(base, [deletes, records([row("b", 2, 1)])], event_time=True) == [("b", 1, 0)]


def test_of_base_rows_with_the_same_key_only_the_first_meets_the_log():
    base = [records([row("a", 1), row("a", 2)]), records([row("a", 3)])]

    assert merged(base, [records([row("a", 9)])], event_time=False) == [("a", 2, 0), ("a", 3, 0), ("a", 9, 0)]


@pytest.mark.parametrize(
    ("older", "newer", "newer_wins"),
    [
        (math.nan, math.inf, False),
        (math.inf, math.nan, True),
        (0.0, -0.0, False),
        (-0.0, 0.0, True),
        (-1.0, -2.0, False),
    ],
)
def test_floating_orderings_compare_as_in_java(older, newer, newer_wins):
    def one(x: int, ordering: float) -> Records:
        return attrs.evolve(records([row("a", x)]), orderings=(pa.array([ordering]),))

    assert merged([one(1, older)], [one(2, newer)], event_time=True) == [("a", 2 if newer_wins else 1, 0)]


def test_a_log_without_records_changes_nothing():
    assert merged([records([row("a", 1)])], [records([])], event_time=True) == [("a", 1, 0)]
