"""The ways to cut text into words, by name, and the one that a column asks for."""

from __future__ import annotations

import json

from tablespec.errors import TypeMismatchError, UnknownTokenizerError
from tablespec.expr.nodes import Column, Match
from tablespec.model.schema import Schema

# The key of a column's metadata that names its tokenizer.
TOKENIZER = "tablespec.tokenizer"
DEFAULT = "default"
STEMMERS = {
    "ar_stem": "arabic",
    "da_stem": "danish",
    "de_stem": "german",
    "el_stem": "greek",
    "en_stem": "english",
    "es_stem": "spanish",
    "fi_stem": "finnish",
    "fr_stem": "french",
    "hu_stem": "hungarian",
    "it_stem": "italian",
    "nl_stem": "dutch",
    "no_stem": "norwegian",
    "pt_stem": "portuguese",
    "ro_stem": "romanian",
    "ru_stem": "russian",
    "sv_stem": "swedish",
    "ta_stem": "tamil",
    "tr_stem": "turkish",
}
TOKENIZERS = (DEFAULT, "folded", "whitespace", "raw", *STEMMERS)


def check_tokenizer(name: str) -> str:
    """The name itself; one that is not known raises UnknownTokenizerError."""
    if name not in TOKENIZERS:
        raise UnknownTokenizerError(name, TOKENIZERS)
    return name


def tokenizer_of(columns: tuple[Column, ...], schema: Schema) -> str:
    """The tokenizer that a schema names for columns; they must agree on it."""
    found = {column.name: _named(column, schema) for column in columns}
    names = sorted(set(found.values()))
    if len(names) > 1:
        told = " and ".join(f"{column} by {name}" for column, name in found.items())
        raise TypeMismatchError(
            ", ".join(found), "string", f"one MATCH: words are told {told}; name one tokenizer in it"
        )
    return names[0]


def _named(column: Column, schema: Schema) -> str:
    text = dict(schema.field(*column.path).metadata).get(TOKENIZER)
    return DEFAULT if text is None else str(json.loads(text))


def match(columns: str | tuple[str, ...] | list[str], query: str, tokenizer: str = "") -> Match:
    """The predicate that a full-text query matches a column, or several columns taken together."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    return Match(tuple(Column((name,)) for name in names), query, tokenizer)
