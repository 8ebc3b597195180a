"""Files as the slices of partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tablespec.formats.hudi.file_columns import file_columns
from tablespec.formats.hudi.key_generator import FieldKind, KeyGenerator, PartitionField
from tablespec.formats.hudi.listing import Listing, listing_of
from tablespec.formats.hudi.slices import group_files, slices_at
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import FileGroupId
from tablespec.model.schema import STRING, Field, Schema
from tablespec.storage.store import FileInfo

SCHEMA = Schema((Field(name="part", type=STRING), Field(name="sub", type=STRING)))
BY_PART = KeyGenerator(fields=(PartitionField("part", FieldKind.SIMPLE),))
UNPARTITIONED = KeyGenerator(fields=())
ALL = Visibility(completed=tuple((n, n) for n in range(10)), pending=frozenset(), start=None, upto=None, layout=2)


def listing(*paths: str, generator: KeyGenerator = BY_PART, seen: Visibility = ALL, **options) -> Listing:
    """The listing of files of these paths."""
    return listing_of(file_columns(FileInfo(path, 10, 5) for path in paths), generator, SCHEMA, seen, **options)


def test_constants_come_from_the_path():
    found = listing("x/f_0-0-0_1.parquet")

    assert found.constants == ("part",)
    assert [slice_.partition_values for slice_ in found.slices] == [("x",)]


def test_a_column_that_one_path_does_not_tell_is_read_from_all_files():
    found = listing("x/f_0-0-0_1.parquet", "y/z/g_0-0-0_1.parquet")

    assert found.constants == ()
    assert [slice_.partition_values for slice_ in found.slices] == [(), ()]


def test_a_partition_without_a_current_slice_still_tells_which_columns_are_constant():
    found = listing("x/f_0-0-0_1.parquet", "y/z/g_0-0-0_99.parquet", "y/notes.txt", "q/r/.hoodie_partition_metadata")

    assert found.constants == ()
    assert [path for path, _ in found.values] == ["x", "y/z"]
    assert [slice_.group.partition for slice_ in found.slices] == ["x"]


def test_only_the_slices_of_partitions_that_are_asked_for_are_made():
    found = listing("x/f_0-0-0_1.parquet", "y/.g_1.log.1_0-0-0", "y/g_0-0-0_1.parquet", "z/h_0-0-0_1.parquet")

    asked = found.slices_in(["z", "y"])

    assert [[slice_.group.id for slice_ in of_partition] for of_partition in asked] == [["h"], ["g"]]
    assert set(found._made) == {"y", "z"}
    assert found.slices[1] is asked[1][0]


def test_the_files_of_all_times_come_in_path_order():
    paths = ["b/.f_2.log.1_0-0-0", "b/f_0-0-0_1.parquet", "b/f_0-0-0_99.parquet", "ba/f_0-0-0_1.parquet"]

    found = listing(*reversed(paths), "b/.f_2.log.1_0-0-0.cdc", "b/.hoodie_partition_metadata")

    assert [one.file.path for one in found.found] == paths


GROUPS = [FileGroupId(path, id_) for path in ("", "a", "a/b") for id_ in ("f", "g_1")]
INSTANTS = st.integers(1, 6)
TOKENS = st.sampled_from(["0-0-0", "0-1-0", "1-0-0"])
NAMES = st.one_of(
    st.builds("{}_{}_{}.parquet".format, st.sampled_from(["f", "g_1"]), TOKENS, INSTANTS),
    st.builds(".{}_{}.log.{}_{}".format, st.sampled_from(["f", "h"]), INSTANTS, st.integers(1, 2), TOKENS),
    st.just(".f_1.log.1_0-0-0.cdc"),
    st.just(".hoodie_partition_metadata"),
)
PATHS = st.builds("{}{}".format, st.sampled_from(["", "a/", "a/b/"]), NAMES)
SEEN = st.builds(
    lambda completed, pending, start, upto, layout: Visibility(
        completed=tuple(sorted(completed.items())), pending=pending, start=start, upto=upto, layout=layout
    ),
    st.dictionaries(INSTANTS, INSTANTS),
    st.frozensets(INSTANTS),
    st.none() | INSTANTS,
    st.none() | INSTANTS,
    st.sampled_from([1, 2]),
)


@given(st.lists(PATHS, unique=True), SEEN, st.frozensets(st.sampled_from(GROUPS)))
def test_slices_made_in_bulk_are_those_made_one_by_one(paths, seen, replaced):
    files = [FileInfo(path, number, 5) for number, path in enumerate(sorted(paths))]

    for some in (files, files[::-1]):
        found = listing_of(file_columns(some), UNPARTITIONED, SCHEMA, seen, replaced=replaced)

        assert set(found.slices) == set(slices_at(group_files(files), seen, replaced))
        assert len(found.slices) == len(set(found.slices))
