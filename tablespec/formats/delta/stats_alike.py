"""Bounds in statistics that look alike, as one writer's do: cut out of the texts at the same commas, without decoding them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.delta.stats_json import Leaf, Parts, stats_type
from tablespec.model.schema import Field, Schema, StructType

# So many texts are tried first: where they differ already, the others need not be cut.
_SAMPLE = 64
_END = 2**31 - 1
_MEMBER = re.compile(r'(\{?(?:"[\w -]+":\{)*"[\w -]+":)(?:("[^"\\]*")|-?\d[\d.eE+-]*)(\}*)')
_NAME = re.compile(r'"([\w -]+)":')


@attrs.frozen
class _Member:
    """A value between two commas of a text: the names that lead to it, and what stands before and after it."""

    path: tuple[str, ...]
    before: bytes
    after: bytes
    is_text: bool


class _UnlikeError(Exception):
    """The texts are not alike, or hold more than simple values."""


def alike_bounds(texts: pa.StringArray, leaves: Sequence[Leaf], schema: Schema) -> pa.StructArray | None:
    """The bounds of these leaves in each text, as `parse_stats` finds them; None where the texts have to be decoded."""
    wanted = stats_type(leaves, Parts.BOUNDS)
    kinds = {field.name for field in wanted}
    # A column of such a name could be taken for the object of all bounds.
    if not kinds or not len(texts) or texts.null_count or not kinds.isdisjoint(_names(schema.fields)):
        return None
    first = texts[0].as_py()
    try:
        members = _members_up_to(first, _leaf_types(wanted))
        width = min(len(members), first.count(",")) + 1
        _cut(texts.slice(0, _SAMPLE), members, width, wanted)
        return _cut(texts, members, width, wanted)
    except (_UnlikeError, pa.ArrowInvalid):
        return None


def _members_up_to(text: str, wanted: Mapping[tuple[str, ...], pa.DataType]) -> list[_Member]:
    """The members of a text up to the last that is wanted."""
    members: list[_Member] = []
    above: tuple[str, ...] = ()
    missing = set(wanted)
    for piece in text.split(","):
        match = _MEMBER.fullmatch(piece) if missing else None
        if match is None:
            break
        before, quoted, after = match.groups()
        mark = '"' if quoted else ""
        path = (*above, *_NAME.findall(before))
        members.append(_Member(path, (before + mark).encode(), (mark + after).encode(), bool(quoted)))
        missing.discard(path)
        above = path[: max(len(path) - 1 - len(after), 0)]
    if missing:
        raise _UnlikeError
    return members


def _cut(texts: pa.StringArray, members: Sequence[_Member], width: int, wanted: pa.StructType) -> pa.StructArray:
    """The bounds in texts that each have these members first, as far as the members tell."""
    pieces = pc.split_pattern(texts, ",", max_splits=width - 1).flatten()
    if len(pieces) != width * len(texts) or not pc.all(pc.ends_with(texts, "}")).as_py():
        raise _UnlikeError
    types = _leaf_types(wanted)
    values = {}
    for index in _looked_at(members, types):
        member = members[index]
        column = pieces.take(pa.arange(index, len(pieces), width))
        values[member.path] = _values(column, member, types.get(member.path))
    return _nested(wanted, values)


def _looked_at(members: Sequence[_Member], wanted: Mapping[tuple[str, ...], pa.DataType]) -> list[int]:
    """The members to look at: those wanted and all before them in the object of minimums or maximums.

    Only then is a wanted name known to be where it is in the first text, and not in another struct or among the null counts.
    """
    looked_at: list[int] = []
    for kind in {path[0] for path in wanted}:
        own = [index for index, member in enumerate(members) if member.path[0] == kind]
        last = max(index for index in own if members[index].path in wanted)
        looked_at += [index for index in own if index <= last]
    return looked_at


def _values(column: pa.StringArray, member: _Member, wanted: pa.DataType | None) -> pa.Array:
    """The values of a member; `wanted` is None for one that is only looked at."""
    before, after = len(member.before), len(member.after)
    alike = pc.and_(pc.starts_with(column, member.before), pc.ends_with(column, member.after))
    if not pc.all(alike).as_py() or pc.min(pc.binary_length(column)).as_py() < before + after:
        raise _UnlikeError
    texts = pc.binary_slice(column.cast(pa.binary()), before, -after if after else _END).cast(pa.string())
    if not member.is_text:
        # The cast fails where there is anything but a number.
        return texts.cast(_number(wanted))
    if pc.any(pc.match_substring(texts, "\\")).as_py():
        raise _UnlikeError
    return texts.cast(_text(wanted))


def _number(wanted: pa.DataType | None) -> pa.DataType:
    if wanted is None or pa.types.is_integer(wanted) or pa.types.is_float64(wanted):
        return wanted or pa.float64()
    raise _UnlikeError


def _text(wanted: pa.DataType | None) -> pa.DataType:
    if wanted is None or pa.types.is_string(wanted) or pa.types.is_temporal(wanted):
        return wanted or pa.string()
    raise _UnlikeError


def _names(fields: Sequence[Field]) -> Iterator[str]:
    for field in fields:
        yield field.stored_name
        if isinstance(field.type, StructType):
            yield from _names(field.type.fields)


def _leaf_types(wanted: pa.StructType, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], pa.DataType]:
    types: dict[tuple[str, ...], pa.DataType] = {}
    for field in wanted:
        path = (*above, field.name)
        types |= _leaf_types(field.type, path) if pa.types.is_struct(field.type) else {path: field.type}
    return types


def _nested(
    wanted: pa.StructType, values: Mapping[tuple[str, ...], pa.Array], above: tuple[str, ...] = ()
) -> pa.StructArray:
    children = [
        _nested(field.type, values, (*above, field.name))
        if pa.types.is_struct(field.type)
        else values[*above, field.name]
        for field in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted))
