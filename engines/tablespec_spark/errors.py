"""Errors of tablespec on their way through Spark: told as text inside of Spark's own errors, and made themselves again at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import py4j.java_gateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tablespec import TableSpecError

_MARK = "tablespec error "
_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"


@attrs.define
class SessionStoppedError(TableSpecError):
    """The Spark session has been stopped."""

    session: str

    def __str__(self) -> str:
        return f"the Spark session {self.session} is stopped; make a new one with SparkSession.builder.getOrCreate()"


@attrs.define
class FileGoneError(TableSpecError):
    """A file of the state that a DataFrame shows is not there any more."""

    path: str

    def __str__(self) -> str:
        return (
            f"{self.path} is not there any more: the table was dropped, or vacuumed so that the instant which the DataFrame "
            "shows is lost; read the table again"
        )


@attrs.define
class SparkFailureError(TableSpecError):
    """Spark could not do the work of tablespec that it was given."""

    why: str

    def __str__(self) -> str:
        return f"Spark could not do its part: {self.why}"


class ToldError(Exception):
    """What a task of Spark raises in the place of an error of tablespec, whose text is all that comes back."""

    def __init__(self, error: TableSpecError) -> None:
        super().__init__(told(error))


def told(error: TableSpecError) -> str:
    """An error as text; plain data, so that nothing that was read can make anything but an error out of it."""
    fields = [getattr(error, name) for name in _fields(type(error))]
    return _MARK + json.dumps([type(error).__name__, fields, str(error)], default=str)


def retold(text: str) -> TableSpecError | None:
    """The error that a text tells of, wherever in it."""
    _, mark, rest = text.partition(_MARK)
    if not mark:
        return None
    try:
        (name, fields, sentence), _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return None
    for kind in _kinds(TableSpecError):
        if kind.__name__ == name and len(_fields(kind)) == len(fields):
            return kind(*fields)
    return SparkFailureError(sentence)


def _fields(kind: type) -> list[str]:
    return [field.name for field in attrs.fields(kind)] if attrs.has(kind) else []


def _kinds(root: type[TableSpecError]) -> Iterator[type[TableSpecError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


def translate_errors(roots: set[str]) -> None:
    """Let errors of tablespec come out of every call of Spark as themselves, and files of tables below `roots` that are gone too.

    Spark turns the errors of its JVM into its own at this very place, and leaves no other one.
    """
    before = py4j.java_gateway.get_return_value
    if not isinstance(before, _Translated):
        py4j.java_gateway.get_return_value = _Translated(before, roots)


@attrs.frozen
class _Translated:
    """Takes what a call of the JVM gives, and raises our errors where Spark raises those that tell of them."""

    before: Callable[..., Any]
    roots: set[str]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            return self.before(*arguments, **named)
        except (PySparkException, Py4JJavaError) as error:
            ours = self._ours(str(error))
            if ours is None:
                raise
            # Without Spark's own error, which is a page of Java.
            raise ours from None

    def _ours(self, text: str) -> TableSpecError | None:
        if _GONE in text:
            path = text.partition("file ")[2].split()[0].rstrip(".") if "file " in text else ""
            return FileGoneError(path) if any(path.startswith(root) for root in self.roots) else None
        return retold(text)


def require_running(spark: SparkSession) -> None:
    """Raise for a session that has been stopped."""
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        # A session of Spark Connect has no context, and tells by itself when it is closed.
        return
    try:
        stopped = context._jsc is None or context._jsc.sc().isStopped()
    except (AttributeError, Py4JError):
        stopped = True
    if stopped:
        raise SessionStoppedError(getattr(context, "appName", ""))


def first_sentence(error: Exception) -> str:
    """What an error of Spark says before the page of Java begins."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    caused = [line for line in lines if "Exception" in line or "Error" in line]
    return (caused or lines or [type(error).__name__])[-1 if caused else 0][:500]
