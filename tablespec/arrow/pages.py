"""Single rows of Parquet files: only the pages that hold them are read, where the file says where its pages lie.

The chosen pages of a column make a small Parquet file of their own in memory, which is read like any other.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import cast

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from tablespec.arrow.thrift import BINARY, I32, I64, LIST, STRUCT, Reader, Struct, encoded

ReadRange = Callable[[int, int], bytes]
# A footer that is larger takes longer to take apart than it saves.
_LARGEST_FOOTER = 1 << 19
# Those that are not larger are kept; taken apart they have some twenty times as many bytes.
_SMALL_FOOTER = 1 << 14
_MAGIC = b"PAR1"
# So many pages from where a page should be it mostly is.
_NEAR = 8
_VARINT = rb"([\x80-\xff]*[\x01-\x7f])"
# A page without the byte 0 at its end, which no number but 0 has in it; the number of the first row may be 0.
_LOCATION = re.compile(rb"\x16" + _VARINT + rb"\x15" + _VARINT + rb"\x16" + _VARINT + rb"?")
# Numbers of the fields that are needed, by the structs of the Parquet format.
_SCHEMA, _ROW_GROUPS = 2, 4
_CHILDREN = 5
_COLUMNS, _ROWS = 1, 3
_META, _INDEX_AT, _INDEX_SIZE, _ENCRYPTED = 3, 4, 5, 8
_VALUES, _COMPRESSED, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
_KEPT_META = (1, 2, 3, 4, 6)
# Type, encodings, path and compression.
_KEPT_ALIKE = (1, 2, 3, 4)


@attrs.frozen
class Source:
    """A file by its size and what gives bytes of it; `state` differs from those of all other files, and of what it was before.

    Without a state nothing is known of it when it is read again.
    """

    size: int
    read: ReadRange = attrs.field(eq=False)
    state: Hashable | None = None


@attrs.frozen(eq=False)
class _Pages:
    """Where the data pages of a column lie in a row group of some rows; numbers are decoded when they are asked for."""

    found: list[bytes]
    rows: int

    def page_of(self, row: int) -> int:
        """The page that holds a row, which is first looked for where it would be if all pages had as many rows."""
        guess = row * len(self.found) // self.rows
        if self.first_row(guess) <= row < self.first_row(guess + 1):
            return guess
        low, high = max(0, guess - _NEAR), min(len(self.found), guess + _NEAR)
        if not self.first_row(low) <= row < self.first_row(high):
            low, high = 0, len(self.found)
        return bisect_right(self.found, row, low, high, key=_first_row) - 1

    def first_row(self, page: int) -> int:
        """The number of the first row of a page; after the last page that of all rows."""
        return _first_row(self.found[page]) if page < len(self.found) else self.rows

    def offset(self, page: int) -> int:
        """Where a page begins in the file."""
        return _location(self.found[page])[0]

    def end(self, page: int) -> int:
        """Where a page ends in the file."""
        offset, size, _ = _location(self.found[page])
        return offset + size


def rows_at(
    file: pq.ParquetFile, source: Source, columns: Sequence[str], positions: Sequence[int]
) -> pa.RecordBatch | None:
    """Some columns of the rows at some positions, in order; None where the pages of the file are not known."""
    leaves = _flat_leaves(file, columns)
    if leaves is None or file.metadata.serialized_size > _LARGEST_FOOTER:
        return None
    try:
        length = int.from_bytes(source.read(source.size - 8, 4), "little")
        ending = source.read(source.size - 8 - length, length)
        footer = _footer(ending) if length <= _SMALL_FOOTER else Reader(ending).struct()
        groups = _wanted_groups(footer, positions)
        arrays = [_column(footer, groups, leaf, source) for leaf in leaves]
    except (ValueError, IndexError, KeyError):
        # Whatever the footer has that is not known here, other ways of reading the file may know.
        return None
    if any(array is None for array in arrays):
        return None
    return pa.RecordBatch.from_arrays(
        [array.column for array in arrays if array is not None],
        schema=pa.schema([array.field for array in arrays if array is not None]),
    )


def _flat_leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[int] | None:
    """The numbers of the leaves that are the columns; None where one has parts."""
    schema = file.schema
    numbers = {schema.column(index).path: index for index in range(len(schema))}
    found = [numbers.get(name) for name in columns]
    if any(
        index is None or schema.column(index).max_repetition_level or schema.column(index).max_definition_level > 1
        for index in found
    ):
        return None
    return [index for index in found if index is not None]


@attrs.frozen(eq=False)
class _Group:
    """A row group of which some rows are wanted, by their numbers in it."""

    chunks: list[Struct]
    rows: int
    wanted: list[int]


def _wanted_groups(footer: Struct, positions: Sequence[int]) -> list[_Group]:
    found, start, at = [], 0, 0
    for group in _structs(footer[_ROW_GROUPS][1]):
        rows = cast(int, group[_ROWS][1])
        end = at
        while end < len(positions) and positions[end] < start + rows:
            end += 1
        if end > at:
            wanted = [position - start for position in positions[at:end]]
            found.append(_Group(_structs(group[_COLUMNS][1]), rows, wanted))
        start, at = start + rows, end
    if at < len(positions):
        raise IndexError("a position after the last row")
    return found


@attrs.frozen(eq=False)
class _Column:
    field: pa.Field
    column: pa.Array


def _column(footer: Struct, groups: list[_Group], leaf: int, source: Source) -> _Column | None:
    """The values of a column in the wanted rows, in order."""
    body = bytearray(_MAGIC)
    small: list[Struct] = []
    places: list[int] = []
    before = 0
    for group in groups:
        chunk = group.chunks[leaf]
        if _INDEX_AT not in chunk or _ENCRYPTED in chunk:
            return None
        pages = _pages_in(source, cast(int, chunk[_INDEX_AT][1]), cast(int, chunk[_INDEX_SIZE][1]), group.rows)
        of_rows = [pages.page_of(row) for row in group.wanted]
        chosen = list(dict.fromkeys(of_rows))
        rows = 0
        shifts: dict[int, int] = {}
        for page in chosen:
            first = pages.first_row(page)
            shifts[page] = before + rows - first
            rows += pages.first_row(page + 1) - first
        places += [row + shifts[page] for row, page in zip(group.wanted, of_rows)]
        small.append(_small_group(cast(Struct, chunk[_META][1]), pages, chosen, rows, body, source.read))
        before += rows
    made = _parquet(footer, leaf, [_joined(small)] if _are_alike(small) else small, before, body)
    table = pq.ParquetFile(pa.BufferReader(made), coerce_int96_timestamp_unit="us").read(use_threads=False)
    values = table.column(0).take(pa.array(places, pa.int64()))
    return _Column(table.schema.field(0), values.combine_chunks())


def _small_group(meta: Struct, pages: _Pages, chosen: list[int], rows: int, body: bytearray, read: ReadRange) -> Struct:
    """A row group of the chosen pages, whose bytes are put at the end of `body`."""
    start = len(body)
    told: Struct = {number: meta[number] for number in _KEPT_META if number in meta}
    if _DICTIONARY_AT in meta and cast(int, meta[_DICTIONARY_AT][1]) > 0:
        dictionary = cast(int, meta[_DICTIONARY_AT][1])
        body += read(dictionary, pages.offset(0) - dictionary)
        told[_DICTIONARY_AT] = I64, start
    told[_DATA_AT] = I64, len(body)
    for first, last in _runs(chosen):
        # Pages one after the other are read in one go.
        offset = pages.offset(first)
        body += read(offset, pages.end(last) - offset)
    return _row_group(told, rows, len(body) - start)


def _row_group(meta: Struct, rows: int, size: int) -> Struct:
    chunk: Struct = {2: (I64, 0), _META: (STRUCT, {**meta, _VALUES: (I64, rows), _COMPRESSED: (I64, size)})}
    return {_COLUMNS: (LIST, (STRUCT, [chunk])), 2: (I64, size), _ROWS: (I64, rows)}


def _are_alike(groups: list[Struct]) -> bool:
    """Whether the pages of row groups could as well be those of one: none needs a dictionary of its own."""
    told = [{number: meta.get(number) for number in (*_KEPT_ALIKE, _DICTIONARY_AT)} for meta in map(_meta, groups)]
    return told[0][_DICTIONARY_AT] is None and all(one == told[0] for one in told)


def _joined(groups: list[Struct]) -> Struct:
    """One row group of the pages of several, which lie one after the other."""
    rows, size = (sum(cast(int, group[number][1]) for group in groups) for number in (_ROWS, 2))
    return _row_group(_meta(groups[0]), rows, size)


def _meta(group: Struct) -> Struct:
    return cast(Struct, _structs(group[_COLUMNS][1])[0][_META][1])


def _runs(chosen: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for page in chosen:
        if runs and runs[-1][1] == page - 1:
            runs[-1] = runs[-1][0], page
        else:
            runs.append((page, page))
    return runs


def _parquet(footer: Struct, leaf: int, groups: list[Struct], rows: int, body: bytearray) -> pa.Buffer:
    """A whole file of one column, made of its pages and a footer."""
    elements = _structs(footer[_SCHEMA][1])[1:]
    leaves = [element for element in elements if not element.get(_CHILDREN, (I32, 0))[1]]
    made: Struct = {
        1: footer[1],
        _SCHEMA: (LIST, (STRUCT, [{4: (BINARY, b"schema"), 5: (I32, 1)}, leaves[leaf]])),
        3: (I64, rows),
        _ROW_GROUPS: (LIST, (STRUCT, groups)),
    }
    ending = encoded(made)
    body += ending + len(ending).to_bytes(4, "little") + _MAGIC
    return pa.py_buffer(body)


def _structs(value: object) -> list[Struct]:
    return cast(tuple[int, list[Struct]], value)[1]


# Files do not change, and whoever fetches rows of one does so again.
@functools.lru_cache(maxsize=64)
def _footer(data: bytes) -> Struct:
    return Reader(data).struct()


def _pages_in(source: Source, offset: int, size: int, rows: int) -> _Pages:
    """The pages of a column of a row group, which are remembered where it is known that the file is the same."""
    found = _kept_pages if source.state is not None else _kept_pages.__wrapped__
    return found(source, offset, size, rows)


# Those of a row group of 64 MB take less than half a megabyte, for all its columns together.
@functools.lru_cache(maxsize=128)
def _kept_pages(source: Source, offset: int, size: int, rows: int) -> _Pages:
    return _pages(source.read(offset, size), rows)


def _pages(data: bytes, rows: int) -> _Pages:
    """The page locations of an offset index; each is a struct of offset, size and number of the first row."""
    if data[0] != 0x19 or data[1] & 15 != STRUCT:
        raise ValueError("an offset index that does not begin with its pages")
    reader = Reader(data, 2)
    count = data[1] >> 4
    if count == 15:
        count = reader.varint()
    # Each page ends with a byte 0, and the first has another one, the number of its first row.
    first, empty, *others = data[reader.at :].split(b"\x00", count + 1)
    if empty or len(others) != count:
        raise ValueError("page locations of another form")
    return _Pages([first, *others[:-1]], rows)


def _first_row(location: bytes) -> int:
    return _location(location)[2]


# The same page is asked for what it is until its row is found, and often by the next query.
@functools.lru_cache(maxsize=1 << 13)
def _location(data: bytes) -> tuple[int, int, int]:
    """Offset, size and number of the first row of a page."""
    found = _LOCATION.fullmatch(data)
    if found is None:
        raise ValueError("a page location of another form")
    offset, size, first_row = map(_number, found.groups(b""))
    return offset, size, first_row


def _number(data: bytes) -> int:
    """A number of Thrift that is not negative."""
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
    return value >> 1
