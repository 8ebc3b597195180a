"""Values have the types and results that Spark gives them, where neither overflows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tablespec.arrow.evaluate_value import evaluate_value
from tablespec.arrow.schema import arrow_schema
from tablespec.expr.bind_value import bind_value
from tablespec.expr.value import type_of
from tablespec.model.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    Field,
    Schema,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = Schema(
    (
        Field(name="i", type=INTEGER),
        Field(name="b", type=BYTE),
        Field(name="l", type=LONG),
        Field(name="f", type=FLOAT),
        Field(name="d", type=DOUBLE),
        Field(name="p", type=DecimalType(10, 2)),
        Field(name="w", type=DecimalType(38, 10)),
        Field(name="s", type=STRING),
        Field(name="day", type=DATE),
        Field(name="at", type=TIMESTAMP),
        Field(name="k", type=BOOLEAN),
    )
)
_COLUMNS = "i int, b tinyint, l bigint, f float, d double, p decimal(10,2), w decimal(38,10), s string, day date, at timestamp, k boolean"
_SPARK_NAMES = {"int": "integer", "tinyint": "byte", "bigint": "long"}
ROWS = (
    (7, 12, 2**63 - 1, 1.5, 2.675, "9.99", "1.0000000001", " aé😀", date(2020, 1, 1), datetime(2020, 1, 1), True),
    (None,) * 11,
    (-7, -12, -(2**63), 0.25, -2.5, "-0.05", "-3", "", date(1969, 1, 1), datetime(1969, 1, 1, 5), False),
)
EXPRESSIONS = (
    *("i+1", "b+1", "b+b", "i-l+l", "l%-1", "i/2", "l/2", "i/0", "i%0", "i%3", "i + 3000000000", "-i", "abs(i)"),
    *("p*1.1", "p*2", "p/3", "p/1.10", "w*w", "w/w", "w%p", "p+w", "p-i", "p*l", "l+p", "p % 0.03", "-p", "abs(p)"),
    *("1.5+2", "1.5*i", "1.5/i", "i*0.001", "-1.5", "1e3", "d%2", "f%0.3", "f+f", "f/2", "f*p", "d*p"),
    *("round(d,2)", "round(d)", "round(d,-1)", "round(f,1)", "round(p,1)", "round(p,-1)", "round(p,5)", "round(w,3)"),
    *("round(i,-1)", "floor(p)", "ceil(p)", "floor(d)", "floor(f)", "ceil(d)"),
    *("s||'x'||s", "upper(s)", "lower(s)", "trim(s)", "length(s)", "replace(s,'a','bb')", "replace(s,'','b')"),
    *("substring(s,2,2)", "substr(s,-1)", "substr(s,-10,8)", "substr(s,0,2)", "substr(s,-2,5)", "substr(s,2,-1)"),
    *("coalesce(i,b,0)", "coalesce(1,2.5)", "coalesce(f,p)", "nullif(i,7)", "nullif(d,2.675)", "nullif(s,'')"),
    *("greatest(i,b,0)", "greatest(d,f)", "least(p,i)", "least(day,at)", "if(i>0,'pos','neg')"),
    *("case when k then i+1 else l end", "case i when 7 then 'x' end", "case when k then i else d end"),
    *("case when k then p else i end", "case when k then p else w end", "i>0 and k", "not k"),
    *("cast(i as string)", "cast(d as string)", "cast(d as int)", "cast(d as decimal(5,2))", "cast(p as int)"),
    *("cast(f as decimal(15,12))", "cast(at as date)", "cast(day as timestamp)", "cast(at as string)"),
    *("cast(p as string)", "cast(p as double)", "cast(w as float)", "cast(1.5 as int)", "cast(k as int)"),
    *("cast(p as boolean)", "cast(d as boolean)", "cast(k as string)", "cast(day as string)", "cast(s as binary)"),
)


def test_values_are_those_of_spark(spark: SparkSession) -> None:
    data = [
        {name: Decimal(value) if name in "pw" and value else value for name, value in zip(SCHEMA.names, row)}
        for row in ROWS
    ]
    batch = pa.RecordBatch.from_pylist(data, schema=arrow_schema(SCHEMA))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.createDataFrame([tuple(row.values()) for row in data], _COLUMNS).selectExpr(*EXPRESSIONS)
        theirs = list(zip(*(map(_plain, row) for row in frame.collect())))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    types = [_SPARK_NAMES.get(name, name) for name in (field.dataType.simpleString() for field in frame.schema)]

    for text, type_, values in zip(EXPRESSIONS, types, theirs):
        bound = bind_value(text, SCHEMA)
        found = [_plain(value) for value in evaluate_value(bound, batch).to_pylist()]

        assert (text, str(type_of(bound)), found) == (text, type_, list(values))


def _plain(value: object) -> object:
    if isinstance(value, bytearray):
        return bytes(value)
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value
