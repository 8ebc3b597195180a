"""Full-text queries mean what they say, and what would be misread is refused with the place and a way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablespec.errors import InvalidTextQueryError, TypeMismatchError, UnknownTokenizerError
from tablespec.expr.bind import bind
from tablespec.expr.nodes import Match
from tablespec.expr.text_query import Anything, Boosted, Clauses, Fuzzy, In, TextQuery, Words, parse_text_query
from tablespec.model.schema import STRING, Field, Schema

A, B, C = Words("a"), Words("b"), Words("c")
COLUMNS = ("title", "body")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", A),
        ("a b", Clauses(should=(A, B))),
        ("+a -b c", Clauses(must=(A,), should=(C,), must_not=(B,))),
        ("a AND b OR c", Clauses(should=(Clauses(must=(A, B)), C))),
        ("a AND NOT b", Clauses(must=(A,), must_not=(B,))),
        ("a OR NOT b", Clauses(should=(A, Clauses(must_not=(B,))))),
        ("NOT a", Clauses(must_not=(A,))),
        ("(a b) AND c", Clauses(must=(Clauses(should=(A, B)), C))),
        ('"a b"', Words("a b")),
        ('"a b"~2', Words("a b", slop=2)),
        ('"a b"*', Words("a b", prefix=True)),
        ('"say \\"a\\""', Words('say "a"')),
        ("word*", Words("word", prefix=True)),
        ("word~1", Fuzzy("word", 1)),
        ("word~2^3", Boosted(Fuzzy("word", 2), 3.0)),
        ("*", Anything()),
        ("TITLE:a", In("title", A)),
        ("title:(a b)", In("title", Clauses(should=(A, B)))),
        (r"c\*", Words("c*")),
        ("what? and or", Clauses(should=(Words("what?"), Words("and"), Words("or")))),
        ("12:30", Words("12:30")),
        ("/usr/bin", Words("/usr/bin")),
    ],
)
def test_a_query_is_read_as_it_says(text: str, tree: TextQuery) -> None:
    assert parse_text_query(text, COLUMNS) == tree


@pytest.mark.parametrize(
    ("text", "position", "why"),
    [
        ("", 0, "no word"),
        ("()", 1, "no word"),
        ("(a", 0, "never closed"),
        ("a)", 1, "never opened"),
        ('a "b', 2, "never closed"),
        ("a AND", 5, "must follow"),
        ("OR a", 0, "small letters"),
        ("a && b", 2, "write AND"),
        ("w*rd", 1, "at the end of a word"),
        ("wo?d", 2, "stands for no character"),
        ("a b~", 2, "b~1 or b~2"),
        ("a~9", 0, "no more than 2"),
        ("[a TO b]", 0, "compare the column"),
        ("/a.*b/", 3, "at the end of a word"),
        ("/ab/", 0, "regular expressions"),
        ("author:a", 0, "none of the columns title, body"),
        ("title: a", 6, "without a space"),
        ("- a", 1, "without a space"),
        ('"a b"c', 5, "a space must follow"),
        ("(a b)~2", 5, "a word or a phrase"),
    ],
)
def test_what_would_be_misread_is_refused_with_the_place(text: str, position: int, why: str) -> None:
    with pytest.raises(InvalidTextQueryError, match=why) as raised:
        parse_text_query(text, COLUMNS)

    assert raised.value.position == position


@given(st.text('ab "()+-*~^:?\\/[]1 ANDORT', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_text_query(text, COLUMNS)
    except InvalidTextQueryError as error:
        assert 0 <= error.position <= len(text)


SCHEMA = Schema(
    (
        Field(name="title", type=STRING),
        Field(name="body", type=STRING, metadata=(("tablespec.tokenizer", '"en_stem"'),)),
    )
)


def test_columns_say_by_which_tokenizer_they_are_cut_into_words() -> None:
    bound = bind("MATCH(body, 'x')", SCHEMA)

    assert isinstance(bound, Match)
    assert bound.tokenizer == "en_stem"
    assert bind("MATCH(title, 'x')", SCHEMA) == bind("MATCH(title, 'x', 'default')", SCHEMA)


def test_columns_cut_in_different_ways_need_one_tokenizer_by_name() -> None:
    with pytest.raises(TypeMismatchError, match="name one tokenizer"):
        bind("MATCH(title, body, 'x')", SCHEMA)

    bound = bind("MATCH(title, body, 'x', 'raw')", SCHEMA)
    assert isinstance(bound, Match)
    assert (bound.tokenizer, [column.name for column in bound.columns]) == ("raw", ["title", "body"])


def test_queries_and_tokenizers_are_checked_before_anything_is_read() -> None:
    with pytest.raises(InvalidTextQueryError, match="never closed"):
        bind("MATCH(title, '\"a')", SCHEMA)
    with pytest.raises(UnknownTokenizerError, match="'klingon'; there are default"):
        bind("MATCH(title, 'a', 'klingon')", SCHEMA)
