"""Many values made at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar

import attrs

_Value = TypeVar("_Value", bound=attrs.AttrsInstance)


@contextmanager
def made_in_bulk() -> Iterator[None]:
    """Hold back the collector of cycles while many values are made that all stay; for as long as one listing takes, no more.

    It looks at all values again whenever there are a quarter more of them, which takes longer than making them. Afterwards they
    count as old, so that it does not look at all of them at once either.
    """
    # Where somebody else holds it back, that is for them to end.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # What somebody else froze must stay so.
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def made(class_: type[_Value], **columns: Sequence[object]) -> list[_Value]:
    """The values that the constructor of a frozen class makes of columns of the same length, and faster.

    A field that is not given has its default. Raises TypeError where one without a default is left out, and for a class whose
    constructor does more than to take the fields, or whose values have more than slots for them, such as one for weak references.
    """
    fields = attrs.fields(class_)
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or not columns.keys() <= {field.name for field in fields}:
        raise TypeError(f"{class_.__name__} is not made of {', '.join(columns)} with {sorted(lengths)} values")
    if hasattr(class_, "__attrs_post_init__") or any(field.converter or field.validator for field in fields):
        raise TypeError(f"{class_.__name__} is made by its constructor alone")
    given = [columns[field.name] if field.name in columns else repeat(_default(class_, field)) for field in fields]
    values: list[Any] = list(map(_draft(class_), *given))
    for value in values:
        value.__class__ = class_
    return values


@lru_cache(maxsize=16)
def _draft(class_: type[attrs.AttrsInstance]) -> type:
    """A class of the same slots that is not frozen: to set those of a frozen value takes a call for each."""
    names = [field.name for field in attrs.fields(class_)]
    return attrs.make_class(class_.__name__, names, slots=True, weakref_slot=False, eq=False)


def _default(class_: type, field: attrs.Attribute[Any]) -> object:
    if field.default is attrs.NOTHING or isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        raise TypeError(f"{class_.__name__} needs {field.name}")
    return field.default
