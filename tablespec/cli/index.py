"""The commands about indexes, and the one that searches text."""

from __future__ import annotations

from typing import Annotated

import attrs
import typer

from tablespec import TOKENIZERS, Table, TableIndex
from tablespec.cli.answer import count_of, write_facts, write_records, write_table
from tablespec.cli.facts import Document
from tablespec.cli.maintain import AllowShort, DryRun, Retention, Watched, time_of, write_removed
from tablespec.cli.options import AsJson, At, Columns, Limit, StorageOption, Url, names, table_at
from tablespec.cli.screen import progress, write

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the index.")]

index_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Make, refresh, list, vacuum and drop indexes."
)


@index_app.command()
def create(
    table: Url,
    *,
    text: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="The text columns to index by their words.")
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="Index the record key.")] = False,
    tokenizer: Annotated[str | None, typer.Option(help=f"What a word is: {', '.join(TOKENIZERS)}.")] = None,
    name: Annotated[str | None, typer.Option(help="The name of the index.")] = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Make an index of the words of --text columns, or of the record --key, and build it."""
    if (text is None) is not key or (tokenizer is not None and key):
        raise typer.BadParameter("give either --text, perhaps with --tokenizer, or --key")
    opened = table_at(table, storage_option)
    with progress("building the index"):
        made = (
            opened.create_record_index(name or "record")
            if key
            else opened.create_text_index(names(text) or [], tokenizer, name=name)
        )
    write_facts(_facts(opened, made), as_json=as_json)


@index_app.command()
def refresh(
    table: Url,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name of the index; all if not given.")] = None,
    *,
    at: At = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Let indexes catch up with the table."""
    opened = table_at(table, storage_option)
    chosen = opened.indexes if name is None else (opened.index(name),)
    with progress("refreshing", len(chosen)) as advance:
        records: list[Document] = []
        for one in chosen:
            records.append({"name": one.name, **attrs.asdict(one.refresh(at))})
            advance()
    headers = ("name", "version", "indexed", "covered", "uncoverable")
    write_records({"url": opened.url, "indexes": records}, records, headers, as_json=as_json)


@index_app.command("list")
def list_indexes(table: Url, *, at: At = None, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The indexes of a table, and how much of it they cover."""
    opened = table_at(table, storage_option)
    with progress("reading the log"):
        records = [_record(one, at) for one in opened.indexes]
    headers = ("name", "kind", "columns", "tokenizer", "covered", "files", "bytes")
    write_records({"url": opened.url, "indexes": records}, records, headers, as_json=as_json)


@index_app.command()
def vacuum(
    table: Url,
    *,
    retention: Retention = None,
    dry_run: DryRun = False,
    allow_short_retention: AllowShort = False,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Remove what indexes hold about files that are gone, where the table's own vacuum does not: on Hudi tables."""
    opened = table_at(table, storage_option)
    with progress("removing files") as bar:
        removed = opened.vacuum_indexes(
            time_of(retention), dry_run=dry_run, allow_short_retention=allow_short_retention, runner=Watched(bar)
        )
    write_removed(opened.url, removed, dry_run=dry_run, as_json=as_json)


@index_app.command()
def drop(table: Url, name: Name, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Remove an index; no answer changes."""
    opened = table_at(table, storage_option)
    removed = opened.index(name).drop()
    write_facts({"url": opened.url, "name": name, "files_removed": removed}, as_json=as_json)


def search(
    table: Url,
    query: Annotated[str, typer.Argument(metavar="QUERY", help='Words, "phrases", AND, OR, NOT, begin*, fuzzy~1.')],
    *,
    within: Annotated[str | None, typer.Option("--in", metavar="A,B,...", help="The columns to look through.")] = None,
    tokenizer: Annotated[str, typer.Option(help="What a word is, where the column does not say it.")] = "",
    columns: Columns = None,
    limit: Limit = 10,
    at: At = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """The rows that match a text query best, with score and snippet; with --json one object a line."""
    opened = table_at(table, storage_option)
    with progress("searching"):
        found = opened.search(
            query, limit or 1 << 62, names(within) or (), tokenizer=tokenizer, select=names(columns), at=at
        )
    write_table(found, as_json=as_json)
    if not as_json:
        write(f"({count_of(found.num_rows, 'row')})\n")


def _facts(table: Table, index: TableIndex) -> Document:
    return {"url": table.url, **_record(index, None)}


def _record(index: TableIndex, at: str | None) -> Document:
    return {
        "name": index.name,
        "kind": index.kind,
        "columns": list(index.columns),
        "tokenizer": index.tokenizer,
        **attrs.asdict(index.coverage(at)),
    }
