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

    assert str(error) == "cannot read the predicate at position 5: a value is missing\n  id > > 1\n       ^"


def test_a_hint_is_given_only_where_there_is_one():
    assert str(errors.ColumnNotFoundError("x", ())) == "the table has no column 'x'"
    assert str(errors.ColumnNotFoundError("x", ("y", "z"), "the struct s")) == (
        "the struct s has no column 'x'; did you mean y or z?"
    )
    assert str(errors.CorruptLogError("t", "f.json", 0, "why")) == "the log of t is damaged at f.json: why"
    assert str(errors.CorruptLogError("t", "f.json", 3, "why")) == "the log of t is damaged at f.json line 3: why"
