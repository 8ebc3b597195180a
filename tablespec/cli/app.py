"""The commands of `tablespec`: each opens a table, asks it for one thing and writes the answer."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from tablespec import __version__
from tablespec.cli.answer import count_of, write_facts, write_records, write_rows
from tablespec.cli.cells import as_text
from tablespec.cli.change import changes, delete, replace_where, run_sql, update
from tablespec.cli.facts import (
    Document,
    column_records,
    file_records,
    history_records,
    problem_records,
    table_facts,
    when,
)
from tablespec.cli.fsck import check_files, check_log
from tablespec.cli.index import index_app, search
from tablespec.cli.maintain import checkpoint, cluster, compact, expire_log, restore, skips, vacuum
from tablespec.cli.options import AsJson, At, Columns, Limit, StorageOption, Url, Where, names, table_at
from tablespec.cli.screen import complain, facts_text, give_up, json_document, open_outputs, progress, write
from tablespec.errors import TableSpecError, TableSpecWarning

FAILED = 2

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and end the program with its exit code."""
    open_outputs()
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
        except OSError as error:
            # What cannot be written has no name, unlike what cannot be opened.
            if error.filename is not None:
                raise
            code = give_up(error)
    for one in caught:
        if issubclass(one.category, TableSpecWarning):
            complain("warning", str(one.message))
    return code


@app.callback(invoke_without_command=True)
def version(*, version: Annotated[bool, typer.Option("--version", help="Say which release this is.")] = False) -> None:
    """Look at Delta Lake and Apache Hudi tables, change their rows, and look after their files."""
    if version:
        write(f"tablespec {__version__}\n")
        raise typer.Exit


@app.command()
def show(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The table at first sight.

    Its format, version, files, rows, bytes, partition columns, record key and properties.
    """
    with progress("reading the log"):
        document = table_facts(table_at(table, storage_option))
    write_facts(document, as_json=as_json)


@app.command()
def history(table: Url, *, limit: Limit = 20, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """What each instant did, newest first."""
    opened = table_at(table, storage_option)
    with progress("reading the log"):
        records = history_records(opened, limit)
    headers = ("version", "time", "operation", "files_added", "files_removed", "engine")
    write_records({"url": opened.url, "instants": records}, records, headers, as_json=as_json)


@app.command()
def files(
    table: Url, *, at: At = None, where: Where = None, as_json: AsJson = False, storage_option: StorageOption = None
) -> None:
    """The files that hold the rows.

    With --where those that cannot hold a matching row are left out.
    """
    opened = table_at(table, storage_option)
    with progress("listing files"):
        scan = opened.scan(where=where, at=at)
        records = file_records(scan)
    document = {"url": opened.url, **when(scan.instant), "files": records}
    write_records(document, records, ("path", "partition", "size", "rows", "deletes"), as_json=as_json)


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
    write_rows(table_at(table, storage_option).scan(where=where, columns=names(columns), at=at), limit, as_json=as_json)


@app.command()
def schema(table: Url, *, at: At = None, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The columns, in order."""
    opened = table_at(table, storage_option)
    with progress("reading the log"):
        state = opened.scan(at=at).state
    records = column_records(state)
    document = {"url": opened.url, **when(state.instant), "columns": records}
    write_records(document, records, ("name", "type", "nullable", "partition"), as_json=as_json)


@app.command()
def protocol(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """What the table asks of its readers and writers."""
    opened = table_at(table, storage_option)
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
    opened = table_at(table, storage_option)
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
        verdict = count_of(len(problems), "problem") if problems else "sound"
        write(
            "".join(
                f"{as_text(line)}\n"
                for line in [*lines, f"{verdict}; checked {count_of(len(slices), 'file')} of {size} bytes"]
            )
        )
    raise typer.Exit(1 if problems else 0)


app.command()(delete)
app.command()(update)
app.command("replace-where")(replace_where)
app.command()(changes)
app.command("sql")(run_sql)
app.command()(compact)
app.command()(cluster)
app.command()(vacuum)
app.command("expire-log")(expire_log)
app.command()(restore)
app.command()(checkpoint)
app.command()(skips)
app.add_typer(index_app, name="index")
app.command()(search)
