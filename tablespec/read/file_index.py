"""Which files hold the rows of a table: the listing half of an engine's integration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import attrs

from tablespec.errors import InstantNotFoundError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Predicate, all_of, columns_of
from tablespec.expr.rewrite import split
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import CompletionClock, JudgedSlice, TableFormat, TableState
from tablespec.model.bulk import made_in_bulk
from tablespec.model.change import CommitChanges
from tablespec.model.file import FileGroup, FileSlice
from tablespec.model.instant import Instant, Timeline, to_millis
from tablespec.model.partition import PartitionDescriptor, PartitionIncrementalSnapshot, PartitionSnapshot
from tablespec.model.schema import Schema
from tablespec.read.known import Narrower, narrowed
from tablespec.read.needs import nameable

Filters = Predicate | str | Sequence[Predicate | str] | None
At = Instant | int | str | datetime | date | None


@attrs.frozen
class FileIndex:
    """Lists the files of a table at an instant, and what changed between two."""

    format: TableFormat
    index: Narrower | None = attrs.field(default=None, repr=False)

    def list_files_at(self, instant: At = None, filters: Filters = None) -> list[PartitionSnapshot]:
        """Slices that may hold a matching row at `instant`, by partition, in path order; None means the latest instant."""
        state = state_at(self.format, instant)
        with made_in_bulk():
            return [
                PartitionSnapshot(descriptor, state.instant, slices)
                for descriptor, slices in _by_partition(state, self._slices(state, filters))
            ]

    def list_files_between(
        self, start: At, end: At = None, filters: Filters = None
    ) -> list[PartitionIncrementalSnapshot]:
        """Slices of the state at `end` that may hold rows inserted or changed after `start`, by partition, in path order.

        None as `start` means from the beginning: then it is what `list_files_at(end)` lists.
        """
        state = state_at(self.format, end)
        first = None if start is None else resolve(self.format, start).version
        if first is not None:
            starting_version(self.format, first, state)
        slices = self._slices(state, filters)
        if first is not None:
            added = self.format.added_between(first, state.instant.version)
            slices = [slice_ for slice_ in slices if added.intersection(_logged_as(slice_))]
        timeline = self.format.timeline().between(first, state.instant.version)
        return [
            PartitionIncrementalSnapshot(descriptor, timeline, slices_)
            for descriptor, slices_ in _by_partition(state, slices)
        ]

    def list_changes_between(self, start: At, end: At = None, filters: Filters = None) -> list[CommitChanges]:
        """What each action after `start` up to `end` did to rows, oldest first: its change files, or what it did to base files.

        None as `start` means from the beginning. Slices without a match may be listed; those that can have none are left out where
        the rows of other slices can be told without them. Raises ChangesGoneError where the log was cleaned up.
        """
        state = state_at(self.format, end)
        after = starting_version(self.format, start, state)
        return list(self.format.changes_between(state, after, bound_filters(filters, state.schema)))

    def _slices(self, state: TableState, filters: Filters) -> Sequence[FileSlice]:
        predicate = bound_filters(filters, nameable(state.layout))
        if predicate == TRUE:
            return state.files.all()
        return [one.judged.slice for one in narrowed(self.index, state, predicate, _judged(state, predicate))]

    def file_group(self, group_id: str, upto: At = None) -> FileGroup:
        """One file group with its slices over the timeline; reads every state, so it is for looking closely, not for scans."""
        last = resolve(self.format, upto)
        found: list[tuple[Instant, FileSlice]] = []
        for instant in self.format.timeline().between(None, last.version):
            for one in self.format.state_at(instant.version).files.judge(bound_filters(None, Schema(()))):
                if one.slice.group.id == group_id and (not found or found[-1][1] != one.slice):
                    found.append((instant, one.slice))
        if not found:
            raise InstantNotFoundError(self.format.storage.url, f"with the file group {group_id}", "other groups")
        timeline = Timeline(self.format.storage.url, tuple(instant for instant, _ in found))
        return FileGroup(found[0][1].group, timeline, tuple(found))


def bound_filters(filters: Filters, schema: Schema) -> Predicate:
    """Filters of any form as one predicate bound to the schema; several must all hold."""
    if filters is None:
        return all_of(())
    if isinstance(filters, str) or not isinstance(filters, Sequence):
        return bind(filters, schema)
    return all_of(tuple(bind(one, schema) for one in filters))


def state_at(format_: TableFormat, at: At) -> TableState:
    """The state that `at` names; a state that is the newest one anyway costs no more than the newest."""
    return format_.latest() if at is None else format_.state_at(version_of(format_, at))


def starting_version(format_: TableFormat, start: At, state: TableState) -> int:
    """The version after which a stretch of the timeline up to `state` begins; -1 where it begins with the table."""
    after = -1 if start is None else max(-1, version_of(format_, start, before_all=-1))
    upto = state.instant.version
    if after > upto:
        asked = f"after {after} up to {upto}"
        raise InstantNotFoundError(format_.storage.url, asked, f"version {upto}, which is before {after}")
    return after


def version_of(
    format_: TableFormat, at: Instant | int | str | datetime | date, *, before_all: int | None = None
) -> int:
    """The version that `at` names; a number is taken as it is, and only a time needs the timeline.

    A time at which the table was not there yet is `before_all`, where that is given and the timeline goes back to the first version.
    """
    match at:
        case Instant(version):
            return version
        case int() if not isinstance(at, bool):
            return at
        case str() if _is_number(at):
            return int(at)
        case _:
            moment, timeline = _moment(at, format_.storage.url), format_.timeline()
            begins = [one.timestamp for one in timeline.instants[:1] if one.version == 0]
            if before_all is not None and begins and to_millis(moment) < begins[0]:
                return before_all
            return timeline.find_latest_completed_action_at(moment).version


def completion_of(clock: CompletionClock, at: Instant | int | str | datetime | date, table: str) -> int:
    """When what `at` names was completed: an instant, a version, or a time."""
    match at:
        case Instant(version):
            return clock.completion_of(version)
        case int() if not isinstance(at, bool):
            return clock.completion_of(at)
        case str() if _is_number(at):
            return clock.completion_of(int(at))
        case _:
            return clock.completion_at(to_millis(_moment(at, table)))


def resolve(format_: TableFormat, at: At) -> Instant:
    """The completed instant that `at` names: an instant, a version, a time, or None for the latest."""
    match at:
        case None:
            return format_.latest().instant
        case Instant():
            return at
        case int() if not isinstance(at, bool):
            return format_.timeline().at(at)
        case str() if _is_number(at):
            return format_.timeline().at(int(at))
        case _:
            return format_.timeline().find_latest_completed_action_at(_moment(at, format_.storage.url))


def _moment(at: object, table: str) -> datetime:
    """The time that `at` is, in UTC where it names no zone."""
    match at:
        case str():
            return _parse_time(at, table)
        case datetime():
            return at
        case date():
            return datetime(at.year, at.month, at.day, tzinfo=UTC)
        case _:
            raise _unnamed(table, at)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _parse_time(text: str, table: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise _unnamed(table, text) from error


def _unnamed(table: str, at: object) -> InstantNotFoundError:
    return InstantNotFoundError(table, repr(at), "versions and times, such as 12 or 2026-01-31T12:00:00+00:00")


def _by_partition(
    state: TableState, slices: Iterable[FileSlice]
) -> list[tuple[PartitionDescriptor, tuple[FileSlice, ...]]]:
    groups: dict[tuple[str, tuple[object, ...]], list[FileSlice]] = {}
    path, values, of_partition = None, None, list[FileSlice]()
    for slice_ in slices:
        # Most stand beside others of their partition, for which nothing is made or looked up.
        if slice_.group.partition != path or slice_.partition_values != values:
            path, values = slice_.group.partition, slice_.partition_values
            of_partition = groups.setdefault((path, values), [])
        of_partition.append(slice_)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    columns = state.layout.constants
    return [
        (PartitionDescriptor(path, columns, values), tuple(sorted(found, key=path_of)))
        for (path, values), found in ordered
    ]


def path_of(slice_: FileSlice) -> str:
    """The path by which slices are put in order."""
    return slice_.base.path if slice_.base is not None else slice_.logs[0].path


def _logged_as(slice_: FileSlice) -> Iterator[str]:
    if slice_.base is not None:
        yield slice_.base.logged_as
    yield from (log.path for log in slice_.logs)


def judged_slices(state: TableState, predicate: Predicate) -> list[JudgedSlice]:
    """The slices that may match, in path order."""
    return sorted(_judged(state, predicate), key=lambda one: path_of(one.slice))


def _judged(state: TableState, predicate: Predicate) -> Sequence[JudgedSlice]:
    """The slices that may match; of hidden columns nothing is known before the rows are read."""
    told, untold = about_table(predicate, state.schema)
    found = state.files.judge(told)
    return found if untold == TRUE else [attrs.evolve(one, verdict=Verdict.MAYBE) for one in found]


def about_table(predicate: Predicate, schema: Schema) -> tuple[Predicate, Predicate]:
    """What a predicate says of the columns of a table alone, and the rest."""
    if all(path[0] in schema for path in columns_of(predicate)):
        return predicate, TRUE
    return split(predicate, lambda path: path[0] in schema)
