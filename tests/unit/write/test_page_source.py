"""Rows changed page by page, as an engine does it over the row-change SPI."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import tablespec
from tablespec import RowChangeParadigm, RowOp, Strategy
from tablespec.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    ConstraintViolatedError,
    DataFileMissingError,
    InvalidPageError,
)
from tablespec.write.change_target import ROW, ROW_TYPE
from tablespec.write.merge_sink import CASE, OP, going, page
from tests.handmade import contents
from tests.rows import assert_same_rows

CHANGED_ONLY = RowChangeParadigm.CHANGE_ONLY_UPDATED_COLUMNS
WHOLE_ROWS = RowChangeParadigm.DELETE_ROW_AND_INSERT_ROW
COLUMNS = ["id", "name", "_change_type"]
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("size", pa.int32())])

feeds = pytest.mark.parametrize("feed", ["false", "true"], ids=["no feed", "feed"])
strategies = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


@pytest.fixture
def feed():
    return "true"


@pytest.fixture
def table(tmp_path, feed):
    made = tablespec.create_table(str(tmp_path), SCHEMA, properties={"delta.enableChangeDataFeed": feed})
    made.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", "d"], "size": [10, 20, 30, 40]}, SCHEMA))
    return made


def rows_of(page, *ids):
    return page.filter(pc.is_in(page.column("id"), pa.array(ids)))


def batch(**columns):
    return pa.RecordBatch.from_arrays([pa.array(values) for values in columns.values()], names=list(columns))


def mixed(*ops, rows, **columns):
    """A page with an operation for each row."""
    made = batch(**columns) if columns else pa.RecordBatch.from_arrays([rows], names=[ROW])
    made = made if columns else made.drop_columns([ROW])
    codes = pa.array([int(op) for op in ops], pa.int8())
    cases = pa.array([0] * len(ops), pa.int32())
    return pa.RecordBatch.from_arrays([*made.columns, codes, cases, rows], names=[*made.schema.names, OP, CASE, ROW])


def only_file(handle):
    (file,) = handle.files
    return file


def assert_last_commit_tells(table, *expected):
    version = table.instant().version
    assert_same_rows(table.changes(version - 1, columns=COLUMNS), list(expected))
    theirs = pa.table(DeltaTable(table.url).load_cdf(starting_version=version).read_all())
    assert_same_rows(theirs.select(COLUMNS), list(expected))


# --- page sources ---


@feeds
@strategies
def test_deletes_of_a_page_become_one_commit(table, feed, strategy):
    handle = table.begin_delete(strategy=strategy)
    source = handle.page_source(only_file(handle))
    found = source.get_next_page()
    source.delete_rows(rows_of(found, 1, 3).column(ROW))
    assert source.get_next_page() is None

    result = handle.finish(pickle.loads(pickle.dumps(source.finish())))

    assert (result.rows_deleted, result.instant.version) == (2, 2)
    assert_same_rows(table.scan(columns=["id", "name"]), [(2, "b"), (4, "d")])
    if feed == "true":
        assert_last_commit_tells(table, (1, "a", "delete"), (3, "c", "delete"))


@feeds
@strategies
def test_an_update_hands_over_the_changed_columns_and_the_rest_is_kept(table, feed, strategy):
    handle = table.begin_update(strategy=strategy)
    source = handle.page_source(only_file(handle))
    changed = rows_of(source.get_next_page(), 3)
    source.update_rows(
        pa.RecordBatch.from_arrays([changed.column(ROW), pa.array(["C"])], names=["row", "name"]), [1, 0]
    )

    result = handle.finish(source.finish())

    assert result.rows_updated == 1
    assert_same_rows(table.scan(), [(1, "a", 10), (2, "b", 20), (3, "C", 30), (4, "d", 40)])
    assert table.scan("id = 3", columns=["_row_id"]).to_table().to_pylist() == [{"_row_id": 2}]
    if feed == "true":
        assert_last_commit_tells(table, (3, "c", "update_preimage"), (3, "C", "update_postimage"))


def test_rows_of_earlier_pages_are_read_once_more(table):
    handle = table.begin_update()
    source = handle.page_source(only_file(handle))
    rows = rows_of(source.get_next_page(), 2, 4).column(ROW).take([1, 0])
    assert source.get_next_page() is None

    source.update_rows(pa.RecordBatch.from_arrays([pa.array([44, 22]), rows], names=["size", "row"]), [0, 1])
    handle.finish(source.finish())

    assert_same_rows(table.scan(), [(1, "a", 10), (2, "b", 22), (3, "c", 30), (4, "d", 44)])


def test_pages_hold_the_rows_that_match(table):
    handle = table.begin_update("size > 25")
    source = handle.page_source(only_file(handle))

    assert source.get_next_page().column("id").to_pylist() == [3, 4]


def test_a_page_source_travels_before_its_first_page(table):
    handle = table.begin_delete()
    source = pickle.loads(pickle.dumps(handle.page_source(only_file(handle))))
    source.delete_rows(rows_of(source.get_next_page(), 4).column(ROW))

    handle.finish(source.finish())

    assert_same_rows(table.scan(columns=["id"]), [(1,), (2,), (3,)])


def fragments_of_an_update(handle):
    source = handle.page_source(only_file(handle))
    changed = rows_of(source.get_next_page(), 2)
    names = pa.RecordBatch.from_arrays([pa.array(["B"]), changed.column(ROW)], names=["name", "row"])
    source.update_rows(names, [0, 1])
    return source.finish()


def test_nothing_is_seen_before_the_commit_and_abort_leaves_nothing(table, tmp_path):
    before = contents(tmp_path)
    handle = table.begin_update()
    fragments = fragments_of_an_update(handle)
    assert_same_rows(table.scan(columns=["id", "name"]), [(1, "a"), (2, "b"), (3, "c"), (4, "d")])

    handle.abort(fragments)

    assert contents(tmp_path) == before


def test_an_operation_that_was_aborted_is_not_finished_without_its_files(table, tmp_path):
    before = contents(tmp_path)
    handle = table.begin_update()
    fragments = fragments_of_an_update(handle)
    handle.abort(fragments)

    with pytest.raises(InvalidPageError, match="was removed when the operation was aborted or failed; begin it anew"):
        handle.finish(fragments)

    assert contents(tmp_path) == before


@strategies
def test_abort_never_removes_files_of_a_commit_that_became_durable(table, tmp_path, strategy):
    handle = table.begin_update(strategy=strategy)
    fragments = fragments_of_an_update(handle)
    handle.finish(fragments)
    table.delete("id = 1")
    before = contents(tmp_path)

    # As an engine does that does not know whether its commit came through, maybe in another process.
    pickle.loads(pickle.dumps(handle)).abort(fragments)

    assert contents(tmp_path) == before
    assert_same_rows(table.scan(columns=["id", "name"]), [(2, "B"), (3, "c"), (4, "d")])


def test_a_sink_never_removes_files_whose_fragments_it_gave(table, tmp_path):
    handle = table.begin_merge()
    sink = handle.sink()
    sink.store_merged_rows(page(batch(id=[5]), RowOp.INSERT, None))
    handle.finish(sink.finish())
    before = contents(tmp_path)

    sink.abort()

    assert contents(tmp_path) == before
    assert_same_rows(table.scan("id = 5"), [(5, None, None)])


def test_a_column_that_the_table_has_not_cannot_be_updated(table):
    handle = table.begin_update()
    source = handle.page_source(only_file(handle))
    rows = rows_of(source.get_next_page(), 2).column(ROW)

    with pytest.raises(ColumnNotFoundError):
        source.update_rows(pa.RecordBatch.from_arrays([pa.array(["B"]), rows], names=["nome", "row"]), [0, 1])


# --- merge sinks ---


@pytest.fixture
def ids(table):
    """The row ids of all rows, in the order of their ids."""
    handle = table.begin_merge()
    return handle.page_source(only_file(handle)).get_next_page().column(ROW)


@feeds
@strategies
@pytest.mark.parametrize("paradigm", list(RowChangeParadigm), ids=lambda paradigm: paradigm.value)
def test_all_five_operations_of_one_page_are_stored(table, ids, feed, strategy, paradigm):
    handle = table.begin_merge(strategy=strategy)
    sink = handle.sink(paradigm)
    rows = pa.concat_arrays([pa.nulls(1, ids.type), ids.take([0, 1, 2, 2])])
    names, sizes = ["new", None, "B", "C", None], [50, None, 22, 33, None]
    ops = (RowOp.INSERT, RowOp.DELETE, RowOp.UPDATE, RowOp.UPDATE_INSERT, RowOp.UPDATE_DELETE)
    sink.store_merged_rows(mixed(*ops, rows=rows, id=[5, None, 2, 3, None], name=names, size=sizes))

    result = handle.finish(sink.finish())

    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (1, 2, 1)
    assert_same_rows(table.scan(), [(2, "B", 22), (3, "C", 33), (4, "d", 40), (5, "new", 50)])
    if feed == "true":
        images = [(2, "b", "update_preimage"), (2, "B", "update_postimage")]
        images += [(3, "c", "update_preimage"), (3, "C", "update_postimage")]
        assert_last_commit_tells(table, (1, "a", "delete"), (5, "new", "insert"), *images)


@feeds
def test_changed_columns_alone_are_completed_from_the_stored_rows(table, ids, feed):
    handle = table.begin_merge()
    sink = pickle.loads(pickle.dumps(handle.sink(CHANGED_ONLY)))
    sink.store_merged_rows(page(batch(name=["D", "A"]), RowOp.UPDATE, ids.take([3, 0])))

    handle.finish(sink.finish())

    assert_same_rows(table.scan(), [(1, "A", 10), (2, "b", 20), (3, "c", 30), (4, "D", 40)])


def test_each_case_of_a_merge_updates_columns_of_its_own(table, ids):
    handle = table.begin_merge()
    sink = handle.sink(CHANGED_ONLY, {1: ["name"], 2: ["size"]})
    for case, row in ((1, 0), (2, 1)):
        whole = batch(id=[None], name=["x"], size=[99])
        sink.store_merged_rows(page(whole, RowOp.UPDATE, ids.take([row]), case))

    handle.finish(sink.finish())

    assert_same_rows(table.scan(), [(1, "x", 10), (2, "b", 99), (3, "c", 30), (4, "d", 40)])


def test_a_whole_new_row_must_have_all_columns(table, ids):
    sink = table.begin_merge().sink(WHOLE_ROWS)

    for op in (RowOp.UPDATE, RowOp.UPDATE_INSERT):
        with pytest.raises(InvalidPageError, match=r"lacks id, size; .* CHANGE_ONLY_UPDATED_COLUMNS"):
            sink.store_merged_rows(page(batch(name=["x"]), op, ids.take([0])))


def test_columns_that_an_insert_lacks_are_null(table):
    handle = table.begin_merge()
    sink = handle.sink()
    sink.store_merged_rows(page(batch(id=[5]), RowOp.INSERT, None))

    handle.finish(sink.finish())

    assert_same_rows(table.scan("id = 5"), [(5, None, None)])


def test_constraints_hold_for_updated_rows(table, ids, tmp_path):
    table.add_constraint("small", "size < 100")
    before = contents(tmp_path)
    handle = table.begin_merge()
    sink = handle.sink(CHANGED_ONLY)

    with pytest.raises(ConstraintViolatedError, match="small"):
        sink.store_merged_rows(page(batch(size=[100]), RowOp.UPDATE, ids.take([0])))
    sink.abort()

    assert contents(tmp_path) == before


# --- what is refused ---


@pytest.mark.parametrize(
    ("begin", "op"),
    [
        (lambda table: table.begin_delete(), RowOp.INSERT),
        (lambda table: table.begin_delete(), RowOp.UPDATE),
        (lambda table: table.begin_update(), RowOp.DELETE),
        (lambda table: table.begin_update(), RowOp.INSERT),
        (lambda table: table.begin_merge(ops=[RowOp.INSERT]), RowOp.UPDATE),
    ],
    ids=["delete-insert", "delete-update", "update-delete", "update-insert", "merge"],
)
def test_only_what_the_operation_was_begun_for_can_be_stored(table, ids, begin, op):
    sink = begin(table).sink()

    with pytest.raises(InvalidPageError, match=f"{op.name} is not among what this operation was begun for"):
        sink.store_merged_rows(page(batch(id=[1], name=["x"], size=[1]), op, ids.take([0])))


def test_a_row_that_is_changed_twice_is_refused(table, ids):
    sink = table.begin_delete().sink()
    sink.store_merged_rows(going(ids.take([0, 1])))

    with pytest.raises(InvalidPageError, match="changed twice"):
        sink.store_merged_rows(going(ids.take([1])))


def test_a_row_that_two_workers_change_is_refused_and_their_files_are_removed(table, ids, tmp_path):
    before = contents(tmp_path)
    handle = table.begin_update()
    fragments = []
    for name in ("x", "y"):
        sink = handle.sink(CHANGED_ONLY)
        sink.store_merged_rows(page(batch(name=[name]), RowOp.UPDATE, ids.take([0])))
        fragments += sink.finish()

    with pytest.raises(InvalidPageError, match="two workers change the same row"):
        handle.finish(fragments)

    assert contents(tmp_path) == before


def test_rows_of_other_files_are_refused(table, ids):
    table.append(pa.table({"id": [9], "name": ["z"], "size": [90]}, SCHEMA))
    handle = table.begin_delete("id > 8")
    sink = handle.sink()
    sink.store_merged_rows(going(ids.take([0])))

    with pytest.raises(InvalidPageError, match="is not among the files of this operation"):
        handle.finish(sink.finish())


def test_an_unknown_operation_is_named(table, ids):
    wrong = pa.RecordBatch.from_arrays(
        [pa.array([9], pa.int8()), pa.array([0], pa.int32()), ids.take([0])], names=[OP, CASE, ROW]
    )

    with pytest.raises(InvalidPageError, match="9 is not an operation; they are 1 INSERT"):
        table.begin_delete().sink().store_merged_rows(wrong)


def test_a_table_that_changed_meanwhile_is_a_conflict_and_nothing_is_left(table, ids, tmp_path):
    handle = table.begin_update()
    sink = handle.sink(CHANGED_ONLY)
    sink.store_merged_rows(page(batch(name=["x"]), RowOp.UPDATE, ids.take([0])))
    table.delete("id = 1")
    before = {path for path in contents(tmp_path) if path.endswith(".parquet")}

    with pytest.raises(CommitConflictError):
        handle.finish(sink.finish())

    assert {path for path in contents(tmp_path) if path.endswith(".parquet")} == before


def test_without_changes_nothing_is_committed(table):
    handle = table.begin_merge()

    assert handle.finish(handle.sink().finish()).instant is None
    assert table.instant().version == 1


def test_where_a_row_lies_must_not_be_a_column_of_the_table(tmp_path):
    odd = tablespec.create_table(str(tmp_path / "odd"), pa.schema([("id", pa.int64()), ("_position", pa.int64())]))
    odd.append(pa.table({"id": [1], "_position": [0]}))

    with pytest.raises(tablespec.UnsupportedTableError, match="_position"):
        odd.delete("id = 1")


# --- what an engine must not hand over ---


@pytest.mark.parametrize(
    "op", [RowOp.DELETE, RowOp.UPDATE, RowOp.UPDATE_DELETE, RowOp.UPDATE_INSERT], ids=lambda op: op.name
)
@pytest.mark.parametrize(
    "wrong",
    [pa.nulls(1), pa.nulls(1, ROW_TYPE), pa.array([5]), pa.array([{"file": "x", "position": -1}], ROW_TYPE)],
    ids=["null", "null row id", "number", "before the first row"],
)
def test_row_ids_that_no_page_source_gave_are_refused(table, tmp_path, op, wrong):
    before = contents(tmp_path)

    with pytest.raises(InvalidPageError):
        table.begin_merge().sink().store_merged_rows(mixed(op, rows=wrong, id=[1], name=["x"], size=[1]))

    assert contents(tmp_path) == before


def test_a_row_that_the_file_has_not_is_refused(table, ids, tmp_path):
    before = contents(tmp_path)
    handle = table.begin_delete()
    sink = handle.sink()
    sink.store_merged_rows(going(pa.array([{**ids[0].as_py(), "position": 4}], ROW_TYPE)))

    with pytest.raises(InvalidPageError, match=r"there is no row 4 in .*, which has 4"):
        handle.finish(sink.finish())

    assert contents(tmp_path) == before


def test_deleting_a_row_once_more_does_not_take_others_with_it(table, ids, tmp_path):
    table.delete("id > 1 and id < 4")
    before = contents(tmp_path)
    handle = table.begin_delete()
    sink = handle.sink()
    sink.store_merged_rows(going(ids.take([0, 1])))

    with pytest.raises(InvalidPageError, match="deleted already"):
        handle.finish(sink.finish())

    assert contents(tmp_path) == before


@pytest.mark.parametrize("channels", [[], [2], [0, 2], [-1, 1]], ids=str)
def test_channels_that_a_page_has_not_are_refused(table, channels):
    handle = table.begin_update()
    source = handle.page_source(only_file(handle))
    found = source.get_next_page()
    changed = pa.RecordBatch.from_arrays([found.column("name"), found.column(ROW)], names=["name", "row"])

    with pytest.raises(InvalidPageError, match="channels are positions of the 2 columns"):
        source.update_rows(changed, channels)


def test_a_deletion_vector_that_went_meanwhile_is_told_by_name(table, tmp_path):
    table.delete("id = 1")
    handle = table.begin_delete()
    source = handle.page_source(only_file(handle))
    source.delete_rows(rows_of(source.get_next_page(), 2).column(ROW))
    fragments = source.finish()
    (vector,) = (tmp_path / "dv").iterdir()
    vector.unlink()

    with pytest.raises(DataFileMissingError, match=vector.name):
        handle.finish(fragments)

    assert table.instant().version == 2


def test_a_page_that_lacks_columns_is_told_which(table):
    sink = table.begin_merge().sink()

    with pytest.raises(InvalidPageError, match="needs the columns _op, _case and _row, and this one lacks _case, _row"):
        sink.store_merged_rows(pa.RecordBatch.from_pydict({"id": [5], "_op": [1]}))
