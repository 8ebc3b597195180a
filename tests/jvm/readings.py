"""The same table as Delta on Spark and as tablespec read it: rows, change feed and row ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tablespec import Scan, Table
from tests.jvm.delta_spark import DeltaSpark


def beside(columns: dict[str, pa.Array]) -> pa.Table:
    """All columns in one table, the shorter ones filled up with nulls, under names that need no quotes."""
    count = max(map(len, columns.values()))
    return pa.table(
        {
            f"c {number} {name}".translate(str.maketrans(" (,)", "____")): pa.concat_arrays(
                [array, pa.nulls(count - len(array), array.type)]
            )
            for number, (name, array) in enumerate(columns.items())
        }
    )


def spark_feed(delta: DeltaSpark, url: Path, first: int) -> pa.Table:
    """What Spark tells of the changes from a version on; when they were made is not compared."""
    return delta.sql(f"SELECT * FROM table_changes_by_path('{url}', {first})").drop_columns(["_commit_timestamp"])


def our_feed(table: Table, after: int | None) -> pa.Table:
    """What we tell of the changes after a version, in Spark's order of columns."""
    rows = table.changes(after).to_table()
    return rows.select([*table.schema.names, "_change_type", "_commit_version"])


def spark_row_ids(delta: DeltaSpark, url: Path, version: int | None = None) -> pa.Table:
    """The id of each row and the version that made it, as Spark tells them."""
    travel = "" if version is None else f" VERSION AS OF {version}"
    return delta.sql(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM delta.`{url}`{travel}")


def our_row_ids(table: Table, version: int | None = None) -> Scan:
    """The same as we tell them."""
    return table.scan(columns=["id", "_row_id", "_row_commit_version"], at=version)
