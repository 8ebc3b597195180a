"""Builders: any number at a time, on threads and on Spark, killed halfway or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import attrs
import duckdb
import pyarrow as pa
import pytest
import tablespec_duckdb
import tablespec_polars

import tablespec
from tablespec.write.runner import Threads
from tests.rows import assert_same_rows
from tests.unit.index.conftest import NewTable, data

FILES = [[(10 * file + row, "a", f"word{file} common") for row in range(3)] for file in range(6)]


def test_concurrent_builders_leave_one_sound_index(new_table: NewTable) -> None:
    table = new_table(*FILES, key=["id"])

    def build(number: int) -> None:
        mine = tablespec.open_table(table.url)
        mine.create_text_index(["body"])
        mine.create_record_index()
        mine.append(data([(1000 + number, "b", f"late{number} common")]))
        for index in mine.indexes:
            index.refresh()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(build, range(4)))

    assert {index.name for index in table.indexes} == {"record", "text-body"}
    assert [index.coverage().covered for index in table.indexes] == [10, 10]
    assert table.scan("MATCH(body, 'common')").count() == 22
    assert len(table.scan("MATCH(body, 'word3 OR late2')").slices) == 2
    assert len(table.scan("id IN (31, 1002)").slices) == 2


@attrs.frozen
class Failing:
    """Runs some tasks and then gives up."""

    tasks: int

    def run(self, function: Callable[[object], object], tasks: Sequence[object]) -> Iterator[object]:
        yield from map(function, tasks[: self.tasks])
        raise KeyboardInterrupt


def test_a_builder_that_dies_leaves_a_table_that_answers_rightly(new_table: NewTable) -> None:
    table = new_table(*FILES, key=["id"])
    index = table.create_text_index(["body"])
    table.append(data([(100, "b", "late common")]))

    with pytest.raises(KeyboardInterrupt):
        index.refresh(runner=Failing(1))

    assert index.coverage().covered == 6
    assert table.scan("MATCH(body, 'late')").count() == 1
    assert index.refresh(runner=Threads()).indexed == 1
    assert len(table.scan("MATCH(body, 'late')").slices) == 1


def test_an_index_catches_up_with_an_older_instant_only(new_table: NewTable) -> None:
    table = new_table(*FILES[:1])
    index = table.create_text_index(["body"])
    version = table.append(data(FILES[1])).instant.version
    table.append(data(FILES[2]))

    assert index.refresh(at=version).indexed == 1
    assert index.coverage().covered == 2


def test_all_engines_go_by_words_and_keys(new_table: NewTable) -> None:
    table = new_table(*FILES, key=["id"])
    table.delete("id = 41")
    where = "MATCH(body, 'word4') AND id < 100"
    expected = [(40, "a", "word4 common"), (42, "a", "word4 common")]
    con = duckdb.connect()

    for _ in ("without", "with"):
        assert_same_rows(tablespec_duckdb.scan(con, table, where).to_arrow_table(), expected)
        assert_same_rows(tablespec_polars.scan(table, where).collect().to_arrow(), expected)
        assert_same_rows(tablespec_duckdb.scan(con, table, "id IN (40, 41)").to_arrow_table(), expected[:1])
        assert_same_rows(tablespec_polars.scan(table, "id IN (40, 41)").collect().to_arrow(), expected[:1])
        table.create_text_index(["body"])
        table.create_record_index()


@pytest.mark.spark
def test_indexes_are_built_on_executors_and_serve_spark(new_table: NewTable, spark: object) -> None:
    table = new_table(*FILES, key=["id"])
    adapter = import_module("tablespec_spark.scan")
    executors = import_module("tablespec_spark.runner").Executors(spark)
    index = table.create_text_index(["body"], runner=executors)
    table.create_record_index(runner=executors)

    found = [tuple(row) for row in adapter.scan(spark, table, "MATCH(body, 'word4') AND id < 42").collect()]

    assert index.coverage().covered == 6
    assert_same_rows(found, [(40, "a", "word4 common"), (41, "a", "word4 common")])
    assert_same_rows(
        [tuple(row) for row in adapter.scan(spark, table, "id = 40").collect()], [(40, "a", "word4 common")]
    )


def test_indexes_work_on_stores_without_folders() -> None:
    table = tablespec.create_table(
        "memory://indexes/t", pa.schema([("id", pa.int64()), ("body", pa.string())]), key=["id"]
    )
    table.append(pa.table({"id": [1, 2], "body": ["quick fox", None]}))

    index = table.create_text_index(["body"])
    table.create_record_index()

    assert index.coverage().covered == 1
    assert table.scan("MATCH(body, 'absent')").slices == ()
    assert_same_rows(table.scan("MATCH(body, 'fox')", ["id"]), [(1,)])
    assert table.record_index.tag(pa.table({"id": [2]})).column("position").to_pylist() == [1]
    assert [row["_snippet"] for row in table.search("fox").to_pylist()] == ["quick <b>fox</b>"]


def test_the_files_of_an_index_lie_beside_the_table(new_table: NewTable) -> None:
    table = new_table(FILES[0])
    table.create_text_index(["body"])
    root = Path(table.url.removeprefix("file://"))

    assert {path.parts[len(root.parts)] for path in root.rglob("*") if path.is_file()} == {
        "_delta_log",
        "_tablespec",
        table.scan().slices[0].slice.base.path,
    }
