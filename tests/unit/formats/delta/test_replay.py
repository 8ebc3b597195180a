"""The state of a table, made from the actions of its log: the newest word on everything counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import CorruptLogError
from tablespec.formats.delta.actions import (
    AddAction,
    DeletionVectorAction,
    DomainMetadataAction,
    Line,
    MetadataAction,
    ProtocolAction,
    RemoveAction,
    TxnAction,
)
from tablespec.formats.delta.checkpoint import CheckpointState
from tablespec.formats.delta.protocol import DEFAULT_PROTOCOL
from tablespec.formats.delta.replay import EMPTY, Reconciled, apply, checked, from_checkpoint

METADATA = MetadataAction(id="x", schema_string='{"type":"struct","fields":[]}')
PROTOCOL = ProtocolAction(min_reader_version=1, min_writer_version=2)


def add(path: str, vector: str | None = None, size: int = 0) -> Line:
    return Line(add=AddAction(path=path, deletion_vector=described(vector), size=size))


def remove(path: str, vector: str | None = None) -> Line:
    return Line(remove=RemoveAction(path=path, deletion_vector=described(vector)))


def described(vector: str | None) -> DeletionVectorAction | None:
    if vector is None:
        return None
    return DeletionVectorAction(storage_type="u", path_or_inline_dv=vector, size_in_bytes=1, cardinality=1)


def after(*commits: list[Line]) -> Reconciled:
    return apply(EMPTY, enumerate(commits))


def live(state: Reconciled) -> list[tuple[str, str | None]]:
    return sorted(
        (one.path, None if one.deletion_vector is None else one.deletion_vector.path_or_inline_dv)
        for one in state.adds.values()
    )


# --- files ------------------------------------------------------------------------------------------------------------


def test_added_files_live_until_they_are_removed():
    state = after([add("a"), add("b")], [remove("a"), add("c")])

    assert live(state) == [("b", None), ("c", None)]
    assert [one.path for one in state.removes.values()] == ["a"]
    assert state.version == 1


def test_a_file_that_is_added_again_lives_again():
    state = after([add("a")], [remove("a")], [add("a", size=5)])

    assert [one.size for one in state.adds.values()] == [5]
    assert not state.removes


@pytest.mark.parametrize("order", [1, -1], ids=["remove first", "add first"])
def test_the_add_stays_when_a_commit_removes_and_adds_the_same_file(order):
    state = after([add("a", size=1)], [remove("a"), add("a", size=2)][::order])

    assert [one.size for one in state.adds.values()] == [2]


@pytest.mark.parametrize("order", [1, -1], ids=["remove first", "add first"])
def test_a_new_deletion_vector_replaces_the_old_one(order):
    state = after([add("a")], [remove("a"), add("a", "v1")][::order], [remove("a", "v1"), add("a", "v2")][::order])

    assert live(state) == [("a", "v2")]


def test_removing_a_file_with_another_vector_leaves_it():
    assert live(after([add("a", "v1")], [remove("a")])) == [("a", "v1")]


def test_a_file_removed_under_another_spelling_of_its_url_is_gone():
    assert live(after([add("file:///lake/a")], [remove("file:/lake/a")])) == []


def test_removing_a_file_that_was_never_there_does_no_harm():
    assert live(after([add("a")], [remove("b")])) == [("a", None)]


def test_actions_that_are_not_known_change_nothing():
    assert after([add("a")], [Line(), Line(skip={"x": 1}), Line(replace_where={"y": 2})]).adds == after([add("a")]).adds


# --- everything else --------------------------------------------------------------------------------------------------


def test_the_newest_protocol_and_metadata_count():
    newer = MetadataAction(id="y", schema_string="{}")

    state = after([Line(protocol=PROTOCOL), Line(meta_data=METADATA)], [Line(meta_data=newer)], [add("a")])

    assert checked(state, "table") == (PROTOCOL, newer)


def test_the_newest_transaction_of_each_application_counts():
    def txn(app: str, version: int) -> Line:
        return Line(txn=TxnAction(app_id=app, version=version))

    state = after([txn("a", 7), txn("b", 1)], [txn("a", 3)])

    assert {app: one.version for app, one in state.transactions.items()} == {"a": 3, "b": 1}


def test_a_domain_lives_until_it_is_removed():
    def domain(name: str, text: str, *, removed: bool = False) -> Line:
        return Line(domain_metadata=DomainMetadataAction(domain=name, configuration=text, removed=removed))

    state = after([domain("a", "1"), domain("b", "1")], [domain("a", "", removed=True), domain("b", "2")])
    again = apply(state, [(2, [domain("a", "3")])])

    assert {name: one.configuration for name, one in state.domains.items()} == {"b": "2"}
    assert {name: one.configuration for name, one in again.domains.items()} == {"a": "3", "b": "2"}


@pytest.mark.parametrize(("stamps", "expected"), [([5], 5), ([5, 7], 7), ([5, None], None), ([5, "7"], None)], ids=repr)
def test_the_in_commit_timestamp_is_that_of_the_last_commit(stamps, expected):
    assert (
        after(*([Line(commit_info={"inCommitTimestamp": stamp})] for stamp in stamps)).in_commit_timestamp == expected
    )


def test_a_log_without_metadata_is_no_table():
    with pytest.raises(CorruptLogError, match="no metaData action"):
        checked(after([Line(protocol=PROTOCOL), add("a")]), "table")


def test_a_log_without_protocol_counts_as_the_oldest():
    protocol, _ = checked(after([Line(meta_data=METADATA)]), "table")

    assert protocol == DEFAULT_PROTOCOL == ProtocolAction(min_reader_version=1, min_writer_version=1)


# --- from a checkpoint, and in steps ----------------------------------------------------------------------------------


def test_files_of_a_checkpoint_are_touched_by_what_comes_after_it():
    start = from_checkpoint(CheckpointState(version=5, lines=(Line(meta_data=METADATA),), files=("c.parquet",)))

    state = apply(start, [(6, [remove("a"), add("b", "v")]), (7, [remove("file:///c")])])

    assert (state.version, state.checkpoint_version, state.checkpoint_files) == (7, 5, ("c.parquet",))
    assert state.touched == {remove("a").remove.key, add("b", "v").add.key, "/c"}
    assert state.metadata == METADATA


def test_the_adds_of_a_checkpoint_in_json_are_live():
    lines = (Line(protocol=PROTOCOL), Line(meta_data=METADATA), add("a"), add("b"), remove("gone"))

    state = apply(from_checkpoint(CheckpointState(version=5, lines=lines, files=())), [(6, [remove("a")])])

    assert live(state) == [("b", None)]
    assert sorted(one.path for one in state.removes.values()) == ["a", "gone"]


paths, vectors = st.sampled_from("abc"), st.sampled_from([None, "v1", "v2"])
file_actions = st.builds(add, paths, vectors, st.integers(0, 3)) | st.builds(remove, paths, vectors)
histories = st.lists(st.lists(file_actions, max_size=3), max_size=6)


@given(history=histories)
def test_a_file_lives_when_the_newest_commit_that_names_it_adds_it(history):
    expected: dict[str, int] = {}
    for lines in history:
        for line in lines:
            if line.remove is not None:
                expected.pop(line.remove.key, None)
        for line in lines:
            if line.add is not None:
                expected[line.add.key] = line.add.size

    state = after(*history)

    assert {key: one.size for key, one in state.adds.items()} == expected
    assert not set(state.adds) & set(state.removes)


@given(history=histories, cut=st.integers(0, 6))
def test_replaying_in_two_steps_gives_what_one_gives(history, cut):
    numbered = list(enumerate(history))

    assert apply(apply(EMPTY, numbered[:cut]), numbered[cut:]) == apply(EMPTY, numbered)


@given(history=histories)
def test_replaying_does_not_change_the_state_it_starts_from(history):
    start = after([add("a"), Line(txn=TxnAction(app_id="x", version=1))])
    before = (dict(start.adds), dict(start.removes), dict(start.transactions), start.touched)

    apply(start, enumerate(history, start=1))

    assert (dict(start.adds), dict(start.removes), dict(start.transactions), start.touched) == before
