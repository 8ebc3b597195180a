"""Random histories of appends, row changes and maintenance, held against a list of rows."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import tablespec
from tablespec.errors import DataFileMissingError
from tablespec.write.execution import Strategy
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import (
    append,
    data_files,
    deltalake_rows,
    new_table,
    tracked_rows,
    vector_files,
    visible_files,
)

IDS = st.integers(0, 12)
CITIES = st.sampled_from(["sf", "la", "", None, "ä'€"])
DAYS = st.sampled_from([1, 2])
STRATEGIES = st.sampled_from(Strategy)

Row = tuple[int, str | None, int]


class History(RuleBasedStateMachine):
    """A table beside what its versions must hold: the rows, and of each the id and commit version once they are known."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.past: dict[int, list[Row]] = {}
        self.ids: dict[int, list[tuple[object, ...]]] = {}
        self.readable: set[int] = set()
        self.handed_out: dict[object, int] = {}
        self.restores: set[object] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def rows(self) -> list[Row]:
        return self.past[self.latest]

    @property
    def latest(self) -> int:
        return max(self.past)

    @initialize()
    def create(self) -> None:
        self.table = new_table(self.folder, delta__checkpointInterval="4")
        self.done([])

    def done(self, rows: list[Row], *, same_rows: bool = False) -> None:
        """What holds from now on; nothing when nothing was committed."""
        version = self.table.format.latest().instant.version
        told = tracked_rows(self.table)
        if self.past and version == self.latest:
            assert_same_rows(rows, self.rows)
        elif same_rows:
            self.same_rows_moved(told)
            assert self.table.incremental(self.latest).to_table().num_rows == 0
        self.past[version], self.ids[version] = rows, told
        self.readable.add(version)

    def same_rows_moved(self, told: list[tuple[object, ...]]) -> None:
        """Rows keep ids and commit versions when they move; those that a restore brought back then get its version."""
        before = self.ids[self.latest]
        assert_same_rows([row[:-1] for row in told], [row[:-1] for row in before])
        versions = {row[-2]: int(str(row[-1])) for row in before}
        for row in told:
            assert row[-1] == versions[row[-2]] or row[-1] in self.restores

    @rule(rows=st.lists(st.tuples(IDS, CITIES, DAYS), min_size=1, max_size=5))
    def append(self, rows: list[Row]) -> None:
        append(self.table, *rows)
        self.done([*self.rows, *rows])

    @rule(bound=IDS, strategy=STRATEGIES)
    def delete(self, bound: int, strategy: Strategy) -> None:
        self.table.delete(f"id < {bound} and day = 1", strategy=strategy)
        self.done([row for row in self.rows if not (row[0] < bound and row[2] == 1)])

    @rule(number=IDS, strategy=STRATEGIES)
    def update(self, number: int, strategy: Strategy) -> None:
        self.table.update({"city": "'new'"}, f"id = {number}", strategy=strategy)
        self.done([(row[0], "new", row[2]) if row[0] == number else row for row in self.rows])

    @rule(fraction=st.sampled_from([0.0, 0.3, 1.0]), where=st.sampled_from([None, "day = 1", "id > 6"]))
    def compact(self, fraction: float, where: str | None) -> None:
        self.table.compact(where, max_deleted_fraction=fraction)
        self.done(self.rows, same_rows=True)
        assert self.table.compact(where, max_deleted_fraction=fraction).instant is None

    @rule(by=st.sampled_from([["id"], ["city", "id"]]), order=st.sampled_from(["sort", "zorder"]))
    def cluster(self, by: list[str], order: str) -> None:
        self.table.cluster(by, order=order, target_bytes=1000)
        self.done(self.rows, same_rows=True)

    @rule()
    def checkpoint(self) -> None:
        self.table.checkpoint()

    @rule()
    def vacuum(self) -> None:
        needed = data_files(self.table) | vector_files(self.table)
        # Commits within the same millisecond are spread over the next ones.
        shortly_after = timedelta(milliseconds=-1000)
        self.table.vacuum(shortly_after, allow_short_retention=True)
        assert visible_files(self.folder) == needed
        self.readable = {self.latest}

    @precondition(lambda self: len(self.past) > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.past)))
        expected = self.ids[version]
        try:
            self.table.restore(version)
        except DataFileMissingError:
            assert version not in self.readable
            self.done(self.rows)
            return
        self.restores.add(self.table.instant().version)
        self.done(self.past[version])
        assert_same_rows(tracked_rows(self.table), expected)

    @rule()
    def reopen(self) -> None:
        self.table = tablespec.open_table(str(self.folder))

    @invariant()
    def every_retained_version_reads_as_it_did(self) -> None:
        for version in self.readable:
            assert_same_rows(tracked_rows(self.table, version), self.ids[version])
            assert_same_rows([row[:3] for row in self.ids[version]], self.past[version])

    @invariant()
    def no_row_id_means_two_rows(self) -> None:
        for row in self.ids.get(self.latest, []) if self.past else []:
            assert self.handed_out.setdefault(row[3], int(str(row[0]))) == row[0]
        if self.past:
            ids = [row[3] for row in self.ids[self.latest]]
            assert len(set(ids)) == len(ids)

    @invariant()
    def deltalake_reads_the_same(self) -> None:
        if self.past:
            assert_same_rows(deltalake_rows(self.folder), self.rows)


@pytest.mark.slow
def test_any_history_of_changes_and_maintenance_reads_as_a_list_of_rows():
    machine = History.TestCase
    # Every step writes files for good and reads all versions, so there are fewer examples than elsewhere.
    machine.settings = settings(
        max_examples=settings().max_examples // 4,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    machine("runTest").runTest()
