"""How the commands write what they found."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import pyarrow as pa
from rich.filesize import decimal

from tablespec.cli.cells import as_text
from tablespec.cli.facts import Document, rows
from tablespec.cli.screen import facts_text, json_document, json_line, progress, table_text, write
from tablespec.model.schema import DOUBLE, FLOAT, INTEGRAL, DecimalType, Schema
from tablespec.read.changes import ChangeScan
from tablespec.read.scan import Scan

_LINES_AT_ONCE = 1000
_COUNTS = frozenset(
    {
        "version",
        "indexed",
        "covered",
        "uncoverable",
        "files",
        "bytes",
        "files added",
        "files removed",
        "size",
        "rows",
        "deletes",
    }
)


def write_facts(document: Document, *, as_json: bool) -> None:
    """The members of a document, one a line; those that are empty are left out unless it is JSON."""
    write(json_document(document) if as_json else facts_text(_named(document)))


def write_records(document: Document, records: Sequence[Document], headers: Sequence[str], *, as_json: bool) -> None:
    """Records as a table of the given members, or the whole document as JSON."""
    if as_json:
        write(json_document(document))
        return
    named = [header.replace("_", " ") for header in headers]
    write(table_text(named, [[record[header] for header in headers] for record in records], numbers=_COUNTS))


def write_rows(scan: Scan | ChangeScan, limit: int, *, as_json: bool) -> None:
    """Rows as a table, or as one JSON object a line; `limit` 0 gives all."""
    if as_json:
        _write_lines(scan, limit)
        return
    with progress("reading rows"):
        shown = list(rows(scan.to_batches(), limit and limit + 1))
    more = bool(limit) and len(shown) > limit
    shown = shown[:limit] if limit else shown
    write(table_text(scan.schema.names, shown, numbers=_numbers(scan.schema)))
    write(
        f"(the first {count_of(limit, 'row')}; --limit 0 gives all)\n" if more else f"({count_of(len(shown), 'row')})\n"
    )


def write_table(found: pa.Table, *, as_json: bool) -> None:
    """Rows in memory as a table, or as one JSON object a line."""
    names = found.schema.names
    if as_json:
        write("".join(json_line(dict(zip(names, row))) for row in rows(iter(found.to_batches()), 0)))
        return
    numbers = frozenset(
        field.name for field in found.schema if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    )
    write(table_text(names, list(rows(iter(found.to_batches()), 0)), numbers=numbers))


def count_of(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _write_lines(scan: Scan | ChangeScan, limit: int) -> None:
    names = scan.schema.names
    lines = (json_line(dict(zip(names, row))) for row in rows(scan.to_batches(), limit))
    while chunk := "".join(islice(lines, _LINES_AT_ONCE)):
        write(chunk)


def _numbers(schema: Schema) -> frozenset[str]:
    numeric = (*INTEGRAL, FLOAT, DOUBLE)
    return frozenset(field.name for field in schema if field.type in numeric or isinstance(field.type, DecimalType))


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
