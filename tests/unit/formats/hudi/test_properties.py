import pytest

from tablespec.errors import CorruptLogError, UnsupportedTableError
from tablespec.formats.hudi.properties import load_properties, parse_properties, table_checksum, table_properties


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("a=b", ("a", "b")),
        ("a = b", ("a", "b")),
        ("a:b", ("a", "b")),
        ("a b", ("a", "b")),
        ("a : = b", ("a", "= b")),
        ("  a=b  ", ("a", "b  ")),
        ("a=", ("a", "")),
        ("a", ("a", "")),
        ("a=b=c", ("a", "b=c")),
        (r"fields=region\:SIMPLE,at\:TIMESTAMP", ("fields", "region:SIMPLE,at:TIMESTAMP")),
        (r"a\=b\ c=d", ("a=b c", "d")),
        (r"a\\=b", ("a\\", "b")),
        (r"a=\u00fcn\u00EF\t\n", ("a", "ünï\t\n")),
        (r"format=yyyy-MM-dd'T'HH\:mm\:ss", ("format", "yyyy-MM-dd'T'HH:mm:ss")),
        ("a=b\\\n   c", ("a", "bc")),
        ("a=b\\\\", ("a", "b\\")),
    ],
)
def test_an_entry_is_read_as_java_reads_it(line, entry):
    assert parse_properties(line) == (entry,)


def test_comments_and_empty_lines_do_not_count():
    assert parse_properties("#a=b\r\n  ! c=d\r\n\r\ne=f\r\n") == (("e", "f"),)


def test_the_checksum_covers_the_names_of_database_and_table():
    assert table_checksum({"hoodie.database.name": "default", "hoodie.table.name": "v6_empty"}) == 1980710965
    assert table_checksum({"hoodie.table.name": "v9_cow_orc"}) == 1542920278


def test_properties_that_are_not_given_have_the_defaults_of_hudi():
    properties = table_properties((("hoodie.table.version", "6"),))

    assert properties.base_file_format == "PARQUET"
    assert properties.meta_fields
    assert not properties.hive_style
    assert not properties.is_merge_on_read
    assert properties.timeline_folder == ".hoodie"


def test_from_version_8_on_the_timeline_has_its_own_folder():
    assert table_properties((("hoodie.table.version", "8"),)).timeline_folder == ".hoodie/timeline"
    moved = (("hoodie.table.version", "9"), ("hoodie.timeline.path", "t"))
    assert table_properties(moved).timeline_folder == ".hoodie/t"


@pytest.mark.parametrize("main", [None, b"hoodie.table.name=t\nhoodie.table.ver"], ids=["missing", "cut short"])
def test_the_backup_holds_while_the_file_is_replaced(new_table, main):
    table = new_table(version=9)
    table.storage.put(".hoodie/hoodie.properties.backup", table.storage.read(".hoodie/hoodie.properties"))
    table.storage.delete(".hoodie/hoodie.properties")
    if main is not None:
        table.storage.put(".hoodie/hoodie.properties", main)

    assert load_properties(table.storage).version == 9


def test_a_wrong_checksum_without_a_backup_is_an_error(new_table):
    table = new_table(hoodie_table_checksum="1")

    with pytest.raises(CorruptLogError, match=r"hoodie\.properties: its checksum is 1 and should be"):
        load_properties(table.storage)


def test_missing_properties_are_an_error_that_names_the_file(new_table):
    table = new_table()
    table.storage.delete(".hoodie/hoodie.properties")

    with pytest.raises(CorruptLogError, match=r"\.hoodie/hoodie\.properties: it is missing"):
        load_properties(table.storage)


def test_a_table_without_a_version_is_damaged(new_table):
    table = new_table(hoodie_table_version="")

    with pytest.raises(CorruptLogError, match=r"hoodie\.table\.version is missing"):
        load_properties(table.storage)


@pytest.mark.parametrize(
    ("key", "value", "feature"),
    [
        ("hoodie.table.version", "5", "Hudi table version 5"),
        ("hoodie.table.version", "7", "Hudi table version 7"),
        ("hoodie.table.version", "10", "Hudi table version 10"),
        ("hoodie.table.base.file.format", "ORC", "ORC base files"),
        ("hoodie.table.base.file.format", "HFILE", "HFILE base files"),
        ("hoodie.table.base.file.format", "LANCE", "LANCE base files"),
        ("hoodie.bootstrap.base.path", "/source", "a bootstrap base path"),
        ("hoodie.table.format", "iceberg", "the table format plugin iceberg"),
        ("hoodie.table.storage.layout", "lsm_tree", "the storage layout lsm_tree"),
        ("hoodie.datasource.write.drop.partition.columns", "true", "data files without their partition columns"),
    ],
)
def test_what_would_be_misread_is_refused_by_name(new_table, key, value, feature):
    table = new_table()
    entries = {**dict(parse_properties(table.storage.read(".hoodie/hoodie.properties").decode())), key: value}
    table.storage.put(".hoodie/hoodie.properties", "\n".join(f"{k}={v}" for k, v in entries.items()).encode())

    with pytest.raises(UnsupportedTableError) as refused:
        load_properties(table.storage)

    assert refused.value.feature == feature
