"""The names of base and log files, taken apart for a whole table at once."""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from tablespec.formats.hudi.names import BASE, LOG, NATIVE_LOG, parse_base_file_name


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
    is_base = pc.match_substring_regex(names, _whole(BASE.pattern))
    bases = _rows(is_base)
    rest = pc.indices_nonzero(pc.invert(is_base))
    others = names.take(rest)
    is_log = pc.match_substring_regex(others, _whole(LOG.pattern))
    # The parts behind the id of a group hold no underscore.
    parts = pc.split_pattern(names if len(bases) == len(names) else names.take(bases), "_", max_splits=2, reverse=True)
    endings = pc.list_element(parts, 2).dictionary_encode()
    return NameColumns(
        bases=bases,
        file_ids=pc.list_element(parts, 0),
        numbers=endings.indices,
        endings=tuple(_ending(text) for text in endings.dictionary.to_pylist()),
        logs=rest.filter(pc.and_not(is_log, pc.ends_with(others, ".cdc"))).cast(pa.int64()),
        has_native_logs=pc.any(pc.match_substring_regex(others, _whole(NATIVE_LOG.pattern)), min_count=0).as_py(),
    )


def _rows(mask: pa.BooleanArray) -> pa.Int64Array:
    return pc.indices_nonzero(mask).cast(pa.int64())


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"


def _ending(text: str) -> tuple[int, str]:
    name = parse_base_file_name(f"id_0-0-0_{text}")
    assert name is not None
    return name.instant, name.extension
