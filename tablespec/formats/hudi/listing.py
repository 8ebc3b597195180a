"""The files of a table, and the current slices of those partitions that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.file_columns import FileColumns
from tablespec.formats.hudi.key_generator import KeyGenerator, partition_values
from tablespec.formats.hudi.name_columns import NameColumns, taken_apart
from tablespec.formats.hudi.schema_history import SchemaHistory
from tablespec.formats.hudi.slices import GroupFile, group_files, logged_slice
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.bulk import made, made_in_bulk
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
        return tuple(chain.from_iterable(self.slices_in([path for path, _ in self.values])))

    @cached_property
    def found(self) -> tuple[GroupFile, ...]:
        """The base and log files of all times, in path order."""
        rows = pa.concat_arrays([self.names.bases, self.names.logs])
        with made_in_bulk():
            return tuple(group_files(self.files.take(rows).infos()))

    def slices_in(self, partitions: Sequence[str]) -> list[tuple[FileSlice, ...]]:
        """The current slices of each of these partitions: those with logs, then those of a base file alone, by their groups."""
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
        bases, logs = self._bases(wanted, values), self._logs(wanted)
        for path in partitions:
            found, of_groups = bases.get(path, []), logs.get(path, {})
            if of_groups or path in gone:
                newest = {slice_.group.id: slice_ for slice_ in found}
                for id_ in gone.get(path, ()):
                    newest.pop(id_, None)
                    of_groups.pop(id_, None)
                found = [*self._logged(path, values[path], newest, of_groups), *newest.values()]
            yield path, found

    def _bases(
        self, wanted: frozenset[str] | None, values: Mapping[str, tuple[object, ...]]
    ) -> dict[str, list[FileSlice]]:
        """The newest visible base file of each group as a slice, by the wanted partitions, which are all unless they are given."""
        instants = [instant for instant, _ in self.names.endings]
        seen = pa.array([self.visibility.sees(instant) for instant in instants], pa.bool_())
        chosen = pc.and_(seen.take(self.names.numbers), self._is_wanted(self.names.bases, wanted))
        columns = (self.names.bases, self.names.file_ids, self.names.numbers)
        rows, groups, numbers = (column.filter(chosen) for column in columns)
        visible = self.files if len(rows) == len(self.files.names) else self.files.take(rows)
        newest = _newest(visible, groups, _ranks(instants).take(numbers))
        files = visible.take(newest)
        slices = _slices(
            files,
            groups.take(newest).to_pylist(),
            list(map(instants.__getitem__, numbers.take(newest).to_pylist())),
            values,
        )
        return {path: slices[start:stop] for path, (start, stop) in _places(files).items()}

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
        newest: dict[str, FileSlice],
        logs: Mapping[str, Sequence[GroupFile]],
    ) -> Iterator[FileSlice]:
        """The slices of the groups that have logs, whose base files alone are taken out of `newest`."""
        for id_, of_group in logs.items():
            alone = newest.pop(id_, None)
            if alone is None:
                yield logged_slice(FileGroupId(path, id_), None, None, of_group, self.visibility, values)
            else:
                yield logged_slice(alone.group, alone.instant, alone.base, of_group, self.visibility, values)

    def _renamed(self, slice_: FileSlice) -> FileSlice:
        names = self.schema_history.stored_names(self.version, slice_.instant)
        return attrs.evolve(slice_, stored_names=names)


def _newest(files: FileColumns, groups: pa.StringArray, ranks: pa.Int32Array) -> pa.UInt64Array:
    """Which of these files are the newest of their groups, by folder and group."""
    # Of two attempts at the same file the later name counts.
    keys = pa.record_batch([files.numbers, groups, ranks, files.names], ["folder", "group", "instant", "name"])
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.schema.names])
    folders, ids = files.numbers.take(order), groups.take(order)
    is_older = pc.and_(_goes_on(folders), _goes_on(ids))
    return order.filter(pc.invert(is_older)) if pc.any(is_older, min_count=0).as_py() else order


def _goes_on(column: pa.Array) -> pa.BooleanArray:
    """Whether the following value is the same."""
    same = pc.equal(column.slice(0, max(0, len(column) - 1)), column.slice(1))
    return pa.concat_arrays([same, pa.array([False][: len(column)], pa.bool_())])


def _ranks(instants: Sequence[int]) -> pa.Int32Array:
    """The places of instants in their order; they themselves may be too large for a column."""
    places = {instant: place for place, instant in enumerate(sorted(instants))}
    return pa.array([places[instant] for instant in instants], pa.int32())


def _slices(
    files: FileColumns, groups: list[str], instants: list[int], values: Mapping[str, tuple[object, ...]]
) -> list[FileSlice]:
    """The slices of groups that are a base file alone."""
    folders = list(map(files.folders.__getitem__, files.numbers.to_pylist()))
    paths = files.paths()
    return made(
        FileSlice,
        group=made(FileGroupId, partition=folders, id=groups),
        instant=instants,
        base=made(
            BaseFile, path=paths, logged_as=paths, size=files.sizes.to_pylist(), modified=files.modified.to_pylist()
        ),
        partition_values=list(map(values.__getitem__, folders)),
    )


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
    told = zip(generator.fields, partition_values(generator, schema, paths))
    known = {field.name: values for field, values in told if values is not None}
    return Listing(
        files=files,
        names=names,
        constants=tuple(known),
        values=tuple(zip(paths, zip(*known.values()) if known else repeat(()))),
        visibility=visibility,
        replaced=replaced,
        version=version,
        schema_history=schema_history,
    )
