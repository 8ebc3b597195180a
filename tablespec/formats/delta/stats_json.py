"""Statistics of files: the JSON text in the log, parsed in whole columns, and written."""

from __future__ import annotations

import enum
import functools
import math
import operator
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import attrs
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.arrow.schema import arrow_type
from tablespec.errors import TableSpecWarning
from tablespec.formats.delta.numbers import as_decimal, as_integer
from tablespec.model.schema import INTEGRAL, LONG, DataType, DecimalType
from tablespec.model.stats import FileStats

_V = TypeVar("_V")

PREFIX_CHARACTERS = 32
# The greatest character: put behind a prefix it sorts after every string that goes on with another one.
TIE_BREAKER = "\U0010ffff"

# Names that the quick decoder cannot look for.
_UNDECODABLE = re.compile(r'[\x00-\x1f"\\]')

# Types with bounds in statistics; the others only have a null count.
_BOUNDED = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz"}
)
_AS_TEXT = frozenset({"string", "date", "timestamp", "timestamp_ntz"})

_NEW_LINE = pa.scalar("\n", pa.string())

# Decimals have more digits than floating-point numbers.
_EXACT = msgspec.json.Decoder(float_hook=Decimal)


class Parts(enum.Enum):
    """How much of the statistics is parsed: only bounds, counts too, or all of it with the mark of tight bounds."""

    BOUNDS = 1
    COUNTS = 2
    ALL = 3


@attrs.frozen
class Leaf:
    """A leaf column of the statistics: the path of physical names and its type."""

    path: tuple[str, ...]
    type: DataType


def is_bounded(data_type: DataType) -> bool:
    """Whether statistics hold a smallest and a greatest value for columns of that type."""
    return isinstance(data_type, DecimalType) or str(data_type) in _BOUNDED


def stats_type(leaves: Sequence[Leaf], parts: Parts) -> pa.StructType:
    """The Arrow type of parsed statistics over these leaves."""
    bounds = _nested({leaf.path: arrow_type(leaf.type) for leaf in leaves if is_bounded(leaf.type)})
    fields = [] if parts is Parts.BOUNDS else [pa.field("numRecords", pa.int64())]
    if parts is Parts.ALL:
        fields.append(pa.field("tightBounds", pa.bool_()))
    if bounds.num_fields:
        fields += [pa.field("minValues", bounds), pa.field("maxValues", bounds)]
    if leaves and parts is not Parts.BOUNDS:
        fields.append(pa.field("nullCount", _nested({leaf.path: pa.int64() for leaf in leaves})))
    return pa.struct(fields)


def parse_stats(texts: pa.Array, leaves: Sequence[Leaf], table: str, parts: Parts = Parts.COUNTS) -> pa.StructArray:
    """Parsed statistics, one for each text; what is missing or cannot be read is null."""
    wanted = stats_type(leaves, parts)
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), wanted)
    if any(_UNDECODABLE.search(name) for leaf in leaves for name in leaf.path):
        return _parse_one_by_one(texts.to_pylist(), leaves, wanted, table)
    try:
        documents = _decoded(pc.fill_null(texts, "{}"), _decoder(tuple(leaves), parts))
        return _columns(documents, wanted, [field.name for field in wanted])
    except (msgspec.DecodeError, pa.ArrowException, OverflowError):
        return _parse_one_by_one(texts.to_pylist(), leaves, wanted, table)


def format_stats(stats: FileStats, types: Mapping[tuple[str, ...], DataType], *, tight: bool | None = None) -> str:
    """The text of a file's statistics; `types` gives the type of each leaf by its physical path."""
    minimums: dict[str, object] = {}
    maximums: dict[str, object] = {}
    null_counts: dict[str, object] = {}
    for column in stats.columns:
        if column.null_count is not None:
            _put(null_counts, column.path, column.null_count)
        if _writable(column.min) and _writable(column.max) and is_bounded(types[column.path]):
            _put(minimums, column.path, _lower(column.min))
            _put(maximums, column.path, _upper(column.max))
    document: dict[str, object] = {"numRecords": stats.rows}
    if tight is not None:
        document["tightBounds"] = tight
    return msgspec.json.encode(
        document | {"minValues": minimums, "maxValues": maximums, "nullCount": null_counts}
    ).decode()


def json_of_parsed(parsed: Mapping[str, object] | None) -> str | None:
    """The text of parsed statistics, for checkpoints that hold only those."""
    if parsed is None:
        return None
    document = {key: _json_value(value) for key, value in parsed.items() if value is not None}
    return msgspec.json.encode(document).decode()


def _nested(leaves: Mapping[tuple[str, ...], pa.DataType]) -> pa.StructType:
    return pa.struct(
        [pa.field(name, below[()] if () in below else _nested(below)) for name, below in _tree(leaves).items()]
    )


class _Document(msgspec.Struct, frozen=True, gc=False):
    """The base of the documents that are decoded; they hold scalars only, so the collector need not look at them."""


@functools.lru_cache(maxsize=64)
def _decoder(leaves: tuple[Leaf, ...], parts: Parts) -> msgspec.json.Decoder[msgspec.Struct]:
    """A decoder of the statistics of just these leaves; everything else in a text is passed over."""
    bounds = _document({leaf.path: _python_type(leaf.type) for leaf in leaves if is_bounded(leaf.type)})
    members: list[tuple[str, object, object]] = [("minValues", bounds, bounds()), ("maxValues", bounds, bounds())]
    if parts is not Parts.BOUNDS:
        counts = _document({leaf.path: int | None for leaf in leaves})
        members += [
            ("numRecords", int | None, None),
            ("nullCount", counts, counts()),
            ("tightBounds", bool | None, None),
        ]
    return msgspec.json.Decoder(msgspec.defstruct("Statistics", members, bases=(_Document,), frozen=True, gc=False))


def _decoded(texts: pa.Array, decoder: msgspec.json.Decoder[msgspec.Struct]) -> Sequence[msgspec.Struct]:
    """The document of each text, decoded in one go as the lines of one text."""
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), _NEW_LINE)
    documents = decoder.decode_lines(lines[0].as_buffer())
    # Where every text is in braces, no two of them can be taken for one document, so that the number tells of all that is odd.
    whole = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if len(documents) != len(texts) or not pc.all(whole).as_py():
        raise msgspec.DecodeError("some text is not one document")
    return documents


def _document(leaves: Mapping[tuple[str, ...], object]) -> type[msgspec.Struct]:
    tree = _tree(leaves)
    members: list[tuple[str, object, object]] = []
    names: dict[str, str] = {}
    for index, (name, below) in enumerate(tree.items()):
        names[f"m{index}"] = name
        if () in below:
            members.append((f"m{index}", below[()], None))
        else:
            member = _document(below)
            members.append((f"m{index}", member, member()))
    return msgspec.defstruct("Members", members, bases=(_Document,), rename=names, frozen=True, gc=False)


def _tree(leaves: Mapping[tuple[str, ...], _V]) -> dict[str, dict[tuple[str, ...], _V]]:
    tree: dict[str, dict[tuple[str, ...], _V]] = {}
    for path, value in leaves.items():
        tree.setdefault(path[0], {})[path[1:]] = value
    return tree


def _python_type(data_type: DataType) -> object:
    if isinstance(data_type, DecimalType):
        return Decimal | None
    if str(data_type) in _AS_TEXT:
        return str | None
    return float | None if str(data_type) in ("float", "double") else int | None


def _columns(
    documents: Sequence[object], wanted: pa.StructType, names: Sequence[str], above: str = ""
) -> pa.StructArray:
    """The documents in columns; `names` are the members that make up the fields of the type, `above` is what they are members of."""
    children = []
    for name, field in zip(names, wanted):
        if pa.types.is_struct(field.type):
            below = [f"m{index}" for index in range(field.type.num_fields)]
            children.append(_columns(documents, field.type, below, f"{above}{name}."))
        else:
            children.append(_typed(list(map(operator.attrgetter(above + name), documents)), field.type))
    return pa.StructArray.from_arrays(children, fields=list(wanted))


def _typed(values: list[object], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_date(wanted) or pa.types.is_timestamp(wanted):
        return pa.array(values, pa.string()).cast(wanted)
    return pa.array(values, wanted)


def _parse_one_by_one(
    texts: list[str | None], leaves: Sequence[Leaf], wanted: pa.StructType, table: str
) -> pa.StructArray:
    rows, unreadable = [], 0
    for text in texts:
        try:
            document = None if text is None else _EXACT.decode(text)
        except msgspec.DecodeError:
            document = None
        if text is not None and not isinstance(document, dict):
            unreadable += 1
            document = None
        rows.append(None if document is None else _row(document, leaves))
    if unreadable:
        warnings.warn(
            f"{table}: the statistics of {unreadable} files are not JSON and are not used",
            TableSpecWarning,
            stacklevel=2,
        )
    return pa.array(rows, wanted)


def _row(document: dict[str, object], leaves: Sequence[Leaf]) -> dict[str, object]:
    rows, tight = document.get("numRecords"), document.get("tightBounds")
    row: dict[str, object] = {
        "numRecords": _count(rows),
        "tightBounds": tight if isinstance(tight, bool) else None,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
    for leaf in leaves:
        _put(row["nullCount"], leaf.path, _count(_dig(document.get("nullCount"), leaf.path)))
        if is_bounded(leaf.type):
            for bound in ("minValues", "maxValues"):
                _put(row[bound], leaf.path, _value(_dig(document.get(bound), leaf.path), leaf.type))
    return row


def _count(raw: object) -> object:
    return _value(raw, LONG)


def _value(raw: object, data_type: DataType) -> object:
    try:
        return _convert(raw, data_type)
    except (ValueError, ArithmeticError):
        return None


def _convert(raw: object, data_type: DataType) -> object:
    name = str(data_type)
    if isinstance(raw, str) and name in _AS_TEXT:
        match name:
            case "string":
                return raw
            case "date":
                return date.fromisoformat(raw[:10])
            case "timestamp":
                moment = datetime.fromisoformat(raw)
                return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            case _:
                return datetime.fromisoformat(raw).replace(tzinfo=None)
    if isinstance(raw, str) and isinstance(data_type, DecimalType):
        return as_decimal(Decimal(raw), data_type)
    if isinstance(raw, bool) or not isinstance(raw, int | Decimal):
        return None
    number = Decimal(raw)
    if isinstance(data_type, DecimalType):
        return as_decimal(number, data_type)
    if name in ("float", "double"):
        return float(number)
    whole = data_type in INTEGRAL and number.adjusted() < 20 and number == number.to_integral_value()
    return as_integer(int(number), data_type) if whole else None


def _dig(document: object, path: tuple[str, ...]) -> object:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _put(document: object, path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        assert isinstance(document, dict)
        document = document.setdefault(name, {})
    assert isinstance(document, dict)
    document[path[-1]] = value


def _writable(bound: object) -> bool:
    # JSON has no infinity, and what clients make of text in its place differs.
    return bound is not None and (not isinstance(bound, float) or math.isfinite(bound))


def _lower(value: object) -> object:
    if isinstance(value, str):
        return value[:PREFIX_CHARACTERS]
    return _millis(value, up=False) if isinstance(value, datetime) else _json_value(value)


def _upper(value: object) -> object:
    if isinstance(value, str):
        return _upper_text(value)
    return _millis(value, up=True) if isinstance(value, datetime) else _json_value(value)


def _upper_text(value: str) -> str:
    kept = PREFIX_CHARACTERS
    while value[kept : kept + 1] == TIE_BREAKER:
        kept += 1
    return value if kept >= len(value) else value[:kept] + TIE_BREAKER


def _millis(value: datetime, *, up: bool) -> str:
    spare = value.microsecond % 1000
    if spare:
        try:
            value += timedelta(microseconds=1000 - spare if up else -spare)
        except OverflowError:
            # The last instant of the calendar has no millisecond above it; more digits keep the bound true.
            return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json_value(value: object) -> object:
    match value:
        case dict():
            return {key: _json_value(item) for key, item in value.items() if _writable(item)}
        case Decimal():
            return msgspec.Raw(format(value, "f").encode())
        case datetime():
            return _millis(value, up=False)
        case date():
            return value.isoformat()
        case _:
            return value
