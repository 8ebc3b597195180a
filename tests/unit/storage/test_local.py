"""What holds for local files beyond the contract of every storage."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tablespec.errors import PathOutsideTableError, StorageError
from tablespec.storage.store import Storage

ODD_NAMES = [
    "p=a%2Fb/x y#1?é.parquet",
    "00000000000000000001.json#1",
    "line\nbreak",
    "tab\tand\x7fdelete",
    "back\\slash",
    "n" * 255,
]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.at(f"{tmp_path}/table")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_made_by_others_is_listed_and_read_under_its_own_name(storage: Storage, name: str) -> None:
    target = Path(f"{storage.local_path(name)}")
    target.parent.mkdir(parents=True)
    target.write_bytes(b"theirs")

    assert [info.path for info in storage.list()] == [name]
    assert storage.read(name) == b"theirs"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_our_file_has_exactly_the_name_that_was_asked_for(storage: Storage, name: str) -> None:
    storage.put(name, b"ours")

    assert Path(storage.url.removeprefix("file://"), name).read_bytes() == b"ours"


def test_a_name_that_is_not_utf_8_is_listed_and_read(storage: Storage) -> None:
    name = os.fsdecode(b"latin-\xe9")
    storage.put(name, b"1")

    assert [info.path for info in storage.list()] == [name]
    assert storage.read(name) == b"1"


@pytest.mark.parametrize("name", ["n" * 256, "null\0byte"])
def test_a_name_that_the_system_refuses_is_a_storage_error(storage: Storage, name: str) -> None:
    storage.put("a", b"1")

    for look in (storage.read, storage.head, storage.open, storage.delete):
        with pytest.raises(StorageError):
            look(name)
    for write in (storage.put, storage.put_if_absent):
        with pytest.raises(StorageError):
            write(name, b"1")
    assert [info.path for info in storage.list()] == ["a"]


def test_an_absolute_local_path_is_relative_where_it_lies_below(storage: Storage, tmp_path: Path) -> None:
    storage.put("a/b", b"1")

    assert storage.read(f"{tmp_path}/table/a/b") == b"1"
    assert storage.read(f"file:{tmp_path}/table/a/b") == b"1"
    with pytest.raises(PathOutsideTableError):
        storage.read(f"{tmp_path}/table2/a/b")


def test_a_local_path_is_given_without_asking_whether_it_exists(storage: Storage, tmp_path: Path) -> None:
    assert storage.local_path("a/b c%20") == f"{tmp_path}/table/a/b c%20"


def test_a_folder_is_neither_read_nor_replaced_as_a_file(storage: Storage) -> None:
    storage.put("a/b", b"1")

    for act in (storage.read, storage.open, storage.delete):
        with pytest.raises(StorageError):
            act("a")
    with pytest.raises(StorageError):
        storage.put("a", b"1")
    with pytest.raises(StorageError):
        storage.put("a/b/c", b"1")
    assert [info.path for info in storage.list()] == ["a/b"]


def test_an_unfinished_file_is_hidden_and_beside_its_target(storage: Storage) -> None:
    file = storage.create("d/x.parquet")
    file.write(b"half")

    folder, _, name = next(storage.list()).path.rpartition("/")

    assert folder == "d"
    assert name.startswith(".")
    file.close()
    assert [info.path for info in storage.list()] == ["d/x.parquet"]


def test_a_writer_that_is_killed_leaves_at_most_a_hidden_file(storage: Storage) -> None:
    program = (
        "import os, sys; from tablespec.storage.store import Storage\n"
        "file = Storage.at(sys.argv[1]).create('x'); file.write(bytes(1 << 20)); os._exit(9)"
    )

    subprocess.run([sys.executable, "-c", program, storage.url], check=False)

    assert storage.head("x") is None
    assert [info.path.startswith(".") for info in storage.list()] == [True]


def test_a_failed_publication_leaves_nothing(storage: Storage) -> None:
    file = storage.create("x")
    file.write(b"1")
    Path(f"{storage.local_path('x')}/in the way").mkdir(parents=True)

    with pytest.raises(StorageError):
        file.close()

    assert list(storage.list()) == []


@pytest.mark.parametrize("place", ["x", "a/x", "a/b/c/x"])
def test_a_file_that_is_given_up_takes_the_folders_with_it_that_were_made_for_it(tmp_path: Path, place: str) -> None:
    storage = Storage.at(f"{tmp_path}/lake/table")

    storage.put(place, b"1")
    storage.delete(place)
    with pytest.raises(RuntimeError, match="gave up"), storage.create(place):
        raise RuntimeError("gave up")

    assert list(tmp_path.iterdir()) == []


def test_folders_of_others_stay_when_a_file_is_given_up(storage: Storage, tmp_path: Path) -> None:
    Path(f"{tmp_path}/table/theirs").mkdir(parents=True)
    storage.put("ours/full", b"1")

    for place in ("theirs/x", "theirs/new/x", "ours/x"):
        storage.put(place, b"1")
        storage.delete(place)

    assert sorted(path.name for path in Path(f"{tmp_path}/table").rglob("*")) == ["full", "ours", "theirs"]


def test_a_put_if_absent_that_fails_takes_its_folders_with_it(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        storage.put_if_absent("log/" + "n" * 256, b"1")

    assert list(tmp_path.iterdir()) == []


def test_a_writer_survives_others_that_give_up_in_the_same_folder(storage: Storage) -> None:
    others = [Storage.at(storage.url) for _ in range(3)]
    done = Event()

    def give_up(other: Storage) -> int:
        times = 0
        while not done.is_set():
            other.create("a/b/theirs").__exit__(RuntimeError, RuntimeError("gave up"), None)
            times += 1
        return times

    with ThreadPoolExecutor(len(others)) as pool:
        given_up = [pool.submit(give_up, other) for other in others]
        try:
            for number in range(300):
                storage.put("a/b/ours", bytes([number % 256]))
                assert storage.read("a/b/ours") == bytes([number % 256])
                storage.delete("a/b/ours")
        finally:
            done.set()

    assert all(future.result() for future in given_up)


def test_of_many_threads_that_race_exactly_one_wins(storage: Storage) -> None:
    racers = 8
    barrier = Barrier(racers)

    def race(racer: int, turn: int) -> bool:
        barrier.wait()
        return storage.put_if_absent(f"log/{turn}", bytes([racer]) * 50_000)

    with ThreadPoolExecutor(racers) as pool:
        for turn in range(20):
            won = list(pool.map(race, range(racers), [turn] * racers))
            assert won.count(True) == 1
            assert storage.read(f"log/{turn}") == bytes([won.index(True)]) * 50_000
    assert len(list(storage.list())) == 20


def test_of_many_processes_that_race_exactly_one_wins_each_turn(storage: Storage) -> None:
    racers, turns = 4, 50

    with ProcessPoolExecutor(racers, mp_context=multiprocessing.get_context("spawn")) as pool:
        won = list(pool.map(_win_turns, [storage] * racers, range(racers), [racers] * racers, [turns] * racers))

    for turn in range(turns):
        winners = [racer for racer in range(racers) if turn in won[racer]]
        assert [storage.read(f"log/{turn}")] == [bytes([racer]) * 50_000 for racer in winners]
    assert len(list(storage.list("log"))) == turns


def _win_turns(storage: Storage, racer: int, racers: int, turns: int) -> set[int]:
    storage.put(f"ready/{racer}", b"")
    while any(storage.head(f"ready/{other}") is None for other in range(racers)):
        time.sleep(0.001)
    return {turn for turn in range(turns) if storage.put_if_absent(f"log/{turn}", bytes([racer]) * 50_000)}


def test_a_commit_of_delta_rs_is_never_overwritten_nor_does_it_overwrite_ours(storage: Storage) -> None:
    place = storage.url.removeprefix("file://")
    write_deltalake(place, pa.table({"a": [1]}))

    assert not storage.put_if_absent("_delta_log/00000000000000000000.json", b"")
    log = storage.read("_delta_log/00000000000000000000.json")
    assert storage.put_if_absent("_delta_log/00000000000000000001.json", b'{"commitInfo":{"operation":"OURS"}}\n')
    write_deltalake(place, pa.table({"a": [2]}), mode="append")

    assert storage.read("_delta_log/00000000000000000000.json") == log
    assert DeltaTable(place).version() == 2
    assert b"OURS" in storage.read("_delta_log/00000000000000000001.json")


def test_secrets_among_the_options_are_not_shown() -> None:
    storage = Storage.at("s3://bucket/table", {"AWS_SECRET_ACCESS_KEY": "hush"})

    assert "hush" not in repr(storage)
