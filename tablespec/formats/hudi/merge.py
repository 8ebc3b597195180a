"""The records of a slice's log laid over those of its base file: one pure function over Arrow.

Log records of one key are merged among themselves first, oldest to newest, and the outcome then with the base record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.avro_columns import indices

_BATCH_ROWS = 65_536
_NO_ROW = pa.scalar(None, pa.int64())


@attrs.frozen(eq=False, kw_only=True)
class Records:
    """Records of a base file or of a log block, oldest first where a key stands twice.

    `orderings` has an array for each ordering field; null in all of them is the default, which loses against everything
    later and wins over everything earlier. `rows` is None for records that only delete. `columns` are those that partial
    records set, None for whole records.
    """

    keys: pa.Array
    orderings: tuple[pa.Array, ...] = ()
    deleted: pa.BooleanArray | None = None
    rows: pa.RecordBatch | None = None
    columns: frozenset[str] | None = None


class IncompleteRowsError(ValueError):
    """A partial record has nothing to be laid over."""


def merge(
    base: Iterable[Records], log: Sequence[Records], *, event_time: bool, whole_rows: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in no particular order.

    By commit time the later record of a key wins; by event time the one with the greater ordering, and the later one of
    equals. A delete without an ordering always wins over what came before it. A partial record is laid over the record
    that it wins over, and fills what a winning partial record leaves open; one that lies over nothing has nulls, or raises
    IncompleteRowsError where `whole_rows` are asked for. Of several base rows with the same key only the first meets the log.
    """
    whole = [records for records in log if len(records.keys)]
    if not whole:
        yield from (_rows(records) for records in base)
        return
    entries = _entries(whole)
    state = _folded(entries, event_time=event_time)
    unused = _filled(True, len(entries.keys))
    loose = _filled(True, len(entries.keys))
    for records in base:
        met = _met(records, entries, unused)
        if not len(met.rows):
            yield _rows(records)
            continue
        newer, older = state.top.take(met.keys), _Side.of(records, met.rows)
        wins = _wins(entries.side(newer), older) if event_time else _filled(True, len(newer))
        lies_over = pc.and_not(pc.and_not(wins, state.complete.take(met.keys)), entries.deleted.take(newer))
        kept = _set_at(_filled(True, len(records.keys)), met.rows, pc.invert(wins))
        yield _rows(records).filter(kept)
        if pc.any(lies_over, min_count=0).as_py():
            yield _laid_over(records, met.rows.filter(lies_over), entries, state, met.keys.filter(lies_over))
        settled = pc.or_(lies_over, pc.invert(wins))
        loose = _set_at(loose, met.keys.filter(settled), _filled(False, pc.sum(settled).as_py() or 0))
        unused = _set_at(unused, met.keys, _filled(False, len(met.keys)))
    left = pc.indices_nonzero(pc.and_not(loose, entries.deleted.take(state.top)))
    if whole_rows and not pc.all(state.complete.take(left), min_count=0).as_py():
        raise IncompleteRowsError("partial records lie over nothing")
    for start in range(0, len(left), _BATCH_ROWS):
        yield _from_log(entries, state, left.slice(start, _BATCH_ROWS))


# --- the log ---


@attrs.frozen(eq=False)
class _Side:
    """What decides which of two records wins, for many pairs at once."""

    orderings: tuple[pa.Array, ...]
    deleted: pa.BooleanArray

    @classmethod
    def of(cls, records: Records, rows: pa.Array) -> _Side:
        orderings = tuple(_comparable(values).take(rows) for values in records.orderings)
        return cls(orderings, _filled(False, len(rows)))

    @property
    def is_default(self) -> pa.BooleanArray:
        found = _filled(True, len(self.deleted))
        for values in self.orderings:
            found = pc.and_(found, values.is_null())
        return found


@attrs.frozen(eq=False, kw_only=True)
class _Entries:
    """All log records, in order; `ids` are positions in `keys`, `row` positions in `rows`, `part` the set of columns."""

    keys: pa.Array
    ids: pa.Array
    orderings: tuple[pa.Array, ...]
    deleted: pa.BooleanArray
    row: pa.Int64Array
    rows: pa.Table | None
    part: pa.Int64Array
    parts: tuple[frozenset[str] | None, ...]

    def side(self, chosen: pa.Array) -> _Side:
        return _Side(tuple(values.take(chosen) for values in self.orderings), self.deleted.take(chosen))

    def groups(self) -> list[list[str]]:
        """The columns, put together where the same records set them."""
        found: dict[tuple[bool, ...], list[str]] = {}
        for name in [] if self.rows is None else self.rows.column_names:
            found.setdefault(tuple(part is None or name in part for part in self.parts), []).append(name)
        return list(found.values())

    def has(self, group: list[str], chosen: pa.Array) -> pa.BooleanArray:
        """Which of the records set the columns of a group."""
        sets = pa.array([part is None or group[0] in part for part in self.parts])
        return pc.and_not(sets.take(self.part.take(chosen)), self.deleted.take(chosen))

    def is_whole(self, chosen: pa.Array) -> pa.BooleanArray:
        """Which of the records leave nothing of an older one: whole rows, and deletes."""
        whole = pa.array([part is None for part in self.parts]).take(self.part.take(chosen))
        return pc.or_(whole, self.deleted.take(chosen))


@attrs.frozen(eq=False)
class _State:
    """For each key the record that decides, whether it hides all older ones, and where each group of columns comes from."""

    top: pa.Int64Array
    complete: pa.BooleanArray
    sources: tuple[pa.Int64Array, ...]
    groups: tuple[tuple[str, ...], ...]


def _entries(log: Sequence[Records]) -> _Entries:
    encoded = pa.concat_arrays([records.keys for records in log]).dictionary_encode()
    parts = list(dict.fromkeys(records.columns for records in log))
    tables = [records.rows for records in log if records.rows is not None]
    row, part, rows_before = [], [], 0
    for records in log:
        count = len(records.keys)
        part.append(pa.repeat(pa.scalar(parts.index(records.columns), pa.int64()), count))
        if records.rows is None:
            row.append(pa.nulls(count, pa.int64()))
        else:
            row.append(pc.add(indices(count), rows_before))
            rows_before += count
    return _Entries(
        keys=encoded.dictionary,
        ids=encoded.indices.cast(pa.int64()),
        orderings=tuple(
            pa.concat_arrays([_comparable(values) for values in field])
            for field in zip(*(records.orderings for records in log))
        ),
        deleted=pa.concat_arrays([_deleted(records) for records in log]),
        row=pa.concat_arrays(row),
        rows=pa.Table.from_batches(tables).combine_chunks() if tables else None,
        part=pa.concat_arrays(part),
        parts=tuple(parts),
    )


def _deleted(records: Records) -> pa.BooleanArray:
    if records.deleted is not None:
        return records.deleted
    return _filled(records.rows is None, len(records.keys))


def _folded(entries: _Entries, *, event_time: bool) -> _State:
    """The log records of each key merged: the first of all keys, then the second ones, until all are in."""
    order = pc.sort_indices(entries.ids).cast(pa.int64())
    sorted_ids = entries.ids.take(order)
    sizes = pc.value_counts(sorted_ids).field(1)
    first = pc.subtract(pc.cumulative_sum(sizes), sizes)
    groups = entries.groups()
    state = _started(entries, order.take(first), groups)
    for number in range(1, pc.max(sizes).as_py()):
        there = pc.greater(sizes, number)
        newer = order.take(pc.add(first.filter(there), number))
        older = _State(
            state.top.filter(there),
            state.complete.filter(there),
            tuple(source.filter(there) for source in state.sources),
            state.groups,
        )
        found = _merged(entries, newer, older, event_time=event_time)
        state = _State(
            pc.replace_with_mask(state.top, there, found.top),
            pc.replace_with_mask(state.complete, there, found.complete),
            tuple(pc.replace_with_mask(old, there, new) for old, new in zip(state.sources, found.sources)),
            state.groups,
        )
    return state


def _started(entries: _Entries, first: pa.Int64Array, groups: list[list[str]]) -> _State:
    return _State(
        first,
        entries.is_whole(first),
        tuple(pc.if_else(entries.has(group, first), first, _NO_ROW) for group in groups),
        tuple(tuple(group) for group in groups),
    )


def _merged(entries: _Entries, newer: pa.Int64Array, state: _State, *, event_time: bool) -> _State:
    """A newer record of each key merged with what is known of the older ones."""
    wins = _filled(True, len(newer))
    if event_time:
        wins = _wins(entries.side(newer), entries.side(state.top))
    whole = entries.is_whole(newer)
    hides = pc.and_(wins, whole)
    gone = pc.and_(wins, entries.deleted.take(state.top))
    sources = []
    for group, source in zip(state.groups, state.sources):
        fresh = pc.if_else(entries.has(list(group), newer), newer, _NO_ROW)
        beneath = pc.if_else(pc.or_(hides, gone), _NO_ROW, source)
        # A record that loses shows only where the winner is partial and leaves a column open.
        below = pc.if_else(pc.or_(state.complete, entries.deleted.take(newer)), _NO_ROW, fresh)
        sources.append(pc.if_else(wins, pc.coalesce(fresh, beneath), pc.coalesce(source, below)))
    filled = pc.and_not(whole, entries.deleted.take(newer))
    return _State(
        pc.if_else(wins, newer, state.top),
        pc.if_else(wins, pc.or_(whole, state.complete), pc.or_(state.complete, filled)),
        tuple(sources),
        state.groups,
    )


def _wins(newer: _Side, older: _Side) -> pa.BooleanArray:
    """By event time: whether the newer record of each pair wins."""
    default = older.is_default
    chosen = pc.or_(pc.or_(newer.is_default, default), _at_least(newer.orderings, older.orderings))
    # A delete that always wins is not replaced by one that has an ordering.
    return pc.and_not(chosen, pc.and_(pc.and_(newer.deleted, older.deleted), default))


def _at_least(newer: Sequence[pa.Array], older: Sequence[pa.Array]) -> pa.BooleanArray:
    """Whether each newer tuple is not less than the older one; a null is the least value."""
    found = _filled(True, len(newer[0]) if newer else 0)
    for new, old in reversed(list(zip(newer, older))):
        equal = pc.or_(pc.and_(new.is_null(), old.is_null()), pc.fill_null(pc.equal(new, old), False))
        greater = pc.or_(pc.and_(new.is_valid(), old.is_null()), pc.fill_null(pc.greater(new, old), False))
        found = pc.or_(greater, pc.and_(equal, found))
    return found


def _comparable(values: pa.Array) -> pa.Array:
    """Values that compare as in Java: NaN is the greatest number, and -0.0 is less than 0.0."""
    if not pa.types.is_floating(values.type):
        return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    numbers = pc.if_else(pc.is_nan(values), float("nan"), values).cast(pa.float64())
    bits = numbers.view(pa.int64())
    return pc.if_else(pc.less(bits, 0), pc.bit_wise_xor(bits, (1 << 63) - 1), bits)


# --- the base file ---


@attrs.frozen(eq=False)
class _Met:
    """Base rows whose keys the log has, and the positions of these keys."""

    rows: pa.Int64Array
    keys: pa.Int64Array


def _met(records: Records, entries: _Entries, unused: pa.BooleanArray) -> _Met:
    ids = pc.index_in(records.keys, entries.keys)
    rows = pc.indices_nonzero(pc.is_valid(ids)).cast(pa.int64())
    keys = ids.take(rows).cast(pa.int64())
    first = unused.take(keys)
    encoded = keys.dictionary_encode()
    if len(encoded.dictionary) < len(keys):
        # Positions in the dictionary grow with every value that was not there before.
        seen = pa.concat_arrays(
            [pa.array([-1], pa.int32()), pc.cumulative_max(encoded.indices).slice(0, len(keys) - 1)]
        )
        first = pc.and_(first, pc.greater(encoded.indices, seen))
    return _Met(rows.filter(first), keys.filter(first))


def _laid_over(
    records: Records, rows: pa.Int64Array, entries: _Entries, state: _State, keys: pa.Int64Array
) -> pa.RecordBatch:
    """Base rows under partial records that win over them."""
    old = _rows(records).take(rows)
    columns = {name: old.column(name) for name in old.schema.names}
    for group, source in zip(state.groups, state.sources):
        chosen = source.take(keys)
        for name in group:
            assert entries.rows is not None
            new = _whole(entries.rows.column(name)).take(entries.row.take(chosen))
            columns[name] = pc.if_else(chosen.is_valid(), new, columns[name])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=old.schema)


def _from_log(entries: _Entries, state: _State, keys: pa.Array) -> pa.RecordBatch:
    """The rows of keys that the log alone tells."""
    assert entries.rows is not None
    columns = {}
    for group, source in zip(state.groups, state.sources):
        rows = entries.row.take(source.take(keys))
        for name in group:
            columns[name] = _whole(entries.rows.column(name)).take(rows)
    names = entries.rows.column_names
    return pa.RecordBatch.from_arrays([columns[name] for name in names], schema=entries.rows.schema)


def _rows(records: Records) -> pa.RecordBatch:
    assert records.rows is not None
    return records.rows


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _filled(value: bool, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), count)


def _set_at(values: pa.BooleanArray, places: pa.Array, replacements: pa.BooleanArray) -> pa.BooleanArray:
    """`values` with others at some places, which are given in any order and only once each."""
    if not len(places):
        return values
    order = pc.sort_indices(places)
    mask = pc.is_valid(pc.index_in(indices(len(values)), places.cast(pa.int64())))
    return pc.replace_with_mask(values, mask, replacements.take(order))
