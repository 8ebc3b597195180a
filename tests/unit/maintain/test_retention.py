"""For how long vacuum keeps what is not needed, and who may ask for less."""

from datetime import timedelta

import pyarrow as pa
import pytest

import tablespec
from tablespec.errors import InvalidOptionError, InvalidPropertyError, ProtocolVersionError, ShortRetentionError
from tests.handmade import add, commit, contents, metadata, protocol
from tests.unit.maintain.tables import aged, append, compacted, data_files, new_table, remove_all


@pytest.fixture
def table(tmp_path):
    return compacted(tmp_path)


def test_a_dry_run_tells_the_same_and_changes_nothing(table, tmp_path):
    aged(tmp_path, days=30)
    before = contents(tmp_path)

    told = table.vacuum(dry_run=True)

    assert contents(tmp_path) == before
    assert told == table.vacuum()
    assert len(told.paths) == 3


def test_a_retention_below_a_week_must_be_allowed_by_name(table, tmp_path):
    before = contents(tmp_path)

    with pytest.raises(ShortRetentionError, match="allow_short_retention=True"):
        table.vacuum(timedelta(days=6))
    assert contents(tmp_path) == before


@pytest.mark.parametrize("verb", ["vacuum", "vacuum_indexes", "expire_log"])
@pytest.mark.parametrize("retention", [7, "7d", -1.5], ids=repr)
def test_a_retention_is_no_number_or_text(table, tmp_path, verb, retention):
    before = contents(tmp_path)

    with pytest.raises(InvalidOptionError, match="expected a timedelta, such as timedelta"):
        getattr(table, verb)(retention, allow_short_retention=True)
    assert contents(tmp_path) == before


def test_a_table_may_ask_for_another_retention(tmp_path):
    table = new_table(tmp_path, delta__deletedFileRetentionDuration="interval 1 week 2 days")
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    old = data_files(table)
    table.compact()
    aged(tmp_path, days=8)
    assert table.vacuum().paths == ()

    aged(tmp_path, days=2)

    assert set(table.vacuum().paths) == old


def test_a_table_that_asks_for_less_than_a_week_gets_it(tmp_path):
    table = new_table(tmp_path, delta__deletedFileRetentionDuration="interval 12 hours")
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    table.compact()
    aged(tmp_path, days=1)

    assert len(table.vacuum().paths) == 2


def test_a_table_may_ask_for_a_retention_that_never_ends(tmp_path):
    table = new_table(tmp_path, delta__deletedFileRetentionDuration="interval 999999999 weeks")
    append(table, (1, "sf", 1))
    append(table, (2, "sf", 1))
    table.compact()
    table.checkpoint()
    aged(tmp_path, days=20_000)

    assert table.vacuum().paths == ()
    assert len(table.vacuum(timedelta(days=7)).paths) == 2


@pytest.mark.parametrize("text", ["a week", "interval 1 month", "interval", "7"])
def test_an_interval_that_makes_no_sense_is_refused(table, text):
    with pytest.raises(InvalidPropertyError, match="interval 7 days"):
        table.set_properties({"delta.deletedFileRetentionDuration": text})


def test_a_table_that_this_release_may_not_write_is_not_vacuumed(tmp_path):
    unknown = protocol(3, 7, reader_features=["vacuumProtocolCheck"], writer_features=["somethingNew"])
    commit(tmp_path, 0, unknown, metadata(), add(tmp_path, "a.parquet", pa.table({"id": [1]})))
    (tmp_path / "orphan.parquet").write_bytes(b"x")
    before = contents(tmp_path)

    with pytest.raises(ProtocolVersionError, match="somethingNew"):
        remove_all(tablespec.open_table(str(tmp_path)))
    assert contents(tmp_path) == before


def test_a_table_that_asks_for_the_protocol_check_is_vacuumed(tmp_path):
    asks = protocol(3, 7, reader_features=["vacuumProtocolCheck"])
    commit(tmp_path, 0, asks, metadata(), add(tmp_path, "a.parquet", pa.table({"id": [1]})))
    (tmp_path / "orphan.parquet").write_bytes(b"x")

    assert remove_all(tablespec.open_table(str(tmp_path))).paths == ("orphan.parquet",)
