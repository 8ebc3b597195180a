"""Which files of a state may hold rows that are newer than a version, told by the commits after it alone, and how new they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tablespec.expr.nodes import Predicate
from tablespec.formats.delta.actions import AddAction, DeletionVectorAction, Line, file_key
from tablespec.formats.delta.adds import TableShape, from_actions, judged
from tablespec.formats.delta.deletion_vector import locate
from tablespec.formats.delta.history import operation_id
from tablespec.formats.delta.returned import returned_at
from tablespec.model.change import AllRows, FreshRows, FreshSlice, NewerRows, ReturnedRows

_Partition = tuple[tuple[str, str | None], ...]


def fresh_slices(
    commits: Iterable[Sequence[Line]], after: int, predicate: Predicate, shape: TableShape
) -> list[FreshSlice]:
    """The slices that may hold a matching row newer than `after`; `commits` are all of those after it, oldest first."""
    found = {add.key: (add, rows) for add, rows in fresh_adds(commits, after, shape.table)}
    if not found:
        return []
    slices = judged(from_actions([add for add, _ in found.values()]), predicate, shape)
    return [FreshSlice(one.slice, found[key][1]) for key, one in slices]


def fresh_adds(commits: Iterable[Sequence[Line]], after: int, table: str) -> list[tuple[AddAction, FreshRows]]:
    """The adds that are live after these commits and may hold rows newer than `after`, and which rows those are."""
    files: dict[str, _File] = {}
    for lines in commits:
        _apply(lines, files, after)
    live = [(file.add, file.fresh(file.add, after, table)) for file in files.values() if file.add is not None]
    return [(add, rows) for add, rows in live if rows is not None]


def newest_rows(commits: Iterable[tuple[int, Sequence[Line]]]) -> dict[str, int]:
    """The version of the newest rows of each live file that these commits tell of, by its key; `commits` are numbered, oldest first.

    Files that only moved rows have rows as new as the newest of the files that left their partition with them, or 0 where nothing
    tells of those.
    """
    files: dict[str, tuple[_Partition, int]] = {}
    for version, lines in commits:
        removed = {file_key(line.remove.path, None) for line in lines if line.remove is not None}
        adds = {file_key(line.add.path, None): line.add for line in lines if line.add is not None}
        sources: dict[_Partition, int] = {}
        for path in (removed - adds.keys()) & files.keys():
            partition, newest = files.pop(path)
            sources[partition] = max(newest, sources.get(partition, 0))
        for path in adds.keys() - files.keys():
            partition, moved = _partition(adds[path]), adds[path].data_change is False
            files[path] = partition, sources.get(partition, 0) if moved else version
    return {path: newest for path, (_, newest) in files.items()}


@attrs.frozen
class _File:
    """What the commits so far did to one file: `add` is None when it is gone, `start` the rows deleted to begin with.

    Rows that came back have old versions. Where they moved to other files with these (`of_returned`), all rows of those count.
    """

    add: AddAction | None
    is_new: bool
    start: DeletionVectorAction | None = None
    shrank: bool = False
    of_returned: bool = False

    def fresh(self, add: AddAction, after: int, table: str) -> FreshRows | None:
        """Which of its rows are new; None for none."""
        if self.of_returned:
            return AllRows()
        if self.is_new:
            version = add.default_row_commit_version
            # An old file that comes back keeps its version, and brings rows that were not there.
            return AllRows() if version is not None and version <= after else NewerRows()
        return ReturnedRows(locate(self.start, table)) if self.start is not None and self.shrank else None

    def again(self, add: AddAction, *, of_returned: bool) -> _File:
        """The file after it was added anew."""
        remaining = 0 if add.deletion_vector is None else add.deletion_vector.cardinality
        # The deleted rows of a file only grow in number, except when an older state is restored.
        shrank = self.start is not None and remaining < self.start.cardinality
        return attrs.evolve(self, add=add, shrank=self.shrank or shrank, of_returned=self.of_returned or of_returned)


@attrs.frozen
class _Sources:
    """The partitions of files that go with new rows in them, and of those that go with rows that came back and keep old versions."""

    fresh: frozenset[_Partition]
    returned: frozenset[_Partition]


def _apply(lines: Sequence[Line], files: dict[str, _File], after: int) -> None:
    removes = {file_key(line.remove.path, None): line.remove for line in lines if line.remove is not None}
    adds = {file_key(line.add.path, None): line.add for line in lines if line.add is not None}
    sources = _sources([files[path] for path in removes if path in files and path not in adds], lines, after)
    for path, remove in removes.items():
        seen = files.get(path) or _File(None, is_new=False, start=remove.deletion_vector)
        files[path] = attrs.evolve(seen, add=None)
    for path, add in adds.items():
        known, partition = files.get(path), _partition(add)
        if known is not None:
            files[path] = known.again(add, of_returned=path not in removes and partition in sources.returned)
            continue
        # Files that only moved rows have new ones where a file that the rows came from had.
        is_new = add.data_change is not False or partition in sources.fresh
        start = None if is_new else add.deletion_vector
        files[path] = _File(add, is_new, start, of_returned=partition in sources.returned)


def _sources(files: Iterable[_File], lines: Sequence[Line], after: int) -> _Sources:
    # Whoever moves rows with tablespec gives those that came back the version of their return, where a tag tells it.
    ours = bool(operation_id(lines))
    fresh, returned = set[_Partition](), set[_Partition]()
    for file in files:
        if file.add is None:
            continue
        rows, partition = file.fresh(file.add, after, ""), _partition(file.add)
        told = ours and any(version > after for version in returned_at(file.add))
        # Rows that went and came back are no news in their own file, but where they moved they have the version of their return.
        if told or rows is not None:
            fresh.add(partition)
        # Rows that a restore only moved back have the versions of before, which do not tell the return that no tag told.
        if isinstance(rows, AllRows | ReturnedRows) and (file.of_returned or not told):
            returned.add(partition)
    return _Sources(frozenset(fresh), frozenset(returned))


def _partition(add: AddAction) -> _Partition:
    return tuple(sorted(add.partition_values.items()))
