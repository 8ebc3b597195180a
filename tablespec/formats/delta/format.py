"""Delta tables behind the port of formats."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import attrs
from pyroaring import BitMap64

from tablespec.errors import (
    AppendOnlyTableError,
    ChangesGoneError,
    CorruptLogError,
    InstantNotFoundError,
    MissingLogError,
    TableExistsError,
    TableNotFoundError,
    TableSpecWarning,
)
from tablespec.expr.nodes import Predicate
from tablespec.formats.base import (
    Change,
    Committed,
    HistoryEntry,
    LiveFile,
    Lost,
    Profile,
    TableInfo,
    TableState,
    WinningCommit,
)
from tablespec.formats.delta.actions import Line, file_key
from tablespec.formats.delta.adds import TableShape
from tablespec.formats.delta.changes import commit_changes, logged_commits, needs_past
from tablespec.formats.delta.checkpoint import read_whole_checkpoint
from tablespec.formats.delta.checkpoint_write import indexed_leaves, write_checkpoint
from tablespec.formats.delta.codec import decode_commit, encode_commit
from tablespec.formats.delta.commit import commit_lines, creation, with_mapping
from tablespec.formats.delta.fresh import fresh_adds, fresh_slices, newest_rows
from tablespec.formats.delta.history import commit_timestamp, history_entry, instants, winning_commit
from tablespec.formats.delta.load import commit_of, load, on_the_log, read_commits
from tablespec.formats.delta.log import (
    GONE,
    LOG,
    Listing,
    commit_path,
    commits_between,
    last_checkpoint_version,
    list_log,
    reachable,
    sort_out,
)
from tablespec.formats.delta.partition_values import HiveFolders
from tablespec.formats.delta.properties import (
    IN_COMMIT_TIMESTAMPS,
    checkpoint_interval,
    enablement,
    file_bytes,
    file_retention,
    has_old_readers,
    log_retention,
    used_by_schema,
)
from tablespec.formats.delta.protocol import WRITER_VERSION, check_readable, check_writable, features_of
from tablespec.formats.delta.put import put_commit, time_of_commit
from tablespec.formats.delta.replay import Reconciled, apply, checked
from tablespec.formats.delta.restore import definition_of
from tablespec.formats.delta.retained import disposable, expired_log, needed_files, newest_checkpoint, run_starts
from tablespec.formats.delta.returned import Returns, restore_commits, returned_at
from tablespec.formats.delta.row_change import decode_add, live_files, revise, vector_files
from tablespec.formats.delta.state import ROW_COMMIT_VERSION_COLUMN, ROW_ID_COLUMN, DeltaState
from tablespec.formats.layout import WriteLayout
from tablespec.formats.maintenance import Definition, Retention
from tablespec.model.change import AllRows, CommitChanges, FreshSlice
from tablespec.model.file import Returned
from tablespec.model.instant import Instant, Timeline
from tablespec.model.schema import Schema
from tablespec.storage.local import is_temporary
from tablespec.storage.store import FileInfo, Storage

APPEND_ONLY = "delta.appendOnly"


@attrs.define(eq=False)
class DeltaFormat:
    """A Delta table; remembers its newest state, so that asking again costs one listing of the end of the log."""

    storage: Storage
    check_protocol: bool = True
    _newest: DeltaState | None = attrs.field(default=None, init=False, repr=False)
    _warned: bool = attrs.field(default=False, init=False, repr=False)

    @classmethod
    def is_at(cls, storage: Storage) -> bool:
        """Whether a Delta log lies there."""
        return any(not is_temporary(file.path) for file in storage.list(LOG))

    @classmethod
    def create(
        cls,
        storage: Storage,
        schema: Schema,
        partition_columns: tuple[str, ...],
        properties: tuple[tuple[str, str], ...],
        operation_id: str,
        profile: Profile = Profile.OPEN,
    ) -> DeltaFormat:
        """Make a new table; raises when one is there."""
        lines = creation(
            storage.url, schema, partition_columns, properties, profile, now=_now(), operation_id=operation_id
        )
        if cls.is_at(storage) or not put_commit(storage, 0, encode_commit(lines), operation_id):
            raise TableExistsError(storage.url)
        return cls(storage)

    # --- reading ---

    def latest(self) -> DeltaState:
        """The newest state."""
        # Read once: another thread may replace it meanwhile.
        known = self._newest
        newest = self._load_newest() if known is None else self._grown(known)
        self._newest = newest
        return newest

    def _grown(self, newest: DeltaState) -> DeltaState:
        """The newest state, from a state that was the newest before."""
        known, below = newest.instant.version, newest.reconciled.checkpoint_version
        listing = list_log(self.storage, start=known if below < 0 else below)
        if not _still_there(newest, listing):
            return self._load_newest()
        if listing.latest_version == known:
            return newest
        commits = dict(listing.commits)
        new = [
            (version, commits[version])
            for version in range(known + 1, listing.latest_version + 1)
            if version in commits
        ]
        # Where there is a checkpoint it counts: commits of some writers do not add up without it.
        newer = any(one.version > known for one in listing.checkpoints)
        if newer or len(new) != listing.latest_version - known:
            return self._load_newest()
        try:
            return self._state(apply(newest.reconciled, self._read_commits(new)), new[-1][1])
        except MissingLogError:
            return self._load_newest()

    def state_at(self, version: int) -> DeltaState:
        """The state right after a version."""
        known = self._newest
        if known is not None and known.instant.version == version:
            newest = self.latest()
            if newest.instant.version == version:
                return newest
        return on_the_log(self.storage, list_log(self.storage), lambda listing: self._load(listing, version))

    def timeline(self) -> Timeline:
        """All versions that can be reconstructed."""
        return on_the_log(self.storage, list_log(self.storage), self._timeline)

    def _timeline(self, listing: Listing) -> Timeline:
        files = reachable(listing)
        enabled = enablement(self.latest().properties)
        declared = [(number, file) for number, file in listing.commits if enabled and number >= enabled.version]
        return Timeline(self.storage.url, instants(files, dict(self._in_commit_timestamps(declared)), enabled))

    def history(self, limit: int | None = None) -> Sequence[HistoryEntry]:
        """What each version did whose commit is still there, newest first, and no more than `limit`."""
        return on_the_log(self.storage, list_log(self.storage), lambda listing: self._history(listing, limit))

    def _history(self, listing: Listing, limit: int | None) -> Sequence[HistoryEntry]:
        files = dict(listing.commits)
        told = [(version, files[version]) for version, _ in reachable(listing) if version in files]
        commits = list(self._read_commits(told[max(0, len(told) - limit) :] if limit is not None else told))
        return [history_entry(instant, lines) for instant, lines in self._timed(listing, commits)][::-1]

    def added_between(self, start: int | None, end: int) -> frozenset[str]:
        """Paths, as logged, of the files current at `end` that may hold rows newer than `start`."""
        after = -1 if start is None else start
        commits = [lines for _, lines in self._commits_between(list_log(self.storage, start=after + 1), after, end)]
        return frozenset(add.path for add, _ in fresh_adds(commits, after, self.storage.url))

    def fresh_slices(self, state: TableState, after: int, predicate: Predicate) -> Sequence[FreshSlice]:
        """The slices that may hold matching rows newer than a version."""
        assert isinstance(state, DeltaState)
        if after < 0:
            return [FreshSlice(one.slice, AllRows()) for one in state.files.judge(predicate)]
        listing = list_log(self.storage, start=after + 1)
        commits = [lines for _, lines in self._commits_between(listing, after, state.instant.version)]
        return fresh_slices(commits, after, predicate, state.shape)

    def changes_between(self, state: TableState, after: int, predicate: Predicate) -> Sequence[CommitChanges]:
        """What each commit after a version did to rows."""
        assert isinstance(state, DeltaState)
        listing = list_log(self.storage)
        commits = self._commits_between(listing, after, state.instant.version)
        timed = self._timed(listing, commits)
        past = None
        if after >= 0 and needs_past((lines for _, lines in commits), partitioned=bool(state.partition_columns)):
            later = [one.version for one in listing.checkpoints if after < one.version <= state.instant.version]
            past = self._oldest_readable([after, *later])
        return list(commit_changes(list(logged_commits(timed, past, state)), past, state, predicate))

    def _oldest_readable(self, versions: Iterable[int]) -> DeltaState | None:
        for version in versions:
            with suppress(InstantNotFoundError, MissingLogError):
                return self.state_at(version)
        return None

    def info(self, state: TableState) -> TableInfo:
        """What a person wants to know about the table."""
        assert isinstance(state, DeltaState)
        protocol, metadata = state.protocol, state.metadata
        rows = [
            ("minReaderVersion", str(protocol.min_reader_version)),
            ("minWriterVersion", str(protocol.min_writer_version)),
        ]
        rows.append(("features", ", ".join(sorted(features_of(protocol)))))
        return TableInfo(
            format="delta",
            name=metadata.name or "",
            id=metadata.id,
            description=metadata.description or "",
            protocol=tuple(rows),
        )

    def problems(self) -> Sequence[str]:
        """Log files that cannot be read, and versions that are missing."""
        found = []
        listing = list_log(self.storage)
        versions = [version for version, _ in listing.commits]
        for before, after in itertools.pairwise(versions):
            found += [f"version {missing} is missing in the log" for missing in range(before + 1, after)]
        for _, file in listing.commits:
            try:
                commit_of(self.storage.read(file.path), self.storage.url, file.path)
            except FileNotFoundError:
                # Somebody has cleaned up since; what is missing was told above.
                continue
            except CorruptLogError as error:
                found.append(str(error))
        for checkpoint in listing.checkpoints:
            try:
                read_whole_checkpoint(self.storage, checkpoint)
            except CorruptLogError as error:
                found.append(str(error))
        return found

    # --- writing ---

    def check_writable(self, state: TableState, operation: str) -> None:
        """Raise when the protocol does not let this release write."""
        assert isinstance(state, DeltaState)
        check_writable(state.protocol, self.storage.url, used_by_schema(state.schema))

    def check_removable(self, state: TableState, operation: str) -> None:
        """Raise when the table is append-only."""
        if state.properties.get(APPEND_ONLY) == "true":
            raise AppendOnlyTableError(self.storage.url, operation)

    def write_layout(self, state: TableState, schema: Schema) -> WriteLayout:
        """How files must be written once the columns are those of `schema`."""
        assert isinstance(state, DeltaState)
        shape = TableShape(table=self.storage.url, schema=schema, partition_columns=state.partition_columns)
        return WriteLayout(
            schema=schema,
            partition_columns=state.partition_columns,
            stats_leaves=tuple(leaf.path for leaf in indexed_leaves(shape)),
            naming=HiveFolders(shape.partition_fields),
            file_bytes=file_bytes(state.properties),
            row_id_column=state.properties.get(ROW_ID_COLUMN, ""),
            row_commit_version_column=state.properties.get(ROW_COMMIT_VERSION_COLUMN, ""),
            recent_readers=state.protocol.min_writer_version >= WRITER_VERSION
            and not has_old_readers(state.properties),
        )

    def grown(self, state: TableState, schema: Schema) -> Schema:
        """The schema with ids and physical names for new columns, where the table maps its columns."""
        return with_mapping(schema, dict(state.properties))[0]

    def live_files(self, state: TableState, predicate: Predicate) -> Sequence[LiveFile]:
        """The files of that state that may match."""
        assert isinstance(state, DeltaState)
        return live_files(state, predicate)

    def revise(self, state: TableState, deleted: Sequence[tuple[bytes, BitMap64]]) -> Sequence[tuple[bytes, bytes]]:
        """Write deletion vectors, all in one file."""
        assert isinstance(state, DeltaState)
        return revise(state, deleted)

    def vector_files(self, revised: Sequence[tuple[bytes, bytes]]) -> frozenset[str]:
        """The files with the deletion vectors of revised files."""
        return vector_files(revised, self.storage.url)

    def try_commit(self, change: Change, state: TableState) -> Committed | Lost:
        """Write the next version after `state` unless somebody else has."""
        assert isinstance(state, DeltaState)
        self.check_writable(state, change.operation)
        if change.data_change and (change.removes or change.revised):
            self.check_removable(state, change.operation)
        version = state.instant.version + 1
        stamp = max(_now(), self._last_stamp(state) + 1)
        lines = commit_lines(change, state, stamp)
        if not put_commit(self.storage, version, encode_commit(lines), change.operation_id):
            return Lost(version)
        new = next((line.meta_data.configuration for line in lines if line.meta_data is not None), state.properties)
        declared = new.get(IN_COMMIT_TIMESTAMPS) == "true"
        time_ = stamp if declared else max(time_of_commit(self.storage, version, stamp), state.instant.timestamp + 1)
        return Committed(Instant(version, time_, "commit"))

    def transaction(self, state: TableState, application: str) -> int | None:
        """The number that an application recorded last."""
        assert isinstance(state, DeltaState)
        found = state.reconciled.transactions.get(application)
        return None if found is None else found.version

    def commits_after(self, version: int) -> Sequence[WinningCommit]:
        """The commits after `version`, oldest first."""
        state = self.latest()
        listing = list_log(self.storage, start=version + 1)
        commits = self._commits_between(listing, version, listing.latest_version)
        altered = any(line.protocol or line.meta_data for _, lines in commits for line in lines)
        before = self.state_at(version).reconciled if altered else None
        known = frozenset[str]() if before is None or before.protocol is None else features_of(before.protocol)
        metadata, found = None if before is None else before.metadata, list[WinningCommit]()
        for number, lines in commits:
            found.append(winning_commit(number, lines, state.shape, known, metadata))
            metadata = next((line.meta_data for line in lines if line.meta_data is not None), metadata)
        return found

    def after_commit(self, instant: Instant) -> None:
        """Write a checkpoint when the interval of the table asks for one."""
        if instant.version and instant.version % checkpoint_interval(self.latest().properties) == 0:
            self.checkpoint()

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest state and tell how many files it lists."""
        state = self.latest()
        self.check_writable(state, "checkpoint")
        return write_checkpoint(state, _now()).adds

    # --- maintenance ---

    def retention(self, state: TableState) -> Retention:
        """For how long the properties ask the past to be kept."""
        return Retention(file_retention(state.properties), log_retention(state.properties))

    def needed_since(self, version: int) -> frozenset[str]:
        """The files that a version from `version` on needs: data, deletion vectors, and the changes of those after it."""
        return on_the_log(self.storage, list_log(self.storage), lambda listing: self._needed_since(listing, version))

    def _needed_since(self, listing: Listing, version: int) -> frozenset[str]:
        versions = [number for number, _ in reachable(listing) if number >= version]
        states = [self._load(listing, start) for start in run_starts(versions)]
        commits = self._read_commits([(number, file) for number, file in listing.commits if number > version])
        return needed_files(self.storage, states, commits)

    def disposable(self, state: TableState, files: Iterable[FileInfo]) -> Sequence[FileInfo]:
        """The files that do not lie in hidden places."""
        assert isinstance(state, DeltaState)
        return disposable(files, [field.stored_name for field in state.shape.partition_fields])

    def returned(self, files: Sequence[LiveFile]) -> Mapping[str, tuple[Returned, ...]]:
        """Which rows restores brought back, by the paths of their files as logged."""
        adds = [add for add in map(decode_add, (file.origin for file in files)) if returned_at(add)]
        if not adds:
            return {}
        commits = dict(list_log(self.storage).commits)

        def read(versions: set[int]) -> Mapping[int, Sequence[Line]]:
            return dict(self._read_commits([(one, commits[one]) for one in sorted(versions & commits.keys())]))

        return Returns(self.storage, self.latest().tracked_columns, restore_commits(adds, read)).rows(adds)

    def newest_rows(self, paths: frozenset[str]) -> Mapping[str, int]:
        """The version of the newest rows of each of these files, as far as the log tells."""
        log = on_the_log(self.storage, list_log(self.storage), lambda listing: self._read_commits(listing.commits))
        found = newest_rows(log)
        return {path: found[file_key(path, None)] for path in paths if file_key(path, None) in found}

    def domain(self, state: TableState, name: str) -> str | None:
        """The configuration of a domain."""
        assert isinstance(state, DeltaState)
        found = state.reconciled.domains.get(name)
        return None if found is None else found.configuration

    def definition_of(self, then: TableState, now: TableState) -> Definition:
        """The schema and the properties of an older state, as the newest protocol allows them."""
        assert isinstance(then, DeltaState)
        assert isinstance(now, DeltaState)
        return definition_of(then, now)

    def expired_log(self, version: int) -> Sequence[FileInfo]:
        """The files of the log before the newest checkpoint that is not after `version`."""
        files = list(self.storage.list(LOG))
        listing = sort_out(files)
        start = newest_checkpoint(listing, version)
        if start is not None:
            # What stands in for the past must be readable before the past may go.
            read_whole_checkpoint(self.storage, start)
        return expired_log(listing, files, version)

    # --- inside ---

    def _load_newest(self) -> DeltaState:
        hint = last_checkpoint_version(self.storage)
        listing = list_log(self.storage, start=hint)
        if hint and not any(one.version == hint for one in listing.checkpoints):
            listing = list_log(self.storage)
        if listing.latest_version < 0:
            raise TableNotFoundError(self.storage.url)
        return on_the_log(self.storage, listing, lambda listing: self._load(listing, listing.latest_version))

    def _load(self, listing: Listing, version: int) -> DeltaState:
        return self._state(*load(self.storage, listing, version))

    def _read_commits(self, files: Sequence[tuple[int, FileInfo]]) -> list[tuple[int, list[Line]]]:
        return read_commits(self.storage, files)

    def _state(self, reconciled: Reconciled, last: FileInfo) -> DeltaState:
        protocol, metadata = checked(reconciled, self.storage.url)
        if reconciled.protocol is None and not self._warned:
            self._warned = True
            text = "has no protocol action; it counts as reader 1, writer 1, and the next write will say so"
            warnings.warn(f"{self.storage.url} {text}", TableSpecWarning, stacklevel=2)
        if self.check_protocol:
            check_readable(protocol, self.storage.url)
        stamp = last.modified
        if metadata.configuration.get(IN_COMMIT_TIMESTAMPS) == "true":
            stamp = reconciled.in_commit_timestamp or self._stamp_of(reconciled.version) or stamp
        instant = Instant(reconciled.version, stamp, "commit")
        return DeltaState(self.storage, instant, protocol, metadata, reconciled, last)

    def _commits_between(self, listing: Listing, after: int, end: int) -> list[tuple[int, list[Line]]]:
        files = commits_between(listing, after, end, self.storage.url)
        try:
            return self._read_commits(files)
        except MissingLogError as error:
            # Nothing else tells what they changed.
            raise ChangesGoneError(self.storage.url, error.missing, GONE) from error

    def _timed(self, listing: Listing, commits: Sequence[tuple[int, list[Line]]]) -> list[tuple[Instant, list[Line]]]:
        """Commits with the instants that the timeline has for them; those that stamp themselves need no look at others."""
        enabled = enablement(self.latest().properties)
        lines = dict(commits)
        files = [
            (number, file)
            for number, file in listing.commits
            if enabled is None or number < enabled.version or number in lines
        ]
        stamps = {
            number: commit_timestamp(lines[number]) for number, _ in files if enabled and number >= enabled.version
        }
        known = {number: stamp for number, stamp in stamps.items() if stamp is not None}
        timed = instants(files, known, enabled)
        return [(instant, lines[instant.version]) for instant in timed if instant.version in lines]

    def _in_commit_timestamps(self, files: Sequence[tuple[int, FileInfo]]) -> list[tuple[int, int]]:
        read = ((version, commit_timestamp(lines)) for version, lines in self._read_commits(files))
        return [(version, stamp) for version, stamp in read if stamp is not None]

    def _stamp_of(self, version: int) -> int | None:
        try:
            lines = decode_commit(self.storage.read(commit_path(version)), self.storage.url, commit_path(version))
        except FileNotFoundError:
            return None
        return commit_timestamp(lines)

    def _last_stamp(self, state: DeltaState) -> int:
        written = state.reconciled.in_commit_timestamp or self._stamp_of(state.instant.version)
        return max(written or 0, state.instant.timestamp)


def _still_there(state: DeltaState, listing: Listing) -> bool:
    """Whether a state rests on files that are in the log."""
    known, below = state.instant.version, state.reconciled.checkpoint_version
    if below >= 0 and not any(one.version == below for one in listing.checkpoints):
        return False
    # Another file in the place of the newest commit means that the table was removed and made anew.
    return listing.latest_version >= known and dict(listing.commits).get(known, state.told_by) == state.told_by


def _now() -> int:
    return time.time_ns() // 1_000_000
