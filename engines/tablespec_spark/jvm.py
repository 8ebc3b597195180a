"""The one module that speaks to Spark's own classes: everything below the Python API of Spark goes through Py4J here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from tablespec import FileSlice, Scan, TableSpecError, UnsupportedByEngineError
from tablespec_spark.errors import require_running, told, translate_errors
from tablespec_spark.expressions import column_of

_PACKAGE = "io.tablespec.spark"
# Where the tables lie that frames were made of; files of theirs that are gone are told by an error of tablespec.
_ROOTS: set[str] = set()
# Files tell their dates by the one calendar unless their writer says otherwise.
PARQUET_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}

# So many bits are part of a plan; more of them every task would have to unpack, and they are broadcast.
_MOST_IN_PLAN = 1 << 26

# A column of this name gets the position of each row in its file from Spark's Parquet reader, without the struct of `_metadata`.
ROW_INDEX = "_tmp_metadata_row_index"


class FileListing(Protocol):
    """Tells the files of a scan that may match the filters of a query, which come as JSON."""

    @property
    def scan(self) -> Scan: ...
    def partitions(self, filters: str) -> Sequence[tuple[tuple[object, ...], Sequence[FileSlice]]]:
        """The files by the values of their partition columns."""
        ...

    def __call__(self, filters: str) -> bytes:
        """The same, packed."""
        ...


@attrs.frozen(kw_only=True)
class FileRelation:
    """Parquet files whose listing is asked for by each query.

    Relations with the same key have the same files; partition columns come after the data columns.
    """

    key: str
    root: str
    data_schema: StructType
    partition_schema: StructType
    size: int
    listing: FileListing


@attrs.define
class ConnectSessionError(TableSpecError):
    """The session has no JVM beside it that could be asked for this."""

    asked: str

    def __str__(self) -> str:
        return (
            f"{self.asked} needs Spark's planner, which cannot be reached over Spark Connect; "
            "use a classic session, made without remote(), or do without it"
        )


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def file_relation(spark: SparkSession, relation: FileRelation, *, row_index: bool = False) -> DataFrame:
    """The rows of a relation, read by Spark's own Parquet reader, with `ROW_INDEX` where that is asked for."""
    positions = [StructField(ROW_INDEX, LongType())] if row_index else []
    described = {
        "key": relation.key,
        "root": relation.root,
        "partitions": relation.partition_schema.jsonValue(),
        "columns": StructType([*relation.data_schema.fields, *positions]).jsonValue(),
        "size": relation.size,
        "options": PARQUET_OPTIONS,
    }
    frames = _frames(_jvm(spark))
    _ROOTS.add(relation.root)
    translate_errors(_ROOTS)
    made = frames.relation(_session(spark), json.dumps(described), _Listing(relation.listing))
    return ClassicDataFrame(made, spark)


def without_numbers(frame: DataFrame, numbers: pa.Array, end: int, has_number: str, number: str) -> DataFrame:
    """The rows whose number, where they have one, is none of these, which lie below an end."""
    below: Any = frame
    packed = numbers.cast(pa.int32()).buffers()[1].to_pybytes()[: 4 * len(numbers)]
    frames = _frames(_jvm(frame.sparkSession))
    made = frames.withoutNumbers(below._jdf, packed, end, has_number, f"int({number})", end <= _MOST_IN_PLAN)
    return ClassicDataFrame(made, frame.sparkSession)


def selected(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """What `DataFrame.select` does, for many names at once."""
    below: Any = frame
    if is_connect(frame.sparkSession):
        return frame.select([column_of((name,)) for name in names])
    frames = _frames(_jvm(frame.sparkSession))
    return ClassicDataFrame(frames.select(below._jdf, json.dumps(list(names))), frame.sparkSession)


def register_following(spark: SparkSession, function: str, read: Callable[[], DataFrame]) -> None:
    """Make a table function of this session that reads anew in each query that names it."""
    if is_connect(spark):
        raise ConnectSessionError("a view that follows a table")
    jvm = _jvm(spark)
    arguments = jvm.java.util.ArrayList()
    arguments.add(_Plan(read))
    builder = _followed(jvm).getConstructors()[0].newInstance(arguments.toArray())
    _session(spark).sessionState().tableFunctionRegistry().createOrReplaceTempFunction(function, builder, "scala_udf")


def sql_with_tables(
    spark: SparkSession, text: str, tables: Callable[[tuple[str, ...], str | None], DataFrame | None]
) -> DataFrame:
    """What Spark makes of a statement; `tables` gives the rows of those names, with a version or time, that are not Spark's."""
    if is_connect(spark):
        return spark.sql(text)
    jvm = _jvm(spark)
    translate_errors(_ROOTS)
    arguments = jvm.java.util.ArrayList()
    arguments.add(_Named(tables))
    names = _catalog_names(jvm).getConstructors()[0].newInstance(arguments.toArray())
    made = names.sql(_session(spark), text)
    if made is None:
        raise UnsupportedByEngineError(
            "Spark", "store a view of tables of an attached catalog", "make it a temporary view"
        )
    return ClassicDataFrame(made, spark)


def session_id(spark: SparkSession) -> str:
    """What tells the session from others."""
    if is_connect(spark):
        connected: Any = spark
        return str(connected.session_id)
    _jvm(spark)
    return str(_session(spark).sessionUUID())


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """What `DataFrame.mapInArrow` does, which asks for pandas though Arrow alone does the work."""
    if is_connect(frame.sparkSession):
        return frame.mapInArrow(function, schema)
    mapped = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = mapped(*[column_of((name,)) for name in frame.columns])
    below: Any = frame
    return ClassicDataFrame(below._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


class _Listing:
    """A listing as `java.util.function.Function`."""

    def __init__(self, listing: Callable[[str], bytes]) -> None:
        self._listing = listing

    def apply(self, filters: str) -> bytes | str:
        """The files, or the reason why they cannot be told: an exception would come out as a page of Java."""
        try:
            return self._listing(filters)
        except TableSpecError as error:
            return told(error)

    class Java:
        implements = ["java.util.function.Function"]  # noqa: RUF012 - Py4J wants a list here


class _Plan:
    """A read as `java.util.function.Supplier` of its plan."""

    def __init__(self, read: Callable[[], DataFrame]) -> None:
        self._read = read

    def get(self) -> object:
        """The plan of the rows, or the reason why they cannot be read."""
        try:
            made: Any = self._read()
        except TableSpecError as error:
            return told(error)
        plan: object = made._jdf.queryExecution().analyzed()
        return plan

    class Java:
        implements = ["java.util.function.Supplier"]  # noqa: RUF012 - Py4J wants a list here


class _Named:
    """Tables by their names, as `java.util.function.BiFunction`."""

    def __init__(self, tables: Callable[[tuple[str, ...], str | None], DataFrame | None]) -> None:
        self._tables = tables

    def apply(self, parts: Any, at: str | None) -> object:
        """The plan of the rows, null, or the reason why they cannot be read."""
        try:
            found: Any = self._tables(tuple(str(part) for part in parts), at)
        except TableSpecError as error:
            return told(error)
        return None if found is None else found._jdf.queryExecution().analyzed()

    class Java:
        implements = ["java.util.function.BiFunction"]  # noqa: RUF012 - Py4J wants a list here


def _session(spark: SparkSession) -> Any:
    anything: Any = spark
    return anything._jsparkSession


def _jvm(spark: SparkSession) -> Any:
    require_running(spark)
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # pyspark has no types for its gateway
    return gateway.jvm


@lru_cache(maxsize=8)
def _frames(jvm: Any) -> Any:
    """The object that makes frames; it and what it uses are compiled once for a JVM."""
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    for used in ("TableFileIndex", "DeletedRows", "CountedRows", "ExactFilters"):
        loader = _java_class(jvm, used, loader).getClassLoader()
    return _java_class(jvm, "Frames", loader).getConstructors()[0].newInstance(None)


@lru_cache(maxsize=8)
def _followed(jvm: Any) -> Any:
    return _java_class(jvm, "FollowedTable", jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())


@lru_cache(maxsize=8)
def _catalog_names(jvm: Any) -> Any:
    return _java_class(jvm, "CatalogNames", jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())


def _java_class(jvm: Any, name: str, parent: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(files(__package__).joinpath(f"{name}.java").read_text(encoding="utf-8"))
    return compiler.getClassLoader().loadClass(f"{_PACKAGE}.{name}")
