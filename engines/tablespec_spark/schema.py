"""The columns of tables in Spark's types."""

from __future__ import annotations

from pyspark.sql import types as spark_types

from tablespec import ArrayType, DataType, DecimalType, Field, MapType, Schema, StructType

_PRIMITIVES: dict[str, spark_types.DataType] = {
    "boolean": spark_types.BooleanType(),
    "byte": spark_types.ByteType(),
    "short": spark_types.ShortType(),
    "integer": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "binary": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
    "variant": spark_types.VariantType(),
    "void": spark_types.NullType(),
}


def spark_type(data_type: DataType, *, stored: bool = False) -> spark_types.DataType:
    """A column type for Spark, nullable at every level; `stored` names the members of structs as files do."""
    match data_type:
        case DecimalType(precision, scale):
            return spark_types.DecimalType(precision, scale)
        case ArrayType(element):
            return spark_types.ArrayType(spark_type(element, stored=stored))
        case MapType(key, value):
            return spark_types.MapType(spark_type(key, stored=stored), spark_type(value, stored=stored))
        case StructType(fields):
            return _struct(fields, stored=stored)
        case _:
            return _PRIMITIVES[str(data_type)]


def spark_schema(schema: Schema | tuple[Field, ...], *, stored: bool = False) -> spark_types.StructType:
    """Columns for Spark, under their own names or under those that files have."""
    return _struct(tuple(schema), stored=stored)


def _struct(fields: tuple[Field, ...], *, stored: bool) -> spark_types.StructType:
    return spark_types.StructType(
        [
            spark_types.StructField(field.stored_name if stored else field.name, spark_type(field.type, stored=stored))
            for field in fields
        ]
    )
