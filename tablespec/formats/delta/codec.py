"""Between the bytes of a commit and its actions."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tablespec.errors import CorruptLogError
from tablespec.formats.delta.actions import Line

_DECODER = msgspec.json.Decoder(Line)
_ENCODER = msgspec.json.Encoder()


def decode_commit(data: bytes, table: str, file: str) -> list[Line]:
    """The actions of a commit in their order; a line that cannot be read raises with its number."""
    try:
        return _DECODER.decode_lines(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_line_by_line(data, table, file)


def encode_commit(lines: Iterable[Line]) -> bytes:
    """One line of JSON for each action."""
    return b"".join(_ENCODER.encode(line) + b"\n" for line in lines)


def _decode_line_by_line(data: bytes, table: str, file: str) -> list[Line]:
    lines = []
    texts = data.split(b"\n")
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            lines.append(_DECODER.decode(text))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            torn = number == len(texts) and not data.endswith(b"\n")
            why = f"the last line is cut off ({error})" if torn else str(error)
            raise CorruptLogError(table, file, number, why) from error
    return lines
