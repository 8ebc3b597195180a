"""Medians, ratios and the bars that the listing has to clear, as text and as plain values."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping

import attrs

OURS = "tablespec"
OURS_READING = "tablespec + read"
CALLS = {
    OURS: "tablespec list_files_at",
    OURS_READING: "tablespec scan().to_table()",
    "deltalake": "deltalake file_uris",
    "polars": "polars scan_delta",
    "duckdb": "duckdb delta_scan",
}
BARRED_FILTERS = ("partition", "statistics")
# Kind of checkpoint, files, how many times faster than the fastest peer.
SPEED_BARS = (("own", 1_000_000, 10.0), ("classic", 1_000_000, 2.0), ("own", 10_000, 1.0), ("classic", 10_000, 1.0))
MEMORY_BAR_MB = 300
# The footer of a checkpoint grows with its row groups: a hundred times the files may cost a little more, not much.
GROWTH_BAR = 2.0


@attrs.frozen
class Cell:
    """What was measured: one filter on one log by one peer."""

    kind: str
    files: int
    filter: str
    peer: str


@attrs.frozen
class Runs:
    """The runs of a cell, one value per round; `failure` says why it has none."""

    seconds: tuple[float, ...] = ()
    peak_mb: tuple[float, ...] = ()
    failure: str = ""

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    @property
    def memory(self) -> float:
        """The median of the peak memory of the process, in MB."""
        return statistics.median(self.peak_mb)


@attrs.frozen
class Bar:
    """A requirement: what it is about, what was measured, and whether that clears it."""

    subject: str
    measured: str
    passed: bool

    def __str__(self) -> str:
        return f"bar: {self.subject}: {self.measured} {'PASS' if self.passed else 'MISS'}"


Results = Mapping[Cell, Runs]


def size_name(files: int) -> str:
    """1000000 as 1M, 10000 as 10k."""
    return f"{files // 1_000_000}M" if files % 1_000_000 == 0 else f"{files // 1000}k"


def tables(results: Results) -> Iterator[str]:
    """One table for each kind of checkpoint and filter: peers down, sizes across, ratios against our listing."""
    sizes = sorted({cell.files for cell in results})
    for kind, name in dict.fromkeys((cell.kind, cell.filter) for cell in results):
        yield f"{kind} checkpoint, {name} filter: median seconds, times our listing, peak MB"
        yield f"{'':28}" + "".join(f"{size_name(files):>28}" for files in sizes)
        for peer in dict.fromkeys(cell.peer for cell in results):
            cells = (_entry(results, Cell(kind, files, name, peer)) for files in sizes)
            yield f"{CALLS[peer]:28}" + "".join(f"{entry:>28}" for entry in cells)
        yield ""


def _entry(results: Results, cell: Cell) -> str:
    runs = results.get(cell, Runs(failure="left out"))
    if not runs.seconds:
        return "-"
    ours = results.get(attrs.evolve(cell, peer=OURS), Runs())
    ratio = f"{runs.median / ours.median:6.1f}x" if ours.seconds else " " * 7
    return f"{runs.median:8.4f} s {ratio} {runs.memory:5.0f} MB"


def bars(results: Results) -> Iterator[Bar]:
    """The bars about the logs of this run; what could not be measured has missed its bar."""
    for kind, files, want in SPEED_BARS:
        for name in BARRED_FILTERS:
            yield from _speed_bar(results, Cell(kind, files, name, OURS), want)
    for name in BARRED_FILTERS:
        yield from _memory_bar(results, Cell("own", 1_000_000, name, OURS))
    for name in BARRED_FILTERS:
        yield from _growth_bar(results, name)


def _speed_bar(results: Results, cell: Cell, want: float) -> Iterator[Bar]:
    compared = _against_fastest(results, cell)
    if compared is not None:
        yield Bar(_subject(cell), f"{_said(*compared)} (want >= {want:g}x)", compared[0] >= want)
    elif cell in results:
        yield Bar(_subject(cell), f"not measured (want >= {want:g}x)", False)


def _memory_bar(results: Results, cell: Cell) -> Iterator[Bar]:
    runs = results.get(cell, Runs())
    if runs.seconds:
        passed = runs.memory < MEMORY_BAR_MB
        yield Bar(f"{_subject(cell)}, memory", f"{runs.memory:.0f} MB (want < {MEMORY_BAR_MB})", passed)


def _growth_bar(results: Results, name: str) -> Iterator[Bar]:
    wanted = ("own", name, OURS)
    sizes = sorted(c.files for c, runs in results.items() if runs.seconds and (c.kind, c.filter, c.peer) == wanted)
    if len(sizes) > 1:
        small, large = sizes[0], sizes[-1]
        growth = results[Cell("own", large, name, OURS)].median / results[Cell("own", small, name, OURS)].median
        subject = f"own checkpoint, {name} filter, growth from {size_name(small)} to {size_name(large)}"
        yield Bar(subject, f"{growth:.2f}x the time (want <= {GROWTH_BAR:g}x)", growth <= GROWTH_BAR)


def remarks(results: Results) -> Iterator[str]:
    """Figures without a bar: scattered statistics, listing and reading together, and what failed."""
    for cell, runs in results.items():
        if runs.failure:
            yield f"failed: {_subject(cell)}, {CALLS[cell.peer]}: {runs.failure}"
            continue
        compared = _against_fastest(results, cell)
        if compared is not None and cell.peer == OURS_READING:
            yield f"like for like: {_subject(cell)}, list and read: {_said(*compared)}"
        elif compared is not None and cell.peer == OURS and cell.filter not in BARRED_FILTERS:
            yield f"no bar: {_subject(cell)}: {_said(*compared)}"


def _against_fastest(results: Results, cell: Cell) -> tuple[float, str] | None:
    """How many times faster the cell is than the fastest peer, and which that is."""
    others = [
        (runs.median, other.peer)
        for other, runs in results.items()
        if attrs.evolve(other, peer=cell.peer) == cell and other.peer not in (OURS, OURS_READING) and runs.seconds
    ]
    ours = results.get(cell, Runs())
    if not others or not ours.seconds:
        return None
    fastest, peer = min(others)
    return fastest / ours.median, peer


def _subject(cell: Cell) -> str:
    return f"{cell.kind} checkpoint, {size_name(cell.files)}, {cell.filter} filter"


def _said(ratio: float, peer: str) -> str:
    times, word = (ratio, "faster") if ratio >= 1 else (1 / ratio, "slower")
    return f"{times:.{1 if times >= 2 else 2}f}x {word} than {CALLS[peer]}"
