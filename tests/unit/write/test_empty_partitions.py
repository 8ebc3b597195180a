"""A partition whose value is '' beside the one without a value, as deltalake makes it; tablespec stores '' as null."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

import tablespec
from tablespec import RowOp, Strategy
from tablespec.errors import EmptyPartitionError, ReplaceWhereMismatchError
from tests.handmade import contents
from tests.rows import assert_same_rows

SCHEMA = pa.schema({"id": pa.int64(), "p": pa.string()})
ROWS = [(1, "a"), (2, None), (3, ""), (4, "")]
both = pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)


def rows(*given):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in given], SCHEMA)


@pytest.fixture(params=["", "true"], ids=["", "change feed"])
def table(tmp_path, request):
    feed = {"delta.enableChangeDataFeed": request.param} if request.param else {}
    deltalake.write_deltalake(tmp_path, rows(*ROWS), partition_by=["p"], configuration=feed)
    return tablespec.open_table(str(tmp_path))


# --- rows that change keep their partition ---


@both
def test_an_updated_row_stays_in_its_partition(table, tmp_path, strategy):
    table.update({"id": "id + 10"}, "id < 4", strategy=strategy)

    assert_same_rows(table.scan(), [(11, "a"), (12, None), (13, ""), (4, "")])
    assert_same_rows(table.scan("p = ''"), [(13, ""), (4, "")])
    assert_same_rows(table.scan("p is null"), [(12, None)])
    if strategy is Strategy.COPY_ON_WRITE:
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path))
        assert_same_rows(query.execute("SELECT id, p FROM t"), [(11, "a"), (12, None), (13, ""), (4, "")])


@both
def test_a_row_updated_by_a_merge_stays_in_its_partition(table, strategy):
    source = pa.table({"old": [1, 2, 3], "new": [11, 12, 13]})
    table.merge(source, "t.id = s.old", tablespec.when_matched_update({"id": "s.new"}), strategy=strategy)

    assert_same_rows(table.scan(), [(11, "a"), (12, None), (13, ""), (4, "")])


@both
def test_a_row_leaves_its_partition_only_for_another(table, strategy):
    table.update({"p": "'b'"}, "id = 3", strategy=strategy)
    table.update({"p": "null"}, "id = 4", strategy=strategy)

    assert_same_rows(table.scan(), [(1, "a"), (2, None), (3, "b"), (4, None)])


def test_a_row_of_another_partition_that_is_set_to_no_characters_is_null(table):
    table.update({"p": "''"}, "id = 1 or id = 3")

    assert_same_rows(table.scan(), [(1, None), (2, None), (3, ""), (4, "")])


def test_an_engine_that_hands_over_whole_rows_keeps_them_in_their_partition(table):
    handle = table.begin_merge("id = 3", ops=[RowOp.UPDATE])
    (file,) = handle.files
    (page,) = [handle.page_source(file).get_next_page()]
    sink = handle.sink()
    count = page.num_rows
    columns = [pa.array([13] * count), page["p"], pa.array([int(RowOp.UPDATE)] * count, pa.int8())]
    columns += [pa.array([0] * count, pa.int32()), page["_row"]]

    sink.store_merged_rows(pa.RecordBatch.from_arrays(columns, names=["id", "p", "_op", "_case", "_row"]))
    handle.finish(sink.finish())

    assert_same_rows(table.scan(), [(1, "a"), (2, None), (13, ""), (4, "")])


@both
def test_rows_that_stay_when_others_go_keep_their_partition(table, strategy):
    table.delete("id = 3", strategy=strategy)

    assert_same_rows(table.scan(), [(1, "a"), (2, None), (4, "")])


# --- new rows without characters are stored as null, and replace nothing else without a word ---


@pytest.mark.parametrize("new", [[(7, "")], [(7, "a"), (8, ""), (9, None)]], ids=["alone", "beside others"])
def test_overwrite_partitions_refuses_rows_of_a_partition_that_it_could_not_give_back(table, tmp_path, new):
    before = contents(tmp_path)

    with pytest.raises(EmptyPartitionError, match="OR `p` IS NULL"):
        table.overwrite_partitions(rows(*new))

    assert contents(tmp_path) == before


def test_overwrite_partitions_leaves_the_partition_without_characters_alone(table):
    table.overwrite_partitions(rows((7, None), (8, "a")))

    assert_same_rows(table.scan(), [(8, "a"), (7, None), (3, ""), (4, "")])


def test_once_the_partition_without_characters_is_gone_it_is_the_one_without_a_value(table):
    table.replace_where("p = '' or p is null", rows((7, ""), (8, None)))
    assert_same_rows(table.scan(), [(1, "a"), (7, None), (8, None)])

    table.overwrite_partitions(rows((9, "")))

    assert_same_rows(table.scan(), [(1, "a"), (9, None)])


def test_a_partition_of_several_columns_is_refused_only_where_the_table_has_it(tmp_path):
    data = pa.table({"id": [1, 2, 3], "p": ["", None, None], "q": [1, 1, 2]})
    deltalake.write_deltalake(tmp_path, data, partition_by=["p", "q"])
    table = tablespec.open_table(str(tmp_path))

    table.overwrite_partitions(pa.table({"id": [4], "p": [""], "q": [2]}))
    with pytest.raises(EmptyPartitionError):
        table.overwrite_partitions(pa.table({"id": [4], "p": [""], "q": [1]}))

    assert_same_rows(table.scan(), [(1, "", 1), (2, None, 1), (4, None, 2)])


@pytest.mark.parametrize(
    "replace",
    [
        lambda table, new: table.replace_where("p = ''", new),
        lambda table, new: table.replace_where("p = ''", new, dry_run=True),
        lambda table, new: table.replace_where([("p = 'a'", rows()), ("p < 'a'", new)]),
        lambda table, new: table.replace_using(["p"], new),
    ],
    ids=["replace_where", "dry run", "several predicates", "replace_using"],
)
def test_a_new_row_without_characters_is_refused_as_what_it_would_be_stored_as(table, tmp_path, replace):
    before = contents(tmp_path)

    with pytest.raises(ReplaceWhereMismatchError, match="'' in p is stored as null"):
        replace(table, rows((7, "")))

    assert contents(tmp_path) == before


def test_a_refused_row_is_not_blamed_on_characters_that_the_predicate_does_not_ask_for(table):
    with pytest.raises(ReplaceWhereMismatchError) as refused:
        table.replace_where("id = 3", rows((7, "")), data_columns=True)

    assert "stored as null" not in str(refused.value)


def test_the_partition_without_characters_can_be_emptied(table):
    table.replace_where("p = ''", rows())

    assert_same_rows(table.scan(), [(1, "a"), (2, None)])
