"""The names of base and log files, taken apart for a whole table at once."""

from __future__ import annotations

import re

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.names import ENDING, FILE_ID, LOG, NATIVE_LOG, TOKEN, parse_base_file_name


@attrs.frozen
class NameColumns:
    """What names say: which rows are base files, and which logs that hold no changes for CDC.

    For each base file there is the id of its group and which of the `endings` it has, by number. An ending is the instant and
    the file format. There are few of them, while there may be a million files.
    """

    bases: pa.Int64Array
    file_ids: pa.StringArray
    numbers: pa.Int32Array
    endings: tuple[tuple[int, str], ...]
    logs: pa.Int64Array
    has_native_logs: bool


def taken_apart(names: pa.StringArray) -> NameColumns:
    """The names of files in one pass; it finds what `parse_base_file_name` and `parse_log_file_name` find one by one."""
    # The parts behind the id of a group hold no underscore.
    parts = pc.split_pattern(names, "_", max_splits=2, reverse=True)
    has_parts = pc.equal(pc.list_value_length(parts), 3)
    whole = _filtered(parts, has_parts)
    ids, tokens, texts = (pc.list_element(whole, place) for place in range(3))
    are_right = pc.and_(_are_ids(ids), pc.and_(_match_few(tokens, TOKEN), _match_few(texts, ENDING)))
    is_base = pc.replace_with_mask(has_parts, has_parts, are_right)
    endings = _filtered(texts, are_right).dictionary_encode()
    rest = pc.indices_nonzero(pc.invert(is_base))
    others = names.take(rest)
    is_log = pc.match_substring_regex(others, _whole(LOG.pattern))
    return NameColumns(
        bases=_rows(is_base),
        file_ids=_filtered(ids, are_right),
        numbers=endings.indices,
        endings=tuple(_ending(text) for text in endings.dictionary.to_pylist()),
        logs=rest.filter(pc.and_not(is_log, pc.ends_with(others, ".cdc"))).cast(pa.int64()),
        has_native_logs=pc.any(pc.match_substring_regex(others, _whole(NATIVE_LOG.pattern)), min_count=0).as_py(),
    )


def _are_ids(texts: pa.StringArray) -> pa.BooleanArray:
    # Where nowhere a line ends, every text but the empty one matches; the pattern takes longer than all the rest.
    _, _, data = texts.buffers()
    if data is None or re.search(rb"\n", data) is None:
        return pc.not_equal(texts, "")
    return pc.match_substring_regex(texts, _whole(FILE_ID))


def _match_few(texts: pa.StringArray, pattern: str) -> pa.BooleanArray:
    """Whether texts, of which many are the same, match a pattern."""
    encoded = texts.dictionary_encode()
    return pc.match_substring_regex(encoded.dictionary, _whole(pattern)).take(encoded.indices)


def _filtered(column: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    return column if pc.all(mask, min_count=0).as_py() else column.filter(mask)


def _rows(mask: pa.BooleanArray) -> pa.Int64Array:
    return pc.indices_nonzero(mask).cast(pa.int64())


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def _ending(text: str) -> tuple[int, str]:
    name = parse_base_file_name(f"id_0-0-0_{text}")
    assert name is not None
    return name.instant, name.extension
