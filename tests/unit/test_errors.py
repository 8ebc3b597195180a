import copy
import inspect
import pickle

import attrs
import pytest

from tablespec import errors
from tablespec.errors import TableSpecError, TableSpecWarning

CLASSES = sorted(
    (
        found
        for _, found in inspect.getmembers(errors, inspect.isclass)
        if issubclass(found, TableSpecError) and found is not TableSpecError
    ),
    key=lambda found: found.__name__,
)
SAMPLES = {"str": "some text", "int": 7, "tuple[str, ...]": ("first", "second"), "bool": True}


def sample(kind):
    return kind(*(SAMPLES[str(field.type).removesuffix(" | None")] for field in attrs.fields(kind)))


every = pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)


def test_there_are_errors():
    assert len(CLASSES) > 25


@every
def test_an_error_survives_pickling_with_its_fields_and_its_sentence(kind):
    error = sample(kind)

    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is kind
        assert attrs.astuple(again) == attrs.astuple(error)
        assert str(again) == str(error)
    assert str(copy.deepcopy(error)) == str(error)


@every
def test_an_error_says_a_sentence_of_its_own_that_names_what_is_wrong(kind):
    text = str(sample(kind))

    assert "__str__" in vars(kind)
    assert len(text) > 5
    assert "!" not in text
    assert "please" not in text.lower()
    assert "None" not in text


@every
def test_an_error_is_caught_as_one_of_ours_and_by_its_name(kind):
    with pytest.raises(TableSpecError):
        raise sample(kind)

    assert kind.__name__.endswith("Error")
    assert kind.__doc__


@every
def test_errors_hash_as_other_exceptions_do(kind):
    assert len({sample(kind), sample(kind)}) == 2


def test_a_warning_is_a_warning_for_users():
    assert issubclass(TableSpecWarning, UserWarning)


def test_the_fields_of_an_error_may_be_given_by_position():
    error = errors.InstantNotFoundError("s3://b/t", "7", "0 to 6")

    assert str(error) == "s3://b/t has no completed instant 7; it has 0 to 6"


def test_a_predicate_is_shown_with_a_mark_below_the_place():
    error = errors.InvalidPredicateError("id > > 1", 5, "a value is missing")

    assert str(error) == "cannot read the predicate, line 1 column 6: a value is missing\n  id > > 1\n       ^"


def test_of_a_predicate_of_several_lines_only_the_line_of_the_place_is_shown():
    error = errors.InvalidPredicateError("id = 1\n\tAND x > > 1\nAND y", 15, "a value is missing")

    assert str(error) == "cannot read the predicate, line 2 column 9: a value is missing\n   AND x > > 1\n          ^"


@pytest.mark.parametrize(
    ("text", "position", "sentence"),
    [
        ("", None, "cannot read the predicate: there is none"),
        ("", 0, "cannot read the predicate: there is none"),
        ("5", None, "cannot read the predicate '5': there is none"),
    ],
)
def test_a_problem_without_a_place_in_a_text_is_told_without_one(text, position, sentence):
    assert str(errors.InvalidPredicateError(text, position, "there is none")) == sentence


def test_what_is_not_supported_is_shown_with_a_mark_below_the_place():
    error = errors.UnsupportedOperatorError("id = 1\nAND a + 1 = 2", "the operator +", "columns", 13)

    assert str(error) == (
        "the text uses the operator +, line 2 column 7, which is not supported; there are columns\n  AND a + 1 = 2\n        ^"
    )
    assert str(errors.UnsupportedOperatorError("a + 1", "the operator +", "columns")) == (
        "the predicate 'a + 1' uses the operator +, which is not supported; there are columns"
    )


def test_a_hint_is_given_only_where_there_is_one():
    assert str(errors.ColumnNotFoundError("x", ())) == "the table has no column 'x'"
    assert str(errors.ColumnNotFoundError("x", ("y", "z"), "the struct s")) == (
        "the struct s has no column 'x'; did you mean y or z?"
    )
    assert str(errors.CorruptLogError("t", "f.json", 0, "why")) == "the log of t is damaged at f.json: why"
    assert str(errors.CorruptLogError("t", "f.json", 3, "why")) == "the log of t is damaged at f.json line 3: why"
