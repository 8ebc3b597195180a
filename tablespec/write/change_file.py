"""Change files for rows that go or come with whole files: written where those files do not tell every reader what happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.formats.base import NewFile
from tablespec.model.change import CHANGE_TYPE, ChangeType, SliceChange
from tablespec.model.file import BaseFile, FileGroupId, FileSlice
from tablespec.read.images import Changed, unpaired
from tablespec.read.task import balanced
from tablespec.write.change_target import ChangeTarget
from tablespec.write.data_file import write_files
from tablespec.write.merge_sink import CHANGE_FOLDER
from tablespec.write.runner import Runner

TASK_BYTES = 64 << 20


@attrs.frozen
class DeletedRows:
    """Rows of a slice that go, by their positions."""

    slice: FileSlice
    positions: bytes


@attrs.frozen(kw_only=True)
class RecordTask:
    """Changes of slices to be written down."""

    target: ChangeTarget
    changes: tuple[SliceChange | DeletedRows, ...]


def record(
    target: ChangeTarget, changes: Sequence[SliceChange | DeletedRows], runner: Runner
) -> Iterator[tuple[NewFile, ...]]:
    """The change files that tell these changes, row by row."""
    tasks = [RecordTask(target=target, changes=group) for group in balanced(changes, TASK_BYTES)]
    return runner.run(write_changes, tasks)


def write_changes(task: RecordTask) -> tuple[NewFile, ...]:
    """Read the rows that went or came and write them with what happened to them; on a worker."""
    target = task.target
    rows = (
        batch.append_column(CHANGE_TYPE, types) for change in task.changes for batch, types in _rows(target, change)
    )
    return write_files(target.storage, target.write, rows, folder=CHANGE_FOLDER)


def _rows(target: ChangeTarget, change: SliceChange | DeletedRows) -> Iterator[Changed]:
    reader = target.reader(target.schema.names)
    if isinstance(change, SliceChange):
        yield from unpaired(reader, (change,))
        return
    for batch in reader.open_at(change.slice, BitMap64.deserialize(change.positions)):
        yield batch, pa.repeat(pa.scalar(ChangeType.DELETE.value), batch.num_rows)


def slice_of(file: NewFile) -> FileSlice:
    """A new file as a slice that can be read."""
    base = BaseFile(path=file.path, size=file.size, logged_as=file.path, rows=file.stats.rows)
    return FileSlice(group=FileGroupId("", file.group), instant=-1, base=base, partition_values=file.partition_values)
