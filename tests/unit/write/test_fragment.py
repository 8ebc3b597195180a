"""Fragments on their way to a commit: what finishes an operation must be whole, and done for this operation alone."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import tablespec
from tablespec import RowOp, Strategy
from tablespec.errors import InvalidPageError
from tablespec.write.change_target import ROW
from tablespec.write.merge_sink import going, page
from tests.handmade import contents
from tests.rows import assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [(1, "a"), (2, "b"), (3, "c")]

strategies = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
feeds = pytest.mark.parametrize("feed", ["false", "true"], ids=["no feed", "feed"])


@pytest.fixture
def feed():
    return "false"


@pytest.fixture
def table(tmp_path, feed):
    made = tablespec.create_table(str(tmp_path / "t"), SCHEMA, properties={"delta.enableChangeDataFeed": feed})
    made.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, SCHEMA))
    return made


def batch(*rows):
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA)


def row_ids(table, *numbers):
    """The row ids of some rows of the only file."""
    handle = table.begin_merge()
    return handle.page_source(handle.files[0]).get_next_page().column(ROW).take(pa.array(numbers, pa.int64()))


def inserted(handle, *rows):
    sink = handle.sink()
    sink.store_merged_rows(page(batch(*rows), RowOp.INSERT, None))
    return sink.finish()


def assert_refused(table, handle, fragments, match):
    version = table.instant().version
    with pytest.raises(InvalidPageError, match=match):
        handle.finish(fragments)
    assert table.instant().version == version
    assert_same_rows(table.scan(), ROWS)


# --- updates in two halves ---


@feeds
@strategies
def test_an_update_may_come_in_halves_from_different_workers(table, feed, strategy):
    handle = table.begin_update(strategy=strategy)
    ids = row_ids(table, 0, 2)
    first, second = handle.sink(), handle.sink()
    first.store_merged_rows(going(ids, RowOp.UPDATE_DELETE))
    second.store_merged_rows(page(batch((1, "A"), (3, "C")), RowOp.UPDATE_INSERT, ids))

    result = handle.finish(pickle.loads(pickle.dumps([*first.finish(), *second.finish()])))

    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (2, 0, 0)
    assert_same_rows(table.scan(columns=["id", "name", "_row_id"]), [(1, "A", 0), (2, "b", 1), (3, "C", 2)])


@strategies
@pytest.mark.parametrize("begin", ["begin_update", "begin_merge"])
def test_an_update_that_takes_a_row_away_and_brings_none_back_is_refused(table, tmp_path, strategy, begin):
    before = contents(tmp_path)
    handle = getattr(table, begin)(strategy=strategy)
    sink = handle.sink()
    sink.store_merged_rows(going(row_ids(table, 0), RowOp.UPDATE_DELETE))

    assert_refused(table, handle, sink.finish(), "the row 0 of .* goes by UPDATE_DELETE and no UPDATE_INSERT brings")
    assert contents(tmp_path) == before


@strategies
@pytest.mark.parametrize("begin", ["begin_update", "begin_merge"])
def test_an_update_that_brings_a_row_and_takes_none_away_is_refused(table, tmp_path, strategy, begin):
    before = contents(tmp_path)
    handle = getattr(table, begin)(strategy=strategy)
    sink = handle.sink()
    sink.store_merged_rows(page(batch((3, "C")), RowOp.UPDATE_INSERT, row_ids(table, 2)))

    assert_refused(table, handle, sink.finish(), "the row 2 of .* comes by UPDATE_INSERT and no UPDATE_DELETE takes")
    assert contents(tmp_path) == before


def test_a_row_gets_no_two_new_versions(table):
    ids = row_ids(table, 0, 0)
    sink = table.begin_update().sink()
    sink.store_merged_rows(going(ids.slice(1), RowOp.UPDATE_DELETE))

    with pytest.raises(InvalidPageError, match="changed twice"):
        sink.store_merged_rows(page(batch((1, "A"), (1, "B")), RowOp.UPDATE_INSERT, ids))


def test_two_workers_give_a_row_no_two_new_versions(table):
    handle = table.begin_update()
    ids = row_ids(table, 0)
    fragments = []
    for name, more in (("A", [going(ids, RowOp.UPDATE_DELETE)]), ("B", [])):
        sink = handle.sink()
        for stored in [*more, page(batch((1, name)), RowOp.UPDATE_INSERT, ids)]:
            sink.store_merged_rows(stored)
        fragments += sink.finish()

    assert_refused(table, handle, fragments, "two workers change the same row")


# --- rows that are gone ---


@feeds
@strategies
@pytest.mark.parametrize("op", [RowOp.DELETE, RowOp.UPDATE], ids=lambda op: op.name)
def test_a_row_that_was_deleted_before_neither_goes_again_nor_comes_back(table, feed, strategy, op):
    stale = row_ids(table, 0)
    table.delete("id = 1")
    version = table.instant().version
    handle = table.begin_merge(strategy=strategy)
    sink = handle.sink()
    sink.store_merged_rows(page(batch((1, "back")), op, stale) if op is RowOp.UPDATE else going(stale))

    with pytest.raises(InvalidPageError, match=r"the row 0 of .* is deleted already"):
        handle.finish(sink.finish())

    assert table.instant().version == version
    assert_same_rows(table.scan(), ROWS[1:])


# --- fragments of this operation, each once ---


def test_a_fragment_that_comes_twice_is_refused(table):
    handle = table.begin_merge()
    fragments = inserted(handle, (5, "e"))

    assert_refused(table, handle, [*fragments, *fragments], "came with two fragments")


def test_fragments_of_another_table_are_refused(table, tmp_path):
    other = tablespec.create_table(str(tmp_path / "other"), SCHEMA)
    strange = inserted(other.begin_merge(), (5, "e"))

    assert_refused(table, table.begin_merge(), strange, "of another operation")
    assert [file.path for one in strange for file in one.files if (tmp_path / "other" / file.path).exists()]


def test_fragments_that_another_operation_has_committed_are_neither_committed_again_nor_removed(table):
    first, second = table.begin_merge(), table.begin_merge()
    fragments = inserted(first, (5, "e"))
    first.finish(fragments)

    for act in (second.finish, second.abort):
        with pytest.raises(InvalidPageError, match="of another operation"):
            act(fragments)

    assert_same_rows(table.scan(), [*ROWS, (5, "e")])


def test_a_sink_that_was_aborted_takes_and_gives_nothing_more(table, tmp_path):
    before = contents(tmp_path)
    sink = table.begin_merge().sink()
    new = page(batch((5, "e")), RowOp.INSERT, None)
    sink.store_merged_rows(new)

    sink.abort()

    for act in (sink.finish, lambda: sink.store_merged_rows(new)):
        with pytest.raises(InvalidPageError, match="removed by an abort"):
            act()
    assert contents(tmp_path) == before


def test_an_aborted_sink_leaves_no_change_files_behind(tmp_path):
    fed = tablespec.create_table(str(tmp_path / "f"), SCHEMA, properties={"delta.enableChangeDataFeed": "true"})
    fed.append(batch(*ROWS))
    before = contents(tmp_path)
    handle = fed.begin_update()
    sink = handle.sink()
    sink.store_merged_rows(page(batch((1, "A")), RowOp.UPDATE, row_ids(fed, 0)), batch((1, "a")))
    sink.settle(handle.files[0].slice.group.id)
    for writer in (sink._rows, sink._changes):
        writer.finish()
    assert len(contents(tmp_path)) == len(before) + 2

    sink.abort()

    assert contents(tmp_path) == before
