"""Two to eight processes that all read one version and commit one after the other: CONFLICTS says which of them may."""

from __future__ import annotations

import random
import re
from pathlib import Path

import attrs
import pytest

from tablespec.formats.base import Change
from tablespec.txn.conflict import Isolation, conflict
from tests.concurrency.crew import ON_A_STORE, ROOT, Job, Places, Writer, writers
from tests.concurrency.verbs import BASE, VERBS, make_table, open_at, row_ids, values

pytestmark = pytest.mark.s3

SERIALIZABLE, WRITE_SERIALIZABLE = Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE
APPENDS = [verb for verb in VERBS if verb.startswith("append")]
# What the guide tells about; on the object store the others race in the same place alone.
TOLD = [
    "append",
    "replace_where",
    "delete",
    "update",
    "merge",
    "upsert",
    "compact",
    "cluster",
    "restore",
    "set_properties",
]
# A commit that wins is seen by its actions alone: those of a rewriting verb are a delete's and an append's.
WINNERS = [verb for verb in VERBS if "by rewriting" not in verb]
OF_THE_WHOLE_TABLE = {"restore", "set_properties", "add_columns", "add_constraint", "upgrade_protocol", "skip"}


@attrs.define
class Tables:
    """The table that all start from, of each kind, and what verbs make of it when nobody else is there."""

    folder: Path
    places: Places
    _alone: dict[tuple[object, ...], tuple[Path, object]] = attrs.field(factory=dict)

    def base(self, level: Isolation, jobs: list[Job]) -> Path:
        """The table on which these verbs can run."""
        return self._after(level, any(VERBS[verb].damaged for verb, _ in jobs), ())[0]

    def one_by_one(self, level: Isolation, jobs: list[Job], done: list[Job]) -> object:
        """What the table for `jobs` is after some of them were done, each on what the one before had left."""
        return self._after(level, any(VERBS[verb].damaged for verb, _ in jobs), tuple(done))[1]

    def _after(self, level: Isolation, damaged: bool, done: tuple[Job, ...]) -> tuple[Path, object]:
        key = (level, damaged, done)
        if key not in self._alone:
            local = Places(str(self.folder), None)
            if done:
                folder = Path(local.copy(self._after(level, damaged, done[:-1])[0], f"alone-{len(self._alone)}"))
                verb, partition = done[-1]
                VERBS[verb].run(open_at(str(folder)), partition)
            else:
                folder = self.folder / f"base-{level.name}-{damaged}"
                make_table(folder, isolation=level.value, damaged=damaged)
            self._alone[key] = folder, state(str(folder), None)
        return self._alone[key]


def state(url: str, options: object) -> object:
    """All that a table holds: its rows, whose ids differ, its columns, properties and protocol."""
    table = open_at(url, options)
    ids = row_ids(url, options)
    assert len(set(ids)) == len(ids)
    return values(url, options), table.schema.names, table.properties, table.info.protocol


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, places: Places) -> Tables:
    return Tables(tmp_path_factory.mktemp("tables"), places)


@pytest.fixture(scope="module")
def crew():
    with writers(8) as crew:
        yield crew


def held(crew: list[Writer], tables: Tables, level: Isolation, jobs: list[Job]) -> tuple[str, list[Change | None]]:
    """Processes that have read the same version and are about to commit these jobs, one each."""
    url = tables.places.copy(tables.base(level, jobs))
    for writer, job in zip(crew, jobs):
        writer.start(tables.places, url, [job], held=True)
    return url, [writer.change() for writer, _ in zip(crew, jobs)]


def check_race(crew: list[Writer], tables: Tables, level: Isolation, jobs: list[Job]) -> list[bool]:
    """Commit held jobs in their order: each does what CONFLICTS says, and all together what they do one after another."""
    url, changes = held(crew, tables, level, jobs)
    options, stood, verdicts = tables.places.options, [], []
    for writer, job, change in zip(crew, jobs, changes):
        assert change is not None, f"{job} had nothing to commit"
        winners = open_at(url, options).format.commits_after(BASE)
        found = conflict(change, winners, level) if winners else None
        outcome = writer.go_on()
        expected = (
            {"version": BASE + len(stood) + 1}
            if found is None
            else {"conflict": found[0].why, "with": found[1].version}
        )
        assert outcome == expected, f"{job} after {stood}"
        stood += [job] if found is None else []
        verdicts.append(found is None)
    found = state(url, options)
    orders = [stood] if level is SERIALIZABLE or len(stood) < 2 else [stood, stood[::-1]]
    assert found in [tables.one_by_one(level, jobs, order) for order in orders], f"{jobs}: {stood} stood"
    return verdicts


def pairs(loser: str, winners: list[str]) -> list[list[Job]]:
    """The verb in one partition, after each other verb there or elsewhere."""
    # A constraint cannot be had where a file cannot be read.
    unreadable = {"skip", "add_constraint"}
    return [
        [(winner, place), (loser, "a")]
        for winner in winners
        for place in ("a" if winner in OF_THE_WHOLE_TABLE or _elsewhere_is_left_out(winner, loser) else "ab")
        if {winner, loser} != unreadable
    ]


def _elsewhere_is_left_out(winner: str, loser: str) -> bool:
    return ON_A_STORE and not {winner, loser} <= {*TOLD}


def guide() -> dict[tuple[str, str, str], str]:
    """What the guide says of a verb after another in the same place (a), or elsewhere (b)."""
    text = (ROOT / "docs" / "concurrency.md").read_text(encoding="utf-8")
    found = {}
    for place, lines in zip("ab", re.findall(r"(?<=^\| second / first ).*?(?=\n\n)", text, re.MULTILINE | re.DOTALL)):
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
        for second, *cells in rows:
            found |= {(second, first, place): cell for first, cell in zip(header, cells)}
    return found


def check_guide(jobs: list[Job], level: Isolation, *, stood: bool) -> None:
    """The guide says what happened, where it tells about these verbs."""
    (winner, place), (loser, _) = jobs
    told = [(loser, winner, one) for one in ("ab" if winner in OF_THE_WHOLE_TABLE else place)]
    cells = [guide()[key] for key in told if winner in TOLD and loser in TOLD]
    expected = {"yes", "weak"} if level is WRITE_SERIALIZABLE else {"yes"}
    assert all((cell in expected) == stood for cell in cells), f"{jobs}: {cells}"


def test_the_guide_tells_of_every_pair():
    assert set(guide()) == {(second, first, place) for second in TOLD for first in TOLD for place in "ab"}


@pytest.mark.parametrize("loser", VERBS)
def test_a_verb_follows_every_other_or_meets_a_conflict_as_the_table_says(crew, tables, loser):
    for jobs in pairs(loser, WINNERS):
        check_guide(jobs, SERIALIZABLE, stood=check_race(crew, tables, SERIALIZABLE, jobs)[1])


@pytest.mark.parametrize("loser", VERBS)
def test_an_append_does_not_disturb_changes_of_rows_where_the_table_asks_for_less(crew, tables, loser):
    for jobs in pairs(loser, APPENDS):
        check_guide(jobs, WRITE_SERIALIZABLE, stood=check_race(crew, tables, WRITE_SERIALIZABLE, jobs)[1])


@pytest.mark.parametrize("seed", range(12))
def test_of_many_processes_each_follows_all_before_it_or_meets_a_conflict(crew, tables, seed):
    draw = random.Random(seed)
    verbs = [verb for verb in VERBS if verb not in ("skip", "restore")]
    jobs = [(draw.choice(verbs), draw.choice("ab")) for _ in range(draw.randint(3, 8))]

    check_race(crew, tables, SERIALIZABLE, jobs)
