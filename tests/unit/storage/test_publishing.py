"""Files that appear while further ones are written."""

from __future__ import annotations

import threading

import attrs
import pytest

from tablespec.errors import StorageError
from tablespec.storage.publishing import Publishing
from tablespec.storage.store import Storage


@attrs.define(eq=False)
class Watched:
    """A file that tells on which thread it was closed, and may wait or fail there."""

    closed_on: list[str]
    wait: threading.Event | None = None
    fails: bool = False
    dropped: bool = False

    def close(self):
        if self.wait is not None:
            assert self.wait.wait(10)
        if self.fails:
            raise StorageError("here", "the disk is full")
        self.closed_on.append(threading.current_thread().name)

    def __exit__(self, *_):
        self.dropped = True


def test_a_single_file_is_closed_by_whoever_waits_for_it():
    closed: list[str] = []
    publishing = Publishing()

    publishing.add(Watched(closed))
    assert closed == []
    publishing.finish()

    assert closed == [threading.current_thread().name]


def test_all_but_the_newest_are_closed_on_other_threads_and_all_are_there_in_the_end():
    closed: list[str] = []
    publishing = Publishing()

    for _ in range(20):
        publishing.add(Watched(closed))
    publishing.finish()

    here = threading.current_thread().name
    assert len(closed) == 20
    assert closed.count(here) == 1
    assert len({*closed}) <= 5


def test_the_caller_goes_on_while_files_are_being_closed():
    closed: list[str] = []
    publishing, open_door = Publishing(), threading.Event()

    for _ in range(4):
        publishing.add(Watched(closed, wait=open_door))
    assert closed == []
    open_door.set()
    publishing.finish()

    assert len(closed) == 4


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_file_that_cannot_be_closed_is_told_and_the_others_are_waited_for(failing):
    closed: list[str] = []
    publishing = Publishing()
    files = [Watched(closed, fails=number == failing) for number in range(3)]

    with pytest.raises(StorageError, match="the disk is full"):
        for file in files:
            publishing.add(file)
        publishing.finish()
    publishing.abort()

    assert len(closed) == 2


def test_giving_up_drops_the_newest_and_waits_for_the_others():
    closed: list[str] = []
    publishing = Publishing()
    files = [Watched(closed) for _ in range(3)]
    for file in files:
        publishing.add(file)

    publishing.abort()

    assert len(closed) == 2
    assert [file.dropped for file in files] == [False, False, True]
    publishing.finish()
    assert len(closed) == 2


def test_real_files_are_there_after_the_end_and_not_before(tmp_path):
    storage = Storage.at(str(tmp_path))
    publishing = Publishing()

    for number in range(10):
        file = storage.create(f"p={number % 3}/{number}")
        file.write(bytes([number]) * 100)
        publishing.add(file)
    assert storage.head("p=0/9") is None
    publishing.finish()

    assert [storage.read(f"p={number % 3}/{number}") for number in range(10)] == [bytes([n]) * 100 for n in range(10)]
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".tmp"]
