import pytest

from tablespec.formats.hudi.names import BaseFileName, LogFileName, parse_base_file_name, parse_log_file_name

UUID = "5523147b-a8f1-4baf-9fca-92c849f58191"


@pytest.mark.parametrize(
    "file_id", [f"{UUID}-0", UUID, f"00000003-{UUID}-0", "with_underscore-0"], ids=["spark", "flink", "bucket", "odd"]
)
def test_a_base_file_name_is_read_from_the_right(file_id):
    parsed = parse_base_file_name(f"{file_id}_1-23-31_20261116023607948.parquet")

    assert parsed == BaseFileName(
        file_id=file_id, write_token="1-23-31", instant=20261116023607948, extension="parquet"
    )


@pytest.mark.parametrize(
    "name",
    [
        "data.parquet",
        ".hoodie_partition_metadata",
        f"{UUID}-0_1-23-31_20261116023607948.parquet.crc",
        f"{UUID}-0_1-23-31_20261116023607948_1.log.parquet",
        f".{UUID}-0_20261116023607948.log.1_0-1-2",
    ],
)
def test_other_files_are_no_base_files(name):
    assert parse_base_file_name(name) is None


def test_a_log_file_name_tells_its_version_and_whether_it_holds_changes_for_cdc():
    plain = parse_log_file_name(f".{UUID}-0_20261116023607948.log.2_0-1-2")
    cdc = parse_log_file_name(f".{UUID}-0_20261116023607948.log.1_0-1-2.cdc")

    assert plain == LogFileName(
        file_id=f"{UUID}-0", instant=20261116023607948, version=2, write_token="0-1-2", is_cdc=False
    )
    assert cdc is not None and cdc.is_cdc


def test_a_base_file_is_no_log_file():
    assert parse_log_file_name(f"{UUID}-0_1-23-31_20261116023607948.parquet") is None
