import pickle

import pytest

from tablespec.model.file import (
    BaseFile,
    DeletionVector,
    FileGroup,
    FileGroupId,
    FileSlice,
    LogFile,
    RecordLocation,
)
from tablespec.model.instant import Instant, Timeline
from tablespec.model.partition import PartitionDescriptor, PartitionIncrementalSnapshot, PartitionSnapshot
from tablespec.model.reading import Cdc, Incremental, ReadOptimized, Snapshot
from tablespec.model.stats import ColumnStats, FileStats

GROUP = FileGroupId("city=sf", "g-1")
BASE = BaseFile(path="city=sf/1.parquet", size=100, rows=10)
LOG = LogFile(path=".1.log", size=7, instant=2, version=1)
VECTOR = DeletionVector(path="dv.bin", inline=None, offset=1, size=34, cardinality=3)
SLICE = FileSlice(group=GROUP, instant=1, base=BASE, partition_values=("sf",))
TIMELINE = Timeline("t", (Instant(1, 10), Instant(4, 40)))

VALUES = [
    GROUP,
    BASE,
    LOG,
    VECTOR,
    SLICE,
    Instant(1, 2, "commit"),
    TIMELINE,
    FileGroup(GROUP, TIMELINE, ((Instant(1, 10), SLICE),)),
    RecordLocation(partition="city=sf", group=GROUP, instant=1, path="1.parquet", position=3),
    PartitionDescriptor("city=sf", ("city",), ("sf",)),
    PartitionSnapshot(PartitionDescriptor(""), Instant(1, 2), (SLICE,)),
    PartitionIncrementalSnapshot(PartitionDescriptor(""), TIMELINE, (SLICE,)),
    Snapshot(),
    Snapshot(3),
    ReadOptimized(3),
    Incremental(3, 4),
    Cdc(3, 4),
    FileStats(3, (ColumnStats(("a", "b"), 1, 2, 0),)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_models_hash_compare_and_pickle(value):
    again = pickle.loads(pickle.dumps(value))

    assert (again, hash(again)) == (value, hash(value))
    assert repr(value).startswith(type(value).__name__)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_models_cannot_be_changed(value):
    name = value.__attrs_attrs__[0].name

    with pytest.raises(AttributeError):
        setattr(value, name, None)


def test_models_compare_by_all_fields():
    assert FileSlice(group=GROUP, instant=2, base=BASE, partition_values=("sf",)) != SLICE
    assert FileSlice(group=GROUP, instant=1, base=BASE, logs=(LOG,), partition_values=("sf",)) != SLICE
    assert Snapshot(1) != ReadOptimized(1)
    assert Incremental(1, 2) != Cdc(1, 2)


@pytest.mark.parametrize(
    ("base", "logs", "deletes", "size", "rows", "clean"),
    [
        (BASE, (), None, 100, 10, True),
        (BASE, (), VECTOR, 100, 7, False),
        (BASE, (LOG, LOG), None, 114, None, False),
        (None, (LOG,), None, 7, None, False),
        (BaseFile(path="1.parquet", size=5), (), None, 5, None, True),
    ],
    ids=["base file", "deleted rows", "logs", "logs alone", "unknown length"],
)
def test_a_slice_knows_its_size_and_its_rows_where_that_can_be_told(base, logs, deletes, size, rows, clean):
    slice_ = FileSlice(group=GROUP, instant=1, base=base, logs=logs, deletes=deletes)

    assert (slice_.size, slice_.rows, slice_.is_clean) == (size, rows, clean)


def test_a_group_has_the_slice_that_was_current_at_an_instant():
    later = FileSlice(group=GROUP, instant=4, base=BASE)
    group = FileGroup(GROUP, TIMELINE, ((Instant(1, 10), SLICE), (Instant(4, 40), later)))

    assert group.slice_at(Instant(0, 0)) is None
    assert group.slice_at(Instant(1, 10)) == group.slice_at(Instant(3, 0)) == SLICE
    assert group.slice_at(Instant(4, 40)) == group.slice_at(Instant(9, 0)) == later
