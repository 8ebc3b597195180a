"""Instant times: numbers of seventeen digits that read yyyyMMddHHmmssSSS."""

from __future__ import annotations

from datetime import UTC, datetime

from tablespec.model.instant import from_millis, to_millis

DIGITS = 17
_SECONDS_DIGITS = 14


def instant_number(text: str) -> int:
    """An instant time as a number that orders like instants; one without milliseconds gets 999, as Hudi reads it."""
    return int(text + "999") if len(text) == _SECONDS_DIGITS else int(text)


def whole_number(number: int) -> int:
    """The number of an instant that was given with or without its milliseconds."""
    return number * 1000 + 999 if len(str(number)) == _SECONDS_DIGITS else number


def instant_texts(number: int) -> tuple[str, ...]:
    """How the rows of an instant may spell its time."""
    text = str(number).zfill(DIGITS)
    return (text, text[:_SECONDS_DIGITS]) if text.endswith("999") else (text,)


def instant_millis(number: int) -> int:
    """Milliseconds since the epoch of an instant time, taken as UTC; 0 for numbers that are no time."""
    text = str(number)
    if len(text) != DIGITS:
        return 0
    try:
        seconds = datetime.strptime(text[:_SECONDS_DIGITS], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return to_millis(seconds) + int(text[_SECONDS_DIGITS:])


def number_at(millis: int) -> int:
    """The instant time of a number of milliseconds since the epoch, in UTC."""
    return int(f"{from_millis(millis):%Y%m%d%H%M%S}{millis % 1000:03}")
