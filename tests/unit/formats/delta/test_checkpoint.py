"""Checkpoints of every kind: whatever they look like, the table reads the same as from its commits."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tablespec
from tablespec.errors import CorruptLogError, InstantNotFoundError, MissingLogError
from tablespec.formats.delta.checkpoint import add_batches, removes
from tablespec.storage.store import Storage
from tests.handmade import add, checkpoint_file, commit, commit_file
from tests.rows import assert_same_rows
from tests.unit.formats.delta.checkpoints import (
    ADD,
    KINDS,
    PARSED,
    ROWS,
    VERSION,
    C,
    Row,
    classic,
    data,
    file_actions,
    hint,
    in_json_with_sidecars,
    in_parts,
    of_small_row_groups,
    parsed,
    table_actions,
    with_parsed_columns,
    without_commits,
    write_log,
    write_parquet,
)

QUESTIONS: dict[str, Callable[[Row], bool]] = {
    "id >= 10": lambda row: row[0] >= 10,
    "id = 3": lambda row: row[0] == 3,
    "id = 5": lambda row: False,
    "x < 1": lambda row: row[1] is not None and row[1] < 1,
    "x > 100": lambda row: row[1] is not None and math.isnan(row[1]),
    "x IS NULL": lambda row: row[1] is None,
    "s IS NOT NULL": lambda row: row[2] is not None,
    "s > 'l'": lambda row: row[2] is not None and row[2] > "l",
    "p = 'red'": lambda row: row[3] == "red",
    "p = 'a b/é%'": lambda row: row[3] == "a b/é%",
    "p IS NULL": lambda row: row[3] is None,
    "n < 2": lambda row: row[4] is not None and row[4] < 2,
    "n IS NULL OR x = 0.5": lambda row: row[4] is None or row[1] == 0.5,
    "p = 'red' AND id > 2": lambda row: row[3] == "red" and row[0] > 2,
    "NOT (p = 'red')": lambda row: row[3] is not None and row[3] != "red",
}


@pytest.fixture
def folder(tmp_path) -> Path:
    write_log(tmp_path)
    return tmp_path


def assert_reads(folder: Path, versions: range) -> None:
    table = tablespec.open_table(str(folder))
    assert_same_rows(table.scan(), ROWS[versions[-1]])
    for version in versions:
        assert_same_rows(table.scan(at=version), ROWS[version])
        assert table.scan(at=version).count() == len(ROWS[version])


def test_the_table_reads_from_its_commits(folder):
    assert_reads(folder, range(7))


@pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
def test_a_cleaned_log_reads_from_its_checkpoint(folder, write):
    write(folder)
    without_commits(folder)

    assert_reads(folder, range(VERSION, 7))


@pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
def test_a_filter_on_files_of_a_checkpoint_gives_the_rows_that_match(folder, write):
    write(folder)
    without_commits(folder)
    table = tablespec.open_table(str(folder))

    for version in (VERSION, 6):
        for where, holds in QUESTIONS.items():
            wanted = [row for row in ROWS[version] if holds(row)]
            assert_same_rows(table.scan(where=where, at=version), wanted)
            assert table.scan(where=where, at=version).count() == len(wanted)


@pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
def test_a_checkpoint_tells_protocol_transactions_and_domains(folder, write):
    write(folder)
    without_commits(folder)

    state = tablespec.open_table(str(folder)).format.latest()

    assert state.protocol.reader_features == ("deletionVectors", "v2Checkpoint")
    assert state.partition_columns == ("p", "n")
    assert {app: one.version for app, one in state.reconciled.transactions.items()} == {"loader": 7}
    assert {name: one.configuration for name, one in state.reconciled.domains.items()} == {"io.test": "{}"}


@pytest.mark.parametrize("write", KINDS.values(), ids=KINDS)
def test_a_table_goes_on_from_any_checkpoint(folder, write):
    write(folder)
    without_commits(folder)
    table = tablespec.open_table(str(folder))

    table.append(tablespec.open_table(str(folder)).scan(where="p = 'red'").to_table())
    table.checkpoint()
    without_commits_after(folder)

    again = tablespec.open_table(str(folder))
    assert_same_rows(again.scan(), [*ROWS[6], *(row for row in ROWS[6] if row[3] == "red")])
    assert again.format.latest().reconciled.transactions["loader"].version == 7


def without_commits_after(folder: Path) -> None:
    for version in (5, 6):
        commit_file(folder, version).unlink()


def test_row_groups_that_cannot_match_are_not_listed(folder):
    of_small_row_groups(folder)
    without_commits(folder)
    table = tablespec.open_table(str(folder))

    def paths(where: str) -> list[str]:
        return [one.slice.base.path for one in table.scan(where=where, at=VERSION).slices]

    assert paths("p = 'red' AND id > 2") == ["b.parquet"]
    assert paths("n = 2 AND id < 15") == ["c.parquet"]
    assert paths("p IS NULL") == ["c.parquet"]
    assert paths("id = 4") == []
    # The bounds of x are unknown where a file holds NaN.
    assert paths("x < 0") == ["c.parquet", "d.parquet"]


def test_an_add_without_a_size_is_listed_all_the_same(folder):
    first, *others = file_actions(folder)
    others = [{"add": {**one["add"], "size": None}} if "add" in one else one for one in others]
    write_parquet(checkpoint_file(folder, VERSION), [*table_actions(folder), first, *others])
    without_commits(folder)

    listed = tablespec.open_table(str(folder)).file_index.list_files_at(VERSION, "id >= 0")

    paths = {one.base.path for snapshot in listed for one in snapshot.file_slices}
    assert paths == {one["add"]["path"] for one in [first, *others] if "add" in one}


@pytest.mark.parametrize(("low", "high"), [(1000.0, math.nan), (math.nan, 1000.0), (math.nan, math.nan)], ids=repr)
def test_a_bound_that_is_not_a_number_bounds_nothing(folder, low, high):
    rows: list[Row] = [(20, 1000.0, "plum", "a b/é%", 2), (21, math.nan, "plum", "a b/é%", 2)]
    pq.write_table(data(rows), folder / "d.parquet")
    adds = {one["add"]["path"]: parsed(one["add"]) for one in file_actions(folder) if "add" in one}
    adds["d.parquet"]["stats_parsed"]["minValues"]["x"] = low
    adds["d.parquet"]["stats_parsed"]["maxValues"]["x"] = high
    everything = [*table_actions(folder), *({"add": one} for one in adds.values())]
    write_parquet(checkpoint_file(folder, VERSION), everything, {**ADD, **PARSED})
    without_commits(folder)

    table = tablespec.open_table(str(folder))

    assert_same_rows(table.scan(where="x = 1000"), rows[:1])
    assert_same_rows(table.scan(where="x >= 1000"), rows)


# --- which checkpoint is used -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[4]",
        '{"version":"4"}',
        '{"version":99}',
        '{"version":3}',
        '{"version":5}',
        '{"version":4,"size":1,"parts":7}',
    ],
)
@pytest.mark.parametrize("write", [classic, in_parts, in_json_with_sidecars], ids=lambda write: write.__name__)
def test_a_hint_that_is_missing_or_wrong_changes_nothing(folder, write, text):
    write(folder)
    without_commits(folder)
    if text is not None:
        folder.joinpath("_delta_log/_last_checkpoint").write_text(text)

    assert_reads(folder, range(VERSION, 7))


def test_a_right_hint_is_enough_to_find_the_newest_version(folder):
    classic(folder)
    hint(folder)

    assert_reads(folder, range(7))


def test_a_hint_at_a_checkpoint_that_is_gone_falls_back_to_the_commits(folder):
    hint(folder)

    assert_reads(folder, range(7))


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_checkpoint_that_lacks_a_part_falls_back_to_the_commits(folder, gone):
    in_parts(folder)
    hint(folder, parts=3)
    folder.joinpath(f"_delta_log/{VERSION:020d}.checkpoint.{gone:010d}.{3:010d}.parquet").unlink()

    assert_reads(folder, range(7))


def test_a_checkpoint_that_lacks_a_part_is_told_where_nothing_else_covers_it(folder):
    in_parts(folder)
    without_commits(folder)
    folder.joinpath(f"_delta_log/{VERSION:020d}.checkpoint.{1:010d}.{3:010d}.parquet").unlink()

    with pytest.raises(MissingLogError, match="lacks version 0"):
        tablespec.open_table(str(folder)).scan()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all" * 10], ids=["empty", "short", "other"])
@pytest.mark.parametrize("hinted", [True, False], ids=["hinted", "not hinted"])
def test_a_damaged_checkpoint_falls_back_to_the_commits(folder, content, hinted):
    checkpoint_file(folder, VERSION).write_bytes(content)
    if hinted:
        hint(folder)

    assert_reads(folder, range(7))


def test_a_damaged_checkpoint_is_told_where_nothing_else_covers_it(folder):
    checkpoint_file(folder, VERSION).write_bytes(b"no Parquet at all")
    without_commits(folder)

    with pytest.raises(CorruptLogError, match=r"checkpoint\.parquet"):
        tablespec.open_table(str(folder)).scan()


@pytest.mark.parametrize("where", [None, "p = 'red'"])
def test_a_missing_sidecar_falls_back_to_the_commits(folder, where):
    in_json_with_sidecars(folder)
    next(folder.joinpath("_delta_log/_sidecars").iterdir()).unlink()

    found = tablespec.open_table(str(folder)).scan(where=where)

    assert_same_rows(found, [row for row in ROWS[6] if where is None or row[3] == "red"])


def test_a_missing_sidecar_is_told_where_nothing_else_covers_it(folder):
    in_json_with_sidecars(folder)
    without_commits(folder)
    next(folder.joinpath("_delta_log/_sidecars").iterdir()).unlink()

    with pytest.raises(CorruptLogError, match="_sidecars"):
        tablespec.open_table(str(folder)).scan().to_table()


def test_versions_before_the_only_checkpoint_of_a_cleaned_log_are_gone(folder):
    classic(folder)
    without_commits(folder)

    with pytest.raises(InstantNotFoundError, match="4 to 6"):
        tablespec.open_table(str(folder)).scan(at=3)


def test_a_checkpoint_is_preferred_to_the_commits_up_to_it(folder):
    classic(folder)
    commit_file(folder, 2).write_text("damaged")

    assert_reads(folder, range(VERSION, 7))
    with pytest.raises(CorruptLogError, match="line 1"):
        tablespec.open_table(str(folder)).scan(at=2)


@pytest.mark.parametrize("followed", [False, True], ids=["opened anew", "followed"])
def test_a_new_checkpoint_is_preferred_to_a_commit_that_does_not_add_up(folder, followed):
    for version in (5, 6):
        commit_file(folder, version).unlink()
    table = tablespec.open_table(str(folder))
    assert_same_rows(table.scan(), ROWS[VERSION])

    # As Trino rewrites a file with a deletion vector: the remove does not name the vector, and a checkpoint follows.
    values = {"partitionValues": {"p": None, "n": "2"}}
    rewritten = add(folder, "g.parquet", data(C[:1]), **values)
    commit(folder, 5, {"remove": {"path": "c.parquet", "dataChange": False, "deletionTimestamp": 1}}, rewritten)
    others = [one for one in file_actions(folder) if one.get("add", {}).get("path") != "c.parquet"]
    write_parquet(checkpoint_file(folder, 5), [*table_actions(folder), *others, rewritten])

    assert_same_rows((table if followed else tablespec.open_table(str(folder))).scan(), ROWS[VERSION])


# --- logs without a checkpoint ----------------------------------------------------------------------------------------


def test_a_log_without_statistics_reads_the_same(tmp_path):
    write_log(tmp_path, statistics=False)
    table = tablespec.open_table(str(tmp_path))

    assert_reads(tmp_path, range(7))
    for where, holds in QUESTIONS.items():
        assert_same_rows(table.scan(where=where), [row for row in ROWS[6] if holds(row)])


@pytest.mark.parametrize(("start", "end"), [(0, 4), (1, 3), (4, 6), (0, 6)])
def test_a_compacted_log_stands_for_its_commits(folder, start, end):
    compact(folder, start, end)
    for version in range(start, end):
        commit_file(folder, version).unlink()

    table = tablespec.open_table(str(folder))
    assert_same_rows(table.scan(), ROWS[6])
    assert_same_rows(table.scan(at=end), ROWS[end])


def compact(folder: Path, start: int, end: int) -> None:
    """Reconcile commits by hand: of each file the newest action, and everything else as it is."""
    kept: dict[str, str] = {}
    for version in range(start, end + 1):
        for line in commit_file(folder, version).read_text().splitlines():
            kept[identity(line)] = line
    name = f"{start:020d}.{end:020d}.compacted.json"
    folder.joinpath("_delta_log", name).write_text("\n".join(kept.values()))


def identity(line: str) -> str:
    kind, action = next(iter(json.loads(line).items()))
    if kind not in ("add", "remove"):
        return line
    return f"{action['path']} {action.get('deletionVector', {}).get('pathOrInlineDv')}"


# --- all actions of a checkpoint --------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [classic, with_parsed_columns], ids=lambda write: write.__name__)
def test_all_adds_and_tombstones_can_be_had(folder, write):
    write(folder)
    storage, path = Storage.at(str(folder)), f"_delta_log/{checkpoint_file(folder, VERSION).name}"

    adds = [one for batch in add_batches(storage, path) for one in batch.to_pylist()]

    assert [one["path"] for one in adds] == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    assert [(one.path, one.deletion_timestamp) for one in removes(storage, path)] == [("e.parquet", 1)]
