"""Merging DataFrames of any size: Spark sends rows with equal keys to one executor, and the core decides there what happens to them."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_

import attrs
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from tablespec import Fragment, KeyValues, SpreadMerge, Table, TableRows, TableSpecError
from tablespec_spark.errors import SparkFailureError, first_sentence, retold
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import map_in_arrow
from tablespec_spark.rows import FrameRows, gathered, outcome
from tablespec_spark.runner import check_reachable, task_rows
from tablespec_spark.schema import spark_schema

_ROWS, _ORDER, _BUCKET = "rows", "number", "_bucket"
_PLACE, _PAGE, _ERROR = "place", "page", "error"
_PAGES = StructType(
    [StructField(_PLACE, IntegerType()), StructField(_PAGE, BinaryType()), StructField(_ERROR, BinaryType())]
)
# For each task that stores changes so many places, of which it may get none or several.
_PLACES_A_TASK = 4
# A source with at most so many rows is sent to every executor.
MOST_SENT = 200_000


def source_of(table: Table, data: DataFrame) -> pa.Table | FrameSource:
    """The rows of a source: a few are sent to every executor, as Spark does for joins, and many to the executors of their keys."""
    check_reachable(table.url)
    FrameRows(data).arrow_schema  # noqa: B018 - columns that cannot be handed over are told before anything is computed
    few = data.limit(MOST_SENT + 1).toArrow()
    return few if few.num_rows <= MOST_SENT else FrameSource(data.localCheckpoint())


@attrs.frozen(eq=False)
class FrameSource:
    """The rows of a DataFrame as the source of a merge; they must stay the same from one query to the next."""

    frame: DataFrame

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the DataFrame."""
        return FrameRows(self.frame).arrow_schema

    def key_values(self, columns: Sequence[str]) -> list[KeyValues]:
        """The least and the greatest value of some columns."""
        named = [column_of((name,)) for name in columns]
        found = self.frame.agg(*(end for column in named for end in (F.min(column), F.max(column)))).toArrow()
        pairs = zip(found.columns[::2], found.columns[1::2])
        return [
            KeyValues(pa.concat_arrays([*low.chunks, *high.chunks]).drop_null(), complete=False) for low, high in pairs
        ]

    def read_all(self) -> pa.Table:
        """The rows, gathered on the driver."""
        return self.frame.toArrow()

    def merge(self, work: SpreadMerge, table_rows: Sequence[TableRows]) -> tuple[Fragment, ...]:
        """What executors have stored; when one fails, what the others wrote is removed."""
        spark = self.frame.sparkSession
        # Spark puts small partitions together, so that few changes make few files.
        places = max(_PLACES_A_TASK * len(table_rows), int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
        both = self._source_rows(work).unionAll(task_rows(spark, table_rows, work.exchanged, work.target.storage.url))
        pages = map_in_arrow(_by_key(both, work), _Pages(work, places), _PAGES)
        try:
            return gathered(pages.repartition(_PLACE), _Store(work), work.discard)
        except (PySparkException, Py4JJavaError) as error:
            raise retold(str(error)) or SparkFailureError(first_sentence(error)) from error

    def _source_rows(self, work: SpreadMerge) -> DataFrame:
        # The columns of a source may have any names.
        rows = self.frame.select(F.struct("*").alias(_ROWS), F.monotonically_increasing_id().alias(_ORDER))
        return map_in_arrow(rows, _SourceRows(work), spark_schema(work.exchanged))


def _by_key(rows: DataFrame, work: SpreadMerge) -> DataFrame:
    """The rows with equal keys in one place, those of the source first; rows without a key anywhere, where none is like another."""
    bucket = F.xxhash64(*(F.col(key) for key in work.keys))
    if not work.nulls_are_alike:
        lacking = reduce(or_, (F.col(key).isNull() for key in work.keys))
        bucket = F.when(lacking, F.xxhash64(F.monotonically_increasing_id())).otherwise(bucket)
    return rows.withColumn(_BUCKET, bucket).repartition(_BUCKET).drop(_BUCKET).sortWithinPartitions(*work.sorting)


@attrs.frozen
class _SourceRows:
    """Rows of the source in the columns that both sides have on their way."""

    work: SpreadMerge

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.RecordBatch.from_struct_array(batch.column(_ROWS))
            yield self.work.source_rows(rows, batch.column(_ORDER))


@attrs.frozen
class _Pages:
    """What happens to the rows that came together, or what went wrong, as a value that Spark does not try again."""

    work: SpreadMerge
    places: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for place, page in self.work.pages(batches, self.places):
                yield _row(place, page, None)
        except TableSpecError as error:
            yield _row(0, None, pickle.dumps(error))


def _row(place: int, page: bytes | None, error: bytes | None) -> pa.RecordBatch:
    columns = [pa.array([place], pa.int32()), pa.array([page], pa.binary()), pa.array([error], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[_PLACE, _PAGE, _ERROR])


@attrs.frozen
class _Store:
    """Stores pages and tells what was done, or what went wrong, as a value."""

    work: SpreadMerge

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield outcome(lambda: self.work.store(_pages(batches)))


def _pages(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for page, error in zip(batch.column(_PAGE), batch.column(_ERROR)):
            if error.is_valid:
                failed: TableSpecError = pickle.loads(error.as_py())
                raise failed
            yield page.as_py()
