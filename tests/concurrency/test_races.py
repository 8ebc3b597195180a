"""Many writers at one table at once, as fast as they can."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import tablespec
from tablespec import Profile
from tablespec.errors import CommitConflictError, TableExistsError
from tablespec.storage.store import Storage
from tests.concurrency.appenders import PATIENT, check, race_of_processes, race_of_threads
from tests.concurrency.crew import writers
from tests.concurrency.verbs import BASE, VERBS, make_table, open_at, row_ids, values
from tests.handmade import actions_of, contents, versions_of
from tests.rows import assert_same_rows

SCHEMA = pa.schema([("writer", pa.int64()), ("number", pa.int64())])


def data_files(folder):
    return {path for path in contents(folder) if path.endswith(".parquet") and not path.startswith("_delta_log")}


def named_files(folder):
    return {added["path"] for version in versions_of(folder) for added in actions_of(folder, version, "add")}


@pytest.mark.parametrize("profile", list(Profile))
@pytest.mark.parametrize("writers", [2, 8])
def test_threads_lose_nothing_and_write_nothing_twice(tmp_path, profile, writers):
    tablespec.create_table(str(tmp_path), SCHEMA, profile=profile)

    acknowledged = race_of_threads(str(tmp_path), writers, appends=24 // writers)

    assert len(acknowledged) == 24
    check(str(tmp_path), acknowledged)
    assert data_files(tmp_path) == named_files(tmp_path)


@pytest.mark.s3
def test_processes_lose_nothing_and_write_nothing_twice(places):
    url = f"{places.root}/processes"
    tablespec.create_table(url, SCHEMA, storage_options=places.options)

    acknowledged = race_of_processes(url, writers=4, appends=8, options=places.options)

    assert len(acknowledged) == 32
    check(url, acknowledged, places.options)
    added = tablespec.open_table(url, storage_options=places.options).format.added_between(None, 32)
    files = {file.path for file in Storage.at(url, places.options).list()}
    assert {path for path in files if not path.startswith("_delta_log")} == added


@pytest.mark.s3
@pytest.mark.parametrize("number", [2, 4, 8])
def test_processes_that_do_anything_at_once_do_what_they_would_do_one_after_another(tmp_path, places, number):
    draw = random.Random(number)
    # What an application did is not done again, which gives an instant all the same.
    verbs = [verb for verb in VERBS if not VERBS[verb].damaged and verb != "append of an application"]
    jobs = [[(draw.choice(verbs), draw.choice("ab")) for _ in range(32 // number)] for _ in range(number)]
    url = places.copy(make_table(tmp_path / "source"))

    with writers(number) as crew:
        for writer, mine in zip(crew, jobs):
            writer.start(places, url, mine, held=False)
        outcomes = [writer.outcomes() for writer in crew]

    told = [(job, outcome) for mine, theirs in zip(jobs, outcomes) for job, outcome in zip(mine, theirs)]
    done = sorted((outcome["version"], job) for job, outcome in told if outcome.get("version") is not None)
    assert [version for version, _ in done] == list(range(BASE + 1, BASE + 1 + len(done)))
    # Adding what is there already is refused by the table itself.
    assert {outcome["error"].split(":")[0] for _, outcome in told if "error" in outcome} <= {"InvalidSchemaError"}
    alone = open_at(str(tmp_path / "source"))
    for _, (verb, partition) in done:
        # Who moves rows may have been overtaken by an append, whose files are then left to be moved by the next.
        assert VERBS[verb].run(alone, partition) is not None or verb in ("compact", "cluster")
    assert values(url, places.options) == values(alone.url)
    ids = row_ids(url, places.options)
    assert len(set(ids)) == len(ids)


def test_of_many_who_create_a_table_one_does(tmp_path):
    barrier = threading.Barrier(8)

    def create(number):
        barrier.wait()
        try:
            return tablespec.create_table(str(tmp_path), SCHEMA, properties={"creator": str(number)})
        except TableExistsError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [(number, table) for number, table in enumerate(pool.map(create, range(8))) if table is not None]

    assert len(made) == 1
    assert tablespec.open_table(str(tmp_path)).properties["creator"] == str(made[0][0])


def test_appends_race_with_changes_of_the_table_and_only_whole_ones_stay(tmp_path):
    tablespec.create_table(str(tmp_path), SCHEMA)
    barrier = threading.Barrier(4)

    def append(writer):
        table = tablespec.open_table(str(tmp_path))
        barrier.wait()
        done = []
        for number in range(6):
            try:
                table.append(pa.table({"writer": [writer], "number": [number]}), retries=PATIENT)
                done.append((writer, number))
            except CommitConflictError:
                pass
        return done

    def change():
        table = tablespec.open_table(str(tmp_path))
        barrier.wait()
        done = []
        for number in range(4):
            try:
                table.set_properties({f"property{number}": "set"})
                done.append(f"property{number}")
            except CommitConflictError:
                pass
        return done

    with ThreadPoolExecutor(4) as pool:
        appends = [pool.submit(append, writer) for writer in range(3)]
        changes = pool.submit(change)
        appended = [row for one in appends for row in one.result()]

    table = tablespec.open_table(str(tmp_path))
    assert_same_rows(table.scan(), appended)
    assert [name for name in sorted(table.properties) if name.startswith("property")] == changes.result()
    assert data_files(tmp_path) == named_files(tmp_path)
    assert versions_of(tmp_path) == list(range(1 + len(appended) + len(changes.result())))


def test_readers_see_whole_appends_only(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA, partition_by=["writer"])
    stop = threading.Event()
    seen = []

    def read():
        reader = tablespec.open_table(str(tmp_path))
        while not stop.is_set():
            scan = reader.scan()
            rows = scan.to_table().to_pydict()
            seen.append((scan.instant.version, len(rows["writer"]), len(set(rows["number"]))))

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for number in range(12):
            table.append(pa.table({"writer": [1, 2, 3], "number": [number] * 3}))
        stop.set()
        reading.result()

    assert seen
    assert all((rows, numbers) == (3 * version, version) for version, rows, numbers in seen)
    assert [version for version, _, _ in seen] == sorted(version for version, _, _ in seen)


def test_one_table_object_may_be_used_by_many_threads(tmp_path):
    table = tablespec.create_table(str(tmp_path), SCHEMA)

    def append(number):
        return table.append(pa.table({"writer": [0], "number": [number]}), retries=PATIENT).instant.version

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(append, range(16)))

    assert sorted(versions) == list(range(1, 17))
    assert_same_rows(table.scan(), [(0, number) for number in range(16)])
