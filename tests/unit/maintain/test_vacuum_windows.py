"""What a vacuum leaves of a table whose retention reaches over several versions."""

import random
from datetime import timedelta

import pytest

import tablespec
from tablespec import Table
from tests.handmade import versions_of
from tests.rows import assert_same_rows
from tests.unit.maintain.tables import aged, aged_commits, append, new_table, tracked_rows, visible_files

COMMITS = 14


def grown(folder, choose):
    """A table of many commits, one a day, whose files are all a month old."""
    feed = choose.choice(["true", "false"])
    table = new_table(folder, delta__enableChangeDataFeed=feed, delta__checkpointInterval="5")
    verbs = [
        lambda number: table.delete(f"id in ({number * 10}, {number * 10 - 9}, {number * 10 - 28})"),
        lambda number: table.update({"city": f"'c{number}'"}, f"id in ({number * 10 + 2}, {number * 10 - 7})"),
        lambda number: table.compact(max_deleted_fraction=0),
        lambda number: table.cluster(["city"]),
        lambda number: table.restore(choose.randrange((number + 1) // 2, number + 1)),
    ]
    number = 0
    while table.instant().version < COMMITS:
        number = table.instant().version + 1
        append(table, *((number * 10 + offset, "sf", offset % 2) for offset in range(4)))
        choose.choice(verbs)(number)
    aged(folder, 30, sorted(visible_files(folder)))
    latest = table.instant().version
    for version in versions_of(folder):
        aged_commits(folder, latest - version, version)
    return tablespec.open_table(str(folder))


def reads(table: Table, first: int) -> dict[object, list[str]]:
    """What every version from one on holds, and what every window between two of them tells."""
    latest = table.instant().version
    states = {at: tracked_rows(table, at) for at in range(first, latest + 1)}
    found: dict[object, list[str]] = {at: sorted(map(repr, rows)) for at, rows in states.items()}
    for after in range(first, latest):
        for upto in range(after + 1, latest + 1):
            for scan in (table.changes(after, upto), table.incremental(after, upto)):
                found[type(scan).__name__, after, upto] = sorted(map(repr, scan.to_table().to_pylist()))
    return found


@pytest.mark.parametrize("days", [0, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_every_retained_version_and_window_reads_as_before_a_vacuum(tmp_path, seed, days):
    table = grown(tmp_path, random.Random(seed))
    # The version of a day before the retention was still the newest when it began.
    first = table.instant().version - days - 1
    before, files = reads(table, first), visible_files(tmp_path)

    planned = table.vacuum(timedelta(days=days, hours=12), allow_short_retention=True, dry_run=True)
    unchanged = visible_files(tmp_path)
    removed = table.vacuum(timedelta(days=days, hours=12), allow_short_retention=True)

    assert unchanged == files
    assert removed == planned
    assert {*removed.paths} == files - visible_files(tmp_path) != set()
    table = tablespec.open_table(str(tmp_path))
    assert reads(table, first) == before
    assert_same_rows(table.scan(), table.scan(at=table.instant().version))
