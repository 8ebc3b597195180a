"""Making a table what it was at an earlier instant, by a new commit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import attrs

from tablespec.errors import DataFileMissingError, TypeMismatchError, UnsupportedTableError
from tablespec.expr.nodes import TRUE
from tablespec.formats.base import Change, LiveFile, NewFile, ReadsWhere, TableFormat, TableState
from tablespec.formats.maintenance import Definition, MaintainableFormat
from tablespec.maintain.rewrite import maintainable
from tablespec.maintain.rewrite_target import logged_path
from tablespec.model.change import SliceChange
from tablespec.model.file import DeletionVector
from tablespec.model.instant import Instant
from tablespec.read.file_index import At, state_at
from tablespec.storage.store import Storage
from tablespec.txn.transaction import Retries, new_operation_id
from tablespec.write.append import commit_files, discard
from tablespec.write.change_file import record
from tablespec.write.change_target import ChangeTarget
from tablespec.write.check import constraints
from tablespec.write.row_change import CHANGE_FEED
from tablespec.write.runner import Runner, Threads, gathered

TASK_FILES = 100


@attrs.frozen(kw_only=True)
class RestoreResult:
    """What a restore did; `instant` is None when the table was as it had been then."""

    instant: Instant | None
    version: int
    files_removed: int = 0
    files_restored: int = 0
    bytes_removed: int = 0
    bytes_restored: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def metrics(self) -> tuple[tuple[str, int], ...]:
        """The counts under the names that commits record."""
        return (
            ("numRestoredFiles", self.files_restored),
            ("numRemovedFiles", self.files_removed),
            ("restoredFilesSize", self.bytes_restored),
            ("removedFilesSize", self.bytes_removed),
            ("numOfFilesAfterRestore", self.files),
            ("tableSizeAfterRestore", self.bytes),
        )


@attrs.frozen
class Difference:
    """The files that must go and those that must come back."""

    going: tuple[LiveFile, ...]
    coming: tuple[LiveFile, ...]


@attrs.frozen
class LookTask:
    """Files that must be there."""

    storage: Storage
    paths: tuple[str, ...]


def restore(format_: TableFormat, at: At, *, runner: Runner = Threads(), retries: Retries = Retries()) -> RestoreResult:
    """Make the table what it was at `at`: its rows with their ids, its columns, and its properties.

    The protocol stays, and so do properties by which files are read. A file that is needed and gone raises DataFileMissingError.
    """
    target = maintainable(format_, "restore")
    state = target.latest()
    target.check_writable(state, "restore")
    then = state_at(target, at)
    wanted = target.live_files(then, TRUE)
    difference = plan(target.live_files(state, TRUE), wanted)
    definition = target.definition_of(then, state)
    result = _result(then, difference, wanted)
    if not difference.going and not difference.coming and _is_defined(state, definition):
        return result
    _require(target.storage, difference.coming, runner)
    definition, told = _told(target, state, then, definition, difference, runner)
    change = Change(
        operation="RESTORE",
        parameters=(("version", str(then.instant.version)),),
        metrics=result.metrics,
        removes=tuple(file.origin for file in difference.going),
        restored=tuple(file.origin for file in difference.coming),
        change_files=told,
        touched=frozenset(logged_path(file.slice) for file in (*difference.going, *difference.coming)),
        schema=definition.schema,
        properties=definition.properties,
        partition_columns=definition.partition_columns,
        reads=ReadsWhere(TRUE),
        operation_id=new_operation_id(),
    )
    return attrs.evolve(result, instant=commit_files(target, change, state, retries))


def plan(now: Sequence[LiveFile], then: Sequence[LiveFile]) -> Difference:
    """What tells two states apart: a file with other deleted rows is another file."""
    have, wanted = {_key(file) for file in now}, {_key(file) for file in then}
    return Difference(
        going=tuple(file for file in now if _key(file) not in wanted),
        coming=tuple(file for file in then if _key(file) not in have),
    )


def _told(
    format_: MaintainableFormat,
    state: TableState,
    then: TableState,
    definition: Definition,
    difference: Difference,
    runner: Runner,
) -> tuple[Definition, tuple[NewFile, ...]]:
    """The definition that the table gets, and the change files of the restore where readers of a change feed need some."""
    before, after = (dict(one.properties).get(CHANGE_FEED) for one in (state, definition))
    changes = _changes(difference)
    wholly = [change for change in changes if change.before is None or change.after is None]
    if "true" not in (before, after) or all(change.slice.deletes is None for change in wholly):
        return definition, ()
    told = _change_files(format_, state, then, changes, runner)
    if not isinstance(told, UnsupportedTableError):
        return definition, told
    if before == "true":
        raise told
    # The commit that turns the feed on is part of it, and nobody could read this one rightly.
    return _without_feed(definition), ()


def _change_files(
    format_: MaintainableFormat, state: TableState, then: TableState, changes: Sequence[SliceChange], runner: Runner
) -> tuple[NewFile, ...] | UnsupportedTableError:
    """Change files for what went and came, or why there cannot be any."""
    url = format_.storage.url
    if not _reads_alike(state, then):
        return _untold(url, then, "partition columns or a mapping of columns")
    target = ChangeTarget(
        storage=format_.storage,
        read=then.layout,
        codec=then.codec,
        write=format_.write_layout(state, then.schema),
        rules=constraints(url, then.schema, ()),
        change_feed=True,
    )
    recorded = record(target, changes, runner)
    try:
        written = gathered(recorded, lambda found: discard(format_, tuple(chain.from_iterable(found))))
    except TypeMismatchError as error:
        return _untold(url, then, f"types (column {error.column})")
    return tuple(chain.from_iterable(written))


def _without_feed(definition: Definition) -> Definition:
    others = [(name, value) for name, value in definition.properties if name != CHANGE_FEED]
    return attrs.evolve(definition, properties=tuple(sorted((*others, (CHANGE_FEED, "false")))))


def _untold(url: str, then: TableState, other: str) -> UnsupportedTableError:
    """The rows that go cannot all be told in the columns of then, and without being told they would be misread."""
    feature = f"a change feed, which cannot tell of a restore to the other {other} of version {then.instant.version}"
    return UnsupportedTableError(url, feature, f"set {CHANGE_FEED} to false and restore then")


def _changes(difference: Difference) -> list[SliceChange]:
    going = {logged_path(file.slice): file.slice for file in difference.going}
    coming = {logged_path(file.slice): file.slice for file in difference.coming}
    return [SliceChange(going.get(path), coming.get(path)) for path in {**going, **coming}]


def _reads_alike(now: TableState, then: TableState) -> bool:
    """Whether files of the one state can be read in the columns of the other, as far as their values fit."""
    return now.partition_columns == then.partition_columns and now.layout.by_field_id == then.layout.by_field_id


def missing(task: LookTask) -> str | None:
    """The first file that is not there; on a worker."""
    return next((path for path in task.paths if task.storage.head(path) is None), None)


def _key(file: LiveFile) -> tuple[str, DeletionVector | None]:
    return logged_path(file.slice), file.slice.deletes


def _require(storage: Storage, files: Sequence[LiveFile], runner: Runner) -> None:
    slices = [file.slice for file in files]
    data = [slice_.base.path for slice_ in slices if slice_.base is not None]
    vectors = [slice_.deletes.path for slice_ in slices if slice_.deletes is not None and slice_.deletes.path]
    paths = tuple(dict.fromkeys((*data, *vectors)))
    tasks = [LookTask(storage, paths[start : start + TASK_FILES]) for start in range(0, len(paths), TASK_FILES)]
    for path in runner.run(missing, tasks):
        if path is not None:
            raise DataFileMissingError(storage.url, path)


def _is_defined(state: TableState, definition: Definition) -> bool:
    same = (state.schema, state.partition_columns) == (definition.schema, definition.partition_columns)
    return same and dict(state.properties) == dict(definition.properties)


def _result(then: TableState, difference: Difference, wanted: Sequence[LiveFile]) -> RestoreResult:
    return RestoreResult(
        instant=None,
        version=then.instant.version,
        files_removed=len(difference.going),
        files_restored=len(difference.coming),
        bytes_removed=sum(file.slice.size for file in difference.going),
        bytes_restored=sum(file.slice.size for file in difference.coming),
        files=len(wanted),
        bytes=sum(file.slice.size for file in wanted),
    )
