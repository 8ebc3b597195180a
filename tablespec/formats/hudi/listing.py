"""Files of a table, put together into the slices of its file groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from tablespec.formats.hudi.key_generator import KeyGenerator, Known, partition_values
from tablespec.formats.hudi.names import parse_base_file_name
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import BaseFile, FileGroupId, FileSlice
from tablespec.model.schema import Schema
from tablespec.storage.store import FileInfo, Storage

# Sorts after every path below .hoodie and before everything else that begins with its name.
_AFTER_METADATA = ".hoodie/\U0010ffff"


@attrs.frozen
class Listing:
    """The current slices of a state; their `partition_values` belong to the columns in `constants`."""

    constants: tuple[str, ...]
    slices: tuple[FileSlice, ...]


def data_files(storage: Storage) -> Iterator[FileInfo]:
    """All files of the table outside of .hoodie, in path order."""
    for file in storage.list():
        if file.path > ".hoodie/":
            break
        yield file
    yield from storage.list(after=_AFTER_METADATA)


def base_slices(files: Iterable[FileInfo]) -> Iterator[FileSlice]:
    """A slice of its own for each base file; other files do not count."""
    for file in files:
        partition, _, name = file.path.rpartition("/")
        if (parsed := parse_base_file_name(name)) is not None:
            base = BaseFile(path=file.path, logged_as=file.path, size=file.size, modified=file.modified)
            yield FileSlice(group=FileGroupId(partition, parsed.file_id), instant=parsed.instant, base=base)


def slices_at(
    slices: Iterable[FileSlice], visibility: Visibility, replaced: frozenset[FileGroupId]
) -> tuple[FileSlice, ...]:
    """The newest visible slice of each file group that no replace commit has taken away."""
    newest: dict[FileGroupId, FileSlice] = {}
    for slice_ in slices:
        if slice_.group in replaced or not visibility.sees(slice_.instant):
            continue
        older = newest.get(slice_.group)
        # Paths come in order, so of two attempts at the same file the later name wins every time.
        if older is None or older.instant <= slice_.instant:
            newest[slice_.group] = slice_
    return tuple(newest.values())


def with_partition_values(slices: tuple[FileSlice, ...], generator: KeyGenerator, schema: Schema) -> Listing:
    """The slices with the partition values that their paths tell.

    A column counts as constant only when every path tells its value; otherwise it is read from the files, which have
    it too.
    """
    paths = dict.fromkeys(slice_.group.partition for slice_ in slices)
    told = {path: partition_values(generator, schema, path) for path in paths}
    indexes = range(len(generator.fields))
    known = [index for index in indexes if all(values[index] is not None for values in told.values())]
    constants = {path: _picked(values, known) for path, values in told.items()}
    return Listing(
        tuple(generator.fields[index].name for index in known),
        tuple(attrs.evolve(slice_, partition_values=constants[slice_.group.partition]) for slice_ in slices),
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
