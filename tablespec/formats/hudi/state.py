"""A Hudi table at one instant."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.errors import CorruptFileError, CorruptLogError, TableSpecWarning, UnsupportedTableError
from tablespec.expr.nodes import Predicate
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import JudgedSlice, KeyLocations, Survey
from tablespec.formats.hudi.codec import HudiCodec
from tablespec.formats.hudi.instant_time import instant_texts
from tablespec.formats.hudi.key_generator import key_generator_of, shown_schema
from tablespec.formats.hudi.listing import GroupFile, Listing, data_files, group_files, slices_at, with_partition_values
from tablespec.formats.hudi.metadata_table import RECORD_INDEX, MetadataTable
from tablespec.formats.hudi.names import BaseFileName, is_native_log
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.pruning import without_match
from tablespec.formats.hudi.record_key import spelt_keys
from tablespec.formats.hudi.schema import COMMIT_TIME_COLUMN, META_SCHEMA
from tablespec.formats.hudi.schema_history import SchemaHistory
from tablespec.formats.hudi.timeline import ActiveTimeline, Visibility
from tablespec.formats.layout import ReadLayout
from tablespec.model.change import KeyedChanges, MarkedRows, SliceChange, WrittenRows
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.model.instant import Instant
from tablespec.model.schema import Schema
from tablespec.storage.store import FileInfo, Storage


@attrs.frozen
class HudiFiles:
    """The current slices, judged by the partition values that their paths tell."""

    listing: Listing
    schema: Schema
    metadata: MetadataTable | None = None
    newest: bool = True

    def survey(self) -> Survey:
        """What all of them are."""
        slices = self.listing.slices
        unclean = tuple(slice_ for slice_ in slices if not slice_.is_clean)
        return Survey(bytes=sum(slice_.size for slice_ in slices), unclean=unclean)

    def judge(self, predicate: Predicate) -> Sequence[JudgedSlice]:
        """Every slice that may hold a match, by its partition and by what the metadata table knows of its columns."""
        partitions = tuple(dict.fromkeys(slice_.partition_values for slice_ in self.listing.slices))
        found = dict(zip(partitions, self._verdicts(predicate, partitions)))
        judged = [JudgedSlice(slice_, found[slice_.partition_values]) for slice_ in self.listing.slices]
        unsure = [one.slice for one in judged if one.verdict is Verdict.MAYBE]
        never = frozenset[FileSlice]()
        if self.metadata is not None:
            never = without_match(self.metadata, unsure, self.schema, predicate, newest=self.newest)
        kept = [one for one in judged if one.verdict is not Verdict.NEVER]
        return tuple(one for one in kept if one.slice not in never) if never else tuple(kept)

    def may_match(self, predicate: Predicate) -> Callable[[FileGroupId], bool]:
        """Whether a group of any time lies in a partition that may hold a match."""
        partitions = dict(self.listing.values)
        found = dict(zip(partitions, self._verdicts(predicate, tuple(partitions.values()))))
        return lambda group: found.get(group.partition, Verdict.MAYBE) is not Verdict.NEVER

    def _verdicts(self, predicate: Predicate, partitions: tuple[tuple[object, ...], ...]) -> list[Verdict]:
        one_row = pa.repeat(pa.scalar(1, pa.int64()), len(partitions))

        def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
            if len(path) > 1 or path[0] not in self.listing.constants:
                return None
            index = self.listing.constants.index(path[0])
            values = pa.array([values[index] for values in partitions], arrow_type(self.schema.field(path[0]).type))
            return ColumnBounds(values, values, values.is_null().cast(pa.int64()))

        possible, certain = verdicts(predicate, bounds_of, one_row, len(partitions))
        return [_verdict(may, must) for may, must in zip(possible.to_pylist(), certain.to_pylist())]


@attrs.frozen
class Window:
    """The instants whose rows are asked for; where some are out of reach, the newest rows that they wrote stand in."""

    instants: frozenset[int]
    is_past: bool

    def rows_of(self) -> WrittenRows | MarkedRows:
        """Which rows of a slice belong to the window."""
        if not self.is_past:
            return WrittenRows(self.instants)
        texts = (text for instant in sorted(self.instants) for text in instant_texts(instant))
        return MarkedRows(COMMIT_TIME_COLUMN, tuple(texts))


@attrs.frozen(kw_only=True)
class HudiState:
    """A Hudi table right after one instant.

    Its files are listed once, when the state is made: later the cleaner may have taken some of them away, and a listing
    would not tell. `found` are the files of all times; `window` what the state is read for.
    """

    storage: Storage
    instant: Instant
    schema: Schema
    table: TableProperties
    timeline: ActiveTimeline
    replaced: frozenset[FileGroupId]
    listing: Listing
    visibility: Visibility
    found: tuple[GroupFile, ...]
    window: Window | None = None
    schema_history: SchemaHistory = SchemaHistory()
    metadata: MetadataTable | None = None

    def placed(self, changes: KeyedChanges) -> KeyedChanges:
        """The changes with what their slices need to be read as slices of this state."""
        values = dict(self.listing.values)

        def placed(slice_: FileSlice | None) -> FileSlice | None:
            return slice_ and attrs.evolve(
                slice_,
                partition_values=values[slice_.group.partition],
                stored_names=self.schema_history.stored_names(self.instant.version, slice_.instant),
            )

        slices = (SliceChange(placed(one.before), placed(one.after), one.log) for one in changes.slices)
        return attrs.evolve(changes, slices=tuple(slices))

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in path order; those that only files tell are included."""
        return tuple(field.name for field in key_generator_of(self.table).fields)

    @property
    def record_key(self) -> tuple[str, ...]:
        """The columns that identify a record; empty when Hudi makes the keys."""
        return self.table.record_key

    def key_locations(self, keys: Sequence[pa.Array]) -> KeyLocations | None:
        """Where keys lie by the record index of the metadata table, which is about the newest state alone."""
        metadata = None if self.schema_history.versions or not self._is_newest else self.metadata
        if metadata is None or RECORD_INDEX not in metadata.partitions:
            return None
        spelt = spelt_keys(self.table, self.schema, keys)
        try:
            found = None if spelt is None else metadata.located(spelt)
        except CorruptFileError as error:
            warnings.warn(
                f"the record index of the metadata table is not used: {error}", TableSpecWarning, stacklevel=2
            )
            return None
        return None if found is None else KeyLocations(frozenset(found.groups.values()), found.entries)

    @property
    def properties(self) -> Mapping[str, str]:
        """The entries of hoodie.properties."""
        return dict(self.table.entries)

    @property
    def constraints(self) -> tuple[tuple[str, str], ...]:
        """None: Hudi tables have no constraints that hold for readers."""
        return ()

    @property
    def files(self) -> HudiFiles:
        """The current slices."""
        metadata = None if self.schema_history.versions else self.metadata
        return HudiFiles(self.listing, self.schema, metadata, self._is_newest)

    @property
    def _is_newest(self) -> bool:
        newest = [action.instant for action in self.timeline.writes[-1:]]
        return self.window is None and [self.instant] == newest

    @property
    def layout(self) -> ReadLayout:
        """How the columns are found in the base files."""
        hidden = META_SCHEMA if self.table.meta_fields else Schema(())
        return ReadLayout(schema=self.schema, constants=self.listing.constants, hidden=hidden)

    @property
    def codec(self) -> HudiCodec:
        """What is inside of the slices."""
        return HudiCodec(
            table=self.table,
            schema=self.schema,
            visibility=self.visibility,
            schema_history=self.schema_history,
            upto=self.instant.version,
        )


def state_of(
    storage: Storage,
    table: TableProperties,
    timeline: ActiveTimeline,
    visibility: Visibility,
    *,
    instant: Instant,
    stored_schema: Schema,
    replaced: frozenset[FileGroupId],
    schema_history: SchemaHistory = SchemaHistory(),
    metadata: MetadataTable | None = None,
) -> HudiState:
    """The state that shows what is visible, its files listed now."""
    generator = key_generator_of(table)
    schema = shown_schema(stored_schema, generator)
    files = list(data_files(storage)) if metadata is None else metadata.files()
    found = tuple(group_files(files))
    _check_file_formats(storage.url, files, found)
    if found and not timeline.completed and not timeline.pending:
        why = f"it holds no instant, and a file of the group {found[0].group.id} was written by one"
        raise CorruptLogError(storage.url, table.timeline_folder, 0, why)
    slices = slices_at(found, visibility, replaced)
    if schema_history.versions:
        slices = tuple(
            attrs.evolve(slice_, stored_names=schema_history.stored_names(instant.version, slice_.instant))
            for slice_ in slices
        )
    return HudiState(
        storage=storage,
        instant=instant,
        schema=schema,
        table=table,
        timeline=timeline,
        replaced=replaced,
        listing=with_partition_values(slices, generator, schema, dict.fromkeys(file.group.partition for file in found)),
        visibility=visibility,
        found=found,
        schema_history=schema_history,
        metadata=metadata,
    )


def _check_file_formats(table: str, files: Iterable[FileInfo], found: Iterable[GroupFile]) -> None:
    if any(is_native_log(file.path.rsplit("/", 1)[-1]) for file in files):
        raise UnsupportedTableError(table, "log files of the native log format")
    for one in found:
        if isinstance(one.name, BaseFileName) and one.name.extension != "parquet":
            feature = f"{one.name.extension.upper()} base files"
            raise UnsupportedTableError(table, feature, "Parquet base files can be read")


def _verdict(may_match: bool | None, all_match: bool | None) -> Verdict:
    if not may_match:
        return Verdict.NEVER
    return Verdict.ALWAYS if all_match else Verdict.MAYBE
