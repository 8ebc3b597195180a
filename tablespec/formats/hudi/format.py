"""Apache Hudi copy-on-write tables behind the port of all formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import attrs

from tablespec.errors import CorruptLogError, InstantNotFoundError, UnsupportedTableError
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import HistoryEntry, TableInfo, TableState
from tablespec.formats.hudi.commit_metadata import CleanMetadata, CommitMetadata, parse_clean, parse_commit
from tablespec.formats.hudi.instant_time import whole_number
from tablespec.formats.hudi.listing import data_files, lost_groups
from tablespec.formats.hudi.properties import BACKUP, PROPERTIES, TableProperties, load_properties
from tablespec.formats.hudi.schema import parse_avro_schema
from tablespec.formats.hudi.state import HudiState, state_of
from tablespec.formats.hudi.timeline import ActiveTimeline, CompletedAction, load_timeline, visibility_at
from tablespec.model.change import CommitChanges, FreshSlice
from tablespec.model.instant import Instant, Timeline
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage

# The state of a table that was created and never written.
_NEVER_WRITTEN = Instant(0, 0)
_SHOWN_PROPERTIES = (
    "hoodie.table.version",
    "hoodie.table.type",
    "hoodie.table.keygenerator.type",
    "hoodie.table.keygenerator.class",
)


def is_hudi(storage: Storage) -> bool:
    """Whether a Hudi table, sound or damaged, lies at the storage."""
    return any(storage.head(path) is not None for path in (PROPERTIES, BACKUP)) or any(storage.list_folder(".hoodie"))


@attrs.define
class HudiFormat:
    """A Hudi table; bodies of instants never change, so each is read once."""

    storage: Storage
    _latest: HudiState | None = attrs.field(default=None, repr=False, eq=False)
    _commits: dict[str, CommitMetadata] = attrs.field(factory=dict, repr=False, eq=False)

    @classmethod
    def open(cls, storage: Storage) -> HudiFormat:
        """The table at the storage; one that this release would misread is refused by name."""
        load_properties(storage)
        return cls(storage)

    def timeline(self) -> Timeline:
        """The completed writes of the active timeline, by request time."""
        _, active = self._load()
        return Timeline(self.storage.url, tuple(action.instant for action in active.writes))

    def latest(self) -> HudiState:
        """The newest state; an unchanged timeline gives the same one, whose files are not listed again."""
        return self._newest(*self._load())

    def state_at(self, version: int) -> HudiState:
        """The state after the newest instant whose request time is not later than `version`."""
        table, active = self._load()
        asked = whole_number(version)
        writes = tuple(action for action in active.writes if action.request <= asked)
        if not writes:
            raise InstantNotFoundError(self.storage.url, f"at or before {version}", _range(active.writes))
        if writes == active.writes:
            return self._newest(table, active)
        earliest = [self._clean(action).earliest_retained for action in active.cleans[-1:]]
        if any(retained is not None and asked < retained for retained in earliest):
            raise self._cleaned_away(version, active)
        state = self._state(table, active, writes)
        if None in earliest:
            self._check_file_versions(state, version)
        return state

    def added_between(self, start: int | None, end: int) -> frozenset[str]:
        """Paths of the base files that writes after `start` up to `end` made and that are current at `end`.

        Files that clustering made hold no new data and do not count.
        """
        state = self.state_at(end)
        after = -1 if start is None else whole_number(start)
        recent = [slice_ for slice_ in state.listing.slices if slice_.instant > after]
        instants = {slice_.instant for slice_ in recent}
        moved = {
            action.request
            for action in state.timeline.writes
            if action.request in instants and not self._commit(action).changes_data
        }
        bases = (slice_.base for slice_ in recent if slice_.instant not in moved)
        return frozenset(base.path for base in bases if base is not None)

    def fresh_slices(self, state: TableState, after: int, predicate: Predicate) -> Sequence[FreshSlice]:
        """Refused: base files that were written anew hold rows of all ages."""
        raise self._unread("incremental reads")

    def changes_between(self, state: TableState, after: int, predicate: Predicate) -> Sequence[CommitChanges]:
        """Refused by name."""
        raise self._unread("reads of changes")

    def history(self, limit: int | None = None) -> Sequence[HistoryEntry]:
        """What each write of the active timeline did, newest first; replaced file groups count as removed files."""
        _, active = self._load()
        newest = islice(reversed(active.writes), limit)
        return tuple(_history_entry(action.instant, self._commit(action)) for action in newest)

    def info(self, state: TableState) -> TableInfo:
        """The name of the table, its version and its key generator."""
        properties = state.properties
        return TableInfo(
            format="hudi",
            name=properties.get("hoodie.table.name", ""),
            id="",
            description="",
            protocol=tuple((key, properties[key]) for key in _SHOWN_PROPERTIES if key in properties),
        )

    def problems(self) -> Sequence[str]:
        """Instants that cannot be read, and base files that a commit wrote last and that are gone."""
        try:
            _, active = self._load()
        except CorruptLogError as error:
            return (str(error),)
        commits, problems = [], []
        for action in active.writes:
            try:
                commits.append(self._commit(action))
            except CorruptLogError as error:
                problems.append(str(error))
        return (*problems, *self._missing(commits))

    def _unread(self, feature: str) -> UnsupportedTableError:
        way_out = "scan it at two instants, or list what was written with file_index.list_files_between"
        return UnsupportedTableError(self.storage.url, f"{feature} of Hudi tables", way_out)

    def _load(self) -> tuple[TableProperties, ActiveTimeline]:
        table = load_properties(self.storage)
        return table, load_timeline(self.storage, table)

    def _newest(self, table: TableProperties, active: ActiveTimeline) -> HudiState:
        if self._latest is None or (self._latest.table, self._latest.timeline) != (table, active):
            self._latest = self._state(table, active, active.writes)
        return self._latest

    def _state(self, table: TableProperties, active: ActiveTimeline, writes: Sequence[CompletedAction]) -> HudiState:
        replacing = [self._commit(action) for action in writes if action.action == "replacecommit"]
        newest = writes[-1].request if writes and tuple(writes) != active.writes else None
        return state_of(
            self.storage,
            table,
            active,
            visibility_at(active, newest, layout=table.layout),
            instant=writes[-1].instant if writes else _NEVER_WRITTEN,
            stored_schema=self._schema(table, writes),
            replaced=frozenset(group for commit in replacing for group in commit.replaced),
        )

    def _schema(self, table: TableProperties, writes: Sequence[CompletedAction]) -> Schema:
        path, text = PROPERTIES, table.create_schema
        for action in reversed(writes):
            if schema := self._commit(action).schema:
                path, text = action.path, schema
                break
        if not text:
            why = "neither a commit nor the property hoodie.table.create.schema has a schema"
            raise CorruptLogError(self.storage.url, path, 0, why)
        try:
            return parse_avro_schema(text)
        except ValueError as error:
            raise CorruptLogError(self.storage.url, path, 0, f"its schema cannot be read ({error})") from error

    def _commit(self, action: CompletedAction) -> CommitMetadata:
        if action.path not in self._commits:
            self._commits[action.path] = parse_commit(self.storage.url, action.path, self._body(action))
        return self._commits[action.path]

    def _clean(self, action: CompletedAction) -> CleanMetadata:
        return parse_clean(self.storage.url, action.path, self._body(action))

    def _body(self, action: CompletedAction) -> bytes:
        try:
            return self.storage.read(action.path)
        except FileNotFoundError as error:
            why = "it was archived or rolled back while the table was read"
            raise CorruptLogError(self.storage.url, action.path, 0, why) from error

    def _check_file_versions(self, state: HudiState, version: int) -> None:
        removed = [found for action in state.timeline.cleans for found in self._clean(action).removed]
        if lost_groups(removed, state.listing.slices, state.replaced, state.instant.version):
            raise self._cleaned_away(version, state.timeline)

    def _cleaned_away(self, version: int, active: ActiveTimeline) -> InstantNotFoundError:
        asked = f"{version} any more, because the cleaner removed files of that time"
        return InstantNotFoundError(self.storage.url, asked, f"newer ones up to {active.writes[-1].request}")

    def _missing(self, commits: Sequence[CommitMetadata]) -> Iterator[str]:
        there = {file.path for file in data_files(self.storage)}
        newest = {stat.group: stat.path for commit in commits for stat in commit.stats}
        replaced = {group for commit in commits for group in commit.replaced}
        for path in sorted(path for group, path in newest.items() if group not in replaced and path not in there):
            yield f"the newest base file of a group, {path}, is missing; older rows are read in its place"


def _history_entry(instant: Instant, commit: CommitMetadata) -> HistoryEntry:
    return HistoryEntry(
        instant=instant,
        operation=commit.operation,
        metrics=(("numWrites", str(sum(stat.rows for stat in commit.stats))),),
        files_added=len(commit.stats),
        files_removed=len(commit.replaced),
    )


def _range(writes: Sequence[CompletedAction]) -> str:
    return f"{writes[0].request} to {writes[-1].request}" if writes else "none"
