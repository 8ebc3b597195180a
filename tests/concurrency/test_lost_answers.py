"""A store that performs a put and then loses the answer: the commit is there once, and its caller is told so."""

from __future__ import annotations

import attrs
import pytest

import tablespec
from tablespec.errors import StorageError
from tablespec.formats.detect import open_format
from tablespec.storage.store import Storage
from tablespec.table import Table
from tests.concurrency.verbs import BASE, VERBS, make_table, open_at, row_ids, values
from tests.storages import LosingAnswers

pytestmark = pytest.mark.s3

ANSWERS = pytest.mark.parametrize("raises", [True, False], ids=["an error", "as if it had been there"])


@pytest.fixture(scope="module", params=[False, True], ids=["", "damaged"])
def source(request, tmp_path_factory):
    return make_table(tmp_path_factory.mktemp("source") / "table", damaged=request.param), request.param


@ANSWERS
def test_every_verb_recognises_its_own_commit(places, source, raises):
    folder, damaged = source
    for name in [name for name, verb in VERBS.items() if verb.damaged == damaged]:
        url, alone = places.copy(folder), places.copy(folder)
        VERBS[name].run(open_at(alone, places.options), "a")
        storage = LosingAnswers(
            Storage.at(url).url, Storage.at(url, places.options).options, when=is_commit, raises=raises
        )

        instant = VERBS[name].run(Table(open_format(storage)), "a")

        table = open_at(url, places.options)
        assert (name, instant.version) == (name, BASE + 1)
        assert [one.version for one in table.timeline] == list(range(BASE + 2))
        assert (name, values(url, places.options)) == (name, values(alone, places.options))
        assert len(set(row_ids(url, places.options))) == len(row_ids(url, places.options))


@ANSWERS
def test_every_verb_recognises_a_lost_race(places, source, raises):
    folder, damaged = source
    for name in [name for name, verb in VERBS.items() if verb.damaged == damaged]:
        url = places.copy(folder)
        left = [lambda url=url: open_at(url, places.options).set_properties({"owner": "somebody else"})]

        class Both(LosingAnswers):
            def put_if_absent(self, path, data, left=left):
                if is_commit(path) and left:
                    left.pop()()
                return super().put_if_absent(path, data)

        storage = Both(Storage.at(url).url, Storage.at(url, places.options).options, when=is_commit, raises=raises)

        with pytest.raises(tablespec.errors.CommitConflictError):
            VERBS[name].run(Table(open_format(storage)), "a")

        assert values(url, places.options) == values(str(folder))
        assert open_at(url, places.options).properties["owner"] == "somebody else"


def test_a_commit_whose_answer_is_lost_and_which_cannot_be_looked_up_stands_and_keeps_its_files(places, source):
    folder, damaged = source
    for name in [name for name, verb in VERBS.items() if verb.damaged == damaged]:
        url, alone = places.copy(folder), places.copy(folder)
        VERBS[name].run(open_at(alone, places.options), "a")
        cut_off = CutOff(Storage.at(url).url, Storage.at(url, places.options).options, when=is_commit)

        with pytest.raises(StorageError):
            VERBS[name].run(Table(open_format(cut_off)), "a")

        table = open_at(url, places.options)
        assert (name, table.instant().version) == (name, BASE + 1)
        assert (name, values(url, places.options)) == (name, values(alone, places.options))
        assert (name, sorted(row_ids(url, places.options))) == (name, sorted(row_ids(alone, places.options)))


@attrs.frozen
class CutOff(LosingAnswers):
    """A store that performs a commit, loses the answer, and then gives nothing to read of it any more."""

    lost: list[str] = attrs.field(factory=list, eq=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.when(path):
            self.lost.append(path)
        return super().put_if_absent(path, data)

    def read(self, path: str) -> bytes:
        if path in self.lost:
            raise StorageError(f"{self.url}/{path}", "the store is not there")
        return super().read(path)


def is_commit(path: str) -> bool:
    return path.startswith("_delta_log/") and path.endswith(".json")
