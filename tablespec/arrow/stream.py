"""Whatever speaks Arrow, taken in as record batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from tablespec.errors import SourceFailedError, UnsupportedTypeError

# What Arrow adds to the text of an error that comes from a stream made in Python.
_TRACEBACK = ". Detail: Python exception"

_T = TypeVar("_T")
_R = TypeVar("_R")


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports its rows as an Arrow stream: Polars, pandas, DuckDB, pyarrow, Spark 4."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class ReadableStream(ArrowStream, Protocol):
    """A stream whose errors come out as they are, where Arrow's own interface tells of them by a text alone."""

    def to_reader(self) -> pa.RecordBatchReader: ...


def record_batches(data: ArrowStream | pa.RecordBatch) -> pa.RecordBatchReader:
    """The rows of `data`, batch by batch.

    Raises SourceFailedError where they cannot be had, also while they are taken.
    """
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, ReadableStream):
        return data.to_reader()
    if not isinstance(data, ArrowStream):
        raise UnsupportedTypeError(
            "data", type(data).__name__, "give something with __arrow_c_stream__, such as a pyarrow table or a frame"
        )
    source = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
    with source_errors(source):
        reader = pa.RecordBatchReader.from_stream(data)
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(reader, source))


@contextmanager
def source_errors(source: str, *kinds: type[Exception]) -> Iterator[None]:
    """Raise errors of Arrow, of files and of further kinds as SourceFailedError."""
    try:
        yield
    except (OSError, pa.ArrowException, *kinds) as error:
        raise SourceFailedError(source, str(error).partition(_TRACEBACK)[0].strip()) from error


def worked_ahead(work: Callable[[_T], _R], items: Iterable[_T], ahead: int = 1) -> Iterator[_R]:
    """What `work` makes of each item, in their order, while as many threads are at the next ones."""
    with ThreadPoolExecutor(ahead) as threads:
        pending: deque[Future[_R]] = deque()
        try:
            for item in items:
                pending.append(threads.submit(work, item))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _batches(reader: pa.RecordBatchReader, source: str) -> Iterator[pa.RecordBatch]:
    with source_errors(source):
        yield from reader
