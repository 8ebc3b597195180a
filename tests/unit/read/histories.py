"""Tables with a random past, and their rows at every version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import pyarrow as pa
from hypothesis import strategies as st

import tablespec
from tablespec import Table
from tablespec.errors import TableSpecError
from tablespec.write.execution import Strategy

SCHEMA = pa.schema({"id": pa.int64(), "city": pa.string(), "fare": pa.int64()})
COLUMNS = ("id", "city", "fare")
FEED = {"delta.enableChangeDataFeed": "true"}
GOING = ("delete", "update_preimage")

Row = tuple[object, ...]
Step = tuple[str, Callable[[Table], object]]

values = st.tuples(st.integers(0, 9), st.sampled_from(["sf", "la", None]), st.sampled_from([None, 1, 2, 3]))
batches = st.lists(values, min_size=1, max_size=5)
ways = st.sampled_from(list(Strategy))
conditions = st.one_of(
    st.integers(0, 9).map(lambda number: f"id <= {number}"),
    st.sampled_from(["city = 'sf'", "city is null", "fare = 2", "city = 'la' and fare >= 2"]),
)


def rows_of(given: list[Row]) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(zip(COLUMNS, row)) for row in given], SCHEMA)


def once(given: list[Row]) -> list[Row]:
    """One row of each id."""
    return list({row[0]: row for row in given}.values())


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """One thing done to a table."""
    name = draw(st.sampled_from(list(STEPS)))
    return name, draw(STEPS[name])


STEPS: dict[str, st.SearchStrategy[Callable[[Table], object]]] = {
    "append": batches.map(lambda rows: lambda table: table.append(rows_of(rows))),
    "delete": st.builds(lambda where, how: lambda table: table.delete(where, strategy=how), conditions, ways),
    "update": st.builds(
        lambda where, how: lambda table: table.update({"fare": "fare + 1"}, where, strategy=how), conditions, ways
    ),
    "move": st.builds(
        lambda where, how: lambda table: table.update({"city": "'sf'"}, where, strategy=how), conditions, ways
    ),
    "upsert": st.builds(lambda rows, how: lambda table: table.upsert(rows_of(once(rows)), strategy=how), batches, ways),
    "replace": st.sampled_from([2, 3]).map(
        lambda fare: lambda table: table.replace_where(f"fare = {fare}", rows_of([(1, "sf", fare)]), data_columns=True)
    ),
    "compact": st.just(lambda table: table.compact(max_deleted_fraction=0.0)),
    "cluster": st.just(lambda table: table.cluster(["id"])),
    "restore": st.integers(0, 3).map(lambda back: lambda table: table.restore(max(0, latest(table) - back))),
    "checkpoint": st.just(lambda table: table.checkpoint()),
}


@attrs.frozen
class History:
    """A table, and what each commit after the first was."""

    table: Table
    commits: tuple[str, ...]

    def windows(self) -> Iterator[tuple[int, int]]:
        """Every stretch of versions, empty ones too."""
        last = len(self.commits)
        return ((after, upto) for after in range(last + 1) for upto in range(after, last + 1))

    def rows(self, version: int, *more: str) -> list[Row]:
        """The rows of a version, with hidden columns where they are named."""
        return tuples(self.table.scan(columns=[*COLUMNS, *more], at=version))


def history(folder: Path, given: list[Step], *, partitioned: bool, feed: bool) -> History:
    """A table to which these things were done; what a step may not do is left out."""
    table = tablespec.create_table(
        str(folder),
        SCHEMA,
        partition_by=["city"] if partitioned else [],
        key=["id"],
        properties=FEED if feed else {},
    )
    commits: list[str] = []
    for name, step in given:
        # Two rows with one key cannot be told apart by an upsert.
        with suppress(TableSpecError):
            step(table)
        commits += [name] * (latest(table) - len(commits))
    return History(table, tuple(commits))


def latest(table: Table) -> int:
    """The newest version."""
    return table.instant().version


def tuples(scan: object) -> list[Row]:
    """The rows of anything that speaks Arrow, as tuples."""
    return [tuple(row.values()) for row in pa.RecordBatchReader.from_stream(scan).read_all().to_pylist()]


def applied(rows: list[Row], changes: object) -> Counter[Row]:
    """What rows become by changes, whose last three columns tell what happened; counts below zero stay."""
    state = Counter(rows)
    for *row, change_type, _, _ in tuples(changes):
        state[tuple(row)] += -1 if change_type in GOING else 1
    return Counter({row: count for row, count in state.items() if count})
