"""Whatever speaks Arrow, taken in as record batches."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from tablespec.errors import UnsupportedTypeError

_T = TypeVar("_T")
_DEPTH = 2


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports its rows as an Arrow stream: Polars, pandas, DuckDB, pyarrow, Spark 4."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def record_batches(data: ArrowStream | pa.RecordBatch) -> pa.RecordBatchReader:
    """The rows of `data`, batch by batch."""
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return data
    if not isinstance(data, ArrowStream):
        raise UnsupportedTypeError(
            "data", type(data).__name__, "give something with __arrow_c_stream__, such as a pyarrow table or a frame"
        )
    return pa.RecordBatchReader.from_stream(data)


def prefetched(items: Iterable[_T]) -> Iterator[_T]:
    """The same items, the next ones being made by another thread while one is worked on."""
    ready: queue.Queue[tuple[_T | None, BaseException | None, bool]] = queue.Queue(_DEPTH)
    stopped = threading.Event()

    def put(entry: tuple[_T | None, BaseException | None, bool]) -> None:
        while not stopped.is_set():
            try:
                ready.put(entry, timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for item in items:
                put((item, None, True))
                if stopped.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            put((None, error, False))
        else:
            put((None, None, False))

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        while True:
            item, error, more = ready.get()
            if error is not None:
                raise error
            if not more:
                return
            yield item  # type: ignore[misc]  # an entry with more=True holds an item
    finally:
        stopped.set()
        thread.join()
