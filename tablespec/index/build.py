"""Building indexes: plan what is not covered, index it wherever tasks run, and make the segments known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import attrs

from tablespec.expr.nodes import TRUE
from tablespec.formats.base import SliceCodec, TableFormat, TableState
from tablespec.formats.layout import ReadLayout
from tablespec.index.record import build_record_segment
from tablespec.index.segment import (
    MANY_MANIFESTS,
    RECORD,
    TEXT,
    Definition,
    Segment,
    StoredIndex,
    base_key,
    is_whole,
    publish,
    reading_of,
    require,
)
from tablespec.index.source import BuildSource
from tablespec.index.text import build_text_segments
from tablespec.model.file import FileSlice
from tablespec.read.file_index import At, state_at
from tablespec.read.task import TaskSlice, balanced
from tablespec.storage.store import Storage

# A task of a text index; its slices get a segment each.
TEXT_TASK_BYTES = 128 << 20
# A segment of a record index holds about so many keys: they are sorted in memory.
RECORD_SEGMENT_ROWS = 8 << 20
_BYTES_A_ROW = 32
# So many small segments of a record index are looked through one by one; more are made into few.
_SMALL_SEGMENTS = 8

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class TaskRunner(Protocol):
    """Whoever runs a plain function over tasks that pickle."""

    def run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> Iterator[_Result]: ...


@attrs.frozen(kw_only=True)
class BuildTask:
    """Slices whose base files are to be indexed; plain data."""

    storage: Storage
    layout: ReadLayout
    codec: SliceCodec
    definition: Definition
    slices: tuple[FileSlice, ...]


@attrs.frozen(kw_only=True)
class Refreshed:
    """What a refresh did: base files indexed now, those covered already, and slices that no index can cover."""

    version: int
    indexed: int
    covered: int
    uncoverable: int


def refresh(format_: TableFormat, name: str, runner: TaskRunner, at: At = None) -> Refreshed:
    """Let an index catch up with the state at an instant; what is covered is not looked at again."""
    storage = format_.storage
    stored, state = require(storage, name), state_at(format_, at)
    slices = [one.slice for one in state.files.judge(TRUE)]
    kept = usable(storage, stored, state, slices)
    tasks = plan(storage, stored.definition, state, slices, kept)
    new = [segment for done in runner.run(build, tasks) for segment in done]
    together = len(stored.manifests) >= MANY_MANIFESTS or bool(stored.damaged)
    if new or together:
        publish(storage, stored.definition, [*stored.segments, *new] if together else new)
    if together:
        for path in stored.manifests:
            storage.delete(path)
    indexed = sum(len(task.slices) for task in tasks)
    loose = sum(base_key(slice_) is None for slice_ in slices)
    return Refreshed(
        version=state.instant.version, indexed=indexed, covered=len(slices) - indexed - loose, uncoverable=loose
    )


def usable(
    storage: Storage, stored: StoredIndex, state: TableState, slices: Sequence[FileSlice]
) -> dict[tuple[str, int], Segment]:
    """The segments that are whole and worth keeping, by the base files of the state that they are about."""
    live = {key for slice_ in slices if (key := base_key(slice_)) is not None}
    found = {key: segment for key, segment in stored.covering(state.schema).items() if key in live}
    rows: dict[str, int] = {}
    for key, segment in found.items():
        rows[segment.id] = rows.get(segment.id, 0) + next(
            file.rows for file in segment.covers if (file.path, file.size) == key
        )
    segments = {segment.id: segment for segment in found.values()}
    bad = {id_ for id_, segment in segments.items() if not is_whole(storage, segment)}
    if stored.definition.kind == RECORD:
        bad |= {id_ for id_, segment in segments.items() if rows[id_] * 2 < segment.rows}
        small = {id_ for id_ in segments if id_ not in bad and rows[id_] * 8 < RECORD_SEGMENT_ROWS}
        bad |= small if len(small) > _SMALL_SEGMENTS else set()
    return {key: segment for key, segment in found.items() if segment.id not in bad}


def plan(
    storage: Storage,
    definition: Definition,
    state: TableState,
    slices: Sequence[FileSlice],
    covered: dict[tuple[str, int], Segment],
) -> list[BuildTask]:
    """The work for base files that are not covered, in pieces of about equal size."""
    left = [slice_ for slice_ in slices if (key := base_key(slice_)) is not None and key not in covered]
    groups: list[tuple[FileSlice, ...]]
    if definition.kind == TEXT:
        pieces = [TaskSlice(slice_, False) for slice_ in left]
        groups = [tuple(one.slice for one in group) for group in balanced(pieces, TEXT_TASK_BYTES)]
    else:
        groups = _by_rows(left)
    return [
        BuildTask(storage=storage, layout=state.layout, codec=state.codec, definition=definition, slices=group)
        for group in groups
    ]


def build(task: BuildTask) -> tuple[Segment, ...]:
    """Index the base files of a task; on a worker."""
    reading = reading_of(task.definition, task.layout.schema)
    assert reading is not None
    source = BuildSource(
        storage=task.storage, layout=task.layout, codec=task.codec, definition=task.definition, reading=reading
    )
    if task.definition.kind == TEXT:
        return build_text_segments(source, task.slices)
    return (build_record_segment(source, task.slices),)


def _by_rows(slices: Sequence[FileSlice]) -> list[tuple[FileSlice, ...]]:
    groups: list[list[FileSlice]] = []
    room = 0
    for slice_ in slices:
        assert slice_.base is not None
        rows = slice_.base.size // _BYTES_A_ROW if slice_.base.rows is None else slice_.base.rows
        if not groups or rows > room:
            groups.append([])
            room = RECORD_SEGMENT_ROWS
        groups[-1].append(slice_)
        room -= rows
    return [tuple(group) for group in groups]
