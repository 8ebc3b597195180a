"""The commands of `tablespec`: each opens a table, asks it one thing and writes the answer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import typer
from rich.filesize import decimal

from tablespec import __version__, open_table
from tablespec.cli.cells import as_text
from tablespec.cli.facts import (
    Document,
    column_records,
    file_records,
    history_records,
    problem_records,
    rows,
    table_facts,
    when,
)
from tablespec.cli.fsck import check_files, check_log
from tablespec.cli.screen import complain, facts_text, json_document, json_line, progress, table_text, write
from tablespec.errors import TableSpecError, TableSpecWarning
from tablespec.model.schema import DOUBLE, FLOAT, INTEGRAL, DecimalType
from tablespec.read.scan import Scan
from tablespec.table import Table

FAILED = 2
_LINES_AT_ONCE = 1000
_COUNTS = frozenset({"version", "files added", "files removed", "size", "rows", "deletes"})

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

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and end the program with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code is 2 for a table that cannot be opened or asked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            app(args=list(arguments), prog_name="tablespec")
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        except TableSpecError as error:
            complain("error", str(error))
            code = FAILED
    for one in caught:
        if issubclass(one.category, TableSpecWarning):
            complain("warning", str(one.message))
    return code


@app.callback(invoke_without_command=True)
def version(*, version: Annotated[bool, typer.Option("--version", help="Say which release this is.")] = False) -> None:
    """Look at Delta Lake and Apache Hudi tables."""
    if version:
        write(f"tablespec {__version__}\n")
        raise typer.Exit


@app.command()
def show(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The table at first sight.

    Its format, version, files, rows, bytes, partition columns, record key and properties.
    """
    with progress("reading the log"):
        document = table_facts(_open(table, storage_option))
    write(json_document(document) if as_json else facts_text(_named(document)))


@app.command()
def history(table: Url, *, limit: Limit = 20, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """What each instant did, newest first."""
    opened = _open(table, storage_option)
    with progress("reading the log"):
        records = history_records(opened, limit)
    headers = ("version", "time", "operation", "files_added", "files_removed", "engine")
    _write_records({"url": opened.url, "instants": records}, records, headers, as_json=as_json)


@app.command()
def files(
    table: Url, *, at: At = None, where: Where = None, as_json: AsJson = False, storage_option: StorageOption = None
) -> None:
    """The files that hold the rows.

    With --where those that cannot hold a matching row are left out.
    """
    opened = _open(table, storage_option)
    with progress("listing files"):
        scan = opened.scan(where=where, at=at)
        records = file_records(scan)
    document = {"url": opened.url, **when(scan.instant), "files": records}
    _write_records(document, records, ("path", "partition", "size", "rows", "deletes"), as_json=as_json)


@app.command()
def read(
    table: Url,
    *,
    where: Where = None,
    columns: Columns = None,
    at: At = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """The rows; with --json one object a line."""
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    scan = _open(table, storage_option).scan(where=where, columns=names, at=at)
    if as_json:
        _write_lines(scan, limit)
        return
    with progress("reading rows"):
        shown = list(rows(scan.to_batches(), limit and limit + 1))
    more = bool(limit) and len(shown) > limit
    shown = shown[:limit] if limit else shown
    write(table_text(scan.schema.names, shown, numbers=_numbers(scan)))
    write(
        f"(the first {_counted(limit, 'row')}; --limit 0 gives all)\n" if more else f"({_counted(len(shown), 'row')})\n"
    )


@app.command()
def schema(table: Url, *, at: At = None, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The columns, in order."""
    opened = _open(table, storage_option)
    with progress("reading the log"):
        state = opened.scan(at=at).state
    records = column_records(state)
    document = {"url": opened.url, **when(state.instant), "columns": records}
    _write_records(document, records, ("name", "type", "nullable", "partition"), as_json=as_json)


@app.command()
def protocol(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """What the table asks of its readers and writers."""
    opened = _open(table, storage_option)
    with progress("reading the log"):
        info = opened.info
    document: Document = {"url": opened.url, "format": info.format, "protocol": dict(info.protocol)}
    shown = [("format", info.format), *info.protocol]
    write(json_document(document) if as_json else facts_text(shown))


@app.command()
def fsck(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Whether the log and its files are sound.

    The log can be read, and every file of the newest state is there, in the right size, with its deletion vector.
    The exit code is 0 for a sound table, 1 when something is wrong, 2 when the table cannot be opened.
    """
    opened = _open(table, storage_option)
    with progress("reading the log"):
        scan, problems = check_log(opened)
    slices = () if scan is None else scan.slices
    if scan is not None:
        with progress("checking files", len(slices)) as advance:
            problems += check_files(scan, advance)
    size = sum(one.slice.size for one in slices)
    state: Document = {"version": None, "time": None} if scan is None else when(scan.instant)
    counted: Document = {"sound": not problems, "files": len(slices), "bytes": size}
    if as_json:
        write(json_document({"url": opened.url, **state, **counted, "problems": problem_records(problems)}))
    else:
        lines = [": ".join(filter(None, (one.path, one.message))) for one in problems]
        verdict = _counted(len(problems), "problem") if problems else "sound"
        write(
            "".join(
                f"{as_text(line)}\n"
                for line in [*lines, f"{verdict}; checked {_counted(len(slices), 'file')} of {size} bytes"]
            )
        )
    raise typer.Exit(1 if problems else 0)


def _open(url: str, storage_options: Sequence[str] | None) -> Table:
    pairs = [option.partition("=") for option in storage_options or ()]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise typer.BadParameter(f"{key!r} is not of the form KEY=VALUE", param_hint="--storage-option")
    return open_table(url, storage_options={key: value for key, _, value in pairs})


def _write_records(document: Document, records: Sequence[Document], headers: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        write(json_document(document))
        return
    named = [header.replace("_", " ") for header in headers]
    write(table_text(named, [[record[header] for header in headers] for record in records], numbers=_COUNTS))


def _write_lines(scan: Scan, limit: int) -> None:
    names = scan.schema.names
    lines = (json_line(dict(zip(names, row))) for row in rows(scan.to_batches(), limit))
    while chunk := "".join(islice(lines, _LINES_AT_ONCE)):
        write(chunk)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _numbers(scan: Scan) -> frozenset[str]:
    numeric = (*INTEGRAL, FLOAT, DOUBLE)
    return frozenset(
        field.name for field in scan.schema if field.type in numeric or isinstance(field.type, DecimalType)
    )


def _named(document: Document) -> list[tuple[str, str]]:
    """The facts that are there, by name; a list on one line, an object with one line for each member."""
    shown: list[tuple[str, str]] = []
    for name, value in document.items():
        if value in ("", [], {}):
            continue
        match value:
            case dict():
                shown += [
                    (name if not index else "", f"{key}={text}") for index, (key, text) in enumerate(value.items())
                ]
            case list():
                shown.append((name, ", ".join(map(as_text, value))))
            case int() if name == "bytes":
                shown.append((name, f"{value} ({decimal(value)})"))
            case _:
                shown.append((name, as_text(value)))
    return [(name.replace("_", " "), text) for name, text in shown]
