"""Tables over Spark Connect: no planner can be asked there, so Spark gets lists of files and tables of what it must know of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, StringType, StructField, StructType

from tablespec import FileSlice
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import PARQUET_OPTIONS, ROW_INDEX, FileRelation
from tablespec_spark.listing import hadoop_path

_PATH, _KNOWN, _NUMBER = "__tablespec_path", "__tablespec_known", "number"
# Characters that Java leaves as they are in the path of a URI.
_PLAIN = "/_-!.~'()*,;:$&+=@"


def can_be_listed(slices: Sequence[FileSlice]) -> bool:
    """Whether Spark takes all files from a list: it leaves out names that it thinks are hidden."""
    names = [slice_.base.path.rpartition("/")[2] for slice_ in slices if slice_.base is not None]
    return not any(name.startswith(("_", ".")) for name in names)


def listed_files(spark: SparkSession, relation: FileRelation, *, row_index: bool = False) -> DataFrame:
    """The rows of a relation with its partition columns, as `file_relation` gives them, of the files that it lists now.

    Partition values come by a join on the file of each row; a file that the join does not find is an error and never null.
    """
    partitions = relation.listing.partitions("[]")
    scan = relation.listing.scan
    files = [
        (hadoop_path(scan, slice_.base.path), values)
        for values, slices in partitions
        for slice_ in slices
        if slice_.base is not None
    ]
    everything = StructType([*relation.data_schema.fields, *relation.partition_schema.fields])
    index = [F.col("_metadata.row_index").alias(ROW_INDEX)] if row_index else []
    if not files:
        empty = spark.createDataFrame([], everything)
        return empty.withColumn(ROW_INDEX, F.lit(0).cast("long")) if row_index else empty
    read = spark.read.schema(relation.data_schema).options(**PARQUET_OPTIONS)
    rows = read.parquet(*(_literally(path) for path, _ in files))
    if not relation.partition_schema.fields:
        return rows.select("*", *index)
    known = _values(spark, relation.partition_schema, files)
    placed = rows.select("*", *index, F.col("_metadata.file_path").alias(_PATH))
    joined = placed.join(F.broadcast(known), _PATH, "left")
    data = [column_of((name,)) for name in relation.data_schema.fieldNames()]
    found = [_found(field) for field in relation.partition_schema.fields]
    return joined.select(*data, *found, *([F.col(ROW_INDEX)] if row_index else []))


def _values(spark: SparkSession, partitions: StructType, files: Sequence[tuple[str, Sequence[Any]]]) -> DataFrame:
    """The partition values of each file, by the path that Spark tells for its rows."""
    schema = StructType([StructField(_PATH, StringType()), StructField(_KNOWN, BooleanType()), *partitions.fields])
    rows = [(file_path(path), True, *values) for path, values in files]
    arrow = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows), arrow)]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema)


def _found(field: StructField) -> SparkColumn:
    lost = F.raise_error(F.concat(F.lit("a file that was not listed: "), F.col(_PATH))).cast(field.dataType)
    return F.when(F.col(_KNOWN), column_of((field.name,))).otherwise(lost).alias(field.name)


def _literally(path: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([\\{}\[\]*?,])", r"\\\1", path)


def file_path(url: str) -> str:
    """How Spark spells the URL of a file in `_metadata.file_path`."""
    scheme, _, rest = url.partition("://")
    spelled = "".join(one if one in _PLAIN or _is_kept(one) else quote(one, safe="") for one in rest)
    return f"file:{spelled}" if scheme == "file" else f"{scheme}://{spelled}"


def _is_kept(character: str) -> bool:
    if character.isascii():
        return character.isalnum()
    return unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")


def spread(
    spark: SparkSession,
    tasks: Sequence[bytes],
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """What a function makes of each task, one Spark task each; it gets the number and the bytes of a task."""
    columns = StructType([StructField(_NUMBER, IntegerType()), StructField("task", BinaryType())])
    data = pa.table({_NUMBER: pa.array(range(len(tasks)), pa.int32()), "task": pa.array(tasks, pa.binary())})
    frame = spark.createDataFrame(data, columns)
    spaced = frame.repartitionById(max(1, len(tasks)), F.col(_NUMBER))
    return spaced.mapInArrow(function, schema)
