"""What the commits of a Delta table did to its rows: the change files they name, or the files that came, went or lost rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import msgspec

from tablespec.errors import ChangesGoneError, UnsupportedTableError
from tablespec.expr.nodes import TRUE, Predicate
from tablespec.formats.delta.actions import AddAction, CdcAction, Line, MetadataAction, RemoveAction, file_key
from tablespec.formats.delta.adds import TableShape, from_actions, judge, slices_of
from tablespec.formats.delta.history import commit_info, operation_id
from tablespec.formats.delta.row_change import live_files
from tablespec.formats.delta.schema_json import parse_schema
from tablespec.formats.delta.state import MAPPING_MODE, DeltaState
from tablespec.model.change import CommitChanges, ExplicitChanges, Images, InferredChanges, SliceChange
from tablespec.model.file import FileSlice
from tablespec.model.instant import Instant
from tablespec.model.row import ROW_COMMIT_VERSION, ROW_ID
from tablespec.model.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTEGRAL,
    LONG,
    SHORT,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    Schema,
    StructType,
)

CHANGE_FEED = "delta.enableChangeDataFeed"
ROW_TRACKING = "delta.enableRowTracking"
PRESERVED = "delta.rowTracking.preserved"

_ADD = msgspec.json.Decoder(AddAction)

# What a column may have been in older files: they read as what it is now.
_WIDER: dict[DataType, tuple[DataType, ...]] = {
    BYTE: (SHORT, INTEGER, LONG, FLOAT, DOUBLE),
    SHORT: (INTEGER, LONG, FLOAT, DOUBLE),
    INTEGER: (LONG, DOUBLE),
    FLOAT: (DOUBLE,),
    DATE: (TIMESTAMP_NTZ,),
}


@attrs.frozen(kw_only=True)
class LoggedCommit:
    """A commit, with the metadata that it was made under and that it left; None where nothing tells any more what was in force."""

    instant: Instant
    lines: tuple[Line, ...]
    before: MetadataAction | None
    metadata: MetadataAction | None


def needs_past(commits: Iterable[Sequence[Line]], *, partitioned: bool) -> bool:
    """Whether these commits can be understood only with the state before them."""
    for lines in commits:
        if any(line.meta_data is not None for line in lines):
            return True
        if partitioned and any(remove.partition_values is None for remove in _removes(lines)):
            return True
    return False


def logged_commits(
    commits: Sequence[tuple[Instant, Sequence[Line]]], past: DeltaState | None, state: DeltaState
) -> Iterator[LoggedCommit]:
    """The commits that lead up to `state`, each with the metadata that it was made under.

    `past` is the oldest state that is known of those that they begin with and lead to.
    """
    first = next((instant.version for instant, lines in commits if _metadata_of(lines)), None)
    current = state.metadata if first is None else None
    if first is not None and past is not None and past.instant.version < first:
        # Nobody set other properties or columns up to that state, so they were in force all the time.
        current = past.metadata
    for instant, lines in commits:
        before, current = current, _metadata_of(lines) or current
        yield LoggedCommit(instant=instant, lines=tuple(lines), before=before, metadata=current)


def commit_changes(
    commits: Sequence[LoggedCommit], past: DeltaState | None, state: DeltaState, predicate: Predicate
) -> Iterator[CommitChanges]:
    """The changes of each commit that changed rows, seen through the schema of `state`.

    Files that cannot hold a matching row are left out, unless their rows may be images of rows in other files. Raises
    ChangesGoneError where the log does not tell any more what a commit was made under or where the rows lay that it removed.
    """
    known = _adds_known(commits, past) if state.partition_columns else {}
    _check_all_told(commits, past, state, known)
    _check_all_readable(commits, state)
    for commit in commits:
        if any(line.cdc is not None for line in commit.lines):
            explicit = _explicit(commit, state, predicate)
            if explicit.files:
                yield explicit
        else:
            inferred = _inferred(commit, state, predicate, known)
            if inferred.slices:
                yield inferred


def _check_all_told(
    commits: Sequence[LoggedCommit], past: DeltaState | None, state: DeltaState, known: Mapping[str, AddAction]
) -> None:
    untold = [commit.instant.version for commit in commits if _is_untold(commit)]
    why = "the properties and columns that it was made under are not in the log any more"
    start = commits[0].instant.version if commits else 0
    complete = start == 0 or (past is not None and past.instant.version < start)
    if not untold and state.partition_columns and not complete:
        untold = [commit.instant.version for commit in commits if _lost_partitions(commit, known)]
        why = "the partitions of files that it removed are not in the log any more"
    if untold:
        left = untold[-1] if untold[-1] < state.instant.version else None
        raise ChangesGoneError(state.storage.url, untold[0], why, left)


def _is_untold(commit: LoggedCommit) -> bool:
    """Whether a commit changed rows under, or removed files of, properties and columns that are not known."""
    if commit.before is not None:
        return False
    explicit = any(line.cdc is not None for line in commit.lines)
    came, went = _adds(commit.lines), _removes(commit.lines)
    if commit.metadata is None:
        return bool(explicit or came or went)
    # Files that stay, with other vectors, are those of the new columns too.
    return not explicit and not {one.path for one in went} <= {one.path for one in came}


def _lost_partitions(commit: LoggedCommit, known: Mapping[str, AddAction]) -> bool:
    removes = [remove for remove in _removes(commit.lines) if remove.partition_values is None]
    explicit = any(line.cdc is not None for line in commit.lines)
    return not explicit and any(file_key(remove.path, None) not in known for remove in removes)


def _check_all_readable(commits: Sequence[LoggedCommit], state: DeltaState) -> None:
    seen = [(commit.before, commit.instant.version - 1) for commit in commits[:1]]
    seen += [(commit.metadata, commit.instant.version) for commit in commits]
    shapes = {(one.schema_string, one.partition_columns): (one, at) for one, at in reversed(seen) if one is not None}
    for metadata, version in shapes.values():
        check_readable_as(metadata, state, version)


def _adds_known(commits: Sequence[LoggedCommit], past: DeltaState | None) -> dict[str, AddAction]:
    """The adds of files whose removes do not tell the partition, by path; nothing when all removes do."""
    if not any(remove.partition_values is None for commit in commits for remove in _removes(commit.lines)):
        return {}
    adds = [] if past is None else [_ADD.decode(file.origin) for file in live_files(past, TRUE)]
    adds += [line.add for commit in commits for line in commit.lines if line.add is not None]
    return {file_key(add.path, None): add for add in adds}


def check_readable_as(metadata: MetadataAction, state: DeltaState, version: int) -> None:
    """Raise when files written under older metadata cannot be read by the columns of a state."""
    mapped = metadata.configuration.get(MAPPING_MODE, "none") != "none"
    old = parse_schema(metadata.schema_string, state.storage.url, mapped=mapped)
    way_out = "read the changes before and after that version apart"
    if _stored(old, metadata.partition_columns) != _stored(state.schema, state.partition_columns):
        raise UnsupportedTableError(
            state.storage.url, f"other partition columns in version {version} than at the end of the changes", way_out
        )
    before = {field.stored_name: field.type for field in old}
    for field in state.schema:
        if field.stored_name in before and not _reads_as(before[field.stored_name], field.type):
            kind = before[field.stored_name]
            raise UnsupportedTableError(
                state.storage.url,
                f"the type {kind} for column {field.name} in version {version} and {field.type} at the end",
                way_out,
            )


def removed_as_added(remove: RemoveAction, known: Mapping[str, AddAction]) -> AddAction:
    """The add of a file that goes; removes of old writers lack partition values, which its add has."""
    values = remove.partition_values
    if values is None:
        add = known.get(file_key(remove.path, None))
        values = {} if add is None else add.partition_values
    return AddAction(
        path=remove.path,
        partition_values=values,
        size=remove.size or 0,
        stats=remove.stats,
        tags=remove.tags,
        deletion_vector=remove.deletion_vector,
        base_row_id=remove.base_row_id,
        default_row_commit_version=remove.default_row_commit_version,
    )


def _explicit(commit: LoggedCommit, state: DeltaState, predicate: Predicate) -> ExplicitChanges:
    named = [_of_change_file(line.cdc) for line in commit.lines if line.cdc is not None]
    wanted = zip(_slices(named, state.shape), _may_match(named, predicate, state.shape))
    return ExplicitChanges(commit.instant, tuple(slice_ for slice_, may_match in wanted if slice_ and may_match))


def _inferred(
    commit: LoggedCommit, state: DeltaState, predicate: Predicate, known: Mapping[str, AddAction]
) -> InferredChanges:
    adds = {file_key(add.path, None): add for add in _adds(commit.lines)}
    removes = {file_key(one.path, None): removed_as_added(one, known) for one in _removes(commit.lines)}
    pairs = [(removes.get(path), adds.get(path)) for path in sorted({*removes, *adds})]
    pairs = [(old, new) for old, new in pairs if old is None or new is None or old.key != new.key]
    images = _images(commit, pairs, state)
    if images is not Images.BY_ROW_ID:
        # An image that does not match may be that of a row which does; equal rows match or do not match alike.
        sides = (_may_match([pair[side] for pair in pairs], predicate, state.shape) for side in (0, 1))
        pairs = [pair for pair, *may_match in zip(pairs, *sides) if any(may_match)]
    before, after = (_slices([pair[side] for pair in pairs], state.shape) for side in (0, 1))
    changes = tuple(SliceChange(old, new) for old, new in zip(before, after))
    return InferredChanges(commit.instant, changes, images)


def _images(
    commit: LoggedCommit, pairs: Sequence[tuple[AddAction | None, AddAction | None]], state: DeltaState
) -> Images:
    came = any(old is None or (new is not None and _deleted(new) <= _deleted(old)) for old, new in pairs)
    went = any(new is None or (old is not None and _deleted(old) <= _deleted(new)) for old, new in pairs)
    if not came or not went or _properties(commit).get(CHANGE_FEED) == "true":
        return Images.UNPAIRED
    files = [file for pair in pairs for file in pair if file is not None]
    numbered = all(file.base_row_id is not None and file.default_row_commit_version is not None for file in files)
    hidden = state.layout.hidden
    if numbered and _keeps_row_ids(commit) and ROW_ID in hidden and ROW_COMMIT_VERSION in hidden:
        return Images.BY_ROW_ID
    return Images.BY_VALUE


def _keeps_row_ids(commit: LoggedCommit) -> bool:
    """Whether the writer promises that rows which moved or changed have the ids that they had."""
    tags = commit_info(commit.lines).get("tags")
    preserved = isinstance(tags, dict) and tags.get(PRESERVED) == "true"
    return preserved or _properties(commit).get(ROW_TRACKING) == "true" or bool(operation_id(commit.lines))


def _properties(commit: LoggedCommit) -> Mapping[str, str]:
    return {} if commit.metadata is None else commit.metadata.configuration


def _metadata_of(lines: Iterable[Line]) -> MetadataAction | None:
    return next((line.meta_data for line in lines if line.meta_data is not None), None)


def _adds(lines: Iterable[Line]) -> list[AddAction]:
    """The files that brought rows, and did not only take over those of others."""
    return [line.add for line in lines if line.add is not None and line.add.data_change is not False]


def _removes(lines: Iterable[Line]) -> list[RemoveAction]:
    """The files that took rows away; this leaves out what never was a data file, such as that of vectors nobody needs."""
    return [line.remove for line in lines if line.remove is not None and line.remove.data_change is not False]


def _deleted(file: AddAction) -> int:
    return 0 if file.deletion_vector is None else file.deletion_vector.cardinality


def _of_change_file(action: CdcAction) -> AddAction:
    return AddAction(path=action.path, partition_values=action.partition_values, size=action.size, tags=action.tags)


def _slices(files: Sequence[AddAction | None], shape: TableShape) -> list[FileSlice | None]:
    """The slice of each file; None where there is none."""
    present = [file for file in files if file is not None]
    slices = iter([slice_ for _, slice_ in slices_of(from_actions(present), shape)] if present else [])
    return [None if file is None else next(slices) for file in files]


def _may_match(files: Sequence[AddAction | None], predicate: Predicate, shape: TableShape) -> list[bool]:
    """Whether each file may hold a match; False where there is none."""
    present = [file for file in files if file is not None]
    found = iter(judge(from_actions(present), predicate, shape)[0].to_pylist() if present else [])
    return [file is not None and next(found) for file in files]


def _stored(schema: Schema, columns: tuple[str, ...]) -> set[str]:
    return {schema.field(name).stored_name for name in columns}


def _reads_as(old: DataType, new: DataType) -> bool:
    """Whether values of the one type read as the other without a change of meaning."""
    match old, new:
        case StructType(before), StructType(after):
            types = {field.stored_name: field.type for field in before}
            return all(_reads_as(types[one.stored_name], one.type) for one in after if one.stored_name in types)
        case ArrayType(before), ArrayType(after):
            return _reads_as(before, after)
        case MapType(key, value), MapType(new_key, new_value):
            return _reads_as(key, new_key) and _reads_as(value, new_value)
        case DecimalType(), DecimalType():
            return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case _, DecimalType():
            return old in INTEGRAL
        case _:
            return old == new or new in _WIDER.get(old, ())
