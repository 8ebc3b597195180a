"""The record index: in which file and row the records with given keys lie.

A segment is an Arrow file with the keys of some base files in order, each with the number of its file and its position. Files that no
segment covers are read; deleted rows are left out when the index is asked, so that segments stay right when rows go.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.arrow.schema import arrow_type
from tablespec.arrow.stream import ArrowStream, record_batches
from tablespec.errors import ColumnNotFoundError, NoRecordKeyError, StorageError, TypeMismatchError
from tablespec.expr.nodes import TRUE
from tablespec.formats.base import KeyLocations, LocatesKeys, TableState
from tablespec.index.checksum import CHANGED, checksum
from tablespec.index.keys import check_key_type, key_values
from tablespec.index.segment import (
    RECORD,
    IndexFile,
    Segment,
    StoredIndex,
    base_key,
    is_whole,
    load_to_read,
    new_segment_id,
    warn_damaged,
)
from tablespec.index.source import BuildSource
from tablespec.model.file import FileGroupId, FileSlice
from tablespec.model.reading import ReadOptimized
from tablespec.model.schema import LONG, STRING, Field, near_names
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage

_WRITTEN_AT_ONCE = 8 << 20
# So many keys are asked for at the index of the table's own writers.
_FEW_KEYS = 10_000
# Where a record lies; `position` is null where only a merge of log files tells the record.
LOCATION = (
    Field(name="partition", type=STRING),
    Field(name="file_group", type=STRING),
    Field(name="instant", type=LONG),
    Field(name="file", type=STRING),
    Field(name="position", type=LONG),
)
_FOUND = pa.schema([("key", pa.int64()), ("slice", pa.int64()), ("position", pa.int64())])


@attrs.frozen(eq=False)
class Located:
    """Rows with one of some keys, and the numbers of the slices in which there are no others."""

    rows: pa.Table
    slices: frozenset[int]

    def positions(self) -> dict[int, BitMap64]:
        """The positions of the rows in each of the slices."""
        found = {number: BitMap64() for number in self.slices}
        for number, position in zip(self.rows.column("slice").to_pylist(), self.rows.column("position").to_pylist()):
            found[number].add(position)
        return found


@attrs.frozen(eq=False)
class RecordIndex:
    """Tells where the records of one state lie, with the help of an index where there is one."""

    storage: Storage
    state: TableState

    def tag(self, keys: ArrowStream | pa.RecordBatch) -> pa.Table:
        """The keys with where their records lie: partition, file group, instant, file and position, null for a key without a record.

        Keys keep their order. A key that several rows have gets a row for each of them.
        """
        columns = self._key_columns(record_batches(keys).read_all())
        values = key_values(columns)
        slices = tuple(one.slice for one in self.state.files.judge(TRUE))
        numbers = pc.index_in(values, value_set=pc.unique(values).drop_null(), skip_nulls=True).cast(pa.int64())
        told = self._told(columns, values)
        return _tagged(pa.table(columns, names=list(self.key)), numbers, self.locate(values, slices, told), slices)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the record key."""
        if not self.state.record_key:
            raise NoRecordKeyError(self.storage.url, "tag")
        return self.state.record_key

    def locate(self, values: pa.Array, slices: Sequence[FileSlice], told: KeyLocations | None = None) -> pa.Table:
        """The rows that have one of the keys: number of the key among the distinct ones, number of the slice, and position.

        What the table itself has `told` about the keys saves looking into other slices.
        """
        known = self.indexed(values, slices)
        live = self._without_deleted(known.rows, slices)
        distinct = pc.unique(values).drop_null()
        left = [number for number in range(len(slices)) if number not in known.slices and len(distinct)]
        # Slices with logs come first: how many rows they have is known when they have been read.
        read = {number: self._read(slices[number], number, distinct) for number in left if slices[number].logs}
        merged = {number: rows for number, (_, rows) in read.items()}
        if told is not None and self._is_complete(told, slices, merged):
            left = [number for number in left if slices[number].group in told.groups]
        read |= {number: self._read(slices[number], number, distinct) for number in left if number not in read}
        return pa.concat_tables([live, *(read[number][0] for number in sorted(read))]).combine_chunks()

    def indexed(self, values: pa.Array, slices: Sequence[FileSlice]) -> Located:
        """What an index alone knows about the keys in some slices, deleted rows included."""
        segments = self._segments(slices)
        if not segments:
            return Located(_FOUND.empty_table(), frozenset())
        distinct = pc.unique(values).drop_null()
        order = pc.sort_indices(distinct)
        ordered = distinct.take(order)
        parts = [_FOUND.empty_table()]
        answered: set[int] = set()
        for segment, numbers in segments:
            part = _looked_up(self.storage, segment, ordered, order, numbers)
            if part is not None:
                parts.append(part)
                answered |= set(numbers.values())
        return Located(pa.concat_tables(parts), frozenset(answered))

    def groups_with(self, columns: list[pa.Array]) -> frozenset[FileGroupId] | None:
        """The file groups outside of which no row has one of the keys by what the table itself knows; None where that is not certain.

        Slices with logs would have to be read to be certain, which saves nothing.
        """
        if not isinstance(self.state, LocatesKeys):
            return None
        slices = self.state.files.all()
        told = None if any(slice_.logs for slice_ in slices) else self._told(columns, columns[0])
        return told.groups if told is not None and self._is_complete(told, slices, {}) else None

    def _told(self, columns: list[pa.Array], values: pa.Array) -> KeyLocations | None:
        """What the table itself knows about the keys; many keys lie in most slices anyway."""
        few = 0 < len(values) <= _FEW_KEYS
        return self.state.key_locations(columns) if few and isinstance(self.state, LocatesKeys) else None

    def _is_complete(self, told: KeyLocations, slices: Sequence[FileSlice], merged: dict[int, int]) -> bool:
        """Whether the index of the table knows every row: it has as many keys as there are rows, so that none stands twice."""
        if not told.groups <= {slice_.group for slice_ in slices}:
            return False
        left = told.entries - sum(merged.values())
        for number, slice_ in enumerate(slices):
            if left < 0 or (slice_.logs and number not in merged):
                return False
            left -= 0 if slice_.logs else self._count(slice_)
        return left == 0

    def _count(self, slice_: FileSlice) -> int:
        """The rows of a slice without logs, by the footer of its file."""
        if slice_.rows is not None:
            return slice_.rows
        reader = FileSliceReader(storage=self.storage, layout=self.state.layout, codec=self.state.codec)
        return sum(batch.num_rows for batch in reader.project(()).open(slice_))

    def _stored(self) -> list[StoredIndex]:
        found = load_to_read(self.storage, RECORD)
        return [stored for stored in found if stored.definition.columns == self.state.record_key]

    def _segments(self, slices: Sequence[FileSlice]) -> list[tuple[Segment, dict[str, int]]]:
        """The segments to look into, each with the numbers of the slices that it answers for, by the paths of their files."""
        covering = {
            key: segment for stored in self._stored() for key, segment in stored.covering(self.state.schema).items()
        }
        answers: dict[str, tuple[Segment, dict[str, int]]] = {}
        for number, slice_ in enumerate(slices):
            key = base_key(slice_)
            if key is not None and key in covering:
                segment = covering[key]
                answers.setdefault(segment.id, (segment, {}))[1][key[0]] = number
        return list(answers.values())

    def _without_deleted(self, found: pa.Table, slices: Sequence[FileSlice]) -> pa.Table:
        reader = FileSliceReader(storage=self.storage, layout=self.state.layout, codec=self.state.codec)
        for number in pc.unique(found.column("slice")).to_pylist():
            if slices[number].deletes is None:
                continue
            deleted = reader.deleted(slices[number])
            if deleted:
                gone = pc.is_in(
                    found.column("position"), value_set=pa.array(deleted.to_array(), pa.uint64()).cast(pa.int64())
                )
                found = found.filter(pc.invert(pc.and_(pc.equal(found.column("slice"), number), gone)))
        return found

    def _read(self, slice_: FileSlice, number: int, distinct: pa.Array) -> tuple[pa.Table, int]:
        """The rows of a slice that have one of the keys, and how many it has altogether."""
        reader = FileSliceReader(storage=self.storage, layout=self.state.layout, codec=self.state.codec)
        reader = reader.project(self.key)
        deleted = None if slice_.logs else reader.deleted(slice_)
        start, parts = 0, [_FOUND.empty_table()]
        for batch in (reader if slice_.logs else reader.reading_mode(ReadOptimized())).open(slice_):
            keys = pc.index_in(key_values(batch.columns), value_set=distinct, skip_nulls=True).cast(pa.int64())
            rows = pc.indices_nonzero(pc.is_valid(keys)).cast(pa.int64())
            positions = pa.nulls(len(rows), pa.int64()) if slice_.logs else pc.add(rows, start)
            part = pa.table([keys.take(rows), pa.repeat(pa.scalar(number, pa.int64()), len(rows)), positions], _FOUND)
            if deleted and part.num_rows:
                gone = pa.array([position in deleted for position in positions.to_pylist()], pa.bool_())
                part = part.filter(pc.invert(gone))
            parts.append(part)
            start += batch.num_rows
        return pa.concat_tables(parts), start

    def _key_columns(self, keys: pa.Table) -> list[pa.Array]:
        columns = []
        for name in self.key:
            field = self.state.schema.field(name)
            check_key_type(field.name, field.type)
            if name not in keys.column_names:
                raise ColumnNotFoundError(name, near_names(name, keys.column_names), "the table of keys")
            try:
                columns.append(keys.column(name).combine_chunks().cast(arrow_type(field.type)))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise TypeMismatchError(name, str(field.type), f"keys of type {keys.column(name).type}") from error
        return columns


def build_record_segment(source: BuildSource, slices: Sequence[FileSlice]) -> Segment:
    """Write the keys of some base files in order; rows with a null in their key have none."""
    keys: list[pa.Array] = []
    files: list[pa.Array] = []
    positions: list[pa.Array] = []
    covers = []
    for number, slice_ in enumerate(slices):
        rows = 0
        for start, columns in source.values(slice_):
            values = key_values(columns)
            there = pc.indices_nonzero(pc.is_valid(values)).cast(pa.int64())
            keys.append(values.take(there))
            files.append(pa.repeat(pa.scalar(number, pa.int32()), len(there)))
            positions.append(pc.add(there, start))
            rows = start + len(values)
        covers.append(source.covered(slice_, rows))
    table = pa.table(
        {
            "key": _chunked(keys),
            "file": pa.chunked_array(files, pa.int32()),
            "position": pa.chunked_array(positions, pa.int64()),
        }
    )
    ordered = table.take(pc.sort_indices(table, sort_keys=[("key", "ascending")])).combine_chunks()
    id_ = new_segment_id()
    path = f"{source.definition.folder}/{id_}.arrow"
    stream = pa.BufferOutputStream()
    with pa.ipc.new_file(stream, ordered.schema) as writer:
        # One batch, so that the keys are searched as one array.
        writer.write_table(ordered, max_chunksize=max(1, ordered.num_rows))
    data = memoryview(stream.getvalue())
    size = len(data)
    with source.storage.create(path) as sink:
        for start in range(0, size, _WRITTEN_AT_ONCE):
            sink.write(data[start : start + _WRITTEN_AT_ONCE].tobytes())
    return Segment(
        id=id_,
        columns=source.reading,
        covers=tuple(covers),
        files=(IndexFile(path=path, size=size, crc=checksum(data)),),
        unique=_is_unique(ordered.column("key")),
    )


def _chunked(keys: list[pa.Array]) -> pa.ChunkedArray:
    return pa.chunked_array(keys) if keys else pa.chunked_array([], pa.int64())


def _is_unique(keys: pa.ChunkedArray) -> bool:
    if len(keys) < 2:
        return True
    return not pc.any(pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py()


def _looked_up(
    storage: Storage, segment: Segment, ordered: pa.Array, order: pa.Array, numbers: dict[str, int]
) -> pa.Table | None:
    """The rows of a segment with one of the keys, in files that it answers for; None where it cannot be used."""
    if not is_whole(storage, segment):
        return None
    try:
        batch = _opened(storage, segment.files[0])
    except (pa.ArrowInvalid, OSError, StorageError) as error:
        warn_damaged(storage, segment, error)
        return None
    keys = batch.column("key")
    if not len(keys) or keys.type != ordered.type:
        return _FOUND.empty_table() if not len(keys) else None
    # Only the keys between the first and the last of the segment can be in it.
    first, last = (
        int(pc.search_sorted(ordered, end, side=side).as_py()) for end, side in ((keys[0], "left"), (keys[-1], "right"))
    )
    ordered, order = ordered.slice(first, last - first), order.slice(first, last - first)
    rows, which = _equal_rows(keys, ordered, unique=segment.unique)
    file, position = batch.column("file").take(rows), batch.column("position").take(rows)
    slices = pa.array([numbers.get(covered.path) for covered in segment.covers], pa.int64()).take(file)
    found = pa.table([order.take(which).cast(pa.int64()), slices, position], _FOUND)
    return found.filter(pc.is_valid(slices)) if slices.null_count else found


def _equal_rows(keys: pa.Array, ordered: pa.Array, *, unique: bool) -> tuple[pa.Array, pa.Array]:
    """The rows of a segment that have one of the keys, and the number of that key among those looked for."""
    if not len(ordered):
        return pa.array([], pa.int64()), pa.array([], pa.int64())
    left = pc.search_sorted(keys, ordered, side="left").cast(pa.int64())
    nearest = keys.take(pc.min_element_wise(left, len(keys) - 1))
    which = pc.indices_nonzero(pc.equal(nearest, ordered)).cast(pa.int64())
    rows = left.take(which)
    if unique or not len(rows):
        return rows, which
    ends = pc.search_sorted(keys, ordered.take(which), side="right").cast(pa.int64())
    repeats = [(row, number, end) for row, number, end in zip(rows.to_pylist(), which.to_pylist(), ends.to_pylist())]
    spread = [(other, number) for row, number, end in repeats for other in range(row, end)]
    return pa.array([row for row, _ in spread], pa.int64()), pa.array([number for _, number in spread], pa.int64())


def _opened(storage: Storage, file: IndexFile) -> pa.RecordBatch:
    local = storage.local_path(file.path)
    if local is not None:
        return pa.ipc.open_file(pa.memory_map(local)).get_batch(0)
    data = storage.read(file.path)
    if checksum(data) != file.crc:
        raise StorageError(f"{storage.url}/{file.path}", CHANGED)
    return pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)


def _tagged(keys: pa.Table, numbers: pa.Array, found: pa.Table, slices: Sequence[FileSlice]) -> pa.Table:
    distinct = found.column("key").combine_chunks()
    if len(pc.unique(distinct)) == len(distinct):
        places = pc.index_in(numbers, value_set=distinct, skip_nulls=True)
    else:
        # Some keys have several rows: each of them gets its own.
        given = pa.table({"key": numbers, "order": pa.arange(0, len(numbers))})
        told = pa.table({"key": distinct, "place": pa.arange(0, len(distinct))})
        joined = given.join(told, "key", join_type="left outer").sort_by(
            [("order", "ascending"), ("place", "ascending")]
        )
        keys, places = keys.take(joined.column("order")), joined.column("place").combine_chunks()
    number = found.column("slice").combine_chunks().take(places)
    told_slices = {
        "partition": [slice_.group.partition for slice_ in slices],
        "file_group": [slice_.group.id for slice_ in slices],
        "instant": [slice_.instant for slice_ in slices],
        "file": [slice_.base.path if slice_.base is not None else slice_.logs[0].path for slice_ in slices],
    }
    columns = [pa.array(told_slices[field.name], arrow_type(field.type)).take(number) for field in LOCATION[:-1]]
    columns.append(found.column("position").combine_chunks().take(places))
    for field, column in zip(LOCATION, columns):
        keys = keys.append_column(field.name, column)
    return keys
