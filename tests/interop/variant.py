"""Variant values in their Parquet encoding, decoded in the plainest way, to compare them with."""

from __future__ import annotations

import itertools
import json
import struct
from decimal import Decimal


def variant_json(metadata: bytes, value: bytes) -> str:
    """The JSON text of a variant; numbers with a fraction or an exponent stand there as normalized text."""
    return json.dumps(_value(value, 0, _names(metadata)))


def _names(metadata: bytes) -> list[str]:
    width = (metadata[0] >> 6) + 1
    count = _unsigned(metadata, 1, width)
    offsets = [_unsigned(metadata, 1 + width * (index + 1), width) for index in range(count + 1)]
    start = 1 + width * (count + 2)
    return [metadata[start + low : start + high].decode() for low, high in itertools.pairwise(offsets)]


def _value(data: bytes, at: int, names: list[str]) -> object:
    kind, header = data[at] & 3, data[at] >> 2
    match kind:
        case 0:
            return _primitive(data, at + 1, header)
        case 1:
            return data[at + 1 : at + 1 + header].decode()
        case 2:
            return _object(data, at + 1, header, names)
        case _:
            return _array(data, at + 1, header, names)


def _object(data: bytes, at: int, header: int, names: list[str]) -> dict[str, object]:
    offset_width, id_width, is_large = (header & 3) + 1, (header >> 2 & 3) + 1, header >> 4 & 1
    count_width = 4 if is_large else 1
    count = _unsigned(data, at, count_width)
    ids = at + count_width
    offsets = ids + count * id_width
    values = offsets + (count + 1) * offset_width
    return {
        names[_unsigned(data, ids + index * id_width, id_width)]: _value(
            data, values + _unsigned(data, offsets + index * offset_width, offset_width), names
        )
        for index in range(count)
    }


def _array(data: bytes, at: int, header: int, names: list[str]) -> list[object]:
    width, count_width = (header & 3) + 1, 4 if header >> 2 & 1 else 1
    count = _unsigned(data, at, count_width)
    offsets = at + count_width
    values = offsets + (count + 1) * width
    return [_value(data, values + _unsigned(data, offsets + index * width, width), names) for index in range(count)]


def _primitive(data: bytes, at: int, kind: int) -> object:
    match kind:
        case 0:
            return None
        case 1 | 2:
            return kind == 1
        case 3 | 4 | 5 | 6:
            return int.from_bytes(data[at : at + (1, 2, 4, 8)[kind - 3]], "little", signed=True)
        case 7:
            return _number(Decimal(repr(struct.unpack_from("<d", data, at)[0])))
        case 8 | 9 | 10:
            unscaled = int.from_bytes(data[at + 1 : at + 1 + (4, 8, 16)[kind - 8]], "little", signed=True)
            return _number(Decimal(unscaled).scaleb(-data[at]))
        case 16:
            return data[at + 4 : at + 4 + _unsigned(data, at, 4)].decode()
        case _:
            raise NotImplementedError(kind)


def _number(value: Decimal) -> str:
    return str(value.normalize())


def _unsigned(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")
