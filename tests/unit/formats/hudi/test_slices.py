from tablespec.formats.hudi.slices import group_files, lost_groups, slices_at
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import FileGroupId
from tablespec.storage.store import FileInfo


def visibility(*completed, pending=(), start=None, upto=None, layout=2):
    """Sees the writes that are given as their request time, or as a pair of request and completion time."""
    pairs = [one if isinstance(one, tuple) else (one, one) for one in completed]
    return Visibility(completed=tuple(pairs), pending=frozenset(pending), start=start, upto=upto, layout=layout)


ALL = visibility(*range(10))


def files(*paths):
    return list(group_files(FileInfo(path, 10, 0) for path in paths))


def paths(slices):
    return [slice_.base.path for slice_ in slices]


def test_the_newest_visible_base_file_of_a_group_is_current():
    found = slices_at(files("a/f_0-0-0_1.parquet", "a/f_0-0-0_3.parquet", "a/f_1-1-1_2.parquet"), ALL, frozenset())

    assert paths(found) == ["a/f_0-0-0_3.parquet"]
    assert found[0].group == FileGroupId("a", "f")
    assert found[0].instant == 3


def test_the_same_file_id_in_two_partitions_is_two_groups():
    found = slices_at(files("a/f_0-0-0_1.parquet", "b/f_0-0-0_1.parquet"), ALL, frozenset())

    assert paths(found) == ["a/f_0-0-0_1.parquet", "b/f_0-0-0_1.parquet"]


def test_an_invisible_base_file_does_not_hide_the_older_one():
    found = slices_at(
        files("a/f_0-0-0_1.parquet", "a/f_0-0-0_2.parquet"), visibility(1, pending=[2], start=1), frozenset()
    )

    assert paths(found) == ["a/f_0-0-0_1.parquet"]


def logs(slices):
    return [[log.path for log in slice_.logs] for slice_ in slices]


def test_logs_of_the_current_base_file_are_in_the_order_of_their_requests():
    listed = files("f_0-0-0_2.parquet", ".f_5.log.1_0-0-0", ".f_3.log.1_0-0-0", ".f_5.log.1_0-1-0", ".f_1.log.1_0-0-0")

    found = slices_at(listed, ALL, frozenset())

    assert logs(found) == [[".f_3.log.1_0-0-0", ".f_5.log.1_0-0-0", ".f_5.log.1_0-1-0"]]
    assert not found[0].is_clean


def test_a_log_that_was_completed_after_a_compaction_began_belongs_to_the_new_base_file():
    listed = files("f_0-0-0_1.parquet", "f_0-0-0_4.parquet", ".f_2.log.1_0-0-0", ".f_3.log.1_0-0-0")

    found = slices_at(listed, visibility(1, (2, 3), (3, 6), (4, 7)), frozenset())

    assert (paths(found), logs(found)) == (["f_0-0-0_4.parquet"], [[".f_3.log.1_0-0-0"]])


def test_a_pending_compaction_leaves_old_and_new_logs_on_the_old_base_file():
    in_layout_2 = files("f_0-0-0_1.parquet", ".f_2.log.1_0-0-0", ".f_4.log.1_0-0-0")
    in_layout_1 = files("f_0-0-0_1.parquet", ".f_1.log.1_0-0-0", ".f_3.log.1_0-0-0")

    assert logs(slices_at(in_layout_2, visibility(1, 2, 4, pending=[3]), frozenset())) == [
        [".f_2.log.1_0-0-0", ".f_4.log.1_0-0-0"]
    ]
    assert logs(slices_at(in_layout_1, visibility(1, 2, 4, pending=[3], layout=1), frozenset())) == [
        [".f_1.log.1_0-0-0", ".f_3.log.1_0-0-0"]
    ]


def test_a_group_of_logs_alone_is_a_slice():
    found = slices_at(files(".f_2.log.1_0-0-0", ".f_3.log.1_0-0-0"), ALL, frozenset())

    assert [(slice_.base, slice_.instant) for slice_ in found] == [(None, 2)]
    assert logs(found) == [[".f_2.log.1_0-0-0", ".f_3.log.1_0-0-0"]]


def test_logs_of_writes_that_are_not_seen_do_not_count():
    listed = files("f_0-0-0_1.parquet", ".f_2.log.1_0-0-0", ".f_3.log.1_0-0-0", ".g_3.log.1_0-0-0")

    found = slices_at(listed, visibility(1, 2, start=1), frozenset())

    assert (paths(found), logs(found)) == (["f_0-0-0_1.parquet"], [[".f_2.log.1_0-0-0"]])


def test_a_replaced_group_is_gone():
    found = slices_at(files("a/f_0-0-0_1.parquet", "b/f_0-0-0_1.parquet"), ALL, frozenset({FileGroupId("a", "f")}))

    assert paths(found) == ["b/f_0-0-0_1.parquet"]


def test_files_of_others_do_not_count():
    listed = files("a/.hoodie_partition_metadata", "a/notes.parquet", "a/.f_1.log.1_0-0-0.cdc", "f_0-0-0_1.parquet")

    assert paths(slices_at(listed, ALL, frozenset())) == ["f_0-0-0_1.parquet"]


def test_a_removed_file_is_lost_where_no_newer_one_is_current():
    slices = slices_at(files("a/f_0-0-0_1.parquet", "a/g_0-0-0_3.parquet"), ALL, frozenset())
    f, g, h = FileGroupId("a", "f"), FileGroupId("a", "g"), FileGroupId("a", "h")

    assert lost_groups([(f, 2), (g, 2), (h, 2)], slices, frozenset(), at=5) == {f, h}
    assert lost_groups([(f, 2), (g, 2), (h, 2)], slices, frozenset({h}), at=5) == {f}
    assert lost_groups([(f, 2), (g, 2), (h, 2)], slices, frozenset(), at=1) == frozenset()
