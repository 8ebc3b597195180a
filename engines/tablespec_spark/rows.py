"""The rows of DataFrames on their way into tables, written by the executors that compute them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import attrs
import pyarrow as pa
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from tablespec import NewFile, RowWriter, TableSpecError, UnsupportedByEngineError
from tablespec_spark.errors import require_running
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import is_connect, map_in_arrow

_OUTCOME = "outcome"
InPartition = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@attrs.frozen(eq=False)
class FrameRows:
    """The rows of a DataFrame, written by the executors that compute them.

    Each attempt of a task writes files under names of its own, and only those of the attempt that Spark counts are told.
    """

    frame: DataFrame

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.frame, DataFrame):
            way_out = "make a DataFrame of it with spark.createDataFrame, or use the method of the table"
            raise UnsupportedByEngineError("Spark", f"write a {type(self.frame).__name__}", way_out)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
        require_running(self.frame.sparkSession)
        if self.frame.isStreaming:
            way_out = "use writeStream with the format tablespec, or do this in foreachBatch"
            raise UnsupportedByEngineError("Spark", "write a stream at once", way_out)
        for field in self.frame.schema:
            _check_type(field)
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def distinct(self, columns: Sequence[str]) -> pa.Table:
        """The different values that some columns have together, gathered on the driver."""
        return self.frame.select([column_of((name,)) for name in columns]).distinct().toArrow()

    def write(self, writer: RowWriter) -> tuple[NewFile, ...]:
        """The files that hold the rows now; when a part fails, what the others wrote is removed."""

        def discard(files: Iterable[NewFile]) -> None:
            for file in files:
                writer.storage.delete(file.path)

        return gathered(self.frame, _Part(writer), discard)


def gathered(frame: DataFrame, part: InPartition, discard: Callable[[tuple[Any, ...]], None]) -> tuple[Any, ...]:
    """What was made of all partitions of a frame, each of which tells its `outcome`; when one failed, the rest is discarded."""
    noting = part if is_connect(frame.sparkSession) else _Noting(part, _notes(frame.sparkSession))
    try:
        told = map_in_arrow(frame, noting, StructType().add(_OUTCOME, BinaryType())).collect()
    except BaseException:
        # A query of the user's that fails in one partition: Spark then keeps for itself what came of the others.
        if isinstance(noting, _Noting):
            discard(_made(noting.taken()))
        raise
    outcomes = [pickle.loads(row[_OUTCOME]) for row in told]
    if isinstance(noting, _Noting):
        noting.taken()
    for outcome in outcomes:
        if isinstance(outcome, TableSpecError):
            discard(_made(outcomes))
            raise outcome
    return _made(outcomes)


def _made(outcomes: Iterable[object]) -> tuple[Any, ...]:
    return tuple(one for outcome in outcomes if isinstance(outcome, tuple) for one in outcome)


class _Notes(AccumulatorParam[list[bytes]]):
    """Outcomes that come to the driver as tasks end, and not when all of them have."""

    def zero(self, value: list[bytes]) -> list[bytes]:
        return []

    def addInPlace(self, value1: list[bytes], value2: list[bytes]) -> list[bytes]:  # noqa: N802 - as Spark calls it
        value1.extend(value2)
        return value1


def _notes(spark: SparkSession) -> Accumulator[list[bytes]]:
    return spark.sparkContext.accumulator([], _Notes())


@attrs.frozen(eq=False)
class _Noting:
    """Does the work of a partition and notes its outcome."""

    part: InPartition
    notes: Accumulator[list[bytes]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for told in self.part(batches):
            self.notes.add(told.column(_OUTCOME).to_pylist())
            yield told

    def taken(self) -> list[Any]:
        """What was noted, which is kept no longer: Spark never forgets an accumulator."""
        noted, self.notes.value = self.notes.value, []
        return [pickle.loads(outcome) for outcome in noted]


def outcome(make: Callable[[], tuple[Any, ...]]) -> pa.RecordBatch:
    """What was made of a partition, or what went wrong, as a value, which Spark does not wrap; on an executor."""
    made: tuple[Any, ...] | TableSpecError
    try:
        made = make()
    except TableSpecError as error:
        made = error
    return pa.RecordBatch.from_pydict({_OUTCOME: pa.array([pickle.dumps(made)], pa.binary())})


def _check_type(field: StructField) -> None:
    try:
        to_arrow_schema(StructType([field]), timezone="UTC")
    except PySparkException as error:
        what = f"hand over the column {field.name} of type {field.dataType.simpleString()}"
        raise UnsupportedByEngineError("Spark", what, "cast it to another type, or leave it out") from error


@attrs.frozen
class _Part:
    """Writes the rows of one partition of a DataFrame and tells the files, or what went wrong, as a value."""

    writer: RowWriter

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rest = iter(batches)
        first = next(rest, None)
        if first is None:
            return
        rows = pa.RecordBatchReader.from_batches(first.schema, chain([first], rest))
        yield outcome(lambda: self.writer.write(rows))
