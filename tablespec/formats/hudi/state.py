"""A Hudi table at one instant."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

import attrs
import pyarrow as pa

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.verdict import ColumnBounds, verdicts
from tablespec.errors import CorruptFileError, CorruptLogError, TableSpecWarning, UnsupportedTableError
from tablespec.expr.nodes import Predicate
from tablespec.expr.verdict import Verdict
from tablespec.formats.base import JudgedSlice, KeyLocations, Survey
from tablespec.formats.hudi.codec import HudiCodec
from tablespec.formats.hudi.file_columns import listed_files
from tablespec.formats.hudi.instant_time import instant_texts
from tablespec.formats.hudi.key_generator import key_generator_of, shown_schema
from tablespec.formats.hudi.listing import Listing, listing_of
from tablespec.formats.hudi.metadata_table import RECORD_INDEX, MetadataTable
from tablespec.formats.hudi.names import BaseFileName
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.pruning import without_match
from tablespec.formats.hudi.record_key import spelt_keys
from tablespec.formats.hudi.schema import COMMIT_TIME_COLUMN, META_SCHEMA
from tablespec.formats.hudi.schema_history import SchemaHistory
from tablespec.formats.hudi.slices import GroupFile
from tablespec.formats.hudi.timeline import ActiveTimeline, Visibility
from tablespec.formats.layout import ReadLayout
from tablespec.model.bulk import made_in_bulk
from tablespec.model.change import KeyedChanges, MarkedRows, SliceChange, WrittenRows
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.model.instant import Instant
from tablespec.model.schema import Schema
from tablespec.storage.store import Storage


@attrs.frozen
class HudiFiles:
    """The current slices, judged by the partition values that their paths tell."""

    listing: Listing
    schema: Schema
    metadata: MetadataTable | None = None
    newest: bool = True

    def all(self) -> Sequence[FileSlice]:
        """Every slice."""
        return self.listing.slices

    def survey(self) -> Survey:
        """What all of them are."""
        slices = self.listing.slices
        unclean = tuple(slice_ for slice_ in slices if not slice_.is_clean)
        return Survey(bytes=sum(slice_.size for slice_ in slices), unclean=unclean)

    def judge(self, predicate: Predicate) -> Sequence[JudgedSlice]:
        """Every slice that may hold a match, by its partition and by what the metadata table knows of its columns."""
        found = [one for one in self._partition_verdicts(predicate) if one[1] is not Verdict.NEVER]
        with made_in_bulk():
            slices = self.listing.slices_in([path for path, _ in found])
            judged = [JudgedSlice(one, verdict) for (_, verdict), of_path in zip(found, slices) for one in of_path]
        unsure = [one.slice for one in judged if one.verdict is Verdict.MAYBE]
        never = frozenset[FileSlice]()
        if self.metadata is not None:
            never = without_match(self.metadata, unsure, self.schema, predicate, newest=self.newest)
        return [one for one in judged if one.slice not in never] if never else judged

    def may_match(self, predicate: Predicate) -> Callable[[FileGroupId], bool]:
        """Whether a group of any time lies in a partition that may hold a match."""
        found = dict(self._partition_verdicts(predicate))
        return lambda group: found.get(group.partition, Verdict.MAYBE) is not Verdict.NEVER

    def _partition_verdicts(self, predicate: Predicate) -> list[tuple[str, Verdict]]:
        """The path of each partition, and what its values say of its rows."""
        partitions = self.listing.values
        one_row = pa.repeat(pa.scalar(1, pa.int64()), len(partitions))

        def bounds_of(path: tuple[str, ...]) -> ColumnBounds | None:
            if len(path) > 1 or path[0] not in self.listing.constants:
                return None
            index = self.listing.constants.index(path[0])
            values = pa.array([values[index] for _, values in partitions], arrow_type(self.schema.field(path[0]).type))
            return ColumnBounds(values, values, values.is_null().cast(pa.int64()))

        possible, certain = verdicts(predicate, bounds_of, one_row, len(partitions))
        outcomes = zip(possible.to_pylist(), certain.to_pylist())
        return [(path, _verdict(may, must)) for (path, _), (may, must) in zip(partitions, outcomes)]


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
    would not tell. `window` is what the state is read for.
    """

    storage: Storage
    instant: Instant
    schema: Schema = attrs.field(repr=False)
    table: TableProperties = attrs.field(repr=False)
    timeline: ActiveTimeline = attrs.field(repr=False)
    replaced: frozenset[FileGroupId] = attrs.field(repr=False)
    listing: Listing = attrs.field(repr=False)
    visibility: Visibility = attrs.field(repr=False)
    window: Window | None = None
    schema_history: SchemaHistory = attrs.field(default=SchemaHistory(), repr=False)
    metadata: MetadataTable | None = attrs.field(default=None, repr=False)

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
    def found(self) -> tuple[GroupFile, ...]:
        """The base and log files of all times, in path order."""
        return self.listing.found

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
        converted = self.partition_columns if key_generator_of(self.table).times_as_text else ()
        return ReadLayout(
            schema=self.schema, constants=self.listing.constants, hidden=hidden, converted=tuple(converted)
        )

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
    listing = listing_of(
        listed_files(storage) if metadata is None else metadata.files(),
        generator,
        schema,
        visibility,
        replaced=replaced,
        version=instant.version,
        schema_history=schema_history,
    )
    _check_file_formats(storage.url, listing)
    if listing.values and not timeline.completed and not timeline.pending:
        why = f"it holds no instant, and a file of the group {listing.found[0].group.id} was written by one"
        raise CorruptLogError(storage.url, table.timeline_folder, 0, why)
    return HudiState(
        storage=storage,
        instant=instant,
        schema=schema,
        table=table,
        timeline=timeline,
        replaced=replaced,
        listing=listing,
        visibility=visibility,
        schema_history=schema_history,
        metadata=metadata,
    )


def _check_file_formats(table: str, listing: Listing) -> None:
    if listing.names.has_native_logs:
        raise UnsupportedTableError(table, "log files of the native log format")
    if all(extension == "parquet" for _, extension in listing.names.endings):
        return
    for one in listing.found:
        if isinstance(one.name, BaseFileName) and one.name.extension != "parquet":
            feature = f"{one.name.extension.upper()} base files"
            raise UnsupportedTableError(table, feature, "Parquet base files can be read")


def _verdict(may_match: bool | None, all_match: bool | None) -> Verdict:
    if not may_match:
        return Verdict.NEVER
    return Verdict.ALWAYS if all_match else Verdict.MAYBE
