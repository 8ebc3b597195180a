"""The commands that change rows, and the one that shows what changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import attrs
import typer

from tablespec import Catalog, ChangeResult, sql
from tablespec.cli.answer import write_facts, write_rows
from tablespec.cli.data import read_data
from tablespec.cli.facts import Document, when
from tablespec.cli.options import AsJson, Columns, Limit, StorageOption, Url, Where, names, pairs, table_at
from tablespec.cli.screen import progress

Condition = Annotated[
    str, typer.Option("--where", metavar="PREDICATE", help="The rows that it is about, as in SQL: \"city = 'sf'\".")
]
DataColumns = Annotated[
    bool, typer.Option("--data-columns", help="Let the predicate look at other columns than those of the partitions.")
]


# A name in back-quotes, with those inside of it doubled, or one that needs none, and what stands behind the first `=`.
_ASSIGNMENT = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`=\s][^=]*?))\s*=(?P<value>.*)", re.DOTALL)


def delete(table: Url, *, where: Condition, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Delete the rows that match."""
    target = table_at(table, storage_option)
    with progress("deleting rows"):
        result = target.delete(where)
    _write(target.url, result, as_json=as_json)


def update(
    table: Url,
    *,
    assignments: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=EXPRESSION", help='What a column becomes: "fare=fare * 2"; repeatable.'),
    ],
    where: Condition,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Set columns of the rows that match.

    Expressions are SQL and see the row as it was; text stands in single quotes. A name with = in it stands in back-quotes.
    """
    values = _assigned(assignments)
    target = table_at(table, storage_option)
    with progress("updating rows"):
        result = target.update(values, where)
    _write(target.url, result, as_json=as_json)


def replace_where(
    table: Url,
    *,
    where: Condition,
    data: Annotated[str, typer.Option(metavar="FILE", help="The new rows: a .parquet, .csv or .json file.")],
    data_columns: DataColumns = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would happen, or which new row is refused.")
    ] = False,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Replace the rows that match by those of a file.

    Every new row must match, too. In JSON files each line is an object.
    """
    target = table_at(table, storage_option)
    rows = read_data(data, target.schema)
    with progress("replacing rows"):
        # A dry run looks at rows that can be had again, and leaves those of a reader alone.
        new = rows.read_all() if dry_run else rows
        result = target.replace_where(where, new, data_columns=data_columns, dry_run=dry_run)
    _write(target.url, result, as_json=as_json, dry_run=dry_run)


def changes(
    table: Url,
    *,
    after: Annotated[str, typer.Option(metavar="AT", help="The version or time after which changes are shown.")],
    upto: Annotated[
        str | None, typer.Option(metavar="AT", help="The last version or time; the latest if not given.")
    ] = None,
    where: Where = None,
    columns: Columns = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """What happened to rows; with --json one object a line."""
    write_rows(table_at(table, storage_option).changes(after, upto, where, names(columns)), limit, as_json=as_json)


def run_sql(
    place: Annotated[
        str, typer.Argument(metavar="TABLE", help="Path or URL of the table, or with --catalog of a warehouse.")
    ],
    statement: Annotated[
        str, typer.Argument(metavar="STATEMENT", help="DELETE FROM, UPDATE, INSERT INTO or MERGE INTO.")
    ],
    *,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="TABLE is a warehouse, and the statement names its tables as db.table.")
    ] = False,
    data_columns: DataColumns = False,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Run a statement that changes rows.

    A single table has whatever name the statement gives it. Queries are for the engines.
    """
    with progress("running the statement"):
        if catalog:
            warehouse = Catalog(place, pairs(storage_option, "--storage-option"))
            url, result = warehouse.storage.url, sql(statement, warehouse, data_columns=data_columns)
        else:
            table = table_at(place, storage_option)
            url, result = table.url, table.sql(statement, data_columns=data_columns)
    _write(url, result, as_json=as_json)


def _assigned(written: Sequence[str]) -> dict[str, str]:
    """The columns to set with their expressions; each column stands once."""
    found: dict[str, str] = {}
    for one in written:
        match = _ASSIGNMENT.fullmatch(one)
        if match is None:
            raise typer.BadParameter(f"{one!r} is not of the form COLUMN=EXPRESSION", param_hint="--set")
        name = match["plain"] or match["quoted"].replace("``", "`")
        if name in found:
            raise typer.BadParameter(f"{name!r} is given twice", param_hint="--set")
        found[name] = match["value"]
    return found


def _write(url: str, result: ChangeResult, *, as_json: bool, dry_run: bool = False) -> None:
    counts: Document = attrs.asdict(result, filter=attrs.filters.exclude("instant"))
    state: Document = {"version": None, "time": None} if result.instant is None else when(result.instant)
    if as_json:
        write_facts({"url": url, **state, "dry_run": dry_run, **counts}, as_json=True)
        return
    outcome = "dry run, nothing was written" if dry_run else "no row matched, nothing was committed"
    shown: Document = {"outcome": outcome} if result.instant is None else state
    write_facts({**shown, **{name: count for name, count in counts.items() if count}}, as_json=False)
