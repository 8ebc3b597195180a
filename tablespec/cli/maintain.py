"""The commands that look after the files of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import attrs
import typer

from tablespec import RewriteResult
from tablespec.cli.answer import write_facts, write_records
from tablespec.cli.facts import Document, when
from tablespec.cli.options import AsJson, StorageOption, Url, Where, names, table_at
from tablespec.cli.screen import Bar, progress
from tablespec.maintain.skip import Skip
from tablespec.maintain.vacuum import Removed
from tablespec.model.instant import Instant
from tablespec.write.runner import Threads

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

TargetBytes = Annotated[
    int | None, typer.Option(min=1, help="The size of the new files; what the table asks for if not given.")
]
Retention = Annotated[
    str | None, typer.Option(metavar="TIME", help="For how long the past is kept, such as 30d, 12h or 15m.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]
AllowShort = Annotated[
    bool, typer.Option("--allow-short-retention", help="Let the retention be shorter than is safe for others at work.")
]
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}


@attrs.frozen
class Watched:
    """Runs tasks on threads, and lets a bar show how many are done."""

    bar: Bar

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> Iterator[_Result]:
        """The results in the order of the tasks."""
        self.bar.expect(len(tasks))
        for result in Threads().run(function, tasks):
            self.bar()
            yield result


def compact(
    table: Url,
    *,
    where: Where = None,
    target_bytes: TargetBytes = None,
    min_files: Annotated[int, typer.Option(min=2, help="How many small files are worth being put together.")] = 2,
    max_deleted_fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Files of whose rows more are deleted are written anew.")
    ] = 0.1,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Make small files, and files with many deleted rows, into few whole ones.

    The rows stay the same, and nothing counts as changed.
    """
    target = table_at(table, storage_option)
    with progress("compacting files") as bar:
        result = target.compact(
            where,
            target_bytes=target_bytes,
            min_files=min_files,
            max_deleted_fraction=max_deleted_fraction,
            runner=Watched(bar),
        )
    _write_rewrite(target.url, result, as_json=as_json)


def cluster(
    table: Url,
    *,
    by: Annotated[str, typer.Option(metavar="A,B,...", help="The columns by which rows are put in order.")],
    where: Where = None,
    zorder: Annotated[
        bool, typer.Option("--zorder", help="Make the ranges of all columns narrow, not of the first.")
    ] = False,
    target_bytes: TargetBytes = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Put the rows of partitions in order, so that files hold narrow ranges of values.

    The rows stay the same, and nothing counts as changed.
    """
    target = table_at(table, storage_option)
    order = "zorder" if zorder else "sort"
    with progress("clustering rows") as bar:
        result = target.cluster(names(by) or (), where, order=order, target_bytes=target_bytes, runner=Watched(bar))
    _write_rewrite(target.url, result, as_json=as_json)


def vacuum(
    table: Url,
    *,
    retention: Retention = None,
    dry_run: DryRun = False,
    allow_short_retention: AllowShort = False,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Remove files that no retained version needs.

    Without --retention it is a week, or what the table asks for. Older versions cannot be read any more.
    """
    target = table_at(table, storage_option)
    with progress("removing files") as bar:
        removed = target.vacuum(
            time_of(retention), dry_run=dry_run, allow_short_retention=allow_short_retention, runner=Watched(bar)
        )
    write_removed(target.url, removed, dry_run=dry_run, as_json=as_json)


def expire_log(
    table: Url,
    *,
    retention: Retention = None,
    dry_run: DryRun = False,
    allow_short_retention: AllowShort = False,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Remove old entries of the log that a checkpoint stands in for.

    Without --retention it is 30 days, or what the table asks for. Older versions cannot be named any more.
    """
    target = table_at(table, storage_option)
    with progress("removing entries of the log"):
        removed = target.expire_log(time_of(retention), dry_run=dry_run, allow_short_retention=allow_short_retention)
    write_removed(target.url, removed, dry_run=dry_run, as_json=as_json)


def restore(
    table: Url,
    *,
    at: Annotated[
        str, typer.Option(help="The version, or a time such as 2026-01-31T12:00:00Z, that the table goes back to.")
    ],
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Make the table what it was at a version or time, by a new commit."""
    target = table_at(table, storage_option)
    with progress("restoring files") as bar:
        result = target.restore(at, runner=Watched(bar))
    counts: Document = attrs.asdict(result, filter=attrs.filters.exclude("instant", "version"))
    document = {"url": target.url, **_state(result.instant), "restored": result.version, **counts}
    shown = {"outcome": "the table is as it was then, nothing was committed"} if result.instant is None else {}
    write_facts(document if as_json else {**shown, **_shown(document)}, as_json=as_json)


def checkpoint(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """Write all of the newest state into one file of the log."""
    target = table_at(table, storage_option)
    with progress("writing the checkpoint"):
        files = target.checkpoint()
    document: Document = {"url": target.url, **when(target.instant()), "files": files}
    write_facts(document if as_json else _shown(document), as_json=as_json)


def skips(table: Url, *, as_json: AsJson = False, storage_option: StorageOption = None) -> None:
    """The files that compact or cluster could not read, and when they are tried again."""
    target = table_at(table, storage_option)
    with progress("reading the log"):
        records = [_skip(one) for one in target.skips]
    headers = ("path", "reason", "operation", "count", "retry_after")
    write_records({"url": target.url, "skips": records}, records, headers, as_json=as_json)


def _write_rewrite(url: str, result: RewriteResult, *, as_json: bool) -> None:
    counts: Document = attrs.asdict(result, filter=attrs.filters.exclude("instant", "skipped"))
    skipped = [_skip(one) for one in result.skipped]
    document: Document = {"url": url, **_state(result.instant), **counts, "skipped": list(skipped)}
    shown: Document = {"outcome": "nothing to do, nothing was committed"} if result.instant is None else {}
    unread: Document = {"skipped": [one["path"] for one in skipped]}
    write_facts(document if as_json else {**shown, **_shown(document), **unread}, as_json=as_json)


def write_removed(url: str, removed: Removed, *, dry_run: bool, as_json: bool) -> None:
    paths: list[str] = list(removed.paths)
    document: Document = {
        "url": url,
        "dry_run": dry_run,
        "files": len(paths),
        "bytes": removed.bytes,
        "paths": [*paths],
    }
    if as_json:
        write_facts(document, as_json=True)
        return
    done = "would be removed" if dry_run else "removed"
    write_facts({done: f"{len(paths)} files, {removed.bytes} bytes", "": [*paths]}, as_json=False)


def _state(instant: Instant | None) -> Document:
    return {"version": None, "time": None} if instant is None else when(instant)


def _shown(document: Document) -> Document:
    """What is worth a line for people: no counts of nothing, and not the place, which they know."""
    return {
        name: value for name, value in document.items() if name not in ("url", "skipped") and value not in (0, None)
    }


def _skip(skip: Skip) -> Document:
    return {
        "path": skip.path,
        "reason": skip.reason,
        "operation": skip.operation,
        "count": skip.skip_count,
        "retry_after": datetime.fromtimestamp(skip.retry_after / 1000, UTC).isoformat(timespec="seconds"),
    }


def time_of(text: str | None) -> timedelta | None:
    if text is None:
        return None
    written = re.fullmatch(r"(\d+(?:\.\d+)?)([dhms])", text.strip())
    if written is None:
        raise typer.BadParameter(f"{text!r} is not a time such as 30d, 12h or 15m", param_hint="--retention")
    try:
        return float(written[1]) * _UNITS[written[2]]
    except OverflowError as error:
        why = f"{text!r} is longer than the longest time there is, {timedelta.max.days}d"
        raise typer.BadParameter(why, param_hint="--retention") from error
