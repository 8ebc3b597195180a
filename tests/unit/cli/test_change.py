"""The commands that change rows, and the one that shows what changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec import Catalog, Table
from tests.rows import assert_same_rows

ROWS = [(1, "sf", 12.5), (2, "sf", None), (3, "la", 30.0)]
COUNTS = {
    "rows_inserted": 0,
    "rows_updated": 0,
    "rows_deleted": 0,
    "rows_copied": 0,
    "files_removed": 0,
    "files_added": 0,
    "files_rewritten": 0,
    "vectors_written": 0,
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three trips in two cities, with a change feed."""
    ids, cities, fares = zip(*ROWS)
    rows = pa.table({"id": ids, "city": cities, "fare": fares})
    properties = {"delta.enableChangeDataFeed": "true"}
    table = Catalog(str(tmp_path)).create_table("db.trips", rows.schema, partition_by=["city"], properties=properties)
    table.append(rows)
    return table


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a file and tells its path."""

    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_delete_tells_what_it_did(command, table):
    outcome = command("delete", table.url, "--where", "fare > 20", "--json")

    instant = table.instant()
    assert outcome.code == 0
    assert json.loads(outcome.out) == {
        "url": table.url,
        "version": 2,
        "time": instant.time.isoformat(timespec="milliseconds"),
        "dry_run": False,
        **COUNTS,
        "rows_deleted": 1,
        "files_removed": 1,
    }
    assert_same_rows(table.scan(), ROWS[:2])


def test_on_a_screen_only_what_happened_is_told(command, table):
    outcome = command("delete", table.url, "--where", "id = 1")

    assert [line.split("  ")[0] for line in outcome.out.splitlines()] == [
        "version",
        "time",
        "rows deleted",
        "vectors written",
    ]


def test_a_change_that_matches_nothing_is_no_failure(command, table):
    outcome = command("delete", table.url, "--where", "id = 99")

    assert (outcome.code, outcome.out) == (0, "outcome  no row matched, nothing was committed\n")
    assert json.loads(command("delete", table.url, "--where", "id = 99", "--json").out) == {
        "url": table.url,
        "version": None,
        "time": None,
        "dry_run": False,
        **COUNTS,
    }
    assert table.instant().version == 1


def test_update_sets_columns_to_expressions(command, table):
    outcome = command(
        "update", table.url, "--set", "fare=fare * 2", "--set", "city = 'x=''y'''", "--where", "id = 1", "--json"
    )

    assert json.loads(outcome.out)["rows_updated"] == 1
    assert_same_rows(table.scan(), [(1, "x='y'", 25.0), *ROWS[1:]])


@pytest.mark.parametrize("name", ["a=b", "a`b", "=", "`", "a b=", " a "])
def test_update_sets_a_column_with_any_name_in_back_quotes(name, command, tmp_path):
    properties = {"delta.columnMapping.mode": "name"}
    schema = pa.schema({"id": pa.int64(), name: pa.string()})
    table = tablespec.create_table(str(tmp_path / "odd"), schema, properties=properties)
    table.append(pa.table({"id": [1], name: ["x"]}))
    quoted = "`" + name.replace("`", "``") + "`"

    outcome = command("update", table.url, "--set", f" {quoted} = 'z=' || upper({quoted})", "--where", "id = 1")

    assert (outcome.code, outcome.err) == (0, "")
    assert_same_rows(table.scan(), [(1, "z=X")])


@pytest.mark.parametrize("where", ["TRUE", ""])
def test_a_change_of_every_row_is_refused(where, command, table):
    for arguments in (["delete", table.url], ["update", table.url, "--set", "fare=0"]):
        outcome = command(*arguments, "--where", where)
        assert (outcome.code, outcome.out) == (2, "")
        assert "would change every row" in outcome.err

    assert_same_rows(table.scan(), ROWS)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["delete", "{}"], "Missing option '--where'"),
        (["update", "{}", "--where", "id = 1"], "Missing option '--set'"),
        (["update", "{}", "--set", "fare", "--where", "id = 1"], "'fare' is not of the form COLUMN=EXPRESSION"),
        (["update", "{}", "--set", " =1", "--where", "id = 1"], "' =1' is not of the form COLUMN=EXPRESSION"),
        (["update", "{}", "--set", "`fare=1", "--where", "id = 1"], "'`fare=1' is not of the form COLUMN=EXPRESSION"),
        (["update", "{}", "--set", "`fare`", "--where", "id = 1"], "'`fare`' is not of the form COLUMN=EXPRESSION"),
        (["update", "{}", "--set", "fare=1", "--set", "fare = 2", "--where", "id = 1"], "'fare' is given twice"),
        (["update", "{}", "--set", "fare=1", "--set", "`fare`=2", "--where", "id = 1"], "'fare' is given twice"),
        (["update", "{}", "--set", "fare=1", "--set", "fare=2", "--where", "id = 1"], "'fare' is given twice"),
        (["update", "{}", "--set", "nothing=1", "--where", "id = 1"], "has no column 'nothing'"),
        (["delete", "{}", "--where", "fare +"], "cannot read the predicate, line 1 column"),
        (["replace-where", "{}", "--where", "id = 1"], "Missing option '--data'"),
        (["replace-where", "{}", "--where", "id = 1", "--data", "x.txt"], "does not end in one of .parquet, .csv"),
        (["replace-where", "{}", "--where", "id = 1", "--data", "x.csv"], "error: x.csv: "),
        (["changes", "{}"], "Missing option '--after'"),
        (["changes", "{}", "--after", "7"], "no completed instant"),
        (["sql", "{}"], "Missing argument 'STATEMENT'"),
        (["sql", "{}", "SELECT * FROM trips"], "queries are the engines' matter"),
        (["sql", "{}", "DELETE FROM trips LIMIT 3"], "LIMIT is not supported here"),
    ],
)
def test_a_wrong_command_line_says_why_and_changes_nothing(arguments, why, command, table):
    outcome = command(*(argument.format(table.url) for argument in arguments))

    assert (outcome.code, outcome.out) == (2, "")
    assert why in outcome.err.replace("\n", " ")
    assert table.instant().version == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.csv", 'city,id,fare\nla,7,1\n"la",8,\n'),
        ("new.json", '{"city": "la", "id": 7, "fare": 1}\n{"id": 8, "city": "la"}\n'),
        ("NEW.JSONL", '{"city": "la", "id": 7, "fare": 1}\n{"id": 8, "city": "la"}\n'),
    ],
)
def test_replace_where_takes_the_rows_of_a_file(name, text, command, table, file):
    outcome = command("replace-where", table.url, "--where", "city = 'la'", "--data", file(name, text), "--json")

    counts = json.loads(outcome.out)
    assert (counts["rows_deleted"], counts["rows_inserted"]) == (1, 2)
    assert_same_rows(table.scan(), [*ROWS[:2], (7, "la", 1.0), (8, "la", None)])


def test_replace_where_takes_the_rows_of_a_parquet_file(command, table, tmp_path):
    pq.write_table(pa.table({"id": [7], "city": ["la"], "fare": [1.0]}), tmp_path / "new.parquet")

    command("replace-where", table.url, "--where", "city = 'la'", "--data", tmp_path / "new.parquet")

    assert_same_rows(table.scan(), [*ROWS[:2], (7, "la", 1.0)])


def test_text_is_read_as_the_types_of_the_columns(command, tmp_path, file):
    schema = pa.schema({"code": pa.string(), "day": pa.date32(), "price": pa.decimal128(9, 2)})
    table = tablespec.create_table(str(tmp_path / "prices"), schema, partition_by=["day"])
    data = file("new.csv", "code,day,price\n007,2026-01-31,1.50\n")

    command("replace-where", table.url, "--where", "day = '2026-01-31'", "--data", data)

    assert [row["code"] for row in table.scan().to_table().to_pylist()] == ["007"]
    assert [row["day"] for row in table.scan().to_table().to_pylist()] == [date(2026, 1, 31)]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("bad.csv", "id,city,fare\n7,la,x\n", "bad.csv line 2 column fare: invalid value 'x'; the column is double"),
        ("bad.csv", "id,city,fare\n7,la\n", "bad.csv line 2: Expected 3 columns, got 2"),
        ("bad.json", "{", "bad.json: JSON parse error"),
        ("bad.parquet", "PAR1", "bad.parquet: "),
        ("new.csv", "id,city,other\n7,la,1\n", "the column other is not in the table"),
        ("new.json", '{"id": 7, "city": "la", "other": 1}', "the column other is not in the table"),
        ("new.csv", "id,city,fare\n7,sf,1\n", "does not satisfy the predicate"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_nothing_changes(name, text, why, command, table, file):
    outcome = command("replace-where", table.url, "--where", "city = 'la'", "--data", file(name, text))

    assert (outcome.code, outcome.out) == (2, "")
    assert why in outcome.err
    assert_same_rows(table.scan(), ROWS)


def test_a_dry_run_tells_what_would_go_and_writes_nothing(command, table, file):
    arguments = ["replace-where", table.url, "--where", "city = 'sf'", "--data", file("new.csv", "id,city,fare\n")]

    outcome = command(*arguments, "--dry-run", "--json")

    assert json.loads(outcome.out) == {
        "url": table.url,
        "version": None,
        "time": None,
        "dry_run": True,
        **COUNTS,
        "rows_deleted": 2,
        "files_removed": 1,
    }
    assert command(*arguments, "--dry-run").out.startswith("outcome        dry run, nothing was written\n")
    assert_same_rows(table.scan(), ROWS)


def test_a_dry_run_refuses_the_row_that_the_replacement_would(command, table, file):
    arguments = [
        "replace-where",
        table.url,
        "--where",
        "city = 'sf'",
        "--data",
        file("n.csv", "id,city,fare\n7,la,1\n"),
    ]

    told, done = command(*arguments, "--dry-run"), command(*arguments)

    assert (told.code, told.out, told.err) == (done.code, done.out, done.err)
    assert "does not satisfy the predicate" in told.err
    assert_same_rows(table.scan(), ROWS)


def test_replace_where_looks_at_other_columns_only_when_asked_to(command, table, file):
    arguments = [
        "replace-where",
        table.url,
        "--where",
        "fare > 20",
        "--data",
        file("new.csv", "id,city,fare\n7,sf,21\n"),
    ]

    assert "fare is not a partition column" in command(*arguments).err
    assert command(*arguments, "--data-columns").code == 0

    assert_same_rows(table.scan(), [*ROWS[:2], (7, "sf", 21.0)])


def test_changes_are_shown_commit_by_commit(command, table):
    table.delete("id = 3")
    table.update({"fare": "fare + 1"}, "id = 1")

    outcome = command("changes", table.url, "--after", 1, "--columns", "id,fare,_change_type,_commit_version")

    assert outcome.out.splitlines()[2:] == [
        " 3   30.0   delete                           2",
        " 1   12.5   update_preimage                  3",
        " 1   13.5   update_postimage                 3",
        "(3 rows)",
    ]


def test_changes_are_told_as_json_line_by_line(command, table):
    table.delete("id = 3")
    instant = table.instant()
    table.delete("id = 2")

    outcome = command("changes", table.url, "--after", 1, "--upto", 2, "--json")

    told = [json.loads(line) for line in outcome.out.splitlines()]
    assert [{**row, "_commit_timestamp": datetime.fromisoformat(row["_commit_timestamp"])} for row in told] == [
        {
            "id": 3,
            "city": "la",
            "fare": 30.0,
            "_change_type": "delete",
            "_commit_version": 2,
            "_commit_timestamp": instant.time,
        }
    ]


def test_changes_can_be_filtered_and_limited(command, table):
    arguments = ["changes", table.url, "--after", 0, "--columns", "id", "--json"]

    assert command(*arguments, "--where", "city = 'la'").out == '{"id": 3}\n'
    assert len(command(*arguments, "--limit", 2).out.splitlines()) == 2


def test_sql_runs_a_statement_on_a_table_by_any_name(command, table):
    outcome = command("sql", table.url, "UPDATE x SET fare = 0 WHERE fare IS NULL", "--json")

    assert json.loads(outcome.out)["rows_updated"] == 1
    assert_same_rows(table.scan(), [ROWS[0], (2, "sf", 0.0), ROWS[2]])


def test_sql_runs_a_statement_on_tables_of_a_warehouse(command, table, tmp_path):
    outcome = command("sql", "--catalog", tmp_path, "DELETE FROM db.trips WHERE id = 1", "--json")

    assert json.loads(outcome.out)["url"] == f"file://{tmp_path}"
    assert_same_rows(table.scan(), ROWS[1:])


def test_sql_looks_at_other_columns_only_when_asked_to(command, table):
    arguments = ["sql", table.url, "INSERT INTO x REPLACE WHERE fare > 20 VALUES (7, 'sf', 21)"]

    assert command(*arguments).code == 2
    assert command(*arguments, "--data-columns").code == 0

    assert_same_rows(table.scan(), [*ROWS[:2], (7, "sf", 21.0)])
