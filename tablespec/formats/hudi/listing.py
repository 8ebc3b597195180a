"""Files of a table, put together into the slices of its file groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tablespec.formats.hudi.key_generator import KeyGenerator, Known, partition_values
from tablespec.formats.hudi.names import BaseFileName, LogFileName, parse_base_file_name, parse_log_file_name
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import BaseFile, FileGroupId, FileSlice, LogFile
from tablespec.model.schema import Schema
from tablespec.storage.store import FileInfo, Storage

# Sorts after every path below .hoodie and before everything else that begins with its name.
_AFTER_METADATA = ".hoodie/\U0010ffff"


@attrs.frozen
class Listing:
    """The current slices of a state; their `partition_values` belong to the columns in `constants`.

    `values` are those of every partition path of the table.
    """

    constants: tuple[str, ...]
    slices: tuple[FileSlice, ...]
    values: tuple[tuple[str, tuple[object, ...]], ...] = ()


def data_files(storage: Storage) -> Iterator[FileInfo]:
    """All files of the table outside of .hoodie, in path order."""
    for file in storage.list():
        if file.path > ".hoodie/":
            break
        yield file
    yield from storage.list(after=_AFTER_METADATA)


@attrs.frozen
class GroupFile:
    """A base or log file, and what its name says."""

    group: FileGroupId
    file: FileInfo
    name: BaseFileName | LogFileName


def group_files(files: Iterable[FileInfo]) -> Iterator[GroupFile]:
    """The base and log files, in path order; files that hold changes and all others do not count."""
    for file in files:
        partition, _, name = file.path.rpartition("/")
        parsed = parse_base_file_name(name) or parse_log_file_name(name)
        if parsed is not None and not (isinstance(parsed, LogFileName) and parsed.is_cdc):
            yield GroupFile(FileGroupId(partition, parsed.file_id), file, parsed)


def slices_at(
    files: Iterable[GroupFile], visibility: Visibility, replaced: frozenset[FileGroupId]
) -> tuple[FileSlice, ...]:
    """The newest visible slice of each file group that no replace commit has taken away."""
    # There may be a million files: each group is looked up once for a file.
    groups: dict[FileGroupId, tuple[list[GroupFile], list[GroupFile]]] = {}
    for found in files:
        if visibility.sees_file(found.name):
            groups.setdefault(found.group, ([], []))[isinstance(found.name, LogFileName)].append(found)
    for group in replaced:
        groups.pop(group, None)
    slices = (_slice(group, _newest(bases), logs, visibility) for group, (bases, logs) in groups.items())
    return tuple(slice_ for slice_ in slices if slice_.base is not None or slice_.logs)


def _newest(bases: Sequence[GroupFile]) -> GroupFile | None:
    # Paths come in order, so of two attempts at the same file the later name wins every time.
    return max(reversed(bases), key=lambda one: one.name.instant) if len(bases) > 1 else next(iter(bases), None)


def _slice(group: FileGroupId, base: GroupFile | None, logs: Sequence[GroupFile], visibility: Visibility) -> FileSlice:
    """The base file with the logs that were written since; a log of an older base is left out."""
    if base is not None and not logs:
        return FileSlice(group=group, instant=base.name.instant, base=_base_file(base.file))
    since = base.name.instant if base is not None else -1
    names = [(log.name, log.file) for log in logs if isinstance(log.name, LogFileName)]
    # Logs are merged in the order of requests, whenever they were completed.
    current = sorted(
        ((name, file) for name, file in names if visibility.completion(name.instant) >= since),
        key=lambda one: (one[0].instant, one[0].version, one[0].write_token),
    )
    return FileSlice(
        group=group,
        instant=base.name.instant if base is not None else min((name.instant for name, _ in current), default=-1),
        base=None if base is None else _base_file(base.file),
        logs=tuple(
            LogFile(path=file.path, size=file.size, instant=name.instant, version=name.version)
            for name, file in current
        ),
    )


def _base_file(file: FileInfo) -> BaseFile:
    return BaseFile(path=file.path, logged_as=file.path, size=file.size, modified=file.modified)


def with_partition_values(
    slices: tuple[FileSlice, ...], generator: KeyGenerator, schema: Schema, partitions: Iterable[str] = ()
) -> Listing:
    """The slices with the partition values that their paths tell.

    A column counts as constant only when every path, of the slices and of other `partitions`, tells its value;
    otherwise it is read from the files, which have it too.
    """
    paths = dict.fromkeys((*(slice_.group.partition for slice_ in slices), *partitions))
    told = {path: partition_values(generator, schema, path) for path in paths}
    indexes = range(len(generator.fields))
    known = [index for index in indexes if all(values[index] is not None for values in told.values())]
    constants = {path: _picked(values, known) for path, values in told.items()}
    return Listing(
        tuple(generator.fields[index].name for index in known),
        tuple(_placed(slice_, constants[slice_.group.partition]) for slice_ in slices) if known else slices,
        tuple(constants.items()),
    )


def _placed(slice_: FileSlice, values: tuple[object, ...]) -> FileSlice:
    # There may be a million, and `evolve` looks at every field by name.
    return FileSlice(
        group=slice_.group,
        instant=slice_.instant,
        base=slice_.base,
        logs=slice_.logs,
        partition_values=values,
        stored_names=slice_.stored_names,
    )


def lost_groups(
    removed: Iterable[tuple[FileGroupId, int]], slices: Iterable[FileSlice], replaced: frozenset[FileGroupId], at: int
) -> frozenset[FileGroupId]:
    """The file groups whose slice at a request time was removed by the cleaner."""
    current: Mapping[FileGroupId, int] = {slice_.group: slice_.instant for slice_ in slices}
    return frozenset(
        group for group, instant in removed if group not in replaced and current.get(group, -1) < instant <= at
    )


def _picked(values: tuple[Known | None, ...], indexes: list[int]) -> tuple[object, ...]:
    chosen = (values[index] for index in indexes)
    return tuple(known.value for known in chosen if known is not None)
