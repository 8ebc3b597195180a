"""Actions as values: their identity, and what of them is written."""

from __future__ import annotations

import json

import msgspec
import pytest

from tablespec.formats.delta.actions import (
    AddAction,
    CdcAction,
    DeletionVectorAction,
    Line,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    TxnAction,
    file_key,
)

VECTOR = DeletionVectorAction(storage_type="u", path_or_inline_dv="dvabc", offset=9, size_in_bytes=4, cardinality=1)


def written(action: msgspec.Struct) -> object:
    return json.loads(msgspec.json.encode(action))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/lake/a.parquet", "file:///lake/a.parquet"),
        ("file:/lake/a.parquet", "/lake/a.parquet"),
        ("file:///lake/p=a%2520b/x", "/lake/p=a%2520b/x"),
    ],
)
def test_a_local_file_is_the_same_under_every_spelling_of_its_url(one, other):
    assert file_key(one, None) == file_key(other, None)
    assert file_key(one, VECTOR) == file_key(other, VECTOR)


@pytest.mark.parametrize("path", ["lake/a.parquet", "s3://lake/a.parquet", "a%20b", "a b", "A.parquet"])
def test_other_paths_are_only_the_same_when_they_are_written_the_same(path):
    others = {"lake/a.parquet", "s3://lake/a.parquet", "a%20b", "a b", "A.parquet", "/lake/a.parquet"} - {path}

    assert file_key(path, None) not in {file_key(other, None) for other in others}


def test_a_file_with_another_vector_is_another_logical_file():
    elsewhere = msgspec.structs.replace(VECTOR, offset=10)
    without_offset = msgspec.structs.replace(VECTOR, offset=None)
    inline = msgspec.structs.replace(VECTOR, storage_type="i")

    keys = {file_key("a", vector) for vector in (None, VECTOR, elsewhere, without_offset, inline)}

    assert len(keys) == 5
    assert VECTOR.unique_id == "udvabc@9"
    assert without_offset.unique_id == "udvabc"


def test_a_remove_has_the_key_of_the_add_that_it_undoes():
    add = AddAction(path="file:///lake/a", deletion_vector=VECTOR, size=5)
    remove = RemoveAction(path="file:/lake/a", deletion_vector=msgspec.structs.replace(VECTOR, cardinality=7))

    assert add.key == remove.key


def test_an_add_is_written_with_all_that_the_protocol_requires_and_without_what_is_not_set():
    add = AddAction(path="a", partition_values={"p": None}, size=1, modification_time=2, data_change=True)

    assert written(add) == {
        "path": "a",
        "partitionValues": {"p": None},
        "size": 1,
        "modificationTime": 2,
        "dataChange": True,
    }


@pytest.mark.parametrize("action", [AddAction(path="a"), CdcAction(path="a")], ids=["add", "cdc"])
def test_the_partition_values_of_an_unpartitioned_table_are_written_as_an_empty_object(action):
    assert written(action)["partitionValues"] == {}


def test_features_are_written_only_where_the_versions_ask_for_lists():
    old = ProtocolAction(min_reader_version=1, min_writer_version=2)
    half = ProtocolAction(min_reader_version=2, min_writer_version=7, writer_features=("columnMapping",))
    new = ProtocolAction(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=())

    assert written(old) == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert written(half) == {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping"]}
    assert written(new) == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [],
        "writerFeatures": [],
    }


def test_metadata_is_written_with_its_format_and_configuration_even_when_they_are_the_usual_ones():
    metadata = written(MetadataAction(id="x", schema_string="{}"))

    assert metadata["format"] == {"provider": "parquet", "options": {}}
    assert (metadata["partitionColumns"], metadata["configuration"]) == ([], {})


def test_a_line_holds_one_action_under_its_name():
    assert written(Line(txn=TxnAction(app_id="a", version=0))) == {"txn": {"appId": "a", "version": 0}}
