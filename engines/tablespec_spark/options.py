"""What the options of `spark.read` and `df.write` ask for, as values; an option that nobody knows is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeGuard, get_args

import attrs

from tablespec import At, InstantNotFoundError, InvalidOptionError, Table, TableSpecError, open_table

Reading = Literal["snapshot", "readOptimized", "incremental", "changes"]

STORAGE = "storage."
_PLACE = ("path",)
_ROWS = (*_PLACE, "readingMode", "where", "columns")
READ = (
    *(*_ROWS, "versionAsOf", "timestampAsOf"),
    *("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp"),
)
READ_STREAM = (
    *(*_ROWS, "startingVersion", "startingTimestamp"),
    *("maxFilesPerTrigger", "maxBytesPerTrigger", "maxVersionsPerTrigger"),
)
_NEW_TABLE = ("partitionBy", "key", "properties")
WRITE = (*_PLACE, *_NEW_TABLE, "mergeSchema", "replaceWhere", "dataColumns", "txnAppId", "txnVersion")
WRITE_STREAM = (*_PLACE, *_NEW_TABLE, "mergeSchema", "checkpointLocation", "queryName")


@attrs.define
class UnknownOptionError(TableSpecError):
    """An option that means nothing here; it could have been meant to keep rows safe."""

    option: str
    use: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the format tablespec has no option {self.option} for {self.use}; it has {', '.join(self.known)}, "
            f"and {STORAGE}<name> for what the store needs"
        )


def invalid(option: str, text: str, expected: str) -> InvalidOptionError:
    """What to raise for the text of an option that makes no sense."""
    return InvalidOptionError(option, repr(text), expected)


@attrs.frozen
class Options:
    """Options as Spark gives them: names whose capitals do not count, and texts."""

    given: Mapping[str, str]

    @classmethod
    def checked(cls, given: Mapping[str, str], use: str, known: Iterable[str]) -> Options:
        """The options, once all of them are known."""
        names = tuple(dict.fromkeys(known))
        lowered = {name.lower() for name in names}
        for name in given:
            if name.lower() not in lowered and not name.lower().startswith(STORAGE):
                raise UnknownOptionError(name, use, names)
        return cls({name.lower(): value for name, value in given.items()})

    @property
    def url(self) -> str:
        """Where the table lies."""
        return self._needed("path", "the place of the table, given to load, save, start or toTable")

    @property
    def storage(self) -> Mapping[str, str]:
        """What the store needs."""
        return {name.removeprefix(STORAGE): value for name, value in self.given.items() if name.startswith(STORAGE)}

    def table(self) -> Table:
        """The table."""
        return open_table(self.url, storage_options=self.storage)

    def text(self, name: str) -> str | None:
        """A text as it is."""
        return self.given.get(name.lower())

    def number(self, name: str, *, least: int = 0) -> int | None:
        """A whole number."""
        text = self.text(name)
        if text is None:
            return None
        if not text.isdecimal() or int(text) < least:
            raise invalid(name, text, f"a whole number from {least} on")
        return int(text)

    def flag(self, name: str) -> bool:
        """True or false; false where nothing is said."""
        text = self.text(name)
        if text is None or text.lower() == "false":
            return False
        if text.lower() != "true":
            raise invalid(name, text, "true or false")
        return True

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between them, or a list in JSON where a name has a comma."""
        text = self.text(name)
        if text is None:
            return None
        if not text.lstrip().startswith("["):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        found = self._json(name, text)
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise invalid(name, text, "a list of names in JSON")
        return tuple(found)

    def texts(self, name: str) -> Mapping[str, str]:
        """Texts by name, in JSON: the names of other options lose their capitals on the way."""
        text = self.text(name)
        if text is None:
            return {}
        found = self._json(name, text)
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise invalid(name, text, "an object in JSON whose values are texts")
        return found

    def reading(self, default: Reading) -> Reading:
        """The reading mode."""
        text = self.text("readingMode") or default
        if not _is_reading(text):
            raise invalid("readingMode", text, " or ".join(get_args(Reading)))
        return text

    def end(self) -> At:
        """The instant that a snapshot shows, or the last one of a stretch; None for the newest."""
        at = self._either("versionAsOf", "timestampAsOf")
        return self._either("endingVersion", "endingTimestamp") if at is None else at

    def after(self, table: Table) -> int:
        """The version before the first one of a stretch; -1 for all that there ever was."""
        version, time = self.number("startingVersion"), self._time("startingTimestamp")
        if version is not None and time is not None:
            raise invalid("startingTimestamp", str(time), "none beside startingVersion")
        if version is not None:
            return version - 1
        return -1 if time is None else version_before(table, time)

    def _either(self, version: str, time: str) -> At:
        number, when = self.number(version), self._time(time)
        if number is not None and when is not None:
            raise invalid(time, str(when), f"none beside {version}")
        return when if number is None else number

    def _time(self, name: str) -> datetime | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            expected = "a time such as 2026-01-31T12:00:00+00:00, in UTC where it names no zone"
            raise invalid(name, text, expected) from error
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    def _needed(self, name: str, what: str) -> str:
        text = self.text(name)
        if not text:
            raise invalid(name, text or "", what)
        return text

    @staticmethod
    def _json(name: str, text: str) -> object:
        try:
            return json.loads(text)
        except ValueError as error:
            raise invalid(name, text, "JSON") from error


def version_before(table: Table, time: datetime) -> int:
    """The newest version that was completed before a time; -1 where there is none."""
    try:
        return table.instant(time - timedelta(milliseconds=1)).version
    except InstantNotFoundError:
        return -1


def refuse_together(options: Options, name: str, others: Sequence[str]) -> None:
    """Raise where an option stands beside others that mean nothing then."""
    for other in others:
        if options.text(other) is not None:
            raise invalid(other, options.text(other) or "", f"none for {name}")


def _is_reading(text: str) -> TypeGuard[Reading]:
    return text in get_args(Reading)
