"""Avro records decoded column by column into Arrow, many at a time, without an object per value.

Every record has a cursor of its own; a column is read by moving all cursors at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.schema import arrow_type
from tablespec.formats.hudi.schema import Json, full_name, leaf_type
from tablespec.model.schema import DecimalType, Primitive

_WIDTHS = {"float": (4, pa.float32()), "double": (8, pa.float64())}
_LONGEST_VARINT = 10
_DECIMAL_BYTES = 16


def decode_records(
    data: memoryview, starts: pa.Array, ends: pa.Array, schema: str, wanted: frozenset[str]
) -> pa.RecordBatch:
    """The wanted top-level columns of records that lie between these offsets, in the order of the schema.

    Raises ValueError where a record does not fit its schema to the last byte.
    """
    parsed: Json = json.loads(schema)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError("the schema of a log block is no Avro record")
    cursor = _Cursors(pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)]), starts)
    decoder = _Decoder({}, str(parsed.get("namespace") or ""))
    columns: dict[str, pa.Array] = {}
    try:
        decoder.register(parsed)
        for field in parsed["fields"]:
            name = str(field["name"])
            found = decoder.read(field["type"], cursor, None, skip=name not in wanted)
            if found is not None:
                columns[name] = found
    except (pa.ArrowIndexError, pa.ArrowInvalid, KeyError, TypeError) as error:
        raise ValueError(f"its records do not fit their schema ({error})") from error
    if not cursor.positions.equals(ends):
        raise ValueError("its records do not end where their schema says")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@attrs.define
class _Cursors:
    """The bytes of a block, and for each record the offset of what comes next."""

    data: pa.UInt8Array
    positions: pa.Int64Array

    def __len__(self) -> int:
        return len(self.positions)

    def byte(self, ahead: int, valid: pa.BooleanArray | None) -> pa.UInt8Array:
        """The byte that many places ahead; where the mask is false any byte."""
        places = self.positions if ahead == 0 else pc.add(self.positions, ahead)
        return self.data.take(places if valid is None else pc.if_else(valid, places, 0))

    def varint(self, valid: pa.BooleanArray | None) -> pa.Int64Array:
        """The next number of each record, 0 where the mask is false."""
        first = self.byte(0, valid)
        if valid is not None:
            first = pc.if_else(valid, first, pa.scalar(0, pa.uint8()))
        value = pc.bit_wise_and(first, pa.scalar(0x7F, pa.uint8())).cast(pa.uint64())
        more = pc.greater_equal(first, pa.scalar(0x80, pa.uint8()))
        length = _counted(self, valid)
        for ahead in range(1, _LONGEST_VARINT + 1):
            if not pc.any(more, min_count=0).as_py():
                break
            if ahead == _LONGEST_VARINT:
                raise ValueError("a number has too many bytes")
            byte = pc.if_else(more, self.byte(ahead, more), pa.scalar(0, pa.uint8()))
            low = pc.bit_wise_and(byte, pa.scalar(0x7F, pa.uint8())).cast(pa.uint64())
            value = pc.bit_wise_or(value, pc.shift_left(low, pa.scalar(7 * ahead, pa.uint64())))
            length = pc.add(length, more.cast(pa.int64()))
            more = pc.greater_equal(byte, pa.scalar(0x80, pa.uint8()))
        self.positions = pc.add(self.positions, length)
        one = pa.scalar(1, pa.uint64())
        sign = pc.subtract(pa.scalar(0, pa.uint64()), pc.bit_wise_and(value, one))
        return pc.bit_wise_xor(pc.shift_right(value, one), sign).view(pa.int64())

    def skip(self, lengths: pa.Int64Array) -> None:
        """Go on by so many bytes."""
        if len(lengths) and (pc.min(lengths).as_py() < 0 or pc.max(lengths).as_py() > len(self.data)):
            raise ValueError("a value has a length that the block cannot hold")
        self.positions = pc.add(self.positions, lengths)
        if len(self) and pc.max(self.positions).as_py() > len(self.data):
            raise ValueError("a value is longer than the block")


def _counted(cursors: _Cursors, valid: pa.BooleanArray | None, width: int = 1) -> pa.Int64Array:
    """So many bytes for each record, none where the mask is false."""
    if valid is None:
        return pa.repeat(pa.scalar(width, pa.int64()), len(cursors))
    return pc.if_else(valid, pa.scalar(width, pa.int64()), pa.scalar(0, pa.int64()))


@attrs.define
class _Decoder:
    """Reads values of any Avro type; remembers the named types of one schema.

    A value comes back as an Arrow array with a null where `valid` is false, or as None when it is skipped.
    """

    named: dict[str, Json]
    namespace: str

    def register(self, avro: Json, namespace: str = "") -> None:
        """Remember all named types inside of a type."""
        match avro:
            case list():
                for one in avro:
                    self.register(one, namespace)
            case {"type": "record", "name": name, "fields": list(fields), **rest}:
                full = full_name(str(name), str(rest.get("namespace") or namespace))
                self.named[full] = avro
                for field in fields:
                    self.register(field["type"], full.rpartition(".")[0])
            case {"type": "fixed" | "enum", "name": name, **rest}:
                self.named[full_name(str(name), str(rest.get("namespace") or namespace))] = avro
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                self.register(inner, namespace)
            case {"type": dict() | list() as inner}:
                self.register(inner, namespace)

    def read(self, avro: Json, at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool) -> pa.Array | None:
        """The next value of each record for which `valid` is true."""
        match avro:
            case list():
                return self._union(avro, at, valid, skip=skip)
            case str() if avro in _PRIMITIVES:
                return _primitive({"type": avro}, avro, at, valid, skip=skip)
            case str():
                return self.read(self._named(avro), at, valid, skip=skip)
            case {"type": "record", "fields": list(fields)}:
                return self._record(fields, at, valid, skip=skip)
            case {"type": "array", "items": inner}:
                return self._list(inner, at, valid, skip=skip)
            case {"type": "map", "values": inner}:
                return self._map(inner, at, valid, skip=skip)
            case {"type": str() as kind, **rest} if kind in _PRIMITIVES or kind in ("fixed", "enum"):
                return _primitive({str(key): value for key, value in rest.items()}, kind, at, valid, skip=skip)
            case {"type": inner}:
                return self.read(inner, at, valid, skip=skip)
            case _:
                raise ValueError(f"{str(avro)[:40]} is no Avro type")

    def _named(self, name: str) -> Json:
        found = [avro for full, avro in self.named.items() if full == name or full.rpartition(".")[2] == name]
        if not found:
            raise ValueError(f"the type {name} is not declared")
        return found[0]

    def _union(
        self, members: list[Json], at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
    ) -> pa.Array | None:
        index = at.varint(valid)
        if len(index) and (pc.min(index).as_py() < 0 or pc.max(index).as_py() >= len(members)):
            raise ValueError("a union has no such branch")
        branches: dict[str, pa.Array] = {}
        for number, member in enumerate(members):
            if member == "null":
                continue
            chosen = pc.equal(index, number)
            if valid is not None:
                chosen = pc.and_(chosen, valid)
            found = self.read(member, at, chosen, skip=skip)
            if found is not None:
                branches[str(number)] = found
        # Several types make a struct with a member for each, of which one at most is not null.
        if len(branches) > 1:
            return pa.StructArray.from_arrays(list(branches.values()), list(branches))
        return next(iter(branches.values()), None)

    def _record(
        self, fields: list[dict[str, Json]], at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
    ) -> pa.Array | None:
        names, children = [], []
        for field in fields:
            child = self.read(field["type"], at, valid, skip=skip)
            if child is not None:
                names.append(str(field["name"]))
                children.append(child)
        if skip:
            return None
        return pa.StructArray.from_arrays(children, names, mask=None if valid is None else pc.invert(valid))

    def _list(self, items: Json, at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool) -> pa.Array | None:
        offsets, (values,) = self._items((items,), at, valid, skip=skip)
        if skip:
            return None
        return pa.ListArray.from_arrays(offsets, values, mask=None if valid is None else pc.invert(valid))

    def _map(self, values: Json, at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool) -> pa.Array | None:
        offsets, (keys, items) = self._items(("string", values), at, valid, skip=skip)
        if skip:
            return None
        return pa.MapArray.from_arrays(offsets, keys, items, mask=None if valid is None else pc.invert(valid))

    def _items(
        self, types: Sequence[Json], at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
    ) -> tuple[pa.Int32Array, list[pa.Array]]:
        """The items of arrays, read in rounds: the first of every array, then the second, until all are done."""
        rows = pa.nulls(len(at), pa.bool_()).fill_null(True) if valid is None else valid
        open_ = pc.indices_nonzero(rows).cast(pa.int64())
        left = pa.repeat(pa.scalar(0, pa.int64()), len(open_))
        owners: list[pa.Array] = []
        parts: list[list[pa.Array]] = [[] for _ in types]
        while len(open_):
            inner = _Cursors(at.data, at.positions.take(open_))
            empty = pc.equal(left, 0)
            if pc.any(empty).as_py():
                left = pc.if_else(empty, self._block_counts(inner, empty), left)
            going = pc.greater(left, 0)
            for number, item in enumerate(types):
                found = self.read(item, inner, going, skip=skip)
                if found is not None:
                    parts[number].append(found.filter(going))
            at.positions = _scattered(at.positions, open_, inner.positions)
            owners.append(open_.filter(going))
            open_, left = open_.filter(going), pc.subtract(left.filter(going), 1)
        if not skip:
            # An array of no items has a type too.
            nowhere = pa.array([], pa.int64())
            for number, item in enumerate(types):
                parts[number].append(self.read(item, _Cursors(at.data, nowhere), None, skip=False))
        return _gathered(len(at), owners, parts)

    def _block_counts(self, at: _Cursors, wanted: pa.BooleanArray) -> pa.Int64Array:
        count = at.varint(wanted)
        negative = pc.less(count, 0)
        if pc.any(negative, min_count=0).as_py():
            at.varint(pc.and_(negative, wanted))
            count = pc.abs(count)
        # Every item has at least one byte, so that a damaged count cannot keep a reader busy.
        if len(count) and pc.max(count).as_py() > len(at.data):
            raise ValueError("an array counts more items than the block can hold")
        return count


def _gathered(rows: int, owners: list[pa.Array], parts: list[list[pa.Array]]) -> tuple[pa.Int32Array, list[pa.Array]]:
    """The offsets of every row, and the items in the order of rows."""
    owner = pa.concat_arrays(owners) if owners else pa.array([], pa.int64())
    order = pc.sort_indices(owner)
    counted = pc.value_counts(owner)
    place = pc.index_in(indices(rows), counted.field(0))
    counts = pc.fill_null(counted.field(1).take(place), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(counts)]).cast(pa.int32())
    return offsets, [pa.concat_arrays(part).take(order) if part else pa.nulls(len(owner)) for part in parts]


def _scattered(values: pa.Array, places: pa.Array, replacements: pa.Array) -> pa.Array:
    """`values` with others at some places, which are in order."""
    mask = pc.is_valid(pc.index_in(indices(len(values)), places))
    return pc.replace_with_mask(values, mask, replacements)


def indices(count: int) -> pa.Int64Array:
    """The numbers from 0 to just below `count`."""
    return pa.arange(0, count)


# --- values that hold no others ---

_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def _primitive(
    avro: Mapping[str, Json], kind: str, at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
) -> pa.Array | None:
    match kind:
        case "null":
            return None if skip else pa.nulls(len(at))
        case "boolean":
            found = _fixed(at, valid, 1)
            return None if skip else _masked(pc.not_equal(found[0], 0), valid)
        case "int" | "long" | "enum":
            numbers = at.varint(valid)
            return None if skip else _number(avro, kind, _masked(numbers, valid))
        case "float" | "double":
            width, wanted = _WIDTHS[kind]
            return _floating(at, valid, width, wanted, skip=skip)
        case "fixed":
            return _fixed_value(avro, at, valid, skip=skip)
        case _:
            return _text(avro, kind, at, valid, skip=skip)


def _number(avro: Mapping[str, Json], kind: str, numbers: pa.Int64Array) -> pa.Array:
    if kind == "enum":
        symbols = avro["symbols"]
        assert isinstance(symbols, list)
        return pa.array(symbols, pa.string()).take(numbers)
    wanted = arrow_type(leaf_type(avro, kind))
    if pa.types.is_timestamp(wanted):
        return pc.multiply(numbers, 1000 if "millis" in str(avro.get("logicalType")) else 1).cast(wanted)
    return numbers.cast(pa.int32()).cast(wanted) if kind == "int" else numbers.cast(wanted)


def _fixed(at: _Cursors, valid: pa.BooleanArray | None, width: int) -> list[pa.UInt8Array]:
    """The next bytes of each record, one array for each place."""
    found = [at.byte(place, valid) for place in range(width)]
    at.skip(_counted(at, valid, width))
    return found


def _floating(
    at: _Cursors, valid: pa.BooleanArray | None, width: int, wanted: pa.DataType, *, skip: bool
) -> pa.Array | None:
    if skip:
        at.skip(_counted(at, valid, width))
        return None
    unsigned = pa.uint32() if width == 4 else pa.uint64()
    bits = _little_endian(_fixed(at, valid, width), unsigned)
    return _masked(bits.view(wanted), valid)


def _little_endian(parts: Sequence[pa.UInt8Array], unsigned: pa.DataType) -> pa.Array:
    value = parts[0].cast(unsigned)
    for place, part in enumerate(parts[1:], start=1):
        value = pc.bit_wise_or(value, pc.shift_left(part.cast(unsigned), pa.scalar(8 * place, unsigned)))
    return value


def _fixed_value(
    avro: Mapping[str, Json], at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
) -> pa.Array | None:
    width = int(str(avro["size"]))
    wanted = leaf_type(avro, "fixed")
    if skip:
        at.skip(_counted(at, valid, width))
        return None
    if isinstance(wanted, DecimalType) and width <= _DECIMAL_BYTES:
        return _decimals(_fixed(at, valid, width), wanted, valid)
    start = at.positions
    at.skip(_counted(at, valid, width))
    return _bytes_as(avro, "fixed", _slices(at, start, valid))


def _decimals(parts: Sequence[pa.UInt8Array], wanted: DecimalType, valid: pa.BooleanArray | None) -> pa.Array:
    """Whole numbers of up to sixteen bytes, the highest first, as decimals."""
    sign = pc.if_else(pc.greater_equal(parts[0], pa.scalar(0x80, pa.uint8())), 0xFF, 0).cast(pa.uint8())
    from_lowest = [*reversed(parts), *([sign] * (_DECIMAL_BYTES - len(parts)))]
    low, high = (_little_endian(from_lowest[half : half + 8], pa.uint64()) for half in (0, 8))
    both = pa.concat_arrays([low, high]).take(_interleaved(len(low)))
    found = pa.Array.from_buffers(arrow_type(wanted), len(low), [None, both.buffers()[1]])
    return _masked(found, valid)


def _text(
    avro: Mapping[str, Json], kind: str, at: _Cursors, valid: pa.BooleanArray | None, *, skip: bool
) -> pa.Array | None:
    lengths = at.varint(valid)
    start = at.positions
    at.skip(lengths)
    return None if skip else _bytes_as(avro, kind, _slices(at, start, valid))


def _slices(at: _Cursors, start: pa.Int64Array, valid: pa.BooleanArray | None) -> pa.Array:
    """The bytes between two cursors of each record.

    As cursors are in order, they cut all data into values and the gaps between them: Arrow takes every other piece.
    """
    if not len(at):
        return pa.array([], pa.large_binary())
    bounds = pa.concat_arrays([start, at.positions]).take(_interleaved(len(at)))
    pieces = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(at) - 1, [None, bounds.buffers()[1], at.data.buffers()[1]]
    )
    places = pc.multiply(indices(len(at)), 2)
    return pieces.take(places if valid is None else pc.if_else(valid, places, pa.scalar(None, pa.int64())))


def _bytes_as(avro: Mapping[str, Json], kind: str, values: pa.Array) -> pa.Array:
    wanted = leaf_type(avro, kind)
    if isinstance(wanted, DecimalType):
        unscaled = [None if value is None else int.from_bytes(value, signed=True) for value in values.to_pylist()]
        whole = pa.array(unscaled, pa.decimal128(wanted.precision, 0))
        return pa.Array.from_buffers(arrow_type(wanted), len(whole), whole.buffers())
    return values.cast(pa.string() if wanted == Primitive("string") else pa.binary())


def _masked(values: pa.Array, valid: pa.BooleanArray | None) -> pa.Array:
    return values if valid is None else pc.if_else(valid, values, pa.scalar(None, values.type))


def _interleaved(count: int) -> pa.Int64Array:
    """Indices that take one of the first half and one of the second half of an array in turn."""
    places = indices(2 * count)
    one = pa.scalar(1, pa.int64())
    return pc.add(pc.shift_right(places, one), pc.multiply(pc.bit_wise_and(places, one), count))
