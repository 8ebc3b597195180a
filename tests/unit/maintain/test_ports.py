from datetime import timedelta

import pytest

import tablespec
from tablespec.errors import NotAuthorizedError, ReadOnlyFormatError
from tablespec.formats.maintenance import MaintainableFormat
from tablespec.storage.store import Storage
from tablespec.table import Table
from tablespec.write.authorize import Privilege, access_to
from tests.handmade import contents
from tests.unit.formats.hudi.conftest import HudiTable
from tests.unit.maintain.tables import append, new_table

VERBS = {
    "compact": lambda table: table.compact(),
    "cluster": lambda table: table.cluster(["id"]),
    "vacuum": lambda table: table.vacuum(timedelta(0), allow_short_retention=True),
    "expire_log": lambda table: table.expire_log(),
    "restore": lambda table: table.restore(0),
}


def test_a_delta_table_can_be_maintained(tmp_path):
    assert isinstance(new_table(tmp_path).format, MaintainableFormat)


@pytest.mark.parametrize("verb", VERBS)
def test_a_hudi_table_is_refused_by_name(tmp_path, verb):
    hudi = HudiTable(Storage.at(str(tmp_path)), 9)
    hudi.properties()
    hudi.write(1, "a", "file", [("1", "a", 1)])

    with pytest.raises(ReadOnlyFormatError, match=f"{verb} is not supported"):
        VERBS[verb](tablespec.open_table(str(tmp_path)))


@pytest.mark.parametrize("verb", VERBS)
def test_whoever_may_only_read_changes_nothing(tmp_path, verb):
    class ReadersOnly:
        def check(self, principal, table, privilege):
            if privilege is not Privilege.SELECT:
                raise NotAuthorizedError(principal, table, privilege.value)

    table = new_table(tmp_path)
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    before = contents(tmp_path)

    with pytest.raises(NotAuthorizedError):
        VERBS[verb](Table(table.format, access_to("t", ReadersOnly(), "ann")))
    assert contents(tmp_path) == before
