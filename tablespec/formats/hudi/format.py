"""Apache Hudi tables behind the port of all formats."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import attrs

from tablespec.errors import (
    ChangesGoneError,
    CorruptFileError,
    CorruptLogError,
    InstantNotFoundError,
    TableSpecWarning,
    UnsupportedTableError,
)
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import HistoryEntry, OpenOptions, TableInfo, TableState
from tablespec.formats.hudi.archive import archived_actions
from tablespec.formats.hudi.changes import GroupHistory, by_group, changes_of_all
from tablespec.formats.hudi.commit_metadata import CleanMetadata, CommitMetadata, parse_clean, parse_commit
from tablespec.formats.hudi.file_columns import data_files
from tablespec.formats.hudi.instant_time import number_at, whole_number
from tablespec.formats.hudi.metadata_table import load_metadata_table
from tablespec.formats.hudi.properties import BACKUP, PROPERTIES, TableProperties, load_properties
from tablespec.formats.hudi.schema import COMMIT_TIME_COLUMN, RECORD_KEY_COLUMN, parse_avro_schema
from tablespec.formats.hudi.schema_history import SchemaHistory, load_schema_history
from tablespec.formats.hudi.slices import lost_groups
from tablespec.formats.hudi.state import HudiState, Window, state_of
from tablespec.formats.hudi.timeline import (
    WRITES,
    ActiveTimeline,
    CompletedAction,
    Visibility,
    load_timeline,
    visibility_at,
    visibility_of,
)
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


@attrs.define(eq=False)
class HudiFormat:
    """A Hudi table; bodies of instants never change, so each is read once."""

    storage: Storage
    options: OpenOptions = OpenOptions()
    _latest: HudiState | None = attrs.field(default=None, repr=False)
    _commits: dict[str, CommitMetadata] = attrs.field(factory=dict, repr=False)

    @classmethod
    def open(cls, storage: Storage, options: OpenOptions = OpenOptions()) -> HudiFormat:
        """The table at the storage; one that this release would misread is refused by name."""
        load_properties(storage)
        return cls(storage, options)

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
        """Paths of the base and log files that writes after `start` up to `end` made and that are current at `end`.

        Files of clustering and compaction do not count where no row was changed between `start` and them. The names of log
        files in version 6 do not tell their writers, so that all of them count.
        """
        state = self.state_at(end)
        after = -1 if start is None else whole_number(start)
        writes = [action for action in state.timeline.writes if after < action.request]
        changing = [action.request for action in writes if self._commit(action).changes_data]
        first = min(changing, default=sys.maxsize)
        moved = {action.request for action in writes if action.request < first} - set(changing)
        recent = (slice_ for slice_ in state.listing.slices if slice_.instant > after and slice_.instant not in moved)
        logs = (log for slice_ in state.listing.slices for log in slice_.logs)
        return frozenset(
            (
                *(slice_.base.path for slice_ in recent if slice_.base is not None),
                *(log.path for log in logs if log.instant > after or state.table.layout == 1),
            )
        )

    def completion_of(self, version: int) -> int:
        """When the write of that request time was completed; any other number is taken for a time of completion."""
        asked = whole_number(version)
        table, active = self._load()
        known = active.writes
        if active.start is not None and asked < active.start:
            known = (*archived_actions(self.storage, table), *known)
        found = [action.clock for action in known if action.request == asked and action.action in WRITES]
        return found[0] if found else asked

    def completion_at(self, millis: int) -> int:
        """The instant time of a time in milliseconds UTC."""
        return number_at(millis)

    def window(self, after: int | None, upto: int | None) -> HudiState:
        """The state to read for what was completed after a time up to another one.

        Where instants of the window are archived or files that they wrote were cleaned up, that is the newest state.
        Its columns are always those of the newest state, as in Hudi.
        """
        table, active = self._load()
        if not table.meta_fields:
            way_out = "scan it at two instants and compare"
            raise UnsupportedTableError(self.storage.url, "incremental reads without meta fields", way_out)
        begin, end = -1 if after is None else after, sys.maxsize if upto is None else upto
        archived = self._archived(table, active, begin)
        known = sorted((*archived, *active.writes), key=lambda action: action.clock)
        inside = [action for action in known if begin < action.clock <= end]
        seen = [action for action in active.writes if action.clock <= end]
        state = self._newest(table, active)
        if 0 < len(seen) < len(active.writes):
            state = self._completed_by(table, active, seen, end)
        past = not seen or self._is_past(archived, inside, state, end)
        if past:
            state = self._newest(table, active)
        last = [action.instant for action in known if action.clock <= end]
        return attrs.evolve(
            state,
            instant=last[-1] if last else _NEVER_WRITTEN,
            window=Window(frozenset(action.request for action in inside), past),
        )

    def fresh_slices(self, state: TableState, after: int, predicate: Predicate) -> Sequence[FreshSlice]:
        """The slices of a window's state that may hold a matching row of the window."""
        assert isinstance(state, HudiState) and state.window is not None
        if not state.window.instants:
            return ()
        rows = state.window.rows_of()
        first = min(state.window.instants)
        slices = (one.slice for one in state.files.judge(predicate))
        # Rows are never newer than their base file; a log may have been begun before the window.
        return tuple(FreshSlice(slice_, rows) for slice_ in slices if slice_.logs or slice_.instant >= first)

    def changes_between(self, state: TableState, after: int, predicate: Predicate) -> Sequence[CommitChanges]:
        """What each write that was requested after a time did to the rows of file groups, oldest first."""
        assert isinstance(state, HudiState)
        if not state.table.meta_fields and not state.record_key:
            feature = "reads of changes without meta fields and without a record key"
            raise UnsupportedTableError(self.storage.url, feature, "scan it at two instants and compare")
        begin = -1 if after < 0 else whole_number(after)
        archived = self._archived(state.table, state.timeline, begin)
        for gone in [action for action in archived if action.request > begin][-1:]:
            raise ChangesGoneError(self.storage.url, gone.request, "it is archived", gone.request)
        history = GroupHistory(
            url=self.storage.url,
            files=by_group(state.found),
            timeline=state.timeline,
            layout=state.table.layout,
            whole_images=state.properties.get("hoodie.table.cdc.supplemental.logging.mode", "").upper()
            == "DATA_BEFORE_AFTER",
            key=(RECORD_KEY_COLUMN,) if state.table.meta_fields else state.record_key,
            version=COMMIT_TIME_COLUMN if state.table.meta_fields else None,
        )
        actions = [one for one in state.timeline.writes if begin < one.request <= state.instant.version]
        found = changes_of_all(history, actions, self._commit, state.files.may_match(predicate))
        return tuple(state.placed(changes) for changes in found)

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
        """Instants that cannot be read, damaged log files, and files that a commit wrote last and that are gone."""
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
        if not problems:
            state = self.latest()
            problems += [one for slice_ in state.listing.slices for one in state.codec.problems(self.storage, slice_)]
        return (*problems, *self._missing(commits))

    def _archived(self, table: TableProperties, active: ActiveTimeline, begin: int) -> tuple[CompletedAction, ...]:
        """The archived writes of a window that begins before the active timeline."""
        if active.start is None or min(action.clock for action in active.writes) <= begin:
            return ()
        known = {action.request for action in active.writes}
        return tuple(
            action
            for action in archived_actions(self.storage, table)
            if action.action in WRITES and action.request not in known and action.clock > begin
        )

    def _is_past(
        self, archived: Sequence[CompletedAction], inside: Sequence[CompletedAction], state: HudiState, end: int
    ) -> bool:
        """Whether the state of a window is not complete any more."""
        there = {file.file.path for file in state.found}
        kept = [action for action in inside if action not in archived]
        if any(stat.path and stat.path not in there for action in kept for stat in self._commit(action).stats):
            return True
        if state.table.layout == 2 or len(kept) == len(inside):
            return len(kept) < len(inside)
        earliest = [self._clean(action).earliest_retained for action in state.timeline.cleans[-1:]]
        return any(retained is not None and end < retained for retained in earliest)

    def _completed_by(
        self, table: TableProperties, active: ActiveTimeline, seen: Sequence[CompletedAction], end: int
    ) -> HudiState:
        upto = end if table.layout == 1 else None
        visibility = visibility_of(active, seen, layout=table.layout, upto=upto)
        return self._state(table, active, seen, visibility, self._schema(table, active.writes))

    def _load(self) -> tuple[TableProperties, ActiveTimeline]:
        table = load_properties(self.storage)
        return table, load_timeline(self.storage, table)

    def _newest(self, table: TableProperties, active: ActiveTimeline) -> HudiState:
        if self._latest is None or (self._latest.table, self._latest.timeline) != (table, active):
            self._latest = self._state(table, active, active.writes)
        return self._latest

    def _state(
        self,
        table: TableProperties,
        active: ActiveTimeline,
        writes: Sequence[CompletedAction],
        visibility: Visibility | None = None,
        schema: Schema | None = None,
    ) -> HudiState:
        replacing = [self._commit(action) for action in writes if action.action == "replacecommit"]
        newest = writes[-1].request if writes and tuple(writes) != active.writes else None
        make = partial(
            state_of,
            self.storage,
            table,
            active,
            visibility or visibility_at(active, newest, layout=table.layout),
            instant=writes[-1].instant if writes else _NEVER_WRITTEN,
            stored_schema=schema or self._schema(table, writes),
            replaced=frozenset(group for commit in replacing for group in commit.replaced),
            schema_history=load_schema_history(self.storage) if self.options.schema_on_read else SchemaHistory(),
        )
        try:
            return make(
                metadata=load_metadata_table(self.storage, table, active) if self.options.metadata_table else None
            )
        except CorruptFileError as error:
            warnings.warn(f"the metadata table is not used: {error}", TableSpecWarning, stacklevel=2)
            return make(metadata=None)

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
