"""Arguments and options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tablespec import Table, open_table

Url = Annotated[str, typer.Argument(metavar="TABLE", help="Path or URL of the table.")]
At = Annotated[
    str | None, typer.Option(help="A version, or a time such as 2026-01-31T12:00:00Z; the latest if not given.")
]
Where = Annotated[
    str | None, typer.Option(metavar="PREDICATE", help="Only rows that match, as in SQL: \"city = 'sf'\".")
]
Columns = Annotated[str | None, typer.Option(metavar="A,B,...", help="Only these columns, in this order.")]
Limit = Annotated[int, typer.Option(min=0, help="At most so many; 0 for all.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A setting of the store, such as AWS_REGION=eu-west-1; repeatable."),
]


def table_at(url: str, storage_options: Sequence[str] | None) -> Table:
    """The table at a place."""
    return open_table(url, storage_options=pairs(storage_options, "--storage-option"))


def names(columns: str | None) -> list[str] | None:
    """The names in a list with commas."""
    return None if columns is None else [name.strip() for name in columns.split(",")]


def pairs(written: Sequence[str] | None, option: str) -> dict[str, str]:
    """What KEY=VALUE options say; each key stands once."""
    found: dict[str, str] = {}
    for one in written or ():
        key, sign, value = one.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"{key!r} is not of the form KEY=VALUE", param_hint=option)
        if key in found:
            raise typer.BadParameter(f"{key!r} is given twice", param_hint=option)
        found[key] = value
    return found
