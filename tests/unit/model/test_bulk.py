"""Values made in bulk."""

from __future__ import annotations

import gc
import pickle

import attrs
import pytest

from tablespec.model.bulk import made, made_in_bulk
from tablespec.model.file import BaseFile, FileGroupId, FileSlice


def test_the_collector_is_held_back_until_all_values_are_made():
    with made_in_bulk():
        assert not gc.isenabled()

        with made_in_bulk():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_after_an_error():
    with pytest.raises(ZeroDivisionError), made_in_bulk():
        raise ZeroDivisionError

    assert gc.isenabled()


def test_a_collector_that_somebody_else_stopped_stays_so():
    gc.disable()
    try:
        with made_in_bulk():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_values_made_in_bulk_count_as_old():
    with made_in_bulk():
        value = [object]

    assert any(one is value for one in gc.get_objects(generation=2))
    assert not any(one is value for generation in (0, 1) for one in gc.get_objects(generation))


def test_what_somebody_else_froze_stays_so():
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with made_in_bulk():
            pass
        assert 0 < gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()


GROUPS = {"partition": ["a", "b"], "id": ["f", "g"]}
FILES = {"path": ["a/f", "b/g"], "size": [1, 2], "form": ["x", ""]}
SLICES = {
    "group": [FileGroupId("a", "f"), FileGroupId("b", "g")],
    "instant": [3, 4],
    "base": [BaseFile(path="a/f", size=1), None],
    "partition_values": [("a",), ("b",)],
}


@pytest.mark.parametrize(
    ("class_", "columns"),
    [(FileGroupId, GROUPS), (BaseFile, FILES), (FileSlice, SLICES)],
    ids=lambda one: str(one)[:30],
)
def test_values_of_columns_are_those_that_the_constructor_makes(class_, columns):
    expected = [class_(**dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]

    found = made(class_, **columns)

    assert found == expected
    assert [type(value) for value in found] == [class_, class_]
    assert list(map(attrs.astuple, found)) == list(map(attrs.astuple, expected))
    assert list(map(hash, found)) == list(map(hash, expected))
    assert list(map(repr, found)) == list(map(repr, expected))
    assert pickle.loads(pickle.dumps(found)) == expected
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(found[0], next(iter(columns)), None)


@attrs.frozen(weakref_slot=False)
class Checked:
    """A value that is checked when it is made."""

    number: int

    def __attrs_post_init__(self) -> None:
        assert self.number


@attrs.frozen(weakref_slot=False)
class Converted:
    """A value that is converted when it is made."""

    number: int = attrs.field(converter=int)


@attrs.frozen(weakref_slot=False)
class WithFactory:
    """A value with a default that is made anew each time."""

    number: int
    others: tuple[int, ...] = attrs.field(factory=tuple)


@attrs.frozen
class Referable:
    """A value with a slot for weak references."""

    number: int


@pytest.mark.parametrize("class_", [Checked, Converted, WithFactory, Referable])
def test_a_class_whose_constructor_does_more_is_refused(class_):
    with pytest.raises(TypeError):
        made(class_, number=[1, 2])


@pytest.mark.parametrize(
    "columns",
    [{"partition": ["a"]}, {"partition": ["a"], "id": ["f", "g"]}, {**GROUPS, "more": ["x", "y"]}, {}],
    ids=["left out", "of another length", "unknown", "none"],
)
def test_columns_that_are_not_those_of_the_fields_are_refused(columns):
    with pytest.raises(TypeError):
        made(FileGroupId, **columns)


def test_no_rows_make_no_values():
    assert made(FileGroupId, partition=[], id=[]) == []
