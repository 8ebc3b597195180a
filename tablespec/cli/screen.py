"""What leaves the program: JSON, tables and progress bars."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

import attrs
import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tablespec.cli.cells import Json, as_text

Advance = Callable[[], None]
# In a pipe no line is ever cut or wrapped.
_PIPE_WIDTH = 1 << 20
_GAP = "   "
_UNWRITTEN = 3


def open_outputs() -> None:
    """Let everything be written: what was closed swallows it, and characters that an encoding lacks become escapes."""
    sys.stdout = sys.stdout or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Write to standard output; ends the program quietly when nobody reads any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_output()
        raise typer.Exit(128 + signal.SIGPIPE) from None


def give_up(error: OSError) -> int:
    """Say that an answer cannot be written, and give the exit code for that."""
    _close_output()
    complain("error", f"the answer cannot be written: {error.strerror}")
    return _UNWRITTEN


def complain(kind: str, message: str) -> None:
    """Write an error or a warning to standard error."""
    print(f"{kind}: {message}", file=sys.stderr)


def json_line(value: Json) -> str:
    """A value as one line of JSON."""
    return json.dumps(value, ensure_ascii=_needs_ascii()) + "\n"


def json_document(value: Json) -> str:
    """A value as an indented JSON document."""
    return json.dumps(value, ensure_ascii=_needs_ascii(), indent=2) + "\n"


def facts_text(pairs: Sequence[tuple[str, str]]) -> str:
    """Names with their values, one a line."""
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(Text(name), Text(value))
    return _rendered(grid)


def table_text(headers: Sequence[str], rows: Sequence[Sequence[Json]], *, numbers: frozenset[str] = frozenset()) -> str:
    """Rows under headers; the columns named in `numbers` are aligned on the right, and null is shown as `null`.

    Cells are wrapped to fit a terminal. In a pipe each row is one line, whatever its length.
    """
    right = [header in numbers for header in headers]
    texts = [[as_text(value) for value in row] for row in (headers, *rows)]
    return _wrapped(texts, right) if sys.stdout.isatty() else _aligned(texts, right)


@attrs.frozen(eq=False)
class Bar:
    """A progress bar, to be called after each step; without a screen nothing is shown."""

    screen: Progress | None = None
    task: TaskID = TaskID(0)

    def __call__(self) -> None:
        if self.screen is not None:
            self.screen.advance(self.task)

    def expect(self, steps: int) -> None:
        """Tell that there are so many steps from here on."""
        if self.screen is not None:
            self.screen.update(self.task, total=steps, completed=0)


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Bar]:
    """A bar on standard error while the block runs, once that takes longer than a second; never in a pipe.

    It is to be called for each of the `total` steps.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield Bar()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(label, total=total)
    timer = Timer(1, bar.start)
    timer.start()
    try:
        yield Bar(bar, task)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def _wrapped(texts: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, is_right in zip(texts[0], right):
        grid.add_column(Text(header), justify="right" if is_right else "left", overflow="fold")
    for row in texts[1:]:
        grid.add_row(*map(Text, row))
    return _rendered(grid)


def _aligned(texts: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    widths = [max(map(cell_len, column)) for column in zip(*texts)]
    rule = ("-" if _needs_ascii() else "─") * (sum(widths) + len(_GAP) * (len(widths) - 1))
    lines = [_GAP.join(map(_padded, row, widths, right)).rstrip() for row in texts]
    return "".join(f"{line}\n" for line in (lines[0], rule, *lines[1:]))


def _padded(text: str, width: int, is_right: bool) -> str:
    room = " " * (width - cell_len(text))
    return room + text if is_right else text + room


def _rendered(grid: Table) -> str:
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    with console.capture() as captured:
        console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _close_output() -> None:
    # What is still buffered would fail again at the end of the program.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _needs_ascii() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
