"""Commits between their bytes and their actions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import CorruptLogError
from tablespec.formats.delta.actions import (
    AddAction,
    CdcAction,
    DeletionVectorAction,
    DomainMetadataAction,
    FileFormat,
    Line,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    SidecarAction,
    TxnAction,
)
from tablespec.formats.delta.codec import decode_commit, encode_commit

ADD = b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":2,"dataChange":true}}'
REMOVE = b'{"remove":{"path":"b","dataChange":true}}'

text = st.text(st.characters(codec="utf-8"), max_size=8)
count = st.integers(-(2**63), 2**63 - 1)
maybe_count = st.none() | count
flag = st.booleans()
values = st.dictionaries(text, st.none() | text, max_size=2)
texts = st.dictionaries(text, text, max_size=2)
names = st.lists(text, max_size=3).map(tuple)
json_values = st.recursive(
    st.none() | flag | st.integers(-(2**53), 2**53) | text | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=4,
)
tags = st.none() | st.dictionaries(text, json_values, min_size=1, max_size=2)
vectors = st.none() | st.builds(
    DeletionVectorAction,
    storage_type=text,
    path_or_inline_dv=text,
    offset=maybe_count,
    size_in_bytes=count,
    cardinality=count,
)
row_ids = {"base_row_id": maybe_count, "default_row_commit_version": maybe_count}
lines = st.one_of(
    st.builds(Line, commit_info=st.dictionaries(text, json_values, max_size=3)),
    st.builds(
        Line,
        protocol=st.builds(
            ProtocolAction,
            min_reader_version=count,
            min_writer_version=count,
            reader_features=names,
            writer_features=names,
        ),
    ),
    st.builds(
        Line,
        meta_data=st.builds(
            MetadataAction,
            id=text,
            name=st.none() | text,
            description=st.none() | text,
            format=st.builds(FileFormat, provider=text, options=texts),
            schema_string=text,
            partition_columns=names,
            configuration=texts,
            created_time=maybe_count,
        ),
    ),
    st.builds(
        Line,
        add=st.builds(
            AddAction,
            path=text,
            partition_values=values,
            size=count,
            modification_time=count,
            data_change=flag,
            stats=st.none() | text,
            tags=tags,
            deletion_vector=vectors,
            clustering_provider=st.none() | text,
            **row_ids,
        ),
    ),
    st.builds(
        Line,
        remove=st.builds(
            RemoveAction,
            path=text,
            deletion_timestamp=maybe_count,
            data_change=flag,
            extended_file_metadata=st.none() | flag,
            partition_values=st.none() | values,
            size=maybe_count,
            stats=st.none() | text,
            tags=tags,
            deletion_vector=vectors,
            **row_ids,
        ),
    ),
    st.builds(Line, cdc=st.builds(CdcAction, path=text, partition_values=values, size=count, data_change=flag)),
    st.builds(Line, txn=st.builds(TxnAction, app_id=text, version=count, last_updated=maybe_count)),
    st.builds(
        Line,
        domain_metadata=st.builds(DomainMetadataAction, domain=text, configuration=text, removed=flag),
    ),
    st.builds(Line, sidecar=st.builds(SidecarAction, path=text, size_in_bytes=count, modification_time=count)),
)


def decoded(data: bytes) -> list[Line]:
    return decode_commit(data, "table", "0.json")


@given(commit=st.lists(lines, max_size=5))
def test_actions_are_read_back_from_the_bytes_of_their_commit(commit):
    data = encode_commit(commit)

    assert data.count(b"\n") == len(commit)
    assert decoded(data) == commit


@given(
    commit=st.lists(lines, min_size=1, max_size=3), unknown=st.dictionaries(text, json_values, min_size=1, max_size=2)
)
def test_fields_that_are_not_known_change_nothing(commit, unknown):
    documents = [json.loads(line) for line in encode_commit(commit).splitlines()]
    for document in documents:
        (action,) = document.values()
        if "commitInfo" not in document:
            action.update({f"our {name}": value for name, value in unknown.items()})
    extended = "".join(json.dumps(document) + "\n" for document in documents)

    assert decoded(extended.encode()) == commit


@given(unknown=json_values)
def test_an_action_that_is_not_known_is_a_line_without_actions(unknown):
    line = json.dumps({"someFutureAction": unknown}).encode()

    assert decoded(ADD + b"\n" + line + b"\n" + REMOVE) == [*decoded(ADD), Line(), *decoded(REMOVE)]


def test_all_actions_of_a_line_with_two_are_read():
    (line,) = decoded(b'{"commitInfo":{"operation":"X"},"txn":{"appId":"a","version":1}}')

    assert line == Line(commit_info={"operation": "X"}, txn=TxnAction(app_id="a", version=1))


@pytest.mark.parametrize(
    "data",
    [
        ADD + b"\n" + REMOVE,
        ADD + b"\n" + REMOVE + b"\n",
        ADD + b"\r\n" + REMOVE + b"\r\n",
        ADD + b"\n\n" + REMOVE + b"\n\n",
        b"\n" + ADD + b"\n  \n" + REMOVE,
    ],
    ids=["no line break at the end", "one at the end", "carriage returns", "blank lines", "blanks"],
)
def test_line_breaks_change_nothing(data):
    assert decoded(data) == [*decoded(ADD), *decoded(REMOVE)]


def test_an_empty_commit_has_no_actions():
    assert decoded(b"") == []


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (b'{"add":', "truncated"),
        (b"not json", "malformed"),
        (b"[]", "object"),
        (b'{"add":{"size":1}}', "path"),
        (b'{"add":{"path":5}}', "path"),
        (b'{"metaData":{"id":"x"}}', "schemaString"),
        (b'{"protocol":{"minReaderVersion":"1","minWriterVersion":2}}', "minReaderVersion"),
        (b'{"add":{"path":"\xff"}}', ""),
    ],
    ids=[
        "cut off",
        "no JSON",
        "a list",
        "no path",
        "a path that is a number",
        "no schema",
        "a text for a number",
        "no UTF-8",
    ],
)
@pytest.mark.parametrize("before", [b"", ADD + b"\n", ADD + b"\n\n"], ids=["first", "second", "after a blank line"])
def test_a_line_that_cannot_be_read_is_told_with_file_and_number(before, bad, why):
    with pytest.raises(CorruptLogError) as raised:
        decoded(before + bad + b"\n" + REMOVE + b"\n")

    assert (raised.value.table, raised.value.file) == ("table", "0.json")
    assert raised.value.line == before.count(b"\n") + 1
    assert why in raised.value.why
    assert "cut off" not in raised.value.why


def test_a_torn_last_line_is_told_as_such():
    with pytest.raises(CorruptLogError, match="line 2: the last line is cut off"):
        decoded(ADD + b"\n" + REMOVE[:-5])


@given(data=st.binary(max_size=60))
def test_any_bytes_are_actions_or_a_damaged_log(data):
    try:
        decoded(data)
    except CorruptLogError as error:
        assert error.line >= 1
