"""The one module that speaks to Spark's own classes: everything below the Python API of Spark goes through Py4J here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any

import attrs
import pyarrow as pa
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from tablespec import TableSpecError

_PACKAGE = "io.tablespec.spark"
# Files tell their dates by the one calendar unless their writer says otherwise.
_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}


@attrs.frozen(kw_only=True)
class FileRelation:
    """Parquet files whose listing is asked for by each query.

    Relations with the same key have the same files. `listing` turns the filters of a query, as JSON, into the packed files that
    may match; partition columns come after the data columns.
    """

    key: str
    root: str
    data_schema: StructType
    partition_schema: StructType
    size: int
    listing: Callable[[str], bytes]


@attrs.define
class ConnectSessionError(TableSpecError):
    """The session has no JVM beside it that could be asked for anything."""

    session: str

    def __str__(self) -> str:
        return (
            f"{self.session} is a session of Spark Connect, whose planner cannot be reached; "
            "use a classic session, made without remote()"
        )


def require_classic(spark: SparkSession) -> None:
    """Raise for a session of Spark Connect."""
    kind = type(spark)
    if kind.__module__.startswith("pyspark.sql.connect"):
        raise ConnectSessionError(f"{kind.__module__}.{kind.__qualname__}")


def file_relation(spark: SparkSession, relation: FileRelation) -> DataFrame:
    """The rows of a relation, read by Spark's own Parquet reader."""
    jvm = _jvm(spark)
    session = _session(spark)
    partition_schema = _java_schema(jvm, relation.partition_schema)
    index = _new(
        jvm,
        "TableFileIndex",
        relation.key,
        relation.root,
        partition_schema,
        relation.size,
        _Listing(relation.listing),
    )
    options = jvm.java.util.HashMap()
    for name, value in _OPTIONS.items():
        options.put(name, value)
    hadoop_relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
        index,
        partition_schema,
        _java_schema(jvm, relation.data_schema),
        jvm.scala.Option.empty(),
        jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options),
        session,
    )
    return ClassicDataFrame(session.baseRelationToDataFrame(hadoop_relation), spark)


def register_following(spark: SparkSession, function: str, read: Callable[[], DataFrame]) -> None:
    """Make a table function of this session that reads anew in each query that names it."""
    jvm = _jvm(spark)
    builder = _new(jvm, "FollowedTable", _Plan(read))
    _session(spark).sessionState().tableFunctionRegistry().createOrReplaceTempFunction(function, builder, "scala_udf")


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """What `DataFrame.mapInArrow` does, which asks for pandas though Arrow alone does the work."""
    mapped = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = mapped(*[frame[name] for name in frame.columns])
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
            return str(error)

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
            return str(error)
        plan: object = made._jdf.queryExecution().analyzed()
        return plan

    class Java:
        implements = ["java.util.function.Supplier"]  # noqa: RUF012 - Py4J wants a list here


def _session(spark: SparkSession) -> Any:
    anything: Any = spark
    return anything._jsparkSession


def _jvm(spark: SparkSession) -> Any:
    require_classic(spark)
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]  # pyspark has no types for its gateway
    return gateway.jvm


def _java_schema(jvm: Any, schema: StructType) -> Any:
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())


def _new(jvm: Any, name: str, *arguments: object) -> Any:
    """A new object of one of our Java classes."""
    given = jvm.java.util.ArrayList()
    for argument in arguments:
        given.add(argument)
    return _java_class(jvm, name).getConstructors()[0].newInstance(given.toArray())


@lru_cache(maxsize=8)
def _java_class(jvm: Any, name: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
    compiler.cook(files(__package__).joinpath(f"{name}.java").read_text(encoding="utf-8"))
    return compiler.getClassLoader().loadClass(f"{_PACKAGE}.{name}")
