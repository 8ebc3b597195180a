"""Rows ranked by how well they match a full-text query."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import attrs
import pyarrow as pa
from pyroaring import BitMap64

from tablespec.arrow.match_text import DamagedTextIndexError, TextIndex, indexed_rows
from tablespec.arrow.schema import arrow_schema
from tablespec.errors import ColumnNotFoundError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import TRUE, Column, Match
from tablespec.formats.base import TableState
from tablespec.index.segment import TEXT, base_key, load_to_read, warn_damaged
from tablespec.index.source import column_at
from tablespec.index.text import answers, opened_segment
from tablespec.model.file import FileSlice
from tablespec.model.reading import ReadOptimized
from tablespec.model.schema import STRING, Field, Primitive, Schema
from tablespec.read.known import Known
from tablespec.read.slice_reader import FileSliceReader
from tablespec.storage.store import Storage

SCORE, SNIPPET = "_score", "_snippet"
_RANK = (Field(name=SCORE, type=Primitive("double")), Field(name=SNIPPET, type=STRING))


@attrs.frozen(kw_only=True)
class Search:
    """What is looked for and in which columns; `select` are the columns that come out."""

    query: str
    limit: int = 10
    columns: tuple[str, ...] = ()
    tokenizer: str = ""
    select: tuple[str, ...] | None = None


def search(storage: Storage, state: TableState, asked: Search) -> pa.Table:
    """The rows that match best, the best first, with `_score` and `_snippet`, the piece of text that tells why.

    Scores are BM25 within the file that holds the row, the same with an index and without one.
    """
    if asked.limit < 1:
        raise ValueError("limit is at least 1")
    reader = FileSliceReader(storage=storage, layout=state.layout, codec=state.codec).project(asked.select)
    searching = _Searching(storage, state, _match(storage, state, asked), reader)
    slices = sorted((one.slice for one in state.files.judge(TRUE)), key=_path)
    with ExitStack() as made:
        ranked = [hit for slice_ in slices for hit in searching.best(slice_, asked.limit, made)]
        best = sorted(ranked, key=lambda hit: (-hit.score, hit.path, hit.position))[: asked.limit]
        return searching.rows(best)


@attrs.frozen(eq=False)
class _Words:
    """The words of a slice, and its rows where only a merge of log files tells them."""

    slice: FileSlice
    index: TextIndex
    merged: pa.Table | None = None


@attrs.frozen(eq=False)
class _Hit:
    """A row that matches."""

    score: float
    position: int
    words: _Words

    @property
    def path(self) -> str:
        """The file that holds the row."""
        return _path(self.words.slice)


@attrs.frozen(eq=False)
class _Searching:
    """A search of one state, and the reader of the columns that come out."""

    storage: Storage
    state: TableState
    match: Match
    reader: FileSliceReader

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are looked through."""
        return tuple(column.name for column in self.match.columns)

    def best(self, slice_: FileSlice, limit: int, made: ExitStack) -> list[_Hit]:
        """The best rows of a slice."""
        found = self._stored(slice_, limit)
        return self._live(self._made(slice_, made), limit) if found is None else found

    def rows(self, hits: list[_Hit]) -> pa.Table:
        """The rows themselves, in the order of the hits."""
        wanted = self.reader.schema
        texts = tuple(dict.fromkeys(column.path[0] for column in self.match.columns))
        reader = self.reader.project((*wanted.names, *(name for name in texts if name not in wanted)))
        shown = Schema((*wanted.fields, *_RANK))
        parts = [_empty(shown)]
        order: list[tuple[float, str, int]] = []
        for words in dict.fromkeys(hit.words for hit in hits):
            mine = sorted((hit for hit in hits if hit.words is words), key=lambda hit: hit.position)
            rows = _at(reader, words, BitMap64(hit.position for hit in mine))
            columns = {column.name: column_at(rows, column.path).to_pylist() for column in self.match.columns}
            texts_of = [dict(zip(columns, row)) for row in zip(*columns.values())]
            scores = pa.array([hit.score for hit in mine], pa.float64())
            snippets = pa.array(words.index.snippets(self.match.query, self.names, texts_of), pa.string())
            chosen = [rows.column(name) for name in wanted.names]
            parts.append(pa.table([*chosen, scores, snippets], schema=parts[0].schema))
            order += [(-hit.score, hit.path, hit.position) for hit in mine]
        ranks = sorted(range(len(order)), key=order.__getitem__)
        return pa.concat_tables(parts).take(pa.array(ranks, pa.int64()))

    def _stored(self, slice_: FileSlice, limit: int) -> list[_Hit] | None:
        """The best rows by an index; None where none can tell."""
        key = base_key(slice_)
        for stored in load_to_read(self.storage, TEXT):
            segment = stored.covering(self.state.schema).get(key) if key is not None else None
            if segment is None or not answers(stored, self.match):
                continue
            index = opened_segment(self.storage, stored, segment)
            if index is None:
                continue
            try:
                return self._live(_Words(slice_, index), limit)
            except DamagedTextIndexError as error:
                warn_damaged(self.storage, segment, error)
        return None

    def _live(self, words: _Words, limit: int) -> list[_Hit]:
        deleted = None if words.slice.logs else self.reader.deleted(words.slice)
        ranked = words.index.ranked(self.match.query, self.names)
        hits = (_Hit(score, row, words) for score, row in ranked if deleted is None or row not in deleted)
        return list(islice(hits, limit))

    def _made(self, slice_: FileSlice, made: ExitStack) -> _Words:
        """The words of a slice that no index covers."""
        folder = made.enter_context(tempfile.TemporaryDirectory())
        paths = [column.path for column in self.match.columns]
        texts = self.reader.project(tuple(dict.fromkeys(path[0] for path in paths)))
        merged = None
        if slice_.logs:
            names = tuple(dict.fromkeys((*self.reader.schema.names, *texts.schema.names)))
            merged = pa.Table.from_batches(
                self.reader.project(names).open(slice_), _nullable(self.reader.project(names).schema)
            )
            batches = merged.to_batches()
        else:
            batches = texts.reading_mode(ReadOptimized()).open(slice_)

        def values() -> Iterator[tuple[int, list[pa.Array]]]:
            start = 0
            for batch in batches:
                yield start, [column_at(batch, path) for path in paths]
                start += batch.num_rows

        return _Words(slice_, indexed_rows(self.names, self.match.tokenizer, values(), folder), merged)


def _match(storage: Storage, state: TableState, asked: Search) -> Match:
    """The test, bound: in the columns asked for, or in those of a text index, or in all that hold text."""
    names = asked.columns
    if not names:
        stored = load_to_read(storage, TEXT)
        names = stored[0].definition.columns if stored else ()
        tokenizer = asked.tokenizer or (stored[0].definition.tokenizer if stored else "")
    else:
        tokenizer = asked.tokenizer
    if not names:
        names = tuple(field.name for field in state.schema if field.type == STRING)
    if not names:
        raise ColumnNotFoundError("of text", ())
    bound = bind(Match(tuple(Column(tuple(name.split("."))) for name in names), asked.query, tokenizer), state.schema)
    assert isinstance(bound, Match)
    return bound


def _at(reader: FileSliceReader, words: _Words, positions: BitMap64) -> pa.Table:
    """The rows of a slice at some positions."""
    if words.merged is not None:
        return words.merged.select(list(reader.schema.names)).take(
            pa.array(positions.to_array(), pa.uint64()).cast(pa.int64())
        )
    known = Known(predicate=TRUE, positions=positions.serialize())
    return pa.Table.from_batches(reader.open(words.slice, known), _nullable(reader.schema))


def _nullable(schema: Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])


def _empty(schema: Schema) -> pa.Table:
    return _nullable(schema).empty_table()


def _path(slice_: FileSlice) -> str:
    return slice_.base.path if slice_.base is not None else slice_.logs[0].path
