"""A process that dies in the middle of a verb leaves the table as it was before, or as it is after."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from tablespec.errors import TableNotFoundError
from tablespec.table import Table
from tests.concurrency.crashes import CREATE, DEADLY, WITH_FEED
from tests.concurrency.crew import ROOT
from tests.concurrency.verbs import BASE, VERBS, make_table, open_at, row_ids, values

LOG = "_delta_log/"
INDEXES = "_tablespec/index/"


# What reads, and what engines build the verbs from.
HARMLESS = {"scan", "read_optimized", "incremental", "changes", "history", "slice_reader", "schema_at", "instant"}
HARMLESS |= {"search", "index"}
PARTS = {"sql", "plan_append", "commit_append", "plan_replace", "commit_replace"}
PARTS |= {"begin_delete", "begin_update", "begin_merge"}


def prepare(folder: Path, verb: str) -> None:
    """Make the table of a verb, with what it needs to have something to do."""
    if verb == CREATE:
        folder.mkdir()
        return
    make_table(folder, damaged=verb in VERBS and VERBS[verb].damaged)
    table = open_at(str(folder))
    if verb.endswith(WITH_FEED):
        table.set_properties({"delta.enableChangeDataFeed": "true"})
    match verb:
        case "vacuum":
            table.compact()
        case "vacuum_indexes":
            table.create_text_index(["p"])
            table.compact()
            # As another client cleans up, who knows nothing of indexes.
            needed = {one.slice.base.path for one in table.scan().slices}
            for file in folder.rglob("*.parquet"):
                path = str(file.relative_to(folder))
                if path not in needed and not path.startswith((LOG, INDEXES)):
                    file.unlink()
        case "append with a checkpoint":
            table.set_properties({"delta.checkpointInterval": "5"})
        case "expire_log":
            table.checkpoint()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder with the tables of all verbs, and for each the numbers of the calls at which a process died or that lived."""
    folder = tmp_path_factory.mktemp("crashes")
    for verb in DEADLY:
        prepare(folder / verb, verb)
    command = [sys.executable, "-m", "tests.concurrency.crashes", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=280, cwd=ROOT)
    ends = defaultdict(list)
    for line in done.stdout.splitlines():
        status, number, verb = line.split(" ", maxsplit=2)
        ends[verb].append((int(status), int(number)))
    for numbers in ends.values():
        assert [status for status, _ in numbers] == [-signal.SIGKILL] * (len(numbers) - 1) + [0], done.stderr
    return folder, {verb: [number for _, number in numbers] for verb, numbers in ends.items()}


@pytest.mark.parametrize("verb", DEADLY)
def test_a_killed_verb_happened_or_did_not_and_vacuum_removes_what_it_left(killed, verb):
    folder, numbers = killed[0], killed[1][verb]
    source = folder / verb
    last = copy_of(source, numbers[-1])
    before, after = (held(source), told(source)), (held(last), told(last))
    assert len(numbers) > 2
    assert has_change_files(last) == verb.endswith(WITH_FEED)

    for number in numbers:
        copy = copy_of(source, number)
        found = held(copy)
        assert (found, told(copy)) in (before, after), number
        if found is not None:
            check_vacuumed(copy)


def test_every_method_of_a_table_that_writes_is_killed():
    methods = {name for name, member in vars(Table).items() if callable(member) and not name.startswith("_")}

    assert methods - HARMLESS - PARTS - set(DEADLY) == set()


def copy_of(source: Path, number: int) -> Path:
    return source.with_name(f"{source.name}-{number}")


def held(folder: Path) -> object:
    """All that a table holds, or None where there is none."""
    try:
        table = open_at(str(folder))
    except TableNotFoundError:
        return None
    # The names of hidden columns are drawn when a table is made.
    properties = {name: text for name, text in table.properties.items() if ".materialized" not in name}
    return values(str(folder)), sorted(row_ids(str(folder))), table.schema.names, properties, table.info.protocol


def told(folder: Path) -> list[str]:
    """What the change feed tells of a verb, where it is on."""
    if WITH_FEED not in folder.name:
        return []
    changes = open_at(str(folder)).changes(BASE + 1).to_table().drop_columns(["_commit_timestamp"])
    return sorted(str(change) for change in changes.to_pylist())


def has_change_files(folder: Path) -> bool:
    return any(folder.glob("_change_data/**/*.parquet"))


def check_vacuumed(folder: Path) -> None:
    """What nobody needs can be removed, and nothing else goes."""
    found = held(folder)
    table = open_at(str(folder))
    table.vacuum(timedelta(0), allow_short_retention=True)
    assert held(folder) == found
    slices = [slice_ for part in table.file_index.list_files_at() for slice_ in part.file_slices]
    needed = {slice_.base.path for slice_ in slices} | {slice_.deletes.path for slice_ in slices if slice_.deletes}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    of_indexes = {path for path in files if path.startswith(INDEXES)}
    assert {path for path in files if not path.startswith(LOG)} - of_indexes == needed
    assert table.indexes or not of_indexes
