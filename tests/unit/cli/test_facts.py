"""What show, history, files, schema and protocol say, for people and for programs."""

from __future__ import annotations

import json

import pytest


def test_show_gives_the_table_at_first_sight(command, trips):
    outcome = command("show", trips.path)

    assert outcome.code == 0
    assert outcome.out == (
        f"url                {trips.url}\n"
        "format             delta\n"
        "name               trips\n"
        "id                 0d6ac8a1\n"
        "version            2\n"
        "time               2026-01-31T12:02:00.000+00:00\n"
        "files              2\n"
        "rows               3\n"
        f"bytes              {sum(trips.sizes)} ({sum(trips.sizes) / 1000:.1f} kB)\n"
        "partition columns  city\n"
        "record key         id\n"
        "properties         delta.appendOnly=true\n"
        "                   tablespec.recordKey=id\n"
    )


def test_show_gives_the_same_facts_as_json(command, trips):
    outcome = command("show", trips.path, "--json")

    assert json.loads(outcome.out) == {
        "url": trips.url,
        "format": "delta",
        "name": "trips",
        "id": "0d6ac8a1",
        "description": "",
        "version": 2,
        "time": "2026-01-31T12:02:00.000+00:00",
        "files": 2,
        "rows": 3,
        "bytes": sum(trips.sizes),
        "partition_columns": ["city"],
        "record_key": ["id"],
        "properties": {"delta.appendOnly": "true", "tablespec.recordKey": "id"},
    }


def test_show_does_not_guess_the_rows_where_the_log_does_not_tell(command, trips):
    commit = trips.commit(2)
    commit.write_text(commit.read_text().replace("numRecords", "unknown"))

    outcome = command("show", trips.path, "--json")

    assert json.loads(outcome.out)["rows"] is None


def test_history_gives_the_newest_instant_first(command, trips):
    outcome = command("history", trips.path)

    assert outcome.out.splitlines() == [
        "version   time                            operation      files added   files removed   engine",
        "─────────────────────────────────────────────────────────────────────────────────────────────",
        "      2   2026-01-31T12:02:00.000+00:00   WRITE                    1               0   hand/1",
        "      1   2026-01-31T12:01:00.000+00:00   WRITE                    1               0   hand/1",
        "      0   2026-01-31T12:00:00.000+00:00   CREATE TABLE             0               0   hand/1",
    ]


def test_history_stops_at_its_limit(command, trips):
    outcome = command("history", trips.path, "--limit", 1, "--json")

    assert json.loads(outcome.out) == {
        "url": trips.url,
        "instants": [
            {
                "version": 2,
                "time": "2026-01-31T12:02:00.000+00:00",
                "operation": "WRITE",
                "engine": "hand/1",
                "files_added": 1,
                "files_removed": 0,
                "parameters": {"mode": "Append"},
                "metrics": {"numOutputRows": "1"},
            }
        ],
    }


def test_files_are_listed_in_path_order(command, trips):
    outcome = command("files", trips.path)

    assert outcome.out.splitlines() == [
        "path                partition        size   rows   deletes",
        "──────────────────────────────────────────────────────────",
        f'city=la/2.parquet   {{"city": "la"}}   {trips.sizes[1]:4}      1         0',
        f'city=sf/1.parquet   {{"city": "sf"}}   {trips.sizes[0]:4}      2         0',
    ]


@pytest.mark.parametrize(
    "question",
    [("--at", 1), ("--at", "2026-01-31T12:01:59Z"), ("--where", "city = 'sf'")],
    ids=["version", "time", "where"],
)
def test_files_that_cannot_hold_an_answer_are_left_out(command, trips, question):
    outcome = command("files", trips.path, *question, "--json")

    assert json.loads(outcome.out)["files"] == [
        {
            "path": "city=sf/1.parquet",
            "logs": [],
            "partition": {"city": "sf"},
            "size": trips.sizes[0],
            "rows": 2,
            "deletes": 0,
        }
    ]


def test_files_names_the_state_that_it_lists(command, trips):
    outcome = command("files", trips.path, "--at", 0, "--json")

    assert json.loads(outcome.out) == {
        "url": trips.url,
        "version": 0,
        "time": "2026-01-31T12:00:00.000+00:00",
        "files": [],
    }


def test_schema_gives_the_columns_in_order(command, trips):
    outcome = command("schema", trips.path)

    assert outcome.out.splitlines() == [
        "name   type           nullable   partition",
        "──────────────────────────────────────────",
        "id     long           false      false",
        "fare   decimal(9,2)   true       false",
        "city   string         true       true",
    ]


def test_schema_gives_the_columns_of_an_instant_as_json(command, trips):
    outcome = command("schema", trips.path, "--at", 1, "--json")

    assert json.loads(outcome.out) == {
        "url": trips.url,
        "version": 1,
        "time": "2026-01-31T12:01:00.000+00:00",
        "columns": [
            {"name": "id", "type": "long", "nullable": False, "partition": False},
            {"name": "fare", "type": "decimal(9,2)", "nullable": True, "partition": False},
            {"name": "city", "type": "string", "nullable": True, "partition": True},
        ],
    }


def test_protocol_says_what_the_table_asks_of_its_clients(command, trips):
    text, document = command("protocol", trips.path), command("protocol", trips.path, "--json")

    assert text.out == (
        "format            delta\nminReaderVersion  1\nminWriterVersion  2\nfeatures          appendOnly, invariants\n"
    )
    assert json.loads(document.out) == {
        "url": trips.url,
        "format": "delta",
        "protocol": {"minReaderVersion": "1", "minWriterVersion": "2", "features": "appendOnly, invariants"},
    }
