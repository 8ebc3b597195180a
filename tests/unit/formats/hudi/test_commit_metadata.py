import io
import json

import fastavro
import pytest

from tablespec.errors import CorruptLogError
from tablespec.formats.hudi.commit_metadata import CleanMetadata, CommitMetadata, WriteStat, parse_clean, parse_commit
from tablespec.model.file import FileGroupId

AVRO = {
    "type": "record",
    "name": "HoodieCommitMetadata",
    "fields": [
        {"name": "extraMetadata", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "operationType", "type": ["null", "string"]},
        {
            "name": "partitionToReplaceFileIds",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
        },
    ],
}


def in_avro(record):
    sink = io.BytesIO()
    fastavro.writer(sink, AVRO, [record])
    return sink.getvalue()


def test_a_json_body_tells_files_schema_and_replaced_groups():
    body = {
        "partitionToWriteStats": {"a": [{"fileId": "f", "path": "a/f_0-0-0_1.parquet", "numWrites": 7}]},
        "extraMetadata": {"schema": "{}"},
        "operationType": "INSERT_OVERWRITE",
        "partitionToReplaceFileIds": {"a": ["g", "h"]},
    }

    assert parse_commit("t", "1.replacecommit", json.dumps(body).encode()) == CommitMetadata(
        operation="INSERT_OVERWRITE",
        schema="{}",
        stats=(WriteStat(group=FileGroupId("a", "f"), path="a/f_0-0-0_1.parquet", rows=7),),
        replaced=(FileGroupId("a", "g"), FileGroupId("a", "h")),
    )


def test_an_avro_body_tells_the_same():
    body = in_avro(
        {"extraMetadata": {"schema": "{}"}, "operationType": "CLUSTER", "partitionToReplaceFileIds": {"": ["g"]}}
    )

    assert parse_commit("t", "1_2.replacecommit", body) == CommitMetadata(
        operation="CLUSTER", schema="{}", stats=(), replaced=(FileGroupId("", "g"),)
    )


def test_a_commit_may_say_nothing_at_all():
    nothing = CommitMetadata(operation="UNKNOWN", schema="", stats=(), replaced=())

    assert parse_commit("t", "1.commit", b"{}") == nothing
    assert parse_commit("t", "1_2.commit", in_avro({})) == nothing


@pytest.mark.parametrize(
    ("operation", "changes"),
    [("UPSERT", True), ("DELETE_PARTITION", True), ("CLUSTER", False), ("ALTER_SCHEMA", False)],
)
def test_laying_rows_out_anew_changes_no_data(operation, changes):
    commit = parse_commit("t", "1.commit", json.dumps({"operationType": operation}).encode())

    assert commit.changes_data is changes


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"Obj\x01",
        b"Obj\x01\x00garbage",
        b'{"partitionToWriteStats": [1]}',
        in_avro({})[:60],
        b"\xff\xfe",
    ],
)
def test_a_damaged_body_is_an_error_that_names_the_file(body):
    with pytest.raises(CorruptLogError) as damaged:
        parse_commit("t", ".hoodie/1.commit", body)

    assert damaged.value.file == ".hoodie/1.commit"


def test_a_clean_tells_what_is_retained_and_what_was_removed():
    body = {
        "earliestCommitToRetain": "20240101000001000",
        "partitionMetadata": {
            "a": {"deletePathPatterns": ["f-0_0-0-0_20240101000000000.parquet", ".f-0_1.log.1_0-0-0"]}
        },
    }

    assert parse_clean("t", "1.clean", json.dumps(body).encode()) == CleanMetadata(
        earliest_retained=20240101000001000, removed=((FileGroupId("a", "f-0"), 20240101000000000),)
    )


def test_a_cleaner_that_counts_versions_retains_no_commit():
    assert parse_clean("t", "1.clean", b'{"earliestCommitToRetain": ""}').earliest_retained is None
