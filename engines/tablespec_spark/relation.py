"""The rows of a scan as relations over its files, read by Spark itself."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import LongType

from tablespec import And, Field, FileSlice, Match, Not, Or, Predicate, ReadOptimized, Scan, Survey, columns_of
from tablespec_spark.connect import can_be_listed, listed_files
from tablespec_spark.expressions import column_of
from tablespec_spark.jvm import ROW_INDEX, FileRelation, file_relation, is_connect, selected, without_numbers
from tablespec_spark.listing import CleanFiles, DeletedFiles, hadoop_url, has_hadoop_url
from tablespec_spark.schema import spark_schema, spark_type

_FIRST = "__tablespec_first"
_NUMBERED = "__tablespec_numbered"
_ROW = "__tablespec_row"
# Columns that stand beside those of a table while Spark plans.
_RESERVED = frozenset({ROW_INDEX, _FIRST, _NUMBERED, _ROW})
# From so many numbers on, rows are too many for a bit each on every executor, and from so many deleted ones on for a table of them.
_MOST_BITS = 1 << 29
_MOST_ROWS = 10_000_000


def reads_natively(spark: SparkSession, scan: Scan, survey: Survey) -> bool:
    """Whether Spark's own reader finds everything in the files that the scan asks for."""
    layout = scan.state.layout
    return (
        not layout.by_field_id
        and not any(name not in layout.constants for name in layout.converted)
        and not any(name in layout.hidden for name in (*scan.schema.names, *_tested(scan.predicate)))
        and not any(field.stored_name.lower() in _RESERVED for field in scan.state.schema)
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


def _rows(spark: SparkSession, relation: FileRelation, *, row_index: bool = False) -> DataFrame:
    make = listed_files if is_connect(spark) else file_relation
    return make(spark, relation, row_index=row_index)


def _tested(predicate: Predicate) -> set[str]:
    return {path[0] for path in columns_of(predicate)}


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
        key=f"{url} {scan.instant} {scan.mode} {scan.predicate}",
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
    """The rows of slices with deletions that are left.

    All rows up to the last deleted one of each file have a number, which is the same as the file and the position there.
    """
    vectors = _vectors(scan, slices)
    ends = list(accumulate((_span(vector) for vector in vectors), initial=0))
    numbers = (range(first, end) for first, end in pairwise(ends))
    deleted = [
        pc.add(pa.array(vector.to_array(), pa.uint64()).cast(pa.int64()), first) for vector, first in zip(vectors, ends)
    ]
    plain = _relation(scan, sum(slice_.size for slice_ in slices))
    relation = FileRelation(
        key=f"{plain.key} with deletions",
        root=plain.root,
        data_schema=plain.data_schema,
        partition_schema=plain.partition_schema.add(_FIRST, LongType()).add(_NUMBERED, LongType()),
        size=plain.size,
        listing=DeletedFiles(
            scan, {slice_.base.path: (slice_, one) for slice_, one in zip(slices, numbers) if slice_.base}
        ),
    )
    rows = _rows(spark, relation, row_index=True)
    has_number, number = f"{ROW_INDEX} < {_NUMBERED}", f"{_FIRST} + {ROW_INDEX}"
    if not is_connect(spark) and ends[-1] <= _MOST_BITS:
        return without_numbers(rows, pa.concat_arrays(deleted), ends[-1], has_number, number)
    row = F.when(F.expr(has_number), F.expr(number)).alias(_ROW)
    gone = spark.createDataFrame(pa.table({_ROW: pa.chunked_array(deleted)}))
    few = sum(map(len, deleted)) <= _MOST_ROWS
    return rows.select("*", row).join(F.broadcast(gone) if few else gone, _ROW, "left_anti")


def _vectors(scan: Scan, slices: Sequence[FileSlice]) -> list[BitMap64]:
    with ThreadPoolExecutor() as pool:
        return [vector or BitMap64() for vector in pool.map(scan.reader.deleted, slices)]


def _span(vector: BitMap64) -> int:
    return vector.max() + 1 if vector else 0
