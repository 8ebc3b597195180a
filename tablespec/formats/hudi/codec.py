"""The inside of Hudi slices: log files read and merged with their base file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.errors import (
    CorruptFileError,
    DataFileMissingError,
    TableSpecError,
    TableSpecWarning,
    UnsupportedTableError,
)
from tablespec.formats.base import LoggedChanges
from tablespec.formats.hudi.instant_time import instant_texts
from tablespec.formats.hudi.key_generator import key_prefix
from tablespec.formats.hudi.log_file import Damage, LogBlock, blocks_of
from tablespec.formats.hudi.log_records import (
    KEY_FIELD,
    RecordShape,
    changes_of,
    counts_records,
    records_of,
    virtual_keys,
)
from tablespec.formats.hudi.log_scan import counting
from tablespec.formats.hudi.merge import IncompleteRowsError, Records, merge
from tablespec.formats.hudi.merge_rules import MergeRules, merge_rules
from tablespec.formats.hudi.properties import TableProperties
from tablespec.formats.hudi.schema import COMMIT_TIME_COLUMN, META_SCHEMA
from tablespec.formats.hudi.schema_history import SchemaHistory
from tablespec.formats.hudi.timeline import Visibility
from tablespec.model.file import FileSlice, LogFile
from tablespec.model.schema import Field, Schema
from tablespec.storage.store import Storage


@attrs.frozen(kw_only=True)
class HudiCodec:
    """Merges the log of a slice as of one state of its table; plain data that travels to workers."""

    table: TableProperties
    schema: Schema
    visibility: Visibility
    schema_history: SchemaHistory = SchemaHistory()
    upto: int = 0

    def deleted_positions(self, storage: Storage, slice_: FileSlice) -> BitMap64 | None:
        """None, for no rows: Hudi marks no positions."""
        return None

    def merged(
        self,
        storage: Storage,
        slice_: FileSlice,
        wanted: Schema,
        read_base: Callable[[Schema], Iterator[pa.RecordBatch]],
        instants: frozenset[int] | None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a slice with at least the wanted columns; given `instants`, only what these wrote is merged."""
        rules = MergeRules(event_time=False, ordering=(), key=None)
        if slice_.logs:
            rules = merge_rules(storage.url, self.table)
        shape = self._shape(rules, wanted, needs_time=instants is not None)
        log = self._log(storage, slice_, shape, instants)
        base = (shape.of_base(batch) for batch in _written_by(read_base(shape.stored), instants))
        try:
            yield from merge(base, log, event_time=rules.event_time, whole_rows=instants is not None)
        except IncompleteRowsError as error:
            way_out = "changes tells them row by row"
            raise UnsupportedTableError(storage.url, "partial updates in an incremental window", way_out) from error

    def instants_between(self, after: int, upto: int | None) -> frozenset[int]:
        """The writes of this state that were completed after a time and up to another one; version 6 has request times."""
        return frozenset(
            request
            for request, completion in self.visibility.completed
            if after < completion and (upto is None or completion <= upto)
        )

    def logged_changes(self, storage: Storage, files: Sequence[LogFile], columns: Schema) -> Iterator[LoggedChanges]:
        """The changes that writers noted in files of their own."""
        prefix = "" if self.table.meta_fields else key_prefix(self.table)
        for file in files:
            blocks, damaged = _blocks(storage, file)
            if damaged:
                # Rows of the state make up for lost log blocks; nothing makes up for a change.
                raise CorruptFileError(storage.url, file.path, damaged[0])
            for block in blocks:
                try:
                    if not counts_records(block):
                        continue
                    names = dict(self.schema_history.stored_names(self.upto, block.instant or 0))
                    yield changes_of(block, columns.stored_as(names), prefix)
                except (ValueError, KeyError, pa.ArrowException) as error:
                    raise CorruptFileError(storage.url, file.path, str(error)) from error

    def record_keys(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The keys of rows: their meta column, or made of the columns of the record key."""
        return columns[0] if self.table.meta_fields else virtual_keys(list(zip(self.table.record_key, columns)))

    def problems(self, storage: Storage, slice_: FileSlice) -> list[str]:
        """What is damaged in the log of a slice, one sentence each."""
        return [sentence for log in slice_.logs for sentence in _blocks(storage, log)[1]]

    def _shape(self, rules: MergeRules, wanted: Schema, *, needs_time: bool) -> RecordShape:
        key = (KEY_FIELD,) if rules.key is None else tuple(self.schema.field(name) for name in rules.key)
        fields: list[Field] = [*(wanted.fields or key)]
        if needs_time and COMMIT_TIME_COLUMN not in wanted:
            fields.append(META_SCHEMA.field(COMMIT_TIME_COLUMN))
        ordering = tuple(self.schema.field(name) for name in rules.ordering)
        return RecordShape(Schema(tuple(fields)), ordering, key, rules)

    def _log(
        self, storage: Storage, slice_: FileSlice, shape: RecordShape, instants: frozenset[int] | None
    ) -> list[Records]:
        blocks, origin = [], {}
        for log in slice_.logs:
            found, damaged = _blocks(storage, log)
            for sentence in damaged:
                warnings.warn(f"{storage.url}: {sentence}", TableSpecWarning, stacklevel=2)
            for block in found:
                blocks.append(block)
                origin[id(block)] = log.path

        def sees(instant: int) -> bool:
            seen = self.visibility.sees(instant) if instants is None else instant in instants
            return seen and (slice_.upto is None or instant <= slice_.upto)

        records = []
        for block in _checked(storage, slice_, lambda: counting(blocks, sees)):
            path = origin[id(block)]
            names = dict(self.schema_history.stored_names(self.upto, block.instant or 0))
            records.append(_decoded(storage, path, block, shape.stored_as(names)))
        return records


def _blocks(storage: Storage, log: LogFile) -> tuple[list[LogBlock], list[str]]:
    """The blocks of a log file, and what is damaged in it."""
    try:
        found = list(blocks_of(storage.read(log.path)))
    except FileNotFoundError as error:
        raise DataFileMissingError(storage.url, log.path) from error
    except ValueError as error:
        raise CorruptFileError(storage.url, log.path, str(error)) from error
    damaged = [
        f"the bytes {one.start} to {one.end} of {log.path} make no whole block and are skipped, as Hudi does"
        for one in found
        if isinstance(one, Damage)
    ]
    return [one for one in found if isinstance(one, LogBlock)], damaged


def _checked(storage: Storage, slice_: FileSlice, scan: Callable[[], list[LogBlock]]) -> list[LogBlock]:
    try:
        return scan()
    except ValueError as error:
        raise CorruptFileError(storage.url, slice_.logs[0].path, str(error)) from error


def _decoded(storage: Storage, path: str, block: LogBlock, shape: RecordShape) -> Records:
    try:
        return records_of(block, shape)
    except TableSpecError:
        raise
    except (ValueError, pa.ArrowException) as error:
        raise CorruptFileError(storage.url, path, str(error)) from error


def _written_by(batches: Iterator[pa.RecordBatch], instants: frozenset[int] | None) -> Iterator[pa.RecordBatch]:
    """The rows that some instants wrote; all of them where none are given."""
    if instants is None:
        yield from batches
        return
    times = pa.array([text for instant in sorted(instants) for text in instant_texts(instant)], pa.string())
    for batch in batches:
        yield batch.filter(pc.is_in(batch.column(COMMIT_TIME_COLUMN), times))
