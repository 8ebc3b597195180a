"""A catalog of folders: tables by name."""

from __future__ import annotations

import shutil
from uuid import uuid4

import pyarrow as pa
import pytest

import tablespec
from tablespec import Catalog
from tablespec.errors import InvalidNameError, NotATableError, StorageError, TableExistsError, TableNotFoundError
from tablespec.storage.store import Storage
from tests.rows import assert_same_rows

ROWS = pa.table({"id": [1, 2, 3], "city": ["sf", "sf", "la"]})


@pytest.fixture(params=["local", "memory"])
def warehouse(request, tmp_path) -> str:
    return str(tmp_path) if request.param == "local" else f"memory://{uuid4().hex}/warehouse"


@pytest.fixture
def catalog(warehouse) -> Catalog:
    return Catalog(warehouse)


def test_a_table_that_was_created_by_name_is_loaded_by_name(catalog):
    catalog.create_table("sales.trips", ROWS.schema).append(ROWS)

    assert_same_rows(catalog.load("sales.trips").scan(), [(1, "sf"), (2, "sf"), (3, "la")])


def test_the_parts_of_a_name_are_folders_below_the_warehouse(catalog, warehouse):
    catalog.create_table("sales.trips", ROWS.schema).append(ROWS)

    assert_same_rows(tablespec.open_table(f"{warehouse}/sales/trips").scan(), ROWS)
    assert catalog.load("sales.trips").url == f"{catalog.storage.url}/sales/trips"


def test_a_table_is_created_with_everything_that_it_is_made_of(catalog):
    table = catalog.create_table(
        "sales.trips",
        ROWS.schema,
        partition_by=["city"],
        key=["ID"],
        properties={"owner": "ana"},
        profile=tablespec.Profile.STRICT,
    )

    assert table.schema.names == ("id", "city")
    assert table.partition_columns == ("city",)
    assert table.record_key == ("id",)
    assert table.properties["owner"] == "ana"
    assert "rowTracking" in str(table.info.protocol)


def test_a_name_that_is_taken_is_refused(catalog):
    catalog.create_table("sales.trips", ROWS.schema).append(ROWS)

    with pytest.raises(TableExistsError):
        catalog.create_table("sales.trips", ROWS.schema)

    assert_same_rows(catalog.load("sales.trips").scan(), ROWS)


def test_tables_and_databases_are_listed_in_order(catalog):
    for name in ("sales.trips", "hr.people", "sales.fares"):
        catalog.create_table(name, ROWS.schema)

    assert catalog.list() == ("hr.people", "sales.fares", "sales.trips")
    assert catalog.list("sales") == ("sales.fares", "sales.trips")
    assert catalog.list("nothing") == ()
    assert catalog.databases() == ("hr", "sales")


def test_an_empty_warehouse_has_no_tables(catalog):
    assert catalog.list() == ()
    assert catalog.databases() == ()


def test_folders_that_are_no_tables_are_not_listed(catalog, warehouse):
    catalog.create_table("sales.trips", ROWS.schema)
    storage = Storage.at(warehouse)
    storage.put("sales/notes/readme.txt", b"hello")
    storage.put("other/readme.txt", b"hello")
    storage.put("readme.txt", b"hello")
    tablespec.create_table(f"{warehouse}/sales/not a name", ROWS.schema)
    tablespec.create_table(f"{warehouse}/top", ROWS.schema)

    assert catalog.list() == ("sales.trips",)
    assert catalog.databases() == ("sales",)


def test_a_table_that_somebody_put_into_the_warehouse_has_a_name(catalog, warehouse):
    tablespec.create_table(f"{warehouse}/sales/trips", ROWS.schema)

    assert catalog.list() == ("sales.trips",)
    assert catalog.exists("sales.trips")


def test_names_keep_their_capitals(catalog):
    catalog.create_table("sales.Trips", ROWS.schema)

    assert catalog.list() == ("sales.Trips",)


def test_a_dropped_table_leaves_no_file_and_its_name_is_free(catalog):
    catalog.create_table("sales.trips", ROWS.schema, partition_by=["city"]).append(ROWS)
    catalog.create_table("sales.fares", ROWS.schema).append(ROWS)

    catalog.drop("sales.trips")

    assert not catalog.exists("sales.trips")
    assert [file.path for file in catalog.storage.list("sales/trips")] == []
    assert_same_rows(catalog.load("sales.fares").scan(), ROWS)
    catalog.create_table("sales.trips", pa.schema({"other": pa.string()}))
    assert catalog.load("sales.trips").schema.names == ("other",)


def test_a_folder_that_is_no_table_is_not_dropped(catalog, warehouse):
    storage = Storage.at(warehouse)
    storage.put("sales/notes/readme.txt", b"hello")

    with pytest.raises(NotATableError):
        catalog.drop("sales.notes")

    assert storage.read("sales/notes/readme.txt") == b"hello"


def test_what_is_not_there_cannot_be_dropped_or_loaded(catalog):
    with pytest.raises(TableNotFoundError):
        catalog.drop("sales.trips")
    with pytest.raises(TableNotFoundError):
        catalog.load("sales.trips")
    assert not catalog.exists("sales.trips")


def test_a_drop_that_was_interrupted_can_be_called_again(tmp_path, monkeypatch):
    catalog = Catalog(str(tmp_path))
    catalog.create_table("sales.trips", ROWS.schema, partition_by=["city"]).append(ROWS)
    gone: list[str] = []

    def failing(storage: Storage, path: str) -> None:
        if len(gone) == 3:
            raise StorageError(storage.url, "lost")
        gone.append(path)
        (tmp_path / "sales" / "trips" / path).unlink()

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "delete", failing)
        with pytest.raises(StorageError):
            catalog.drop("sales.trips")

    assert [path for path in gone[:2] if path.startswith("_delta_log")] == []
    assert catalog.exists("sales.trips")
    catalog.drop("sales.trips")
    assert not catalog.exists("sales.trips")


def test_a_damaged_table_can_be_dropped(tmp_path):
    catalog = Catalog(str(tmp_path))
    catalog.create_table("sales.trips", ROWS.schema).append(ROWS)
    (tmp_path / "sales/trips/_delta_log/00000000000000000000.json").write_text("{")

    catalog.drop("sales.trips")

    assert catalog.list() == ()


def test_a_hudi_table_in_the_warehouse_has_a_name(tmp_path):
    folder = tmp_path / "sales" / "trips" / ".hoodie"
    folder.mkdir(parents=True)
    (folder / "hoodie.properties").write_text("hoodie.table.name=trips\n")

    assert Catalog(str(tmp_path)).list() == ("sales.trips",)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "trips",
        ".",
        "..",
        "sales.",
        ".trips",
        "a.b.c",
        "sales/trips",
        "sales../trips",
        "../sales.trips",
        "sales.tr ips",
        "sales.trips/",
        "sales.trips\n",
        "sales.1trips",
        "sales.tr-ips",
        "sales.tr%69ps",
        "sales.tríps",
        "file:///tmp.trips",
        "`sales`.`trips`",
    ],
)
def test_a_name_that_is_not_made_of_two_identifiers_is_refused(name, catalog):
    for use in (catalog.load, catalog.exists, catalog.drop, lambda name: catalog.create_table(name, ROWS.schema)):
        with pytest.raises(InvalidNameError) as caught:
            use(name)
        assert repr(name) in str(caught.value)


def test_a_database_that_is_not_an_identifier_is_refused(catalog):
    with pytest.raises(InvalidNameError):
        catalog.list("../sales")


def test_catalogs_of_the_same_place_are_equal(tmp_path):
    assert Catalog(f"{tmp_path}/") == Catalog(f"file://{tmp_path}")
    assert Catalog(str(tmp_path), principal="ana") != Catalog(str(tmp_path))


def test_a_warehouse_that_is_gone_is_empty(tmp_path):
    catalog = Catalog(str(tmp_path / "lake"))
    catalog.create_table("sales.trips", ROWS.schema)
    shutil.rmtree(tmp_path / "lake")

    assert catalog.list() == ()


def test_a_table_whose_creation_was_killed_is_none_and_can_be_created(tmp_path):
    unfinished = tmp_path / "db" / "t" / "_delta_log" / f".{'0' * 32}.tmp"
    unfinished.parent.mkdir(parents=True)
    unfinished.write_bytes(b"{")
    catalog = Catalog(str(tmp_path))

    assert catalog.list() == ()
    with pytest.raises(TableNotFoundError):
        catalog.load("db.t")

    catalog.create_table("db.t", ROWS.schema)

    assert catalog.list() == ("db.t",)
