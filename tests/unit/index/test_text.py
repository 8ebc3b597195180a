"""The text index finds rows by their words, and saves time and nothing else."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import (
    ColumnNotFoundError,
    IndexNotFoundError,
    InvalidIndexNameError,
    InvalidTextQueryError,
    TableSpecWarning,
    TypeMismatchError,
    UnknownTokenizerError,
)
from tests.rows import assert_same_rows
from tests.unit.index.conftest import NewTable, data

FIRST = [(1, "a", "the quick brown fox"), (2, "a", "the lazy dog"), (3, "b", None)]
SECOND = [(4, "b", "a quick dog"), (5, "a", "nothing here")]
FILTERS = [
    "MATCH(body, 'quick')",
    "MATCH(body, 'quick') AND kind = 'b'",
    "MATCH(body, 'fox') OR id = 5",
    "NOT MATCH(body, 'quick')",
    "NOT MATCH(body, 'quick') OR body IS NULL",
    "MATCH(body, 'quick') AND NOT MATCH(body, 'dog')",
    "MATCH(body, 'qui* AND \"lazy dog\"')",
    "MATCH(body, kind, 'b quick')",
    "MATCH(body, 'absent')",
]


@pytest.mark.parametrize("filter_", FILTERS)
def test_an_index_never_changes_the_rows_of_a_filter(new_table: NewTable, filter_: str) -> None:
    table = new_table(FIRST, SECOND)
    before = table.scan(filter_).to_table().to_pylist()
    table.create_text_index(["body", "kind"])

    scan = table.scan(filter_)

    assert_same_rows(scan.to_table(), pa.Table.from_pylist(before, schema=scan.arrow_schema))
    assert scan.count() == len(before)
    again = [
        row for task in scan.tasks() for batch in pickle.loads(pickle.dumps(task)).read() for row in batch.to_pylist()
    ]
    assert again == scan.to_table().to_pylist()


def test_slices_without_a_hit_are_not_listed(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND)
    assert [len(one.file_slices) for one in table.file_index.list_files_at(filters="MATCH(body, 'fox')")] == [2]
    table.create_text_index(["body"])

    assert [len(one.file_slices) for one in table.file_index.list_files_at(filters="MATCH(body, 'fox')")] == [1]
    assert table.file_index.list_files_at(filters="MATCH(body, 'absent')") == []
    assert len(table.file_index.list_files_at(filters="MATCH(body, 'fox') OR MATCH(body, 'here')")) == 1
    assert table.file_index.list_files_at(filters="MATCH(body, 'absent') OR MATCH(body, 'gone')") == []


def test_rows_that_came_after_the_index_are_found_too(new_table: NewTable) -> None:
    table = new_table(FIRST)
    index = table.create_text_index(["body"])

    table.append(data(SECOND))
    table.delete("id = 1")

    assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"]), [(4,)])
    assert (index.coverage().covered, index.coverage().files) == (1, 2)
    assert index.refresh().indexed == 1
    assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"]), [(4,)])
    assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"], at=1), [(1,)])


def test_row_changes_go_by_words(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND)
    table.create_text_index(["body"])

    table.update({"kind": "'animal'"}, "MATCH(body, 'fox OR dog')")
    table.sql("DELETE FROM t WHERE MATCH(body, 'lazy')")

    assert_same_rows(
        table.scan(),
        [(1, "animal", "the quick brown fox"), (3, "b", None), (4, "animal", "a quick dog"), (5, "a", "nothing here")],
    )


def test_the_tokenizer_of_an_index_is_what_match_uses_with_the_index_and_without(new_table: NewTable) -> None:
    table = new_table([(1, "a", "foxes running"), (2, "a", "fox")])
    assert table.scan("MATCH(body, 'fox')").count() == 1

    index = table.create_text_index(["body"], tokenizer="en_stem")
    with_index = table.scan("MATCH(body, 'fox')").count()
    index.drop()

    assert (with_index, table.scan("MATCH(body, 'fox')").count()) == (2, 2)
    assert table.scan("MATCH(body, 'fox', 'default')").count() == 1
    assert tablespec.open_table(table.url).indexes == ()


def test_search_gives_the_best_rows_with_scores_and_snippets(new_table: NewTable) -> None:
    table = new_table([*FIRST, (6, "c", "quick quick quick")], SECOND)
    before = table.search("quick dog", columns=["body"]).to_pylist()
    table.create_text_index(["body"])

    found = table.search("quick dog", limit=3, select=["id"]).to_pylist()

    assert [(row["id"], row["_snippet"]) for row in found] == [
        (4, "a <b>quick</b> <b>dog</b>"),
        (2, "the lazy <b>dog</b>"),
        (6, "<b>quick</b> <b>quick</b> <b>quick</b>"),
    ]
    assert [row["_score"] for row in found] == sorted((row["_score"] for row in found), reverse=True)
    assert table.search("quick dog", columns=["body"]).to_pylist() == before
    table.delete("id = 4")
    assert table.search("quick dog", limit=1).column("id").to_pylist() == [2]


def test_bad_requests_are_refused_by_name(new_table: NewTable) -> None:
    table = new_table(FIRST)

    with pytest.raises(ColumnNotFoundError, match="did you mean body"):
        table.create_text_index(["bodi"])
    with pytest.raises(TypeMismatchError, match="id is of type long"):
        table.create_text_index(["id"])
    with pytest.raises(UnknownTokenizerError, match="klingon"):
        table.create_text_index(["body"], tokenizer="klingon")
    with pytest.raises(InvalidIndexNameError):
        table.create_text_index(["body"], name="../../x")
    with pytest.raises(IndexNotFoundError, match="it has none"):
        table.index("text")
    with pytest.raises(InvalidTextQueryError, match="position 6"):
        table.search('quick "dog')
    with pytest.raises(InvalidTextQueryError, match="position 0"):
        table.scan("MATCH(body, '*ick')")
    assert not (Path(table.url.removeprefix("file://")) / "_tablespec").exists()


@pytest.mark.parametrize("damage", ["delete", "truncate", "zero", "garble the manifest", "garble the definition"])
def test_damaged_files_of_an_index_cost_a_warning_until_it_is_mended(new_table: NewTable, damage: str) -> None:
    table = new_table(FIRST, SECOND)
    table.create_text_index(["body"])
    folder = Path(table.url.removeprefix("file://")) / "_tablespec/index/text-body"
    if damage == "garble the manifest":
        (chosen,) = [path for path in folder.glob("*.json") if path.name != "definition.json"]
    elif damage == "garble the definition":
        chosen = folder / "definition.json"
    else:
        chosen = sorted(folder.glob("*/*.term"))[0]
    if damage == "delete":
        chosen.unlink()
    elif damage == "truncate":
        chosen.write_bytes(chosen.read_bytes()[:-3])
    else:
        chosen.write_bytes(bytes(chosen.stat().st_size))

    for _ in range(2):
        with pytest.warns(TableSpecWarning, match="rows are read instead"):
            assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"]), [(1,), (4,)])
    with pytest.warns(TableSpecWarning, match="to mend it"):
        assert table.search("quick", columns=["body"], select=["id"]).num_rows == 2
    with pytest.warns(TableSpecWarning, match="to mend it"):
        # Whoever makes an index that is there refreshes it.
        table.create_text_index(["body"])
    assert table.scan("MATCH(body, 'absent')").slices == ()


def test_an_index_of_a_version_without_checksums_is_built_again(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND)
    index = table.create_text_index(["body"])
    folder = Path(table.url.removeprefix("file://")) / "_tablespec/index/text-body"
    (manifest,) = [path for path in folder.glob("*.json") if path.name != "definition.json"]
    written = json.loads(manifest.read_text())
    old = [
        {**one, "files": [{"path": f["path"], "size": f["size"]} for f in one["files"]]} for one in written["segments"]
    ]
    manifest.write_text(json.dumps({"segments": old}))

    with pytest.warns(TableSpecWarning, match="of an older version"):
        assert_same_rows(table.scan("MATCH(body, 'fox')", ["id"]), [(1,)])
    with pytest.warns(TableSpecWarning, match="of an older version"):
        assert index.refresh().indexed == 2

    assert not manifest.exists()
    assert len(table.scan("MATCH(body, 'fox')").slices) == 1


def test_an_index_outlives_compaction_and_vacuum_removes_what_nobody_needs(new_table: NewTable) -> None:
    table = new_table(FIRST, SECOND)
    index = table.create_text_index(["body"])
    table.compact()

    assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"]), [(1,), (4,)])
    index.refresh()
    folder = Path(table.url.removeprefix("file://")) / "_tablespec/index/text-body"
    assert len([path for path in folder.iterdir() if path.is_dir()]) == 3
    table.vacuum(timedelta(0), allow_short_retention=True)

    left = {path.parent.name for path in folder.glob("*/*.term")}
    assert len(left) == 1
    assert_same_rows(table.scan("MATCH(body, 'quick')", ["id"]), [(1,), (4,)])
    assert index.refresh().indexed == 0


def test_the_log_says_that_there_is_an_index_and_nothing_depends_on_it(new_table: NewTable) -> None:
    table = new_table(FIRST)
    table.create_text_index(["body"])
    log = sorted((Path(table.url.removeprefix("file://")) / "_delta_log").glob("*.json"))

    assert '"domain":"io.tablespec.index.text-body"' in log[-1].read_text()
    log[-1].unlink()

    again = tablespec.open_table(table.url)
    assert [one.slice.rows for one in again.scan("MATCH(body, 'fox')").slices] == [3]
    assert again.scan("MATCH(body, 'absent')").slices == ()


def test_a_renamed_column_is_not_mistaken_for_another(new_table: NewTable) -> None:
    table = new_table(FIRST, properties={"delta.columnMapping.mode": "name"})
    table.create_text_index(["body"])

    assert len(table.scan("MATCH(body, 'absent')").slices) == 0
    assert len(table.scan("MATCH(kind, 'absent')").slices) == 1


def test_few_rows_of_a_large_file_are_fetched_whole_with_all_that_is_hidden(new_table: NewTable) -> None:
    rows = [(n, None if n % 5 else "a", f"row {n} " + ("rare" if n % 1000 == 7 else "common")) for n in range(4000)]
    table = new_table(rows, key=["id"])
    columns = ["id", "kind", "body", "_file", "_position", "_row_id", "_row_commit_version"]
    table.delete("id = 2007")
    where = "MATCH(body, 'rare') AND id > 10"
    before = table.scan(where, columns).to_table().to_pylist()
    table.create_text_index(["body"])
    table.create_record_index()

    assert [(row["id"], row["_position"]) for row in before] == [(1007, 1007), (3007, 3007)]
    assert table.scan(where, columns).to_table().to_pylist() == before
    assert table.scan(where).count() == 2
    assert table.scan("id IN (1007, 2007, 3007) AND kind IS NULL", columns).to_table().to_pylist() == before
    assert table.scan("MATCH(body, 'rare') AND NOT MATCH(body, '1007')", ["id"]).to_table().to_pylist() == [
        {"id": 7},
        {"id": 3007},
    ]
    table.update({"body": "'changed'"}, "MATCH(body, '3007')")
    assert_same_rows(table.scan("id = 3007"), [(3007, None, "changed")])
