"""Rows changed page by page, as an engine does it over the row-change SPI."""

from __future__ import annotations

import pickle

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablespec
from tablespec.errors import InvalidPageError
from tablespec.expr.nodes import TRUE
from tablespec.write.merge_sink import ROW, MergeSink, Op
from tablespec.write.merge_sink import page as merged_page
from tablespec.write.page_source import UpdatablePageSource
from tablespec.write.row_change import abort, begin, finish
from tests.rows import assert_same_rows


@pytest.fixture
def table(tmp_path):
    made = tablespec.create_table(str(tmp_path / "t"), pa.schema([("id", pa.int64()), ("name", pa.string())]))
    made.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"]}))
    return made


@pytest.fixture
def handle(table):
    return begin(table.format, "UPDATE", TRUE, strategy=None, change_feed=False)


@pytest.fixture
def source(handle):
    return UpdatablePageSource(handle.target, handle.files[0].slice)


def rows_of(page, *ids):
    return page.filter(pc.is_in(page.column("id"), pa.array(ids)))


def test_deletes_and_updates_of_a_page_become_one_commit(table, handle, source):
    page = source.get_next_page()
    source.delete_rows(rows_of(page, 1).column(ROW))
    changed = rows_of(page, 3)
    new = pa.RecordBatch.from_arrays([changed.column(ROW), pa.array(["C"])], names=["row", "name"])
    source.update_rows(new, [1, 0])
    assert source.get_next_page() is None

    fragments = pickle.loads(pickle.dumps(source.finish()))
    result = finish(handle, fragments)

    assert (result.rows_deleted, result.rows_updated, result.instant.version) == (1, 1, 2)
    assert_same_rows(table.scan(), [(2, "b"), (3, "C"), (4, "d")])
    assert table.scan("id = 3", columns=["_row_id"]).to_table().to_pylist() == [{"_row_id": 2}]


def test_nothing_is_seen_before_the_commit_and_abort_leaves_nothing(table, handle, source, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    page = source.get_next_page()
    changed = rows_of(page, 2)
    source.update_rows(
        pa.RecordBatch.from_arrays([pa.array(["B"]), changed.column(ROW)], names=["name", "row"]), [0, 1]
    )
    fragments = source.finish()
    assert_same_rows(table.scan(), [(1, "a"), (2, "b"), (3, "c"), (4, "d")])

    abort(handle, fragments)

    assert sorted(tmp_path.rglob("*")) == before


def test_rows_of_another_page_cannot_be_updated(source):
    with pytest.raises(InvalidPageError, match="after a page was read"):
        source.update_rows(pa.RecordBatch.from_arrays([pa.nulls(0)], names=["row"]), [0])


def test_an_update_without_its_old_row_is_refused_where_changes_are_recorded(handle, source):
    page = source.get_next_page()
    rows = rows_of(page, 2)
    sink = MergeSink(attrs.evolve(handle.target, change_feed=True))

    with pytest.raises(InvalidPageError, match="the old row and the new one"):
        sink.store_merged_rows(merged_page(rows, Op.UPDATE, rows.column(ROW), handle.target.schema))
