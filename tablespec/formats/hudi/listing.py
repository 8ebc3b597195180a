"""The files of a table, and the current slices of those partitions that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.file_columns import FileColumns
from tablespec.formats.hudi.key_generator import KeyGenerator, Known, partition_values
from tablespec.formats.hudi.name_columns import NameColumns, taken_apart
from tablespec.formats.hudi.schema_history import SchemaHistory
from tablespec.formats.hudi.slices import GroupFile, group_files, logged_slice
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.bulk import made_in_bulk
from tablespec.model.file import BaseFile, FileGroupId, FileSlice
from tablespec.model.schema import Schema


@attrs.frozen(kw_only=True)
class Listing:
    """The files of all times, and what is current of them at `version`.

    The `partition_values` of slices belong to the columns in `constants`; `values` are those of every partition path of the
    table, in path order. Files stay columns until somebody asks for the slices of their partition.
    """

    files: FileColumns
    names: NameColumns
    constants: tuple[str, ...]
    values: tuple[tuple[str, tuple[object, ...]], ...]
    visibility: Visibility
    replaced: frozenset[FileGroupId]
    version: int
    schema_history: SchemaHistory
    _made: dict[str, tuple[FileSlice, ...]] = attrs.field(factory=dict, init=False, repr=False, eq=False)

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """All current slices, partition by partition."""
        return tuple(slice_ for found in self.slices_in([path for path, _ in self.values]) for slice_ in found)

    @cached_property
    def found(self) -> tuple[GroupFile, ...]:
        """The base and log files of all times, in path order."""
        rows = pa.concat_arrays([self.names.bases, self.names.logs])
        with made_in_bulk():
            return tuple(group_files(self.files.take(rows).infos()))

    def slices_in(self, partitions: Sequence[str]) -> list[tuple[FileSlice, ...]]:
        """The current slices of each of these partitions, in the order of their first files."""
        missing = [path for path in partitions if path not in self._made]
        if missing:
            with made_in_bulk():
                for path, slices in self._current(missing):
                    self._made[path] = tuple(map(self._renamed, slices) if self.schema_history.versions else slices)
        return [self._made[path] for path in partitions]

    def _current(self, partitions: Sequence[str]) -> Iterator[tuple[str, Sequence[FileSlice]]]:
        values = dict(self.values)
        gone: dict[str, list[str]] = {}
        for group in self.replaced:
            gone.setdefault(group.partition, []).append(group.id)
        wanted = None if len(partitions) == len(values) else frozenset(partitions)
        bases, logs = self._bases(wanted), self._logs(wanted)
        for path in partitions:
            newest, of_groups = bases.newest_in(path), logs.get(path, {})
            for id_ in gone.get(path, ()):
                newest.pop(id_, None)
                of_groups.pop(id_, None)
            logged = list(self._logged(path, values[path], newest, bases, of_groups)) if of_groups else []
            yield path, logged + bases.slices(path, values[path], newest)

    def _bases(self, wanted: frozenset[str] | None) -> _BaseFiles:
        """The visible base files of the wanted partitions, which are all unless they are given."""
        instants = [instant for instant, _ in self.names.endings]
        seen = pa.array([self.visibility.sees(instant) for instant in instants], pa.bool_())
        chosen = pc.and_(seen.take(self.names.numbers), self._is_wanted(self.names.bases, wanted))
        files = self.files.take(self.names.bases.filter(chosen))
        return _BaseFiles(
            places=_places(files),
            names=files.names.to_pylist(),
            sizes=files.sizes.to_pylist(),
            modified=files.modified.to_pylist(),
            groups=self.names.file_ids.filter(chosen).to_pylist(),
            instants=[instants[number] for number in self.names.numbers.filter(chosen).to_pylist()],
        )

    def _logs(self, wanted: frozenset[str] | None) -> dict[str, dict[str, list[GroupFile]]]:
        """The visible logs of the wanted partitions, by partition and group."""
        found: dict[str, dict[str, list[GroupFile]]] = {}
        rows = self.names.logs.filter(self._is_wanted(self.names.logs, wanted))
        for log in group_files(self.files.take(rows).infos() if len(rows) else ()):
            if self.visibility.sees_file(log.name):
                found.setdefault(log.group.partition, {}).setdefault(log.group.id, []).append(log)
        return found

    def _is_wanted(self, rows: pa.Int64Array, wanted: frozenset[str] | None) -> pa.BooleanArray:
        if wanted is None:
            return pa.repeat(True, len(rows))
        numbers = [number for number, path in enumerate(self.files.folders) if path in wanted]
        return pc.is_in(self.files.numbers.take(rows), pa.array(numbers, pa.int32()))

    def _logged(
        self,
        path: str,
        values: tuple[object, ...],
        newest: dict[str, int],
        bases: _BaseFiles,
        logs: Mapping[str, Sequence[GroupFile]],
    ) -> Iterator[FileSlice]:
        """The slices of the groups that have logs, which are taken out of `newest`."""
        for id_, of_group in logs.items():
            group = FileGroupId(path, id_)
            row = newest.pop(id_, None)
            if row is None:
                yield logged_slice(group, None, None, of_group, self.visibility, values)
            else:
                base = bases.base_file(path, row)
                yield logged_slice(group, bases.instants[row], base, of_group, self.visibility, values)

    def _renamed(self, slice_: FileSlice) -> FileSlice:
        names = self.schema_history.stored_names(self.version, slice_.instant)
        return attrs.evolve(slice_, stored_names=names)


@attrs.frozen(eq=False, kw_only=True)
class _BaseFiles:
    """Base files as lists, and between which places those of a folder stand."""

    places: dict[str, tuple[int, int]]
    names: list[str]
    sizes: list[int]
    modified: list[int]
    groups: list[str]
    instants: list[int]

    def newest_in(self, path: str) -> dict[str, int]:
        """Where the newest base file of each group of a folder stands, in path order."""
        start, stop = self.places.get(path, (0, 0))
        rows = sorted(range(start, stop), key=self.names.__getitem__)
        found = {self.groups[row]: row for row in rows}
        if len(found) < len(rows):
            # Of two attempts at the same file the later name counts.
            found = {self.groups[row]: row for row in sorted(rows, key=self.instants.__getitem__)}
            return dict(sorted(found.items(), key=lambda one: self.names[one[1]]))
        return found

    def base_file(self, path: str, row: int) -> BaseFile:
        """The file that stands at a place, in its folder."""
        whole = f"{path}/{self.names[row]}" if path else self.names[row]
        return BaseFile(path=whole, logged_as=whole, size=self.sizes[row], modified=self.modified[row])

    def slices(self, path: str, values: tuple[object, ...], newest: Mapping[str, int]) -> list[FileSlice]:
        """The slices of groups that are a base file alone, in path order."""
        # There may be a million, so that nothing is called or looked up for each that need not be.
        names, sizes, modified, instants = self.names, self.sizes, self.modified, self.instants
        prefix = f"{path}/" if path else ""
        return [
            FileSlice(
                group=FileGroupId(path, group),
                instant=instants[row],
                base=BaseFile(
                    path=(whole := prefix + names[row]), logged_as=whole, size=sizes[row], modified=modified[row]
                ),
                partition_values=values,
            )
            for group, row in newest.items()
        ]


def _places(files: FileColumns) -> dict[str, tuple[int, int]]:
    runs = pc.run_end_encode(files.numbers)
    stops = runs.run_ends.to_pylist()
    paths = [files.folders[number] for number in runs.values.to_pylist()]
    return dict(zip(paths, zip([0, *stops], stops)))


def listing_of(
    files: FileColumns,
    generator: KeyGenerator,
    schema: Schema,
    visibility: Visibility,
    *,
    replaced: frozenset[FileGroupId] = frozenset(),
    version: int = 0,
    schema_history: SchemaHistory = SchemaHistory(),
) -> Listing:
    """These files with the partition values that their paths tell.

    A column counts as constant only when the path of every partition tells its value; otherwise it is read from the files,
    which have it too. Folders without base and log files are no partitions.
    """
    names = taken_apart(files.names)
    numbers = pc.unique(files.numbers.take(pa.concat_arrays([names.bases, names.logs]))).to_pylist()
    paths = sorted((files.folders[number] for number in numbers), key=lambda path: f"{path}/")
    told = partition_values(generator, schema, paths)
    known = [index for index in range(len(generator.fields)) if all(values[index] is not None for values in told)]
    return Listing(
        files=files,
        names=names,
        constants=tuple(generator.fields[index].name for index in known),
        values=tuple((path, _picked(values, known)) for path, values in zip(paths, told)),
        visibility=visibility,
        replaced=replaced,
        version=version,
        schema_history=schema_history,
    )


def _picked(values: tuple[Known | None, ...], indexes: list[int]) -> tuple[object, ...]:
    chosen = (values[index] for index in indexes)
    return tuple(known.value for known in chosen if known is not None)
