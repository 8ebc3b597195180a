"""Files written anew without the rows that go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.formats.base import LiveFile, RemembersReturns, SliceCodec, TableFormat
from tablespec.model.file import FileSlice, Returned
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.storage.store import Storage
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
    """A file to be written anew without some of its rows."""

    target: ChangeTarget
    slice: FileSlice
    deleted: bytes


def with_returned(format_: TableFormat, files: Sequence[LiveFile]) -> list[LiveFile]:
    """The files, each told which of its rows a restore brought back: rows that move take the version of their return along."""
    back = format_.returned(files) if isinstance(format_, RemembersReturns) else {}
    return [_with_returned(file, back) for file in files]


def _with_returned(file: LiveFile, back: Mapping[str, tuple[Returned, ...]]) -> LiveFile:
    base = file.slice.base
    if base is None or base.logged_as not in back:
        return file
    base = attrs.evolve(base, returned=back[base.logged_as])
    return attrs.evolve(file, slice=attrs.evolve(file.slice, base=base))


def rewrite(task: RewriteTask) -> tuple[Fragment, ...]:
    """Write the rows of a file that stay into a new file of the same group; ids and commit versions are kept."""
    target = task.target
    added = write_files(target.storage, target.write, _staying(task))
    return (Fragment(added=added, copied_rows=sum(file.stats.rows for file in added)),)


def _staying(task: RewriteTask) -> Iterator[pa.RecordBatch]:
    target = task.target
    tracked = [
        name for name in (ROW_ID, ROW_COMMIT_VERSION) if target.write.row_id_column and name in target.read.hidden
    ]
    rows = attrs.evolve(target, codec=_WithoutRows(target.codec, task.deleted)).reader((*target.schema.names, *tracked))
    for batch in rows.open(task.slice):
        yield batch.append_column(GROUP, pa.repeat(pa.scalar(task.slice.group.id), batch.num_rows))
