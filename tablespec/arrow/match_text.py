"""Text cut into words and looked through, by tantivy; the package is an extra, and only MATCH and text indexes need it.

An index of words is the same whether it lies in a folder or is made in memory for the rows at hand, so both give the same rows.
"""

from __future__ import annotations

import contextlib
import functools
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablespec.errors import InvalidTextQueryError, MissingExtraError
from tablespec.expr.text_query import Anything, Boosted, Clauses, Fuzzy, In, TextQuery, Words, parse_text_query
from tablespec.expr.tokenizer import DEFAULT, STEMMERS

try:
    import tantivy
    from tantivy import Occur, Query
except ImportError:
    tantivy = None  # type: ignore[assignment]  # an extra that is not installed

_POSITION, _NULL = "position", "null"
# The least that a writer accepts; rows in memory fit into it.
_SMALL_HEAP = 15_000_000
_SNIPPET = 150
_LARGE_HEAP = 200_000_000
_ENDING = r"(.|\n)*"
# What means something in the regular expressions of tantivy.
_REGEX_SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")


class DamagedTextIndexError(Exception):
    """The files of a text index are not what tantivy wrote; it never leaves tablespec."""


@attrs.frozen(eq=False, slots=False)
class TextIndex:
    """Words of some columns and the positions of the rows that have them."""

    index: tantivy.Index
    columns: tuple[str, ...]
    tokenizer: str

    @functools.cached_property
    def _searcher(self) -> tantivy.Searcher:
        return self.index.searcher()

    @functools.cached_property
    def _known_nulls(self) -> dict[tuple[str, ...], BitMap64]:
        return {}

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._searcher.num_docs)

    def hits(self, query: str, columns: tuple[str, ...]) -> tuple[BitMap64, BitMap64]:
        """The positions of the rows that match, and of those in which all columns are null."""
        with _damage_told():
            found, nulls = self._search(self._compiled(query, columns), self.rows), self.nulls(columns)
            return BitMap64(position for _, position in found) - nulls, nulls

    def nulls(self, columns: tuple[str, ...]) -> BitMap64:
        """The positions of the rows in which all of some columns are null."""
        with _damage_told():
            if columns in self._known_nulls:
                return BitMap64(self._known_nulls[columns])
            tests = [(Occur.Must, Query.term_query(self.index.schema, _NULL, self._field(name))) for name in columns]
            found = BitMap64(position for _, position in self._search(Query.boolean_query(tests), self.rows))
            self._known_nulls[columns] = found
            return BitMap64(found)

    def ranked(self, query: str, columns: tuple[str, ...]) -> Iterator[tuple[float, int]]:
        """Scores and positions of the rows that match, the best first, among equals by position."""
        with _damage_told():
            compiled, nulls = self._compiled(query, columns), self.nulls(columns)
            asked, given = 64, 0
            while True:
                found = self._search(compiled, min(asked, self.rows))
                complete = len(found) < asked
                # Where the list was cut, rows as good as its last one may be missing.
                sure = found if complete else [one for one in found if one[0] > found[-1][0]]
                sure.sort(key=lambda one: (-one[0], one[1]))
                yield from (one for one in sure[given:] if one[1] not in nulls)
                given = len(sure)
                if complete:
                    return
                asked *= 4

    def snippets(self, query: str, columns: tuple[str, ...], texts: Sequence[Mapping[str, str | None]]) -> list[str]:
        """For each row the piece of its text with the most of what was looked for, the words found between <b> and </b>."""
        compiled, schema = self._compiled(query, columns), self.index.schema
        makers = {
            name: tantivy.SnippetGenerator.create(self._searcher, compiled, schema, self._field(name))
            for name in columns
        }
        found = []
        for row in texts:
            pieces = [
                makers[name].snippet_from_doc(tantivy.Document(**{self._field(name): text})).to_html()
                for name, text in row.items()
                if text
            ]
            best = max(pieces, key=lambda piece: piece.count("<b>"), default="")
            # Of beginnings and fuzzy words nothing is marked.
            found.append(best or html.escape(next(filter(None, row.values()), "")[:_SNIPPET]))
        return found

    def _search(self, query: tantivy.Query, limit: int) -> list[tuple[float, int]]:
        if not limit:
            return []
        found = self._searcher.search(query, limit=limit, count=False).hits
        if not found:
            return []
        positions = self._searcher.fast_field_values(_POSITION, [address for _, address in found])
        if any(position is None for position in positions):
            raise DamagedTextIndexError("a row without a position")
        return [(score, int(position)) for (score, _), position in zip(found, positions) if position is not None]

    def _field(self, column: str) -> str:
        return f"c{self.columns.index(column)}"

    def _compiled(self, query: str, columns: tuple[str, ...]) -> tantivy.Query:
        tree = parse_text_query(query, columns)
        compiled = _Compiling(self.index.schema, self.columns, self.tokenizer).query(tree, columns)
        if compiled is None:
            why = f"there is no word in it that the tokenizer {self.tokenizer} keeps"
            raise InvalidTextQueryError(query, 0, why)
        return compiled


def match_text(columns: Mapping[str, pa.Array], query: str, tokenizer: str) -> pa.BooleanArray:
    """Whether each row matches: true, false, or null where all columns are null."""
    arrays = tuple(columns.values())
    index = indexed_rows(columns, tokenizer, [(0, arrays)])
    try:
        hits = pa.array(index.hits(query, tuple(columns))[0].to_array(), pa.uint64())
    except DamagedTextIndexError as error:
        raise InvalidTextQueryError(query, 0, str(error)) from error
    rows = len(arrays[0])
    found = pc.is_in(pa.array(range(rows), pa.uint64()), value_set=hits)
    known = functools.reduce(pc.or_, (pc.is_valid(array) for array in arrays))
    return pc.if_else(known, found, pa.scalar(None, pa.bool_()))


def indexed_rows(
    columns: Iterable[str],
    tokenizer: str,
    rows: Iterable[tuple[int, Sequence[pa.Array]]],
    folder: str | None = None,
) -> TextIndex:
    """An index of text columns in a folder, or in memory; each batch has the position of its first row."""
    _check_installed()
    names = tuple(columns)
    schema = _schema(len(names))
    index = tantivy.Index(schema) if folder is None else tantivy.Index(schema, folder)
    index.register_tokenizer("words", analyzer(tokenizer))
    small = folder is None
    writer = index.writer(_SMALL_HEAP if small else _LARGE_HEAP, 1 if small else 2)
    add, document = writer.add_document, tantivy.Document
    for start, arrays in rows:
        texts = [array.to_pylist() for array in arrays]
        if len(texts) == 1:
            for position, text in enumerate(texts[0], start):
                add(document(position=position, null="c0") if text is None else document(position=position, c0=text))
            continue
        for position, row in enumerate(zip(*texts), start):
            fields = {f"c{number}": text for number, text in enumerate(row) if text is not None}
            empty = [f"c{number}" for number, text in enumerate(row) if text is None]
            add(document(position=position, null=empty, **fields) if empty else document(position=position, **fields))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return TextIndex(index, names, tokenizer)


def opened_index(folder: str, columns: tuple[str, ...], tokenizer: str) -> TextIndex:
    """The index in a folder of the local file system; raises DamagedTextIndexError."""
    _check_installed()
    with _damage_told():
        index = tantivy.Index.open(folder)
        # Otherwise a thread looks for new commits all the time.
        index.config_reader("manual", 0)
        index.register_tokenizer("words", analyzer(tokenizer))
        return TextIndex(index, columns, tokenizer)


def analyzer(tokenizer: str, *, stemmed: bool = True) -> tantivy.TextAnalyzer:
    """What cuts text into words; `stemmed=False` leaves the endings of words as they are."""
    _check_installed()
    kind, filters = tantivy.Tokenizer, tantivy.Filter
    match tokenizer:
        case "raw":
            return tantivy.TextAnalyzerBuilder(kind.raw()).build()
        case "whitespace":
            return tantivy.TextAnalyzerBuilder(kind.whitespace()).filter(filters.lowercase()).build()
        case "folded":
            simple = tantivy.TextAnalyzerBuilder(kind.simple()).filter(filters.lowercase())
            return simple.filter(filters.ascii_fold()).build()
    simple = tantivy.TextAnalyzerBuilder(kind.simple()).filter(filters.lowercase())
    if tokenizer == DEFAULT or not stemmed:
        return simple.build()
    return simple.filter(filters.stemmer(STEMMERS[tokenizer])).build()


@attrs.frozen(eq=False)
class _Compiling:
    """Makes queries of tantivy; parts without a word that the tokenizer keeps ask for nothing and are None."""

    schema: tantivy.Schema
    columns: tuple[str, ...]
    tokenizer: str

    def query(self, tree: TextQuery, columns: tuple[str, ...]) -> tantivy.Query | None:
        match tree:
            case Words():
                return self._in_each(columns, tree)
            case Fuzzy():
                return self._in_each(columns, tree)
            case Anything():
                return Query.all_query()
            case In(column, operand):
                return self.query(operand, (column,))
            case Boosted(operand, factor):
                inner = self.query(operand, columns)
                return None if inner is None else Query.boost_query(inner, factor)
            case Clauses(must, should, must_not):
                return self._clauses(must, should, must_not, columns)
            case _:
                assert_never(tree)

    def _clauses(
        self,
        must: tuple[TextQuery, ...],
        should: tuple[TextQuery, ...],
        must_not: tuple[TextQuery, ...],
        columns: tuple[str, ...],
    ) -> tantivy.Query | None:
        kinds = ((Occur.Must, must), (Occur.Should, should), (Occur.MustNot, must_not))
        made = [(occur, self.query(operand, columns)) for occur, operands in kinds for operand in operands]
        kept = [(occur, query) for occur, query in made if query is not None]
        if not kept:
            return None
        if all(occur == Occur.MustNot for occur, _ in kept):
            kept.append((Occur.Must, Query.all_query()))
        return Query.boolean_query(kept)

    def _in_each(self, columns: tuple[str, ...], tree: Words | Fuzzy) -> tantivy.Query | None:
        fields = [f"c{self.columns.index(name)}" for name in columns]
        found = [self._fuzzy(one, tree) if isinstance(tree, Fuzzy) else self._words(one, tree) for one in fields]
        kept = [query for query in found if query is not None]
        if not kept:
            return None
        return kept[0] if len(kept) == 1 else Query.boolean_query([(Occur.Should, query) for query in kept])

    def _fuzzy(self, field: str, tree: Fuzzy) -> tantivy.Query | None:
        words = analyzer(self.tokenizer, stemmed=False).analyze(tree.text)
        if len(words) > 1:
            raise InvalidTextQueryError(
                tree.text, 0, f"the tokenizer {self.tokenizer} makes {len(words)} words of it, and ~ is about one"
            )
        return Query.fuzzy_term_query(self.schema, field, words[0], tree.distance) if words else None

    def _words(self, field: str, tree: Words) -> tantivy.Query | None:
        words = analyzer(self.tokenizer).analyze(tree.text)
        if not words:
            return None
        if tree.prefix:
            # The beginning of a word has no ending to take off.
            last = analyzer(self.tokenizer, stemmed=False).analyze(tree.text)[-1]
            ending = _escaped(last) + _ENDING
            if len(words) == 1:
                return Query.regex_query(self.schema, field, ending)
            return Query.regex_phrase_query(self.schema, field, [*map(_escaped, words[:-1]), ending], tree.slop)
        if len(words) == 1:
            return Query.term_query(self.schema, field, words[0])
        return Query.phrase_query(self.schema, field, [*words], tree.slop)


def _escaped(word: str) -> str:
    return _REGEX_SIGNS.sub(r"\\\g<0>", word)


def _schema(columns: int) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for number in range(columns):
        builder.add_text_field(f"c{number}", tokenizer_name="words", index_option="position")
    builder.add_text_field(_NULL, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(_POSITION, fast=True)
    return builder.build()


@contextlib.contextmanager
def _damage_told() -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise DamagedTextIndexError(str(error)) from error
    except BaseException as error:
        # What goes wrong inside of tantivy is no Exception, and its class cannot be imported.
        if type(error).__name__ == "PanicException":
            raise DamagedTextIndexError(str(error)) from error
        raise


def _check_installed() -> None:
    if tantivy is None:
        raise MissingExtraError("MATCH", "text")
