"""Merging a source that lies in many places: the same as merging it at once, however its rows are sent around."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import attrs
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import tablespec
from tablespec.errors import ConstraintViolatedError, EmptyKeyError, InvalidPageError, MultipleMatchesError
from tablespec.write.execution import Strategy
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"k": pa.int32(), "f": pa.float64(), "p": pa.string(), "v": pa.int64()})
SOURCE = pa.schema({"k": pa.int64(), "f": pa.float64(), "p": pa.string(), "v": pa.int64()})
FEED = {"delta.enableChangeDataFeed": "true"}


@attrs.frozen(eq=False)
class Workers:
    """A source in several pieces, and workers to which its rows are sent by their keys."""

    pieces: tuple[pa.Table, ...]
    workers: int = 3
    places: int = 5
    first: str = "source"

    @property
    def arrow_schema(self):
        return self.pieces[0].schema

    def key_values(self, columns):
        whole = self.read_all()
        return [tablespec.KeyValues.of(whole.column(column)) for column in columns]

    def read_all(self):
        return pa.concat_tables(self.pieces)

    def merge(self, work, table_rows):
        work, table_rows = pickle.loads(pickle.dumps((work, table_rows)))
        arrived = [([], []) for _ in range(self.workers)]
        number = 0
        for piece in self.pieces:
            for batch in piece.to_batches():
                order = pa.array(range(number, number + batch.num_rows), pa.int64())
                self._send(work, work.source_rows(batch, order), arrived, 0)
                number += batch.num_rows
        for task in table_rows:
            for batch in task.read():
                self._send(work, batch, arrived, 1)
        pages = [[] for _ in range(self.places)]
        for ours, theirs in arrived:
            rows = [*ours, *theirs] if self.first == "source" else [*theirs, *ours]
            for place, page in work.pages(iter(rows), self.places):
                pages[place].append(page)
        done = []
        try:
            for page in pages:
                done.extend(work.store(iter(page)))
        except tablespec.TableSpecError:
            work.discard(done)
            raise
        return tuple(done)

    def _send(self, work, batch, arrived, side):
        keys = zip(*(batch.column(key).to_pylist() for key in work.keys))
        workers = [hash("nan" if str(key) == "(nan,)" else key) % self.workers for key in keys]
        for worker in set(workers):
            arrived[worker][side].append(batch.filter(pa.array([one == worker for one in workers])))


def _row(keys):
    return st.fixed_dictionaries(
        {
            "k": keys,
            "f": st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
            "p": st.sampled_from(["a", "b c", "", None]),
            "v": st.none() | st.integers(0, 9),
        }
    )


CLAUSES = {
    "update and insert": (tablespec.when_matched_update(), tablespec.when_not_matched_insert()),
    "delete some, update one column": (
        tablespec.when_matched_delete("s.v = 1"),
        tablespec.when_matched_update({"v": "t.v + s.v"}, "s.v > 2"),
        tablespec.when_not_matched_insert({"k": "s.k", "p": "s.p"}, "s.v is not null"),
    ),
    "by source": (
        tablespec.when_matched_update({"v": "s.v"}),
        tablespec.when_not_matched_by_source_delete("t.v = 3"),
        tablespec.when_not_matched_by_source_update({"v": "0"}),
    ),
}


def _table(folder, rows, partitions, properties):
    table = tablespec.create_table(str(folder), SCHEMA, partition_by=partitions, key=["k"], properties=properties)
    for start in range(0, len(rows), 4):
        table.append(pa.Table.from_pylist(rows[start : start + 4], SCHEMA))
    return table


def _told(table, version):
    changes = table.changes(version).to_table().drop_columns(["_commit_timestamp"])
    return sorted(map(repr, changes.to_pylist()))


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(_row(st.none() | st.integers(0, 12)), max_size=12),
    source=st.lists(_row(st.none() | st.integers(0, 15)), max_size=12, unique_by=lambda row: row["k"]),
    clauses=st.sampled_from(sorted(CLAUSES)),
    on=st.sampled_from(["t.k = s.k", "t.k = s.k and t.v <= s.v", "t.k = s.k and t.p = s.p and s.f > 0"]),
    partitions=st.sampled_from([[], ["p"]]),
    feed=st.booleans(),
    strategy=st.sampled_from(Strategy),
    cut=st.integers(0, 12),
)
def test_the_same_happens_as_in_a_merge_at_once(
    tmp_path_factory, rows, source, clauses, on, partitions, feed, strategy, cut
):
    folder = tmp_path_factory.mktemp("merge")
    once = _table(folder / "once", rows, partitions, FEED if feed else {})
    shutil.copytree(folder / "once", folder / "spread")
    spread = tablespec.open_table(str(folder / "spread"))
    version = once.instant().version
    data = pa.Table.from_pylist(source, SOURCE)

    wanted = once.merge(data, on, *CLAUSES[clauses], strategy=strategy)
    done = spread.merge(Workers((data.slice(0, cut), data.slice(cut))), on, *CLAUSES[clauses], strategy=strategy)

    counts = ("rows_inserted", "rows_updated", "rows_deleted")
    assert [getattr(done, name) for name in counts] == [getattr(wanted, name) for name in counts]
    assert_same_rows(spread.scan(), once.scan())
    assert _told(spread, version) == _told(once, version)
    shutil.rmtree(folder)


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(_row(st.none() | st.integers(0, 6)), max_size=8, unique_by=lambda row: row["k"]),
    source=st.lists(_row(st.integers(0, 9)), max_size=16),
    ordering=st.sampled_from([None, "v"]),
)
def test_an_upsert_lets_the_same_rows_win_as_one_at_once(tmp_path_factory, rows, source, ordering):
    folder = tmp_path_factory.mktemp("upsert")
    once = _table(folder / "once", rows, ["p"], {})
    shutil.copytree(folder / "once", folder / "spread")
    spread = tablespec.open_table(str(folder / "spread"))
    data = pa.Table.from_pylist(source, SOURCE).rename_columns(["K", "f", "p", "V"])

    once.upsert(data, order_by=ordering)
    spread.upsert(Workers((data.slice(0, 5), data.slice(5))), order_by=ordering)

    assert_same_rows(spread.scan(), once.scan())
    shutil.rmtree(folder)


def _files(table):
    return sorted(Path(table.url.removeprefix("file://")).rglob("*"))


@pytest.fixture
def table(tmp_path):
    return _table(tmp_path / "t", [{"k": n, "f": 0.0, "p": "a", "v": n} for n in range(8)], ["p"], {})


def test_a_row_with_two_partners_is_refused_and_nothing_is_left_behind(table):
    before = _files(table)
    data = pa.Table.from_pylist([{"k": 3, "v": 1}, {"k": 5, "v": 1}, {"k": 3, "v": 2}], SOURCE)

    with pytest.raises(MultipleMatchesError):
        table.merge(Workers((data.slice(0, 2), data.slice(2))), "t.k = s.k", tablespec.when_matched_update())

    assert _files(table) == before


def test_a_row_that_breaks_a_constraint_is_refused_and_nothing_is_left_behind(table):
    table.add_constraint("small", "v < 100")
    before = _files(table)
    data = pa.Table.from_pylist([{"k": n, "p": "a", "v": 100 if n == 7 else 1} for n in range(20)], SOURCE)
    clauses = (tablespec.when_matched_update(), tablespec.when_not_matched_insert())

    with pytest.raises(ConstraintViolatedError):
        table.merge(Workers((data,)), "t.k = s.k", *clauses)

    assert _files(table) == before


def test_an_upsert_of_a_key_that_is_null_once_it_is_stored_is_refused_and_nothing_is_left_behind(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["p"], key=["k", "p"])
    before = _files(table)
    data = pa.Table.from_pylist([{"k": n, "p": "" if n == 7 else "a"} for n in range(20)], SOURCE)

    with pytest.raises(EmptyKeyError, match="'k': 7"):
        table.upsert(Workers((data.slice(0, 5), data.slice(5))))

    assert _files(table) == before


def test_rows_of_the_source_that_come_too_late_are_refused(table):
    data = pa.Table.from_pylist([{"k": 3, "v": 1}], SOURCE)

    with pytest.raises(InvalidPageError, match="came after"):
        table.merge(Workers((data,), workers=1, first="table"), "t.k = s.k", tablespec.when_matched_update())


def test_without_equal_columns_the_source_is_gathered(table):
    data = pa.Table.from_pylist([{"k": 6, "v": 1}], SOURCE)

    done = table.merge(Workers((data,)), "t.k > s.k", tablespec.when_matched_delete())

    assert done.rows_deleted == 1
    assert_same_rows(table.scan(columns=["k"]), [(n,) for n in range(7)])


def test_changes_of_one_group_are_stored_together(table):
    data = pa.Table.from_pylist([{"k": n, "f": 1.0, "p": "a", "v": 50} for n in range(8)], SOURCE)

    done = table.merge(Workers((data,), workers=4), "t.k = s.k", tablespec.when_matched_update({"v": "s.v"}))

    assert (done.rows_updated, done.files_removed, done.files_added) == (8, 2, 2)
