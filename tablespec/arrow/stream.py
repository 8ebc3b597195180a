"""Whatever speaks Arrow, taken in as record batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from tablespec.errors import UnsupportedTypeError

_T = TypeVar("_T")
_R = TypeVar("_R")


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
