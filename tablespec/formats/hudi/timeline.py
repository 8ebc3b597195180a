"""The active timeline: actions of a table, told by the names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from tablespec.formats.hudi.instant_time import instant_millis, instant_number
from tablespec.formats.hudi.names import BaseFileName, LogFileName
from tablespec.formats.hudi.properties import TableProperties
from tablespec.model.instant import Instant
from tablespec.storage.store import Storage

WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
# What a write is called before it completes as one of WRITES.
PENDING_WRITES = WRITES | {"compaction", "logcompaction", "clustering"}
_ACTIONS = PENDING_WRITES | {"clean", "rollback", "restore", "savepoint", "indexing", "schemacommit"}

_PENDING = re.compile(r"(\d+)(?:\.([a-z]+))?\.(?:requested|inflight)")
_COMPLETED_IN_LAYOUT_1 = re.compile(r"(\d+)()\.([a-z]+)")
_COMPLETED_IN_LAYOUT_2 = re.compile(r"(\d+)_(\d+)\.([a-z]+)")


@attrs.frozen(kw_only=True)
class CompletedAction:
    """An action that is done; `path` holds its metadata. Tables of version 6 do not record when it was completed."""

    request: int
    completion: int | None
    action: str
    path: str

    @property
    def clock(self) -> int:
        """The time that windows go by: of completion, or of the request where the table does not record it."""
        return self.completion or self.request

    @property
    def instant(self) -> Instant:
        """The action as a point on the table's timeline; without a completion time the request time stands in."""
        return Instant(self.request, instant_millis(self.clock), self.action)


@attrs.frozen
class ActiveTimeline:
    """The completed actions by request time, and the request times of writes that are not completed."""

    completed: tuple[CompletedAction, ...]
    pending: frozenset[int]

    @property
    def writes(self) -> tuple[CompletedAction, ...]:
        """The completed actions that change what the table holds, oldest first."""
        return tuple(action for action in self.completed if action.action in WRITES)

    @property
    def cleans(self) -> tuple[CompletedAction, ...]:
        """The completed cleaner runs, oldest first."""
        return tuple(action for action in self.completed if action.action == "clean")

    @property
    def start(self) -> int | None:
        """The request time of the write where the active timeline begins; older ones are archived.

        The archiver leaves savepoints standing when it moves on, so these do not count unless there is nothing else.
        """
        kept = {action.request for action in self.completed if action.action == "savepoint"}
        requests = [action.request for action in self.writes]
        return next((request for request in requests if request not in kept), requests[0] if requests else None)


@attrs.frozen(kw_only=True)
class Visibility:
    """Which instants the files of a table's state may come from.

    `completed` are pairs of request and completion times of the writes that are seen. In tables of layout 1 the name of a
    log file has the instant of its base file, in layout 2 the one of its writer.
    """

    completed: tuple[tuple[int, int], ...]
    pending: frozenset[int]
    start: int | None
    upto: int | None
    layout: int
    _completions: dict[int, int] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_completions", dict(self.completed))

    def sees(self, instant: int) -> bool:
        """Whether files of that instant belong to the state.

        Instants before the active timeline are archived, hence completed. A later one that is not on the timeline was
        rolled back, and its files were left behind.
        """
        if instant in self._completions:
            return True
        if self.start is None or instant >= self.start or instant in self.pending:
            return False
        return self.upto is None or instant <= self.upto

    def sees_file(self, name: BaseFileName | LogFileName) -> bool:
        """Whether a file may hold records of the state; the blocks of log files are to be asked one by one."""
        if isinstance(name, LogFileName) and self.layout == 1:
            return self.upto is None or name.instant <= self.upto
        return self.sees(name.instant)

    def completion(self, instant: int) -> int:
        """When a write was completed; where that is not known, when it was requested."""
        return self._completions.get(instant, instant)


def load_timeline(storage: Storage, properties: TableProperties) -> ActiveTimeline:
    """The active timeline as it stands in storage now."""
    _, files = storage.list_folder(properties.timeline_folder)
    return parse_timeline((file.path for file in files), layout=properties.layout)


def parse_timeline(paths: Iterable[str], *, layout: int) -> ActiveTimeline:
    """The timeline that files with these paths make; files that are no instants do not count."""
    completed, begun = [], set()
    pattern = _COMPLETED_IN_LAYOUT_1 if layout == 1 else _COMPLETED_IN_LAYOUT_2
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        if (found := pattern.fullmatch(name)) and found[3] in _ACTIONS:
            completion = instant_number(found[2]) if found[2] else None
            request = instant_number(found[1])
            completed.append(CompletedAction(request=request, completion=completion, action=found[3], path=path))
        # The inflight file of a commit does not name its action.
        elif (found := _PENDING.fullmatch(name)) and (found[2] or "commit") in PENDING_WRITES:
            begun.add(instant_number(found[1]))
    completed.sort(key=lambda action: (action.request, action.completion or 0, action.action))
    done = {action.request for action in completed if action.action in WRITES}
    return ActiveTimeline(tuple(completed), frozenset(begun - done))


def visibility_at(timeline: ActiveTimeline, request: int | None, *, layout: int) -> Visibility:
    """What a reader sees as of a request time, or now. Request times count, even where an older write completes later."""
    seen = [action for action in timeline.writes if request is None or action.request <= request]
    return visibility_of(timeline, seen, layout=layout, upto=request)


def visibility_of(
    timeline: ActiveTimeline, seen: Iterable[CompletedAction], *, layout: int, upto: int | None = None
) -> Visibility:
    """What a reader sees who sees these writes of the timeline, and everything that is archived."""
    return Visibility(
        completed=tuple((action.request, action.clock) for action in seen),
        pending=timeline.pending,
        start=timeline.start,
        upto=upto,
        layout=layout,
    )
