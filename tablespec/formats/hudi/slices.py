"""Files of a table, put together into the slices of its file groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from tablespec.formats.hudi.names import BaseFileName, LogFileName, parse_base_file_name, parse_log_file_name
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import BaseFile, FileGroupId, FileSlice, LogFile
from tablespec.storage.store import FileInfo


@attrs.frozen
class GroupFile:
    """A base or log file, and what its name says."""

    group: FileGroupId
    file: FileInfo
    name: BaseFileName | LogFileName


def group_files(files: Iterable[FileInfo]) -> Iterator[GroupFile]:
    """The base and log files, in the order given; files that hold changes and all others do not count."""
    for file in files:
        partition, _, name = file.path.rpartition("/")
        parsed = parse_base_file_name(name) or parse_log_file_name(name)
        if parsed is not None and not (isinstance(parsed, LogFileName) and parsed.is_cdc):
            yield GroupFile(FileGroupId(partition, parsed.file_id), file, parsed)


def slices_at(
    files: Iterable[GroupFile], visibility: Visibility, replaced: frozenset[FileGroupId]
) -> tuple[FileSlice, ...]:
    """The newest visible slice of each file group that no replace commit has taken away; files come in path order."""
    groups: dict[FileGroupId, tuple[list[GroupFile], list[GroupFile]]] = {}
    for found in files:
        if found.group not in replaced and visibility.sees_file(found.name):
            groups.setdefault(found.group, ([], []))[isinstance(found.name, LogFileName)].append(found)
    slices = (_newest_slice(group, bases, logs, visibility) for group, (bases, logs) in groups.items())
    return tuple(slice_ for slice_ in slices if slice_.base is not None or slice_.logs)


def _newest_slice(
    group: FileGroupId, bases: Sequence[GroupFile], logs: Sequence[GroupFile], visibility: Visibility
) -> FileSlice:
    # Paths come in order, so of two attempts at the same file the later name wins every time.
    newest = max(reversed(bases), key=lambda one: one.name.instant) if bases else None
    if newest is None:
        return logged_slice(group, None, None, logs, visibility)
    file = newest.file
    base = BaseFile(path=file.path, logged_as=file.path, size=file.size, modified=file.modified)
    return logged_slice(group, newest.name.instant, base, logs, visibility)


def logged_slice(
    group: FileGroupId,
    instant: int | None,
    base: BaseFile | None,
    logs: Sequence[GroupFile],
    visibility: Visibility,
    values: tuple[object, ...] = (),
) -> FileSlice:
    """The base file of an instant, where there is one, with the logs that were written since; a log of an older base is left out."""
    since = -1 if instant is None else instant
    names = [(log.name, log.file) for log in logs if isinstance(log.name, LogFileName)]
    # Logs are merged in the order of requests, whenever they were completed.
    current = sorted(
        ((name, file) for name, file in names if visibility.completion(name.instant) >= since),
        key=lambda one: (one[0].instant, one[0].version, one[0].write_token),
    )
    return FileSlice(
        group=group,
        instant=min((name.instant for name, _ in current), default=-1) if instant is None else instant,
        base=base,
        logs=tuple(
            LogFile(path=file.path, size=file.size, instant=name.instant, version=name.version)
            for name, file in current
        ),
        partition_values=values,
    )


def lost_groups(
    removed: Iterable[tuple[FileGroupId, int]], slices: Iterable[FileSlice], replaced: frozenset[FileGroupId], at: int
) -> frozenset[FileGroupId]:
    """The file groups whose slice at a request time was removed by the cleaner."""
    current: Mapping[FileGroupId, int] = {slice_.group: slice_.instant for slice_ in slices}
    return frozenset(
        group for group, instant in removed if group not in replaced and current.get(group, -1) < instant <= at
    )
