"""The rows of a scan as relations over its files, read by Spark itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import LongType

from tablespec import And, Field, FileSlice, Match, Not, Or, Predicate, ReadOptimized, Scan, Survey
from tablespec_spark.connect import can_be_listed, listed_files
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import FileRelation, file_relation, is_connect, selected
from tablespec_spark.listing import ROW_BITS, CleanFiles, DeletedFiles, hadoop_url, has_hadoop_url
from tablespec_spark.schema import spark_schema, spark_type

_FIRST_ROW = "__tablespec_first_row"
_INDEX = "__tablespec_index"
_ROW = "__tablespec_row"
# From so many deleted rows on they are too many to be sent to every executor.
_BROADCAST_ROWS = 10_000_000


def reads_natively(spark: SparkSession, scan: Scan, survey: Survey) -> bool:
    """Whether Spark's own reader finds everything in the files that the scan asks for."""
    layout = scan.state.layout
    return (
        not layout.by_field_id
        and not any(name in layout.hidden for name in scan.schema.names)
        and not _asks_text(scan.predicate)
        and has_hadoop_url(scan.storage.url)
        and (not is_connect(spark) or can_be_listed([one.slice for one in attrs.evolve(scan).slices]))
    )


def file_rows(spark: SparkSession, scan: Scan, survey: Survey) -> DataFrame:
    """All columns of the rows that the scan's filter and those of queries may let pass; the scan's own is not applied."""
    clean = _named(scan, _rows(spark, _relation(scan, survey.bytes)))
    if isinstance(scan.mode, ReadOptimized):
        return clean
    deleted = [slice_ for slice_ in survey.unclean if slice_.deletes is not None]
    return clean.union(_named(scan, _without_deleted(spark, scan, deleted))) if deleted else clean


def _rows(spark: SparkSession, relation: FileRelation, row_index: str | None = None) -> DataFrame:
    make = listed_files if is_connect(spark) else file_relation
    return make(spark, relation, row_index)


def _asks_text(predicate: Predicate) -> bool:
    match predicate:
        case Match():
            return True
        case And(operands) | Or(operands):
            return any(map(_asks_text, operands))
        case Not(operand):
            return _asks_text(operand)
        case _:
            return False


def _relation(scan: Scan, size: int) -> FileRelation:
    """The files without deleted rows."""
    constants = scan.state.layout.constants
    fields = [field for field in scan.state.schema if str(field.type) != "void"]
    url = scan.storage.url
    return FileRelation(
        key=f"{url} {scan.instant.version} {scan.mode} {scan.predicate}",
        root=hadoop_url(url),
        data_schema=spark_schema(tuple(field for field in fields if field.name not in constants), stored=True),
        partition_schema=spark_schema(scan.state.schema.select(constants), stored=True),
        size=size,
        listing=CleanFiles(scan),
    )


def _named(scan: Scan, rows: DataFrame) -> DataFrame:
    """The columns of the table out of the columns of its files."""
    if all(_is_stored_alike(field) for field in scan.state.schema):
        return selected(rows, scan.state.schema.names)
    return rows.select([_column(field) for field in scan.state.schema])


def _is_stored_alike(field: Field) -> bool:
    is_there = field.stored_name == field.name and str(field.type) != "void"
    return is_there and spark_type(field.type, stored=True) == spark_type(field.type)


def _column(field: Field) -> SparkColumn:
    wanted = spark_type(field.type)
    if str(field.type) == "void":
        return F.lit(None).alias(field.name)
    column = column_of((field.stored_name,))
    # Structs are cast by position, which gives their members the names that the table has for them.
    return (column if spark_type(field.type, stored=True) == wanted else column.cast(wanted)).alias(field.name)


def _without_deleted(spark: SparkSession, scan: Scan, slices: Sequence[FileSlice]) -> DataFrame:
    """The rows of slices with deletions that are left: a number tells each row, and an anti join takes the deleted ones away."""
    numbers = {slice_.base.path: number for number, slice_ in enumerate(slices) if slice_.base is not None}
    plain = _relation(scan, sum(slice_.size for slice_ in slices))
    relation = FileRelation(
        key=f"{plain.key} with deletions",
        root=plain.root,
        data_schema=plain.data_schema,
        partition_schema=plain.partition_schema.add(_FIRST_ROW, LongType()),
        size=plain.size,
        listing=DeletedFiles(scan, numbers),
    )
    row = (F.col(_FIRST_ROW) + F.col(_INDEX)).alias(_ROW)
    deleted = spark.createDataFrame(_deleted_rows(scan, slices))
    few = sum(slice_.deletes.cardinality for slice_ in slices if slice_.deletes is not None) <= _BROADCAST_ROWS
    rows = _rows(spark, relation, _INDEX).select("*", row)
    return rows.join(F.broadcast(deleted) if few else deleted, _ROW, "left_anti")


def _deleted_rows(scan: Scan, slices: Sequence[FileSlice]) -> pa.Table:
    """The numbers of all deleted rows."""
    with ThreadPoolExecutor() as pool:
        vectors = list(pool.map(scan.reader.deleted, slices))
    chunks = [
        pc.add(pa.array(vector.to_array(), pa.uint64()).cast(pa.int64()), number << ROW_BITS)
        for number, vector in enumerate(vectors)
        if vector is not None
    ]
    return pa.table({_ROW: pa.chunked_array(chunks, pa.int64())})
