"""Files written anew without the rows that go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.formats.base import KnowsVersions, LiveFile, NewFile, SliceCodec, TableFormat
from tablespec.model.file import FileSlice, Returned
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.storage.store import Storage
from tablespec.write.change_file import slice_of
from tablespec.write.change_target import ChangeTarget
from tablespec.write.data_file import GROUP, write_files
from tablespec.write.fragment import Fragment


@attrs.frozen
class _WithoutRows:
    """A codec that takes further rows as deleted."""

    codec: SliceCodec
    deleted: bytes

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64:
        before = self.codec.deleted_positions(storage, slice_)
        more = BitMap64.deserialize(self.deleted)
        return more if before is None else more | before


@attrs.frozen(kw_only=True)
class RewriteTask:
    """A file to be written anew without some of its rows, and with those of new files."""

    target: ChangeTarget
    slice: FileSlice
    deleted: bytes
    joining: tuple[NewFile, ...] = ()


def with_versions(format_: TableFormat, files: Sequence[LiveFile]) -> list[LiveFile]:
    """The files, each told how new its rows are, which rows that move take along.

    Where its writer kept no versions all its rows are as new as the newest of them; rows that a restore brought back are as new as that.
    """
    if not isinstance(format_, KnowsVersions):
        return list(files)
    bases = [file.slice.base for file in files if file.slice.base is not None]
    lacking = frozenset(base.logged_as for base in bases if base.row_commit_version is None)
    # What is older than the log is older than every instant from which one can ask for changes.
    versions = {**dict.fromkeys(lacking, 0), **format_.newest_rows(lacking)} if lacking else {}
    back = format_.returned(files)
    return [_with_versions(file, versions, back) for file in files]


def _with_versions(file: LiveFile, versions: Mapping[str, int], back: Mapping[str, tuple[Returned, ...]]) -> LiveFile:
    base = file.slice.base
    if base is None:
        return file
    version = versions.get(base.logged_as, base.row_commit_version)
    base = attrs.evolve(base, row_commit_version=version, returned=back.get(base.logged_as, base.returned))
    return attrs.evolve(file, slice=attrs.evolve(file.slice, base=base))


def joining(files: Sequence[LiveFile], fragments: Iterable[Fragment]) -> list[tuple[NewFile, ...]]:
    """For each file to be written anew the new files with rows of its group in its partition; none is named twice."""
    new: dict[str, list[NewFile]] = {}
    for file in (file for fragment in fragments for file in fragment.added):
        new.setdefault(file.group, []).append(file)
    found = []
    for live in files:
        of_group, values = new.get(live.slice.group.id, []), live.slice.partition_values
        found.append(tuple(file for file in of_group if file.partition_values == values))
        new[live.slice.group.id] = [file for file in of_group if file.partition_values != values]
    return found


def rewrite(task: RewriteTask) -> tuple[Fragment, ...]:
    """Write the rows of a file that stay into a new file of the same group; ids and commit versions are kept."""
    target = task.target
    added = write_files(target.storage, target.write, _staying(task))
    copied = sum(file.stats.rows for file in added) - sum(file.stats.rows for file in task.joining)
    return (Fragment(added=added, copied_rows=copied),)


def _staying(task: RewriteTask) -> Iterator[pa.RecordBatch]:
    target = task.target
    tracked = [
        name for name in (ROW_ID, ROW_COMMIT_VERSION) if target.write.row_id_column and name in target.read.hidden
    ]
    rows = target.reader((*target.schema.names, *tracked))
    staying = attrs.evolve(rows, codec=_WithoutRows(target.codec, task.deleted))
    for batch in chain(staying.open(task.slice), *(rows.open(slice_of(file)) for file in task.joining)):
        yield batch.append_column(GROUP, pa.repeat(pa.scalar(task.slice.group.id), batch.num_rows))
