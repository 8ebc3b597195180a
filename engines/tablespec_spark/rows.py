"""The rows of DataFrames on their way into tables, written by the executors that compute them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from tablespec import NewFile, RowWriter, TableSpecError, UnsupportedByEngineError
from tablespec_spark.errors import require_running
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import map_in_arrow

_OUTCOME = "outcome"


@attrs.frozen(eq=False)
class FrameRows:
    """The rows of a DataFrame, written by the executors that compute them.

    Each attempt of a task writes files under names of its own, and only those of the attempt that Spark counts are told.
    """

    frame: DataFrame

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
        require_running(self.frame.sparkSession)
        for field in self.frame.schema:
            _check_type(field)
        return to_arrow_schema(self.frame.schema, timezone="UTC")

    def distinct(self, columns: Sequence[str]) -> pa.Table:
        """The different values that some columns have together, gathered on the driver."""
        return self.frame.select([column_of((name,)) for name in columns]).distinct().toArrow()

    def write(self, writer: RowWriter) -> tuple[NewFile, ...]:
        """The files that hold the rows now; when a part fails, what the others wrote is removed."""
        told = map_in_arrow(self.frame, _Part(writer), StructType().add(_OUTCOME, BinaryType())).collect()
        outcomes = [pickle.loads(row[_OUTCOME]) for row in told]
        files = tuple(file for outcome in outcomes if isinstance(outcome, tuple) for file in outcome)
        for outcome in outcomes:
            if isinstance(outcome, TableSpecError):
                for file in files:
                    writer.storage.delete(file.path)
                raise outcome
        return files


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
        outcome: tuple[NewFile, ...] | TableSpecError
        try:
            outcome = self.writer.write(pa.RecordBatchReader.from_batches(first.schema, chain([first], rest)))
        except TableSpecError as error:
            outcome = error
        yield pa.RecordBatch.from_pydict({_OUTCOME: pa.array([pickle.dumps(outcome)], pa.binary())})
