"""Small tables to look after, and what is in them by our word and by that of deltalake."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import attrs
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

import tablespec
from tablespec import Table
from tablespec.maintain.vacuum import Removed
from tablespec.write.runner import Threads
from tests.handmade import commit_file

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.int64())])
DAY_MILLIS = 24 * 3600 * 1000


@attrs.frozen
class Interrupted:
    """Runs tasks, and then what somebody else does before they are committed."""

    between: Callable[[], object]

    def run(self, function, tasks):
        yield from Threads(2).run(function, tasks)
        self.between()


def new_table(folder: Path, **properties: str) -> Table:
    """An empty table of `id` and `city`, partitioned by `day`; underscore pairs in names of properties stand for dots."""
    named = {name.replace("__", "."): value for name, value in properties.items()}
    return tablespec.create_table(str(folder), SCHEMA, partition_by=["day"], properties=named)


# What `small_files` holds.
SMALL_FILES = [
    (1, "sf", 1),
    (2, "la", 1),
    (3, None, 2),
    (11, "sf", 1),
    (13, "sf", 2),
    (21, "sf", 1),
    (22, "", 1),
    (23, "sf", 2),
]


def small_files(folder: Path) -> Table:
    """Two partitions of three files each; row 12 is deleted by a vector."""
    table = new_table(folder)
    append(table, (1, "sf", 1), (2, "la", 1), (3, None, 2))
    append(table, (11, "sf", 1), (12, "ny", 1), (13, "sf", 2))
    append(table, (21, "sf", 1), (22, "", 1), (23, "sf", 2))
    table.delete("id = 12")
    return table


# What `compacted` holds.
COMPACTED = [(1, "sf", 1), (2, "la", 1), (3, "ny", 2), (11, "sf", 1)]


def compacted(folder: Path) -> Table:
    """A table whose two files of day 1 were compacted; before that row 12 was deleted by a vector."""
    table = new_table(folder)
    append(table, (1, "sf", 1), (2, "la", 1), (3, "ny", 2))
    append(table, (11, "sf", 1), (12, "la", 1))
    table.delete("id = 12")
    table.compact("day = 1")
    return table


def remove_all(table: Table) -> Removed:
    """Vacuum with no retention at all."""
    return table.vacuum(timedelta(0), allow_short_retention=True)


def append(table: Table, *rows: tuple[int, str | None, int]) -> None:
    """Add rows by one commit."""
    table.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA))


def tracked_rows(table: Table, at: int | None = None) -> list[tuple[object, ...]]:
    """Every row with its id and its commit version."""
    columns = [*table.schema_at(at).names, "_row_id", "_row_commit_version"]
    found = table.scan(columns=columns, at=at).to_table()
    return list(zip(*(column.to_pylist() for column in found.columns)))


def deltalake_rows(folder: Path, version: int | None = None) -> pa.Table:
    """The rows that deltalake reads."""
    query = QueryBuilder().register("t", DeltaTable(str(folder), version=version))
    return pa.table(query.execute(f"select {', '.join(SCHEMA.names)} from t").read_all())


def data_files(table: Table) -> set[str]:
    """The paths of the live base files."""
    return {one.slice.base.path for one in table.scan().slices if one.slice.base is not None}


def vector_files(table: Table, at: int | None = None) -> set[str]:
    """The paths of the files with live deletion vectors."""
    vectors = [one.slice.deletes for one in table.scan(at=at).slices]
    return {vector.path for vector in vectors if vector is not None and vector.path is not None}


def groups(table: Table) -> dict[str, list[str]]:
    """The paths of the live base files by the ids of their groups."""
    found: dict[str, list[str]] = {}
    for one in table.scan().slices:
        assert one.slice.base is not None
        found.setdefault(one.slice.group.id, []).append(one.slice.base.path)
    return found


def visible_files(folder: Path) -> set[str]:
    """All files below a folder but those of the log."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] != "_delta_log"}


def aged(folder: Path, days: float, paths: Sequence[str] | None = None) -> None:
    """Make files, or all of them, look as if they had been written that much earlier."""
    chosen = (
        [path for path in folder.rglob("*") if path.is_file()] if paths is None else [folder / path for path in paths]
    )
    for path in chosen:
        moment = path.stat().st_mtime - days * DAY_MILLIS / 1000
        os.utime(path, (moment, moment))


def aged_commits(folder: Path, days: float, *versions: int) -> None:
    """Make commits look as if they had been made that much earlier."""
    aged(folder, days, [str(commit_file(folder, version).relative_to(folder)) for version in versions])
