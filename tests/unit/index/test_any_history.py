"""Whatever happens to a table and to the files of its indexes, every answer is the one that it would be without them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import tablespec
from tablespec.errors import DataFileMissingError, InstantNotFoundError, MultipleMatchesError, TableSpecWarning
from tests.unit.index.conftest import SCHEMA, data

WORDS = st.sampled_from(["fox", "foxes", "dog", "Dog", "quick", "lazy-dog", "the", "über"])
BODIES = st.one_of(st.none(), st.lists(WORDS, max_size=4).map(" ".join))
ROWS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b"]), BODIES), min_size=1, max_size=5)
QUERIES = st.sampled_from(
    ["fox", "dog quick", "+dog -lazy", "fo*", "fxo~1", '"lazy dog"', '"quick dog"~2', "NOT fox", "fox OR NOT dog", "*"]
)
TESTS = st.one_of(
    QUERIES.map("MATCH(body, '{}')".format),
    QUERIES.map("NOT MATCH(body, '{}')".format),
    QUERIES.map("MATCH(body, kind, '{}')".format),
    QUERIES.map("MATCH(body, '{}', 'en_stem')".format),
    st.integers(0, 13).map("id = {}".format),
    st.lists(st.integers(0, 13), min_size=1, max_size=3).map(lambda ids: f"id IN ({', '.join(map(str, ids))})"),
    st.sampled_from(["kind = 'a'", "body IS NULL", "id > 5"]),
)
FILTERS = st.one_of(
    TESTS, st.tuples(TESTS, TESTS).map(" AND ".join), st.tuples(TESTS, TESTS).map(lambda two: f"({two[0]}) OR {two[1]}")
)
Step = Callable[[tablespec.Table], object]


def steps() -> st.SearchStrategy[Step]:
    """Everything that happens to tables, to indexes, and to the files of indexes."""
    return st.one_of(
        ROWS.map(lambda rows: lambda table: table.append(data(rows))),
        ROWS.map(lambda rows: lambda table: table.upsert(data(list({row[0]: row for row in rows}.values())))),
        FILTERS.map(lambda where: lambda table: table.delete(where, allow_full_table=True)),
        FILTERS.map(lambda where: lambda table: table.update({"body": "'quick fox'"}, where, allow_full_table=True)),
        ROWS.map(
            lambda rows: (
                lambda table: table.replace_where(
                    "kind = 'a'", data([row for row in rows if row[1] == "a"]), data_columns=True
                )
            )
        ),
        st.just(lambda table: table.compact()),
        st.just(lambda table: table.vacuum(timedelta(0), allow_short_retention=True)),
        st.just(lambda table: table.restore(table.instant().version - 1)),
        st.just(lambda table: table.create_text_index(["body", "kind"], name="words")),
        st.just(lambda table: table.create_record_index()),
        st.just(lambda table: [index.refresh() for index in table.indexes]),
        st.just(lambda table: [index.drop() for index in table.indexes[:1]]),
        st.integers().map(lambda seed: lambda table: damage(table, seed)),
    )


def damage(table: tablespec.Table, seed: int) -> None:
    """Take a file of an index away, or its end."""
    files = sorted(path for path in (folder(table) / "_tablespec").rglob("*") if path.is_file())
    if files:
        chosen = Random(seed).choice(files)
        chosen.write_bytes(chosen.read_bytes()[: -1 - seed % 50]) if seed % 2 else chosen.unlink()


def folder(table: tablespec.Table) -> Path:
    return Path(table.url.removeprefix("file://"))


@contextmanager
def without_indexes(table: tablespec.Table) -> Iterator[None]:
    """The table as if it had no index."""
    there, away = folder(table) / "_tablespec", folder(table) / ".away"
    if not there.exists():
        yield
        return
    there.rename(away)
    try:
        yield
    finally:
        away.rename(there)


def answers(table: tablespec.Table, where: str, query: str) -> list[object]:
    """Everything that an index could have a say in."""
    keys = pa.table({"id": pa.array(range(-1, 14), pa.int64())})
    found = table.scan(where).to_table().to_pylist()
    base_files = table.read_optimized(where).to_table().to_pylist()
    tagged = table.record_index.tag(keys).drop_columns(["file_group"]).to_pylist()
    ranked = table.search(query, 3, ["body"]).to_pylist()
    return [
        sorted(map(str, found)),
        table.scan(where).count(),
        sorted(map(str, base_files)),
        sorted(map(str, tagged)),
        ranked,
    ]


@settings(max_examples=25)
@given(st.lists(steps(), max_size=7), st.lists(st.tuples(FILTERS, QUERIES), min_size=2, max_size=3), ROWS)
def test_no_index_in_whatever_state_changes_an_answer(
    happening: list[Step], asked: list[tuple[str, str]], first: list[tuple[int, str, str | None]]
) -> None:
    with TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", TableSpecWarning)
        table = tablespec.create_table(place + "/t", SCHEMA, key=["id"])
        table.append(data(list({row[0]: row for row in first}.values())))
        table.create_text_index(["body"])
        for step in happening:
            # A restore may want what a vacuum took, and a merge may find that a key is no key.
            with suppress(DataFileMissingError, MultipleMatchesError, InstantNotFoundError):
                step(table)
        for where, query in asked:
            with_indexes = answers(table, where, query)
            with without_indexes(table):
                assert with_indexes == answers(table, where, query)
